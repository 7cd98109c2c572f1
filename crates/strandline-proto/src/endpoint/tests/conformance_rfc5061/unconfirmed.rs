//! A peer of which no address is confirmed: nothing but HEARTBEATs and ASCONF chunks goes to it (section 5.4), so the
//! HEARTBEATs never stop while the association stands.

use super::*;
use crate::event::{IcmpError, IcmpKind};

/// Gives an address up after two HEARTBEATs without an answer.
fn impatient(host: usize) -> EndpointConfig {
    let mut config = with_dynamic_addresses(1, host);
    config.association = Arc::new(AssociationConfig { path_retrans_max: 1, ..(*config.association).clone() });
    config
}

/// Returns an association whose client has replaced its only address. The server's HEARTBEATs to the new one are lost.
fn replaced() -> (Pair, AssociationId, AssociationId, SocketAddr) {
    let (mut pair, client, server) = Pair::with(impatient(CLIENT), impatient(SERVER)).establish();
    pair.pass(Duration::from_secs(1));
    let (old, new) = (address(CLIENT, 0), new_address(CLIENT, 0));
    gain(&mut pair, CLIENT, new);
    lose(&mut pair, CLIENT, old);
    let replace = [AddressRequest::Add(new.ip()), AddressRequest::Delete(old.ip())];
    request(&mut pair, CLIENT, client, &replace).unwrap();
    pair.run_dropping(has(kind::HEARTBEAT));
    assert_eq!(paths(&pair, SERVER, server), [(new, Reachability::Unconfirmed)]);
    (pair, client, server, new)
}

#[test]
fn unanswered_asconf_gives_up_no_address() {
    let (mut pair, client, server, new) = replaced();
    request(&mut pair, SERVER, server, &[AddressRequest::SetPrimary(address(SERVER, 0).ip())]).unwrap();
    // One HEARTBEAT and one ASCONF are not answered.
    pair.pass_dropping(Duration::from_millis(1500), |sent| sent.destination == new);
    pair.send(SERVER, server, 0, b"at last");
    pair.pass(Duration::from_secs(30));
    assert_eq!(paths(&pair, SERVER, server), [(new, Reachability::Active)]);
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "at last");
}

/// The host may find a route later.
#[test]
fn missing_route_does_not_give_up_only_address() {
    for kind in [IcmpKind::NoRoute, IcmpKind::HostUnreachable] {
        let (mut pair, client, server, new) = replaced();
        for _ in 0..5 {
            icmp(&mut pair, new, kind);
        }
        pair.send(SERVER, server, 0, b"at last");
        pair.pass(Duration::from_secs(30));
        assert_eq!(pair.recv(CLIENT, client).unwrap().data, "at last", "{kind:?}");
    }
}

#[test]
fn only_address_without_sctp_ends_the_association() {
    let (mut pair, _, _, new) = replaced();
    icmp(&mut pair, new, IcmpKind::ProtocolUnreachable);
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Unreachable));
}

/// With another address that is confirmed the ABORT would show only that this one is not the peer's.
#[test]
fn abort_from_the_only_address_counts() {
    let (mut pair, client, server, _) = replaced();
    // The peer has lost its state, and answers a HEARTBEAT as out of the blue.
    pair.hosts[CLIENT].endpoint = Endpoint::new(impatient(CLIENT), [99; 32], pair.now).unwrap();
    pair.hosts[CLIENT].endpoint.listen(5000).unwrap();
    pair.pass(Duration::from_secs(10));
    assert!(matches!(pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })), "{:?}", pair.kinds());
    assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("none", "CLOSED"));
}

/// The last address that is left was given up before.
#[test]
fn last_address_left_is_probed_again() {
    let mut peer = Peer::new(1);
    let (new, elsewhere) = (new_address(CLIENT, 0), new_address(CLIENT, 1));
    assert_eq!(peer.ask(&[add(1, new)]), []);
    peer.inner.raw.wait(Duration::from_secs(130));
    peer.pair().log.clear();
    peer.inner.raw.wait(Duration::from_secs(20));
    assert!(!peer.pair().log.iter().any(|sent| sent.destination == new), "it is given up");
    assert_eq!(refused(&peer.ask_from(elsewhere, &[delete(2, address(CLIENT, 0))]), 1001), []);
    assert_eq!(peer.known(), [new]);
    peer.confirm(new);
    assert!(peer.inner.raw.server_sends(10).iter().any(|sent| sent.destination == new));
}

/// Delivers an ICMP error about the server's latest packet to an address.
fn icmp(pair: &mut Pair, to: SocketAddr, kind: IcmpKind) {
    let sent = pair.log.iter().rfind(|sent| sent.destination == to).expect("a packet to there").clone();
    let error = IcmpError { destination: to, kind, quoted: &sent.bytes };
    pair.hosts[SERVER].endpoint.handle_icmp(pair.now, error);
    pair.collect();
}
