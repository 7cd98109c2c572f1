#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn denied_sources_stay_out_and_allowed_enter() {
    let network = |text: &str, prefix| (text.parse().unwrap(), prefix);
    let allows = |access: &Access, peer: &str| access.allows(peer.parse().unwrap());
    assert!(allows(&Access::default(), "192.0.2.1"));
    let access = Access { allow: vec![network("192.0.2.0", 24)], deny: vec![network("192.0.2.128", 25)] };
    assert!(allows(&access, "192.0.2.1") && allows(&access, "::ffff:192.0.2.1"));
    assert!(
        !allows(&access, "192.0.2.200")
            && !allows(&access, "198.51.100.1")
            && !allows(&access, "2001:db8::1")
    );
    let access = Access { allow: Vec::new(), deny: vec![network("2001:db8::", 32)] };
    assert!(allows(&access, "192.0.2.1") && !allows(&access, "2001:db8::1"));
}
