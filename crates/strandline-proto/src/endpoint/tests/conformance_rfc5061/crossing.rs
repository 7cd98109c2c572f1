//! Requests that cross those of the peer, a refusal or the shutdown. The simulator found each of these faults.

use super::sender::{acknowledge, asconfs, ask, results};
use super::*;
use crate::authentication::Authentication;

/// Both sides replace their only addresses at once: each answers from an address that the other one has deleted.
#[test]
fn both_sides_replace_their_only_addresses() {
    let (mut pair, client, server) = established();
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        let (old, new) = (address(host, 0).ip(), new_address(host, 0));
        gain(&mut pair, host, new);
        let replace = [AddressRequest::Add(new.ip()), AddressRequest::Delete(old)];
        request(&mut pair, host, id, &replace).unwrap();
    }
    pair.pass(Duration::from_secs(10));
    for (host, id, to, there) in [(CLIENT, client, SERVER, server), (SERVER, server, CLIENT, client)] {
        let results: Vec<_> = outcomes(&pair, host).into_iter().map(|(_, outcome)| outcome).collect();
        assert_eq!(results, [AddressOutcome::Performed; 2]);
        lose(&mut pair, host, address(host, 0));
        pair.send(host, id, 0, b"at the new address");
        pair.pass(Duration::from_secs(10));
        assert_eq!(pair.recv(to, there).unwrap().data, "at the new address");
    }
}

/// An answer from an unknown address counts only if it answers the outstanding request.
#[test]
fn stray_answer_from_an_unknown_address_is_ignored() {
    let mut peer = Peer::new(1);
    let added = new_address(SERVER, 0).ip();
    let number = asconfs(&ask(&mut peer, &[AddressRequest::Add(added)]))[0].0;
    for (number, open) in [(number.wrapping_add(1), true), (number.wrapping_sub(1), true), (number, false)] {
        let ack = AsconfAck { number: AsconfNumber(number), responses: Parameters::new(&[]) };
        let bytes = peer.inner.behind_auth(&[&ack]);
        assert!(peer.say_from(new_address(CLIENT, 7), &bytes).is_empty());
        assert_eq!(peer.state(), "ESTABLISHED");
        assert_eq!(results(&mut peer).is_empty(), open, "{number}");
    }
}

/// Rule F5: the address that was to stay was refused, so that the deletion that waits would delete the last one.
#[test]
fn deletion_after_a_refused_addition_is_not_sent() {
    let mut peer = Peer::new(1);
    let (home, new) = (address(SERVER, 0).ip(), new_address(SERVER, 0).ip());
    ask(&mut peer, &[AddressRequest::Add(new)]);
    assert!(ask(&mut peer, &[AddressRequest::SetPrimary(home), AddressRequest::Delete(home)]).is_empty());
    let sent = acknowledge(&mut peer, &[AsconfParameter::Error { id: 0, causes: &[0, 0xa1, 0, 4] }]);
    assert_eq!(asconfs(&sent)[0].2, [(0xc004, 1)]);
    assert!(asconfs(&acknowledge(&mut peer, &[])).is_empty());
    let refused = |code| AddressOutcome::Refused { code };
    let shortage = refused(code::RESOURCE_SHORTAGE);
    assert_eq!(results(&mut peer), [shortage, AddressOutcome::Performed, refused(code::DELETE_LAST_ADDRESS)]);
}

