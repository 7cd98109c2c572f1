use super::*;

#[test]
fn each_address_has_its_own_udp_port() {
    let peer = Peer::new([192, 0, 2, 1], 7)
        .address_encapsulated([192, 0, 2, 2], 9901)
        .address("2001:db8::1".parse::<Address>().unwrap());
    let remotes = |peer: &Peer, default| {
        peer.remotes(default).iter().map(ToString::to_string).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(remotes(&peer, 9899), "192.0.2.1:9899 192.0.2.2:9901 [2001:db8::1]:9899");
    let other = peer.encapsulation_port(1);
    assert_eq!(remotes(&other, 9899), "192.0.2.1:1 192.0.2.2:9901 [2001:db8::1]:1");
    assert_eq!(remotes(&other, 0), "192.0.2.1:0 192.0.2.2:0 [2001:db8::1]:0", "raw IP has no ports");
}

#[test]
fn socket_addresses_are_udp_ports_and_zones() {
    let peer = Peer::encapsulated("[fe80::1%3]:9900".parse().unwrap(), 7);
    assert_eq!(peer.port(), 7);
    assert_eq!(peer.remotes(9899), ["[fe80::1%3]:9900".parse().unwrap()]);
}
