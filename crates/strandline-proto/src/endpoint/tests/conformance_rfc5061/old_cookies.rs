//! Cookies that come after one side of the association has left the address of their set-up.

use strandline_wire::chunk::CookieEcho;

use super::*;
use crate::endpoint::{Listen, LocalAddresses};

/// An old COOKIE ECHO of the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Old {
    /// The one that set the association up.
    Used,
    /// With a second cookie for the same INIT, from before the association.
    Second,
    /// With one for the same INIT from when the association existed: it has tie tags.
    Tied,
}

/// Lets the server answer a copy of the client's INIT, and returns a COOKIE ECHO with its cookie.
fn answer_copy(pair: &mut Pair) -> Sent {
    let init = pair.log.iter().find(|sent| has(kind::INIT)(sent)).unwrap().clone();
    pair.deliver(&init);
    let ack = pair.wire.pop_back().expect("an INIT ACK");
    let (tag, _, cookie) = init_ack(&ack);
    let packet = Packet::parse(&init.bytes).unwrap();
    let ports = (packet.source_port(), packet.destination_port());
    pair.forge(CLIENT, ports, tag, |packet| assert!(packet.push(&CookieEcho { cookie: &cookie })))
}

/// Sets an association up with the server's port.
fn established_with(mut pair: Pair, port: u16, old: Old) -> (Pair, AssociationId, Sent) {
    let connect = Connect { local_port: 5000, ..Connect::to(address(SERVER, 0), port) };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, connect).unwrap();
    pair.collect();
    let second = (old == Old::Second).then(|| answer_copy(&mut pair));
    pair.run();
    let echo = match old {
        Old::Used => pair.log.iter().find(|sent| has(kind::COOKIE_ECHO)(sent)).unwrap().clone(),
        Old::Second => second.unwrap(),
        Old::Tied => answer_copy(&mut pair),
    };
    pair.pass(Duration::from_secs(2));
    (pair, client, echo)
}

/// The cookie neither makes an association nor ends the one that is there. Only one with both tags of the association
/// is answered (RFC 9260 section 5.2.4 action D).
fn changes_nothing(pair: &mut Pair, client: AssociationId, echo: &Sent, old: Old) {
    let server = pair.accepted();
    pair.deliver(echo);
    let answers: Vec<_> = pair.wire.iter().map(Sent::kinds).collect();
    let expected = if old == Old::Used { vec![vec![kind::COOKIE_ACK]] } else { vec![] };
    assert_eq!(answers, expected, "{old:?}");
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1, "{old:?}");
    assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("ESTABLISHED", "ESTABLISHED"));
    pair.send(CLIENT, client, 0, b"there");
    pair.send(SERVER, server, 0, b"and back");
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "there", "{old:?}");
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "and back", "{old:?}");
}

/// The client replaces its only address.
fn moves_to(pair: &mut Pair, client: AssociationId, new: SocketAddr) {
    let [old] = pair.hosts[CLIENT].endpoint.addresses(client).local().unwrap()[..] else { panic!("several") };
    request(pair, CLIENT, client, &[AddressRequest::Add(new.ip()), AddressRequest::Delete(old)]).unwrap();
    pair.pass(Duration::from_secs(2));
    assert_eq!(pair.hosts[CLIENT].endpoint.addresses(client).local(), Some(&[new.ip()][..]));
}

/// Sets an association up whose client has replaced its only address since.
fn moved(old: Old) -> (Pair, AssociationId, Sent) {
    let pair = Pair::with(with_dynamic_addresses(1, CLIENT), with_dynamic_addresses(1, SERVER));
    let (mut pair, client, echo) = established_with(pair, PORT, old);
    gain(&mut pair, CLIENT, new_address(CLIENT, 0));
    moves_to(&mut pair, client, new_address(CLIENT, 0));
    (pair, client, echo)
}