/// An address that the peer lets in after the INIT ACK for its restart: the new state does not know it.
#[test]
fn addition_between_init_ack_and_restart() {
    let (mut pair, _, server) = established();
    let (old, new) = (address(SERVER, 0), new_address(SERVER, 0));
    gain(&mut pair, SERVER, new);
    let restarted = Endpoint::new(with_dynamic_addresses(1, CLIENT), [99; 32], pair.now).unwrap();
    let before = core::mem::replace(&mut pair.hosts[CLIENT].endpoint, restarted);
    let again = pair.connect();
    pair.run_to(kind::INIT_ACK);
    let ack = pair.wire.pop_front().expect("an INIT ACK");
    // The earlier state answers what is still on its way.
    let restarted = core::mem::replace(&mut pair.hosts[CLIENT].endpoint, before);
    request(&mut pair, SERVER, server, &[AddressRequest::Add(new.ip())]).unwrap();
    pair.run();
    assert_eq!(outcomes(&pair, SERVER), [(AddressRequest::Add(new.ip()), AddressOutcome::Performed)]);
    pair.hosts[CLIENT].endpoint = restarted;
    pair.deliver(&ack);
    pair.run();
    assert!(pair.hosts[SERVER].events.iter().any(|(_, event)| matches!(event, Event::Restarted { .. })));
    assert_eq!(pair.hosts[SERVER].endpoint.addresses(server).local(), Some(&[old.ip()][..]));
    // It can be added again, and carries data then.
    request(&mut pair, SERVER, server, &[AddressRequest::Add(new.ip()), AddressRequest::Delete(old.ip())])
        .unwrap();
    pair.pass(Duration::from_secs(10));
    lose(&mut pair, SERVER, old);
    pair.send(SERVER, server, 0, b"from the new address");
    pair.pass(Duration::from_secs(10));
    assert_eq!(pair.recv(CLIENT, again).unwrap().data, "from the new address");
}

/// The peer sends no SHUTDOWN ACK before it has confirmed the only address that is left.
#[test]
fn heartbeats_are_answered_in_shutdown_sent() {
    let (mut pair, client, server) = established();
    let (old, new) = (address(CLIENT, 0), new_address(CLIENT, 0));
    gain(&mut pair, CLIENT, new);
    request(&mut pair, CLIENT, client, &[AddressRequest::Add(new.ip()), AddressRequest::Delete(old.ip())])
        .unwrap();
    pair.run_dropping(has(kind::HEARTBEAT));
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.shutdown(now, client).unwrap();
    pair.run_dropping(has(kind::HEARTBEAT));
    assert_eq!(pair.state(CLIENT, client), "SHUTDOWN-SENT");
    pair.pass(Duration::from_secs(20));
    assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("CLOSED", "CLOSED"));
    assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
}

/// Rules F1 and F4 with both families: while the only address of one family is replaced, nothing but ASCONF
/// leaves for an address of that family, although an address of the other one may be a source.
#[test]
fn only_address_of_a_family_is_replaced() {
    // A host with one address accepts none of another family.
    let configs = (with_dynamic_addresses(1, CLIENT), with_dynamic_addresses(2, SERVER));
    let (mut pair, client, server) = Pair::with(configs.0, configs.1).establish();
    let six = |host: usize, number: u16| {
        SocketAddr::from(([0x2001, 0xdb8, 0, 0, 0, 0, number, 1 + host as u16], 9899))
    };
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        gain(&mut pair, host, six(host, 0));
        request(&mut pair, host, id, &[AddressRequest::Add(six(host, 0).ip())]).unwrap();
        pair.pass(Duration::from_secs(2));
    }
    let now = pair.now;
    let far = six(SERVER, 0);
    pair.hosts[CLIENT].endpoint.set_primary(now, client, far.ip()).unwrap();
    gain(&mut pair, CLIENT, six(CLIENT, 1));
    let replace = [AddressRequest::Add(six(CLIENT, 1).ip()), AddressRequest::Delete(six(CLIENT, 0).ip())];
    request(&mut pair, CLIENT, client, &replace).unwrap();
    let from = pair.log.len();
    pair.send(CLIENT, client, 0, b"later");
    pair.pass_dropping(Duration::from_millis(500), has(kind::ASCONF));
    let early: Vec<_> =
        pair.log[from..].iter().filter(|sent| sent.destination == far).map(Sent::kinds).collect();
    assert!(!early.is_empty() && early.iter().all(|kinds| kinds.contains(&kind::ASCONF)), "{early:?}");
    pair.pass(Duration::from_secs(20));
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "later");
}

