//! Requests of a peer (sections 5.2 to 5.4).

use strandline_wire::chunk::Heartbeat;
use strandline_wire::number::Ssn;

use super::*;

#[test]
fn rule_e6_answer_goes_to_the_source() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    let sent = peer.ask_from(new, &[add(7, new)]);
    assert_eq!(refused(&sent, 1000), []);
    assert!(sent.iter().any(|sent| has(kind::ASCONF_ACK)(sent) && sent.destination == new));
    assert_eq!(peer.known(), [address(CLIENT, 0), new]);
}

/// Rules F1 and F14: only HEARTBEATs go to an added address before it has answered one.
#[test]
fn rule_f14_added_address_is_confirmed_first() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    assert_eq!(peer.ask(&[add(7, new), set_primary(8, new)]), []);
    let sent = [peer.inner.raw.server_sends(5000), peer.inner.raw.wait(Duration::from_secs(1))].concat();
    let to_new: Vec<_> = sent.iter().filter(|sent| sent.destination == new).map(Sent::kinds).collect();
    assert_eq!(to_new, [[kind::HEARTBEAT]]);
    peer.confirm(new);
    // What the peer asked for before is done now (section 5.4).
    let id = peer.id();
    let paths = peer.pair().hosts[SERVER].endpoint.paths(id).unwrap();
    assert!(paths.iter().any(|path| path.address == new && path.primary));
}

#[test]
fn rule_e2_repeated_request_gets_the_same_answer() {
    let mut peer = Peer::new(1);
    let bytes = peer.asconf_of(1000, address(CLIENT, 0), &encode(&[add(7, new_address(CLIENT, 0))]));
    let first = responses(&peer.say_from(address(CLIENT, 0), &bytes), 1000);
    let events = peer.pair().hosts[SERVER].events.len();
    for _ in 0..3 {
        assert_eq!(responses(&peer.say_from(address(CLIENT, 0), &bytes), 1000), first);
    }
    assert_eq!(peer.pair().hosts[SERVER].events.len(), events);
    // Rule E1: after the next one it is forgotten.
    peer.number = 1001;
    assert_eq!(peer.ask(&[]), []);
    assert!(peer.say_from(address(CLIENT, 0), &bytes).is_empty());
}

#[test]
fn rule_e5_jump_of_the_number_is_ignored() {
    let mut peer = Peer::new(1);
    for number in [1001, 1002, 5000, 1000 + (1 << 31) - 1] {
        let bytes = peer.asconf_of(number, address(CLIENT, 0), &encode(&[add(7, new_address(CLIENT, 0))]));
        assert!(peer.say_from(address(CLIENT, 0), &bytes).is_empty());
    }
    // Below, and never sent.
    for number in [999, 0, 1000_u32.wrapping_sub(1 << 31) + 1] {
        let bytes = peer.asconf_of(number, address(CLIENT, 0), &encode(&[add(7, new_address(CLIENT, 0))]));
        assert!(peer.say_from(address(CLIENT, 0), &bytes).is_empty());
    }
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
    assert_eq!(peer.pair().hosts[SERVER].endpoint.stats().asconfs_dropped, 4);
    assert_eq!(peer.ask(&[]), []);
}

/// Section 5.5: several chunks in a packet, answered in one.
#[test]
fn several_chunks_are_answered_in_one_packet() {
    let mut peer = Peer::new(1);
    let requests = [encode(&[add(1, new_address(CLIENT, 0))]), encode(&[add(2, new_address(CLIENT, 1))])];
    let chunk = |number, requests| Asconf {
        number: AsconfNumber(number),
        address: address(CLIENT, 0).ip(),
        parameters: Parameters::new(requests),
    };
    let [first, second] = [chunk(1000, &requests[0]), chunk(1001, &requests[1])];
    let one = peer.inner.behind_auth(&[&first]);
    peer.say_from(address(CLIENT, 0), &one);
    let both = peer.inner.behind_auth(&[&first, &second]);
    let sent = peer.say_from(address(CLIENT, 0), &both);
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].kinds(), [kind::AUTH, kind::ASCONF_ACK, kind::ASCONF_ACK]);
    assert_eq!((refused(&sent, 1000), refused(&sent, 1001)), (vec![], vec![]));
    assert_eq!(peer.known().len(), 3);
}