/// Neither the peer's tag nor its address finds the association then.
#[test]
fn old_cookies_from_an_address_that_was_deleted() {
    for old in [Old::Used, Old::Second, Old::Tied] {
        let (mut pair, client, echo) = moved(old);
        changes_nothing(&mut pair, client, &echo, old);
        // A copy of the INIT is not answered either: the address is not the peer's any more.
        let init = pair.log.iter().find(|sent| has(kind::INIT)(sent)).unwrap().clone();
        pair.deliver(&init);
        assert_eq!(pair.wire.pop_front().map(|sent| sent.kinds()), None);
        if old == Old::Used {
            // Nobody is locked out for ever.
            pair.pass(Duration::from_secs(200));
            pair.deliver(&init);
            assert_eq!(pair.wire.pop_front().map(|sent| sent.kinds()), Some(vec![kind::INIT_ACK]));
            pair.wire.clear();
        }
        // The peer gets the address back.
        moves_to(&mut pair, client, address(CLIENT, 0));
        assert!(outcomes(&pair, CLIENT).iter().all(|(_, outcome)| *outcome == AddressOutcome::Performed));
        changes_nothing(&mut pair, client, &echo, old);
    }
}

/// After the end of an association, too, a cookie from an address that its peer had deleted makes no other one. The
/// peer hears that it has ended if it had the address again.
#[test]
fn cookies_of_ended_associations_that_had_moved() {
    for (old, returns) in
        [Old::Used, Old::Second, Old::Tied].into_iter().flat_map(|old| [(old, false), (old, true)])
    {
        let (mut pair, client, echo) = moved(old);
        if returns {
            moves_to(&mut pair, client, address(CLIENT, 0));
        }
        pair.hosts[CLIENT].endpoint.abort(pair.now, client, "".into()).unwrap();
        pair.run();
        let server = pair.accepted();
        pair.hosts[SERVER].endpoint.release(server);
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
        pair.deliver(&echo);
        let answers: Vec<_> = pair.wire.drain(..).map(|sent| sent.kinds()).collect();
        let expected = if returns { vec![vec![kind::ABORT]] } else { vec![] };
        assert_eq!((answers, pair.hosts[SERVER].endpoint.association_count()), (expected, 0), "{old:?}");
    }
}

/// The server has deleted the address that the INIT came to, and its listener has none of those that are left.
#[test]
fn old_cookies_at_an_address_that_was_deleted() {
    const BOUND: u16 = 8;
    for old in [Old::Used, Old::Second, Old::Tied] {
        let (first, second) = (address(SERVER, 0).ip(), address(SERVER, 1).ip());
        let mut pair = Pair::with(with_dynamic_addresses(1, CLIENT), with_dynamic_addresses(2, SERVER));
        let endpoint = &mut pair.hosts[SERVER].endpoint;
        endpoint.listen(Listen { port: BOUND, addresses: vec![first, second] }).unwrap();
        let (mut pair, client, echo) = established_with(pair, BOUND, old);
        let server = pair.accepted();
        request(&mut pair, SERVER, server, &[AddressRequest::Delete(first)]).unwrap();
        pair.pass(Duration::from_secs(2));
        let now = pair.now;
        let mut listener = LocalAddresses::of_listener(&mut pair.hosts[SERVER].endpoint, BOUND).unwrap();
        listener.remove(now, second).unwrap();
        changes_nothing(&mut pair, client, &echo, old);
    }
}

/// The cookie of a peer that has restarted is good for a set-up if the association ends before it comes.
#[test]
fn association_of_a_restart_ends_early() {
    let (mut pair, _, server) = established();
    let restarted = Endpoint::new(with_dynamic_addresses(1, CLIENT), [99; 32], pair.now).unwrap();
    pair.hosts[CLIENT].endpoint = restarted;
    let again = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    pair.hosts[SERVER].events.clear();
    pair.hosts[SERVER].endpoint.abort(pair.now, server, "".into()).unwrap();
    // The ABORT is lost.
    let echo = pair.wire.pop_front().unwrap();
    pair.collect();
    pair.wire.clear();
    pair.deliver(&echo);
    pair.run();
    let server = pair.accepted();
    assert_eq!((pair.state(CLIENT, again), pair.state(SERVER, server)), ("ESTABLISHED", "ESTABLISHED"));
    pair.send(CLIENT, again, 0, b"at once");
    pair.run();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "at once");
}
