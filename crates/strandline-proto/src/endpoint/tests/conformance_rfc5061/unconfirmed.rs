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
    let with = |host| {
        let mut config = with_dynamic_addresses(1, host);
        config.association =
            Arc::new(AssociationConfig { path_retrans_max: 1, ..(*config.association).clone() });
        config
    };
    let (mut pair, client, server) = Pair::with(with(CLIENT), with(SERVER)).establish();
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

/// The peer has two new addresses and does not know yet that they were added, so it answers the ASCONF from its old one.
#[test]
fn answered_asconf_resumes_heartbeats() {
    let (mut pair, client, server) = Pair::with(impatient(CLIENT), impatient(SERVER)).establish();
    pair.pass(Duration::from_secs(1));
    let (old, new) = (address(CLIENT, 0), [new_address(CLIENT, 0), new_address(CLIENT, 1)]);
    new.iter().for_each(|new| gain(&mut pair, CLIENT, *new));
    let add = new.map(|new| AddressRequest::Add(new.ip()));
    let replace = [add[0], add[1], AddressRequest::Delete(old.ip())];
    request(&mut pair, CLIENT, client, &replace).unwrap();
    pair.run_dropping(|sent| sent.source == address(SERVER, 0));
    assert_eq!(paths(&pair, SERVER, server), new.map(|new| (new, Reachability::Unconfirmed)));
    let given_up =
        |pair: &Pair| changes(pair, SERVER).into_iter().find(|(_, change)| *change == PathChange::Inactive);
    let lost = |sent: &Sent| new.contains(&sent.source) || has(kind::HEARTBEAT)(sent);
    while given_up(&pair).is_none() {
        pair.pass_dropping(Duration::from_millis(100), lost);
    }
    let own = AddressRequest::SetPrimary(address(SERVER, 0).ip());
    request(&mut pair, SERVER, server, &[own]).unwrap();
    pair.run_dropping(lost);
    assert_eq!(outcomes(&pair, SERVER), [(own, AddressOutcome::Performed)]);
    pair.pass(Duration::from_secs(100));
    assert_eq!(paths(&pair, SERVER, server), new.map(|new| (new, Reachability::Active)));
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