/// Rules D2 and 5.3.2: the association is found by the Address Parameter, or by none and the tag.
#[test]
fn rule_d2_single_address_is_renumbered() {
    for named in [address(CLIENT, 0), wildcard()] {
        let mut peer = Peer::new(1);
        let new = new_address(CLIENT, 0);
        let requests = encode(&[add(1, new), delete(2, address(CLIENT, 0)), set_primary(3, new)]);
        let bytes = peer.asconf_of(1000, named, &requests);
        let sent = peer.say_from(new, &bytes);
        assert_eq!(refused(&sent, 1000), []);
        assert_eq!(peer.known(), [new]);
        // Data waits for the confirmation.
        let sent =
            [peer.inner.raw.server_sends(100), peer.inner.raw.wait(Duration::from_millis(900))].concat();
        assert!(
            sent.iter().all(|sent| sent.destination == new && sent.kinds() == [kind::HEARTBEAT]),
            "{sent:?}"
        );
        peer.confirm(new);
        let sent = peer.inner.raw.wait(Duration::from_secs(5));
        assert!(sent.iter().any(|sent| has(kind::DATA)(sent) && sent.destination == new));
        assert!(!peer.pair().log.iter().any(|sent| has(kind::DATA)(sent) && sent.destination != new));
    }
}

/// A renumbered peer that never answers a HEARTBEAT ends the association.
#[test]
fn unanswered_renumbering_ends_the_association() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    peer.ask_from(new, &[add(1, new), delete(2, address(CLIENT, 0))]);
    peer.inner.raw.server_sends(100);
    peer.inner.raw.wait(Duration::from_secs(600));
    assert_eq!(peer.state(), "CLOSED");
    assert!(!peer.pair().log.iter().any(has(kind::DATA)));
}

/// From an address that is to be added, nothing but the ASCONF counts if it does not name the association.
#[test]
fn rule_d3_unknown_source_without_known_address() {
    let mut peer = Peer::new(1);
    let (new, other) = (new_address(CLIENT, 0), new_address(CLIENT, 1));
    let bytes = peer.asconf_of(1000, other, &encode(&[add(1, new)]));
    assert!(peer.say_from(new, &bytes).is_empty());
    // Chunks other than ASCONF from there.
    let data = whole(peer.inner.raw.tsn, 0, b"from an unknown address");
    let bytes = peer.inner.behind_auth(&[&data]);
    assert!(peer.say_from(new, &bytes).is_empty());
    assert!(peer.inner.raw.read().is_empty());
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
}

/// What follows the ASCONF that adds the source counts.
#[test]
fn data_behind_the_request_is_accepted() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    let requests = encode(&[add(1, new)]);
    let parameters = Parameters::new(&requests);
    let asconf = Asconf { number: AsconfNumber(1000), address: address(CLIENT, 0).ip(), parameters };
    let data = strandline_wire::Data::whole(peer.inner.raw.tsn, StreamId(0), Ssn(0), b"with it");
    let bytes = peer.inner.behind_auth(&[&data, &asconf, &data]);
    peer.say_from(new, &bytes);
    assert_eq!(peer.inner.raw.read(), [b"with it"]);
}

#[test]
fn rule_f7_last_address_is_not_deleted() {
    let mut peer = Peer::new(1);
    assert_eq!(peer.ask(&[delete(7, address(CLIENT, 0))]), [(7, code::DELETE_LAST_ADDRESS)]);
    // The cause quotes the parameter (section 4.3.1).
    let number = peer.number;
    let sent = peer.ask_from(address(CLIENT, 0), &[delete(7, address(CLIENT, 0))]);
    let quoted = [0xc0, 2, 0, 16, 0, 0, 0, 7, 0, 5, 0, 8, 192, 0, 2, 1];
    let cause = [&[0, 0xa0, 0, 20][..], &quoted].concat();
    assert_eq!(responses(&sent, number), [&[0xc0, 3, 0, 28, 0, 0, 0, 7][..], &cause].concat());
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
    assert_eq!(peer.state(), "ESTABLISHED");
}

