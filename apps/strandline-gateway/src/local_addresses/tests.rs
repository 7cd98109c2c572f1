#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use super::*;

fn addresses(text: &str) -> Vec<SocketAddr> {
    text.split_whitespace().map(|text| text.parse().unwrap()).collect()
}

#[test]
fn each_link_has_its_own_address() {
    assert_eq!(bind_for(&addresses("127.0.0.1:9899")), Bind::port(0));
    let both = bind_for(&addresses("127.0.0.1:9899 127.0.0.2:9899"));
    assert_eq!(both, Bind::port(0).at([127, 0, 0, 1]));
    let families = bind_for(&addresses("127.0.0.1:9899 [::1]:9899"));
    assert_eq!(families, Bind::port(0).at([127, 0, 0, 1]).at("::1".parse::<Address>().unwrap()));
}
