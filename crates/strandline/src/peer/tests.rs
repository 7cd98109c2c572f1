use super::*;

#[test]
fn the_encapsulation_port_is_the_stacks_unless_named() {
    let peer = Peer::new(IpAddr::from([192, 0, 2, 1]), 7);
    assert_eq!(peer.remotes(9899), ["192.0.2.1:9899".parse().unwrap()]);
    assert_eq!(peer.clone().encapsulation_port(1).remotes(9899), ["192.0.2.1:1".parse().unwrap()]);
    assert_eq!(
        peer.encapsulation_port(1).remotes(0),
        ["192.0.2.1:0".parse().unwrap()],
        "raw IP has no ports"
    );
}