#[test]
fn rule_f8_source_address_is_not_deleted() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    assert_eq!(peer.ask(&[add(1, new)]), []);
    assert_eq!(peer.ask(&[delete(7, address(CLIENT, 0))]), [(7, code::DELETE_SOURCE_ADDRESS)]);
    assert_eq!(peer.known().len(), 2);
    assert_eq!(peer.ask(&[delete(8, new)]), []);
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
}

/// A path that carries data and the flight on it: it is sent elsewhere (rules F12 and F13).
#[test]
fn rule_f13_nothing_goes_to_a_deleted_address() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    assert_eq!(peer.ask(&[add(1, new)]), []);
    peer.confirm(new);
    assert!(peer.inner.raw.server_sends(1000).iter().all(|sent| sent.destination == address(CLIENT, 0)));
    let number = peer.number;
    let sent = peer.ask_from(new, &[delete(2, address(CLIENT, 0))]);
    assert_eq!(refused(&sent, number), []);
    let from = peer.pair().log.len();
    peer.inner.raw.wait(Duration::from_secs(30));
    let log = &peer.pair().log[from..];
    assert!(log.iter().all(|sent| sent.destination == new));
    let data = sent.iter().chain(log).filter(|sent| has(kind::DATA)(sent)).count();
    assert!(data > 0, "the flight is sent again");
    // What comes from there is not accepted any more.
    let heartbeat = Heartbeat { info: &[1; 8] };
    let bytes = peer.inner.bytes_of(&[&heartbeat]);
    assert!(peer.say_from(address(CLIENT, 0), &bytes).is_empty());
}

#[test]
fn rule_f9_ninth_address_is_refused() {
    let mut peer = Peer::new(1);
    let all: Vec<_> = (0..10).map(|n| add(u32::from(n), new_address(CLIENT, n))).collect();
    let refused = peer.ask(&all);
    assert_eq!(refused, [7, 8, 9].map(|id| (id, code::RESOURCE_SHORTAGE)));
    assert_eq!(peer.known().len(), 8);
}

/// Rule F11: after a refused request, Add and Delete of the same chunk are refused.
#[test]
fn rule_f11_requests_after_a_refused_one_fail() {
    let mut peer = Peer::new(1);
    let (one, two) = (new_address(CLIENT, 0), new_address(CLIENT, 1));
    let broadcast = SocketAddr::from(([255, 255, 255, 255], 0));
    let refused = peer.ask(&[
        add(1, one),
        add(2, broadcast),
        delete(3, one),
        add(4, two),
        set_primary(5, address(CLIENT, 0)),
    ]);
    assert_eq!(refused, [2, 3, 4].map(|id| (id, code::NO_AUTHORIZATION)));
    assert_eq!(peer.known(), [address(CLIENT, 0), one]);
}

#[test]
fn addresses_that_are_not_unicast_are_refused() {
    for bad in ["255.255.255.255", "224.0.0.1", "ff02::1", "127.0.0.1", "::ffff:192.0.2.9", "::1"] {
        let mut peer = Peer::new(2);
        let bad = SocketAddr::new(bad.parse().unwrap(), 0);
        assert_eq!(peer.ask(&[add(1, bad)]), [(1, code::NO_AUTHORIZATION)], "{bad}");
        assert_eq!(peer.known(), [address(CLIENT, 0)]);
    }
}

/// An address of this host belongs to a peer on this host only.
#[test]
fn own_address_is_not_added() {
    let own = new_address(SERVER, 0);
    for (peer_is_here, expected) in [(false, &[(1, code::NO_AUTHORIZATION)][..]), (true, &[])] {
        let mut own_addresses = vec![own.ip()];
        if peer_is_here {
            own_addresses.push(address(CLIENT, 0).ip());
        }
        let server = EndpointConfig { own_addresses, ..with_dynamic_addresses(1, SERVER) };
        let mut peer = Peer::of(Pair::with(config(1, CLIENT), server));
        assert_eq!(peer.ask(&[add(1, own)]), expected, "{peer_is_here}");
        assert_eq!(peer.known().len(), 1 + usize::from(peer_is_here));
    }
}

