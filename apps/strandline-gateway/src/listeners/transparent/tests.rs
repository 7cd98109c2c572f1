#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use super::*;

#[test]
fn own_addresses_come_back() {
    let is = |to: &str, own: &str| is_loop(to.parse().unwrap(), own.parse().unwrap());
    assert!(is("127.0.0.1:12345", "0.0.0.0:12345"));
    assert!(is("127.0.0.3:12345", "[::]:12345"));
    assert!(is("192.0.2.1:12345", "192.0.2.1:12345"));
    assert!(!is("192.0.2.1:80", "0.0.0.0:12345"));
    // Not an address of this host.
    assert!(!is("192.0.2.1:12345", "0.0.0.0:12345"));
    assert!(!is("192.0.2.2:12345", "192.0.2.1:12345"));
}