/// A restart while an addition is under way, on a host that lists no addresses: the INIT ACK names its source
/// alone, so that the new state does not know the other one.
#[test]
fn unlisted_addition_crosses_a_restart() {
    let unlisted = EndpointConfig { local_addresses: Vec::new(), ..with_dynamic_addresses(1, SERVER) };
    let (mut pair, _, server) = Pair::with(with_dynamic_addresses(1, CLIENT), unlisted).establish();
    let (old, new) = (address(SERVER, 0), new_address(SERVER, 0));
    gain(&mut pair, SERVER, new);
    let restarted = Endpoint::new(with_dynamic_addresses(1, CLIENT), [99; 32], pair.now).unwrap();
    pair.hosts[CLIENT].endpoint = restarted;
    let again = pair.connect();
    pair.run_to(kind::INIT_ACK);
    request(&mut pair, SERVER, server, &[AddressRequest::Add(new.ip())]).unwrap();
    pair.run();
    assert!(pair.hosts[SERVER].events.iter().any(|(_, event)| matches!(event, Event::Restarted { .. })));
    assert_eq!(outcomes(&pair, SERVER), [(AddressRequest::Add(new.ip()), AddressOutcome::Failed)]);
    // The only address that the peer knows is the source of packets, and can't be deleted.
    assert_eq!(pair.hosts[SERVER].endpoint.addresses(server).local(), Some(&[old.ip()][..]));
    let last = AddressError::LastAddress { address: old.ip() };
    assert_eq!(request(&mut pair, SERVER, server, &[AddressRequest::Delete(old.ip())]), Err(last));
    pair.send(SERVER, server, 0, b"after the restart");
    pair.pass(Duration::from_secs(10));
    assert_eq!(pair.recv(CLIENT, again).unwrap().data, "after the restart");
}

/// A peer that has lost its state sets up again at an address that the association has deleted, and that its
/// listener still has. Its COOKIE ECHO may come to another address, and it may not support the extension any more.
#[test]
fn restart_at_a_deleted_address() {
    for (echo_at, dynamic_addresses) in [(0, true), (1, true), (0, false)] {
        let (mut pair, _, server) =
            Pair::with(with_dynamic_addresses(1, CLIENT), with_dynamic_addresses(2, SERVER)).establish();
        pair.pass(Duration::from_secs(2));
        let (deleted, kept) = (address(SERVER, 0).ip(), address(SERVER, 1).ip());
        request(&mut pair, SERVER, server, &[AddressRequest::Delete(deleted)]).unwrap();
        pair.pass(Duration::from_secs(2));
        assert_eq!(pair.hosts[SERVER].endpoint.addresses(server).local(), Some(&[kept][..]));
        let mut config = with_dynamic_addresses(1, CLIENT);
        let association = Arc::make_mut(&mut config.association);
        association.extensions.dynamic_addresses = dynamic_addresses;
        association.extensions.authentication = Some(Authentication::default());
        pair.hosts[CLIENT].endpoint = Endpoint::new(config, [99; 32], pair.now).unwrap();
        pair.hosts[SERVER].events.clear();
        let again = pair.connect();
        pair.run_to(kind::COOKIE_ECHO);
        pair.wire.front_mut().unwrap().destination = address(SERVER, echo_at);
        pair.pass(Duration::from_secs(2));
        assert!(pair.hosts[SERVER].events.iter().any(|(_, event)| matches!(event, Event::Restarted { .. })));
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
        assert_eq!(pair.hosts[SERVER].endpoint.addresses(server).local(), Some(&[deleted, kept][..]));
        // Data arrives at both addresses, and back.
        for path in [0, 1] {
            let now = pair.now;
            pair.hosts[CLIENT].endpoint.set_primary(now, again, address(SERVER, path).ip()).unwrap();
            pair.send(CLIENT, again, 0, &[path; 20]);
            pair.run();
            assert_eq!(pair.recv(SERVER, server).unwrap().data, vec![path; 20]);
        }
        pair.send(SERVER, server, 0, b"back");
        pair.run();
        assert_eq!(pair.recv(CLIENT, again).unwrap().data, "back");
    }
}