/// A known address can be added again, and an unknown one deleted: nothing is to be done.
#[test]
fn requests_that_are_done_already_succeed() {
    let mut peer = Peer::new(1);
    assert_eq!(peer.ask(&[add(1, address(CLIENT, 0)), delete(2, new_address(CLIENT, 0))]), []);
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
}

/// Rule V2: unknown parameters by their two high bits.
#[test]
fn rule_v2_unknown_parameters() {
    let new = encode(&[add(9, new_address(CLIENT, 0))]);
    for (high, reported, goes_on) in
        [(0x00_u8, false, false), (0x40, true, false), (0x80, false, true), (0xc0, true, true)]
    {
        let mut peer = Peer::new(1);
        let unknown = [high | 0x0f, 0xf0, 0, 12, 0, 0, 0, 5, 1, 2, 3, 4];
        let bytes = peer.asconf_of(1000, address(CLIENT, 0), &[&unknown[..], &new].concat());
        let sent = peer.say_from(address(CLIENT, 0), &bytes);
        let expected: &[_] = if reported { &[(5, code::UNRECOGNISED_PARAMETERS)] } else { &[] };
        assert_eq!(refused(&sent, 1000), expected, "{high:#x}");
        assert_eq!(peer.known().len(), 1 + usize::from(goes_on), "{high:#x}");
    }
}

/// Responses in an ASCONF are ignored (section 4.2).
#[test]
fn parameters_that_do_not_belong_there_are_ignored() {
    let mut peer = Peer::new(1);
    let odd = [AsconfParameter::Success { id: 1 }, AsconfParameter::Error { id: 2, causes: &[0, 4, 0, 4] }];
    assert_eq!(peer.ask(&odd), []);
    assert_eq!(peer.state(), "ESTABLISHED");
}

/// Wildcards (sections 4.2.1, 4.2.2 and 4.2.4): the source, all others, and the source again.
#[test]
fn wildcards_stand_for_the_source() {
    let mut peer = Peer::new(1);
    assert_eq!(peer.ask(&[add(1, new_address(CLIENT, 5))]), []);
    let behind_nat = SocketAddr::from(([192, 0, 2, 99], 40_000));
    let requests = encode(&[add(1, wildcard()), delete(2, wildcard()), set_primary(3, wildcard())]);
    let bytes = peer.asconf_of(1001, wildcard(), &requests);
    let sent = peer.say_from(behind_nat, &bytes);
    assert_eq!(refused(&sent, 1001), []);
    assert_eq!(peer.known(), [behind_nat]);
    peer.confirm(behind_nat);
    let sent = peer.inner.raw.server_sends(10);
    assert!(has(kind::DATA)(&sent[0]) && sent[0].destination == behind_nat);
}

/// A wildcard Delete from an address that was not added would leave none.
#[test]
fn wildcard_delete_from_an_unknown_source_is_refused() {
    let mut peer = Peer::new(1);
    let bytes = peer.asconf_of(1000, wildcard(), &encode(&[delete(2, wildcard())]));
    let sent = peer.say_from(new_address(CLIENT, 0), &bytes);
    assert_eq!(refused(&sent, 1000), [(2, code::DELETE_LAST_ADDRESS)]);
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
}

#[test]
fn section_5_4_primary_address() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    assert_eq!(peer.ask(&[set_primary(1, new)]), [(1, code::UNRESOLVABLE_ADDRESS)]);
    assert_eq!(peer.ask(&[add(2, new)]), []);
    peer.confirm(new);
    assert_eq!(peer.ask(&[set_primary(3, new)]), []);
    peer.pair().collect();
    assert!(changes(peer.pair(), SERVER).contains(&(new, PathChange::Primary)));
    assert!(peer.inner.raw.server_sends(10).iter().all(|sent| sent.destination == new));
}

/// Section 5.1.1 rule C4: no ASCONF-ACK in SHUTDOWN-ACK-SENT; before it the requests are performed.
#[test]
fn rule_c4_states_of_the_shutdown() {
    let mut peer = Peer::new(1);
    let id = peer.id();
    peer.inner.raw.server_sends(10);
    let now = peer.pair().now;
    peer.pair().hosts[SERVER].endpoint.shutdown(now, id).unwrap();
    assert_eq!(peer.state(), "SHUTDOWN-PENDING");
    assert_eq!(peer.ask(&[add(1, new_address(CLIENT, 0))]), []);
    peer.inner.raw.say_sack(1, 1 << 20, &[]);
    assert_eq!(peer.state(), "SHUTDOWN-SENT");
    assert_eq!(peer.ask(&[delete(1, new_address(CLIENT, 0))]), []);
    let shutdown = strandline_wire::Shutdown { cumulative_tsn: peer.inner.raw.server_tsn };
    peer.inner.raw.say_all(&[&shutdown]);
    assert_eq!(peer.state(), "SHUTDOWN-ACK-SENT");
    let number = peer.number;
    let sent = peer.ask_from(address(CLIENT, 0), &[add(1, new_address(CLIENT, 0))]);
    assert!(!sent.iter().any(has(kind::ASCONF_ACK)), "{number}");
}

/// Section 5.3: the peer uses a new address, and answers HEARTBEATs from it, once it has the ASCONF-ACK. When
/// it repeats the ASCONF because that was lost, it gets a HEARTBEAT at once.
#[test]
fn address_is_probed_when_heard_again() {
    let with = |host| {
        let mut config = with_dynamic_addresses(1, host);
        let mut association = (*config.association).clone();
        if host == CLIENT {
            association.rto_max = Duration::from_secs(4);
            association.association_retrans_max = 30;
        }
        config.association = Arc::new(association);
        config
    };
    let (mut pair, client, server) = Pair::with(with(CLIENT), with(SERVER)).establish();
    pair.pass(Duration::from_secs(1));
    let new = new_address(CLIENT, 0);
    gain(&mut pair, CLIENT, new);
    lose(&mut pair, CLIENT, address(CLIENT, 0));
    let replace = [AddressRequest::Add(new.ip()), AddressRequest::Delete(address(CLIENT, 0).ip())];
    request(&mut pair, CLIENT, client, &replace).unwrap();
    pair.run_dropping(has(kind::ASCONF_ACK));
    pair.pass_dropping(Duration::from_secs(40), |sent| sent.destination == address(SERVER, 0));
    pair.send(SERVER, server, 0, b"over the new address");
    pair.pass(Duration::from_secs(7));
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "over the new address");
}

/// Sections 4.2.6 and 4.2.7: parameters of INIT and INIT ACK mean nothing in other chunks.
#[test]
fn parameters_of_the_set_up_are_ignored_elsewhere() {
    let mut peer = Peer::new(1);
    let set_up =
        [Parameter::AdaptationLayer { code_point: 7 }, Parameter::SupportedExtensions(&[kind::NR_SACK; 4])];
    let mut parameters = conformance_rfc4895::encode(&set_up);
    parameters.extend(encode(&[add(1, new_address(CLIENT, 0))]));
    let bytes = peer.asconf_of(peer.number, address(CLIENT, 0), &parameters);
    let sent = peer.say_from(address(CLIENT, 0), &bytes);
    assert_eq!(refused(&sent, 1000), [], "they are not reported");
    assert!(peer.known().contains(&new_address(CLIENT, 0)), "the request behind them is performed");
    let id = peer.id();
    let mut asked = sender::ask(&mut peer, &[AddressRequest::Add(new_address(SERVER, 0).ip())]);
    asked.retain(has(kind::ASCONF));
    assert_eq!(asked.len(), 1);
    let number = sender::asconfs(&asked)[0].0;
    let ack = AsconfAck { number: AsconfNumber(number), responses: Parameters::new(&parameters[..16]) };
    peer.inner.say_behind_auth(&[&ack]);
    assert_eq!(sender::results(&mut peer), [AddressOutcome::Performed]);
    let adapted = |(_, event): &(AssociationId, Event)| matches!(event, Event::AdaptationLayer { .. });
    assert!(!peer.pair().hosts[SERVER].events.iter().any(adapted));
    assert!(!peer.pair().hosts[SERVER].endpoint.status(id).unwrap().extensions.nr_sack);
}
