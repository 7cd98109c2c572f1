//! Attacks: those of RFC 5062, and malformed, repeated, forged and excessive chunks.

use super::*;

/// Section 5.2 rule D5: without authentication the chunk and the rest of the packet are discarded.
#[test]
fn rule_d5_unauthenticated_chunks_are_discarded() {
    let mut peer = Peer::new(1);
    let requests = encode(&[add(1, new_address(CLIENT, 0))]);
    let parameters = Parameters::new(&requests);
    let asconf = Asconf { number: AsconfNumber(1000), address: address(CLIENT, 0).ip(), parameters };
    let ack = AsconfAck { number: AsconfNumber(5), responses: Parameters::new(&[]) };
    let data = whole(peer.inner.raw.tsn, 0, b"behind it");
    for chunk in [&asconf as &dyn strandline_wire::Encode, &ack] {
        let bytes = peer.inner.bytes_of(&[chunk, &data]);
        for source in [address(CLIENT, 0), new_address(CLIENT, 0)] {
            assert!(peer.say_from(source, &bytes).is_empty());
        }
    }
    // With a wrong MAC.
    let mut bytes = peer.inner.behind_auth(&[&asconf, &data]);
    bytes[10] ^= 1;
    assert!(peer.say_from(address(CLIENT, 0), &bytes).is_empty());
    assert!(peer.say_from(new_address(CLIENT, 0), &bytes).is_empty());
    // Before the AUTH chunk.
    let bytes = [peer.inner.bytes_of(&[&asconf]), peer.inner.behind_auth(&[&data])].concat();
    assert!(peer.say_from(address(CLIENT, 0), &bytes).is_empty());
    assert!(peer.inner.raw.read().is_empty());
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
    assert_eq!(peer.state(), "ESTABLISHED");
}

/// Address camping (RFC 5062 section 2): an address of another association cannot be added.
#[test]
fn address_of_another_association_is_refused() {
    let pair = Pair::with(config(1, CLIENT), with_dynamic_addresses(1, SERVER));
    let mut peer = Peer::of(pair);
    // Another peer with the same ports at another address.
    let victim = new_address(CLIENT, 9);
    let init = init(strandline_wire::number::Tsn(5));
    let say = |pair: &mut Pair, tag, chunk: &dyn strandline_wire::Encode| {
        let mut sent = pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| {
            let value = packet.push_raw(chunk.kind(), chunk.flags(), chunk.value_len()).unwrap();
            chunk.encode_value(value);
        });
        sent.source = victim;
        pair.deliver(&sent);
        pair.wire.drain(..).collect::<Vec<_>>()
    };
    let ack = say(peer.pair(), VerificationTag(0), &init);
    let (tag, _, cookie) = init_ack(&ack[0]);
    say(peer.pair(), tag, &strandline_wire::CookieEcho { cookie: &cookie });
    assert_eq!(peer.pair().hosts[SERVER].endpoint.association_count(), 2);
    assert_eq!(peer.ask(&[add(1, victim)]), [(1, code::NO_AUTHORIZATION)]);
    // A wildcard from the victim's address.
    let number = peer.number;
    let sent = peer.ask_from(victim, &[add(1, wildcard())]);
    assert_eq!(refused(&sent, number), [(1, code::NO_AUTHORIZATION)]);
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
    // Behind a copy of the COOKIE ECHO, where the set-up may not be complete.
    let ack = peer.pair().log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap().clone();
    let (_, _, own) = init_ack(&ack);
    let echo = peer.inner.bytes_of(&[&strandline_wire::CookieEcho { cookie: &own }]);
    let asconf = peer.asconf_of(peer.number, address(CLIENT, 0), &encode(&[add(1, victim)]));
    let answers = peer.say_from(address(CLIENT, 0), &[echo, asconf].concat());
    assert!(!answers.iter().any(has(kind::ASCONF_ACK)));
    assert_eq!(peer.known(), [address(CLIENT, 0)]);
    // The application cannot add it either.
    let (id, now) = (peer.id(), peer.pair().now);
    let added = peer.pair().hosts[SERVER].endpoint.addresses(id).add_peer(now, victim.ip());
    assert_eq!(added, Err(crate::error::PathError::InUse));
    // The other association is untouched.
    let heartbeat = strandline_wire::Heartbeat { info: &[1; 8] };
    assert!(say(peer.pair(), tag, &heartbeat).iter().any(has(kind::HEARTBEAT_ACK)));
}

/// Association hijacking (section 3): a restart from another address gets an ABORT even after that address was deleted.
#[test]
fn deleted_address_cannot_restart_the_association() {
    let mut peer = Peer::new(1);
    let new = new_address(CLIENT, 0);
    peer.ask_from(new, &[add(1, new), delete(2, address(CLIENT, 0))]);
    peer.confirm(new);
    let state = peer.pair().hosts[SERVER].endpoint.association_count();
    // Whoever has the old address now may set up an association of its own, and the existing one stays.
    let init = strandline_wire::Init { initiate_tag: VerificationTag(77), ..init(Tsn(5)) };
    let sent =
        peer.pair().forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
    peer.pair().deliver(&sent);
    assert!(peer.inner.raw.heard().iter().any(has(kind::INIT_ACK)));
    assert_eq!(peer.pair().hosts[SERVER].endpoint.association_count(), state);
    assert_eq!((peer.known(), peer.state()), (vec![new], "ESTABLISHED"));
}

/// Bombing attacks (section 4): a peer adds a victim's addresses, makes them primary, and deletes its own.
/// The victim gets a bounded number of HEARTBEATs and no data.
#[test]
fn added_victims_get_few_heartbeats() {
    let mut peer = Peer::new(1);
    let victims: Vec<_> = (1..=7_u8).map(|last| SocketAddr::from(([203, 0, 113, last], 9899))).collect();
    let mut requests: Vec<_> = victims.iter().map(|victim| add(1, *victim)).collect();
    requests.push(set_primary(2, victims[0]));
    assert_eq!(peer.ask(&requests), []);
    peer.inner.raw.server_sends(20_000);
    peer.inner.raw.wait(Duration::from_secs(600));
    let is_victim = |sent: &&Sent| victims.contains(&sent.destination);
    let sent: Vec<_> = peer.pair().log.iter().filter(is_victim).cloned().collect();
    assert!(sent.iter().all(|sent| sent.kinds() == [kind::HEARTBEAT]));
    assert!((1..=7 * 6).contains(&sent.len()), "{}", sent.len());
}

/// Redirection to a victim with the own address deleted: packets wait, and the association ends without an answer.
#[test]
fn redirected_data_never_reaches_the_victim() {
    let mut peer = Peer::new(1);
    let victim = SocketAddr::from(([203, 0, 113, 1], 9899));
    peer.inner.raw.server_sends(20_000);
    // It comes from the victim's address, spoofed.
    peer.ask_from(victim, &[add(1, victim), delete(2, address(CLIENT, 0)), set_primary(3, victim)]);
    peer.inner.raw.wait(Duration::from_secs(600));
    let sent = peer.pair().log.iter().filter(|sent| sent.destination == victim).map(Sent::kinds);
    let sent: Vec<_> = sent.collect();
    let allowed = [vec![kind::AUTH, kind::ASCONF_ACK], vec![kind::HEARTBEAT], vec![kind::ABORT]];
    assert!(sent.iter().all(|kinds| allowed.contains(kinds)), "{sent:?}");
    assert!(sent.len() <= 8, "{sent:?}");
    assert_eq!(peer.state(), "CLOSED");
}

/// A flood of additions and deletions keeps the state bounded.
#[test]
fn flood_of_requests_is_bounded() {
    let mut peer = Peer::new(1);
    for round in 0..200_u32 {
        let n = (round % 40) as u8;
        let many: Vec<_> = (0..40).map(|id| add(id, new_address(CLIENT, (n + id as u8) % 30))).collect();
        peer.ask(&many);
        assert!(peer.known().len() <= 8);
        peer.ask(&(0..30).map(|id| delete(id, new_address(CLIENT, id as u8))).collect::<Vec<_>>());
        assert_eq!(peer.known(), [address(CLIENT, 0)]);
        if round % 16 == 15 {
            peer.pair().hosts[SERVER].events.clear();
        }
    }
    let id = peer.id();
    let memory = peer.pair().hosts[SERVER].endpoint.memory(id).unwrap();
    let total: usize = memory.items.iter().map(|(_, bytes)| bytes).sum();
    assert!(total < 16_384, "{memory:?}");
    peer.pair().log.clear();
    peer.inner.raw.wait(Duration::from_secs(60));
    assert_eq!(peer.state(), "ESTABLISHED");
}

/// More parameters than are processed: the rest is refused.
#[test]
fn endless_list_of_requests_is_cut() {
    let mut peer = Peer::new(1);
    let many: Vec<_> = (0..60).map(|id| delete(id, new_address(CLIENT, 9))).collect();
    let refused = peer.ask(&many);
    assert!(refused.iter().all(|(id, code)| *id >= 32 && *code == code::RESOURCE_SHORTAGE));
    assert!(refused.len() >= 10, "{}", refused.len());
}

/// Malformed chunks that are authenticated: nothing is performed, and the association ends (CVE-2014-3673,
/// CVE-2014-7841).
#[test]
fn malformed_requests_end_the_association() {
    let inner = [0, 5, 0, 8, 192, 0, 2, 60];
    let good = encode(&[add(1, new_address(CLIENT, 0))]);
    let cases: Vec<Vec<u8>> = vec![
        vec![0xc0, 1, 0, 4],
        vec![0xc0, 1, 0, 2, 0, 0, 0, 0],
        vec![0xc0, 1, 0, 0],
        vec![0xc0, 1, 0xff, 0xff, 0, 0, 0, 1],
        [&[0xc0, 1, 0, 12, 0, 0, 0, 1][..], &inner].concat(),
        [&[0xc0, 2, 0, 15, 0, 0, 0, 1][..], &inner].concat(),
        [&[0xc0, 4, 0, 24, 0, 0, 0, 1][..], &inner, &inner].concat(),
        [&good[..], &[0xc0, 1, 0, 8, 0, 0, 0, 1]].concat(),
        [&good[..], &[0xc0]].concat(),
        [&[0xc0, 1, 0, 28, 0, 0, 0, 1, 0, 6, 0, 20][..], &[0; 12]].concat(),
    ];
    for parameters in cases {
        let mut peer = Peer::new(1);
        let bytes = peer.asconf_of(1000, address(CLIENT, 0), &parameters);
        let sent = peer.say_from(address(CLIENT, 0), &bytes);
        assert!(sent.iter().any(has(kind::ABORT)), "{parameters:x?}");
        assert_eq!(peer.state(), "CLOSED");
        peer.pair().collect();
        assert!(changes(peer.pair(), SERVER).is_empty());
        // The cookie is spent, as that of any association that has ended.
        let id = peer.id();
        peer.pair().hosts[SERVER].endpoint.release(id);
        let ack = peer.pair().log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap().clone();
        let (_, _, cookie) = init_ack(&ack);
        let echo = peer.inner.bytes_of(&[&strandline_wire::CookieEcho { cookie: &cookie }]);
        let answers = peer.say_from(address(CLIENT, 0), &echo);
        assert!(answers.iter().any(has(kind::ABORT)), "{parameters:x?}");
        assert_eq!(peer.pair().hosts[SERVER].endpoint.association_count(), 0);
    }
}

/// A chunk without its address, and one with a host name, which is ignored (section 4.1.1).
#[test]
fn chunks_without_an_address() {
    for (value, state) in [
        (&[0, 0, 3, 0xe8][..], "CLOSED"),
        (&[0, 0, 3][..], "CLOSED"),
        (&[0, 0, 3, 0xe8, 0xc0, 1, 0, 8, 0, 0, 0, 1], "CLOSED"),
        (&[0, 0, 3, 0xe8, 0, 11, 0, 8, b'h', b'o', b's', b't'], "ESTABLISHED"),
    ] {
        let mut peer = Peer::new(1);
        let bytes = peer.inner.behind_auth(&[&AnyChunk { kind: kind::ASCONF, flags: 0, value }]);
        // From elsewhere it does not even get that far.
        assert!(peer.say_from(new_address(CLIENT, 0), &bytes).is_empty());
        assert_eq!(peer.state(), "ESTABLISHED");
        peer.say_from(address(CLIENT, 0), &bytes);
        assert_eq!(peer.state(), state, "{value:x?}");
    }
}

/// Rule F0 and section 4.3.4: an answer to something that was never sent.
#[test]
fn illegal_answer_ends_the_association() {
    for (number, state) in [
        (0, "CLOSED"),
        (1, "CLOSED"),
        ((1_u32 << 31) - 1, "CLOSED"),
        (u32::MAX, "ESTABLISHED"),
        (1 << 31, "ESTABLISHED"),
    ] {
        let mut peer = Peer::new(1);
        let number = AsconfNumber(peer.inner.raw.server_tsn.0.wrapping_add(number));
        let ack = AsconfAck { number, responses: Parameters::new(&[]) };
        let sent = peer.inner.say_behind_auth(&[&ack]);
        assert_eq!(peer.state(), state, "{number}");
        let abort = sent.iter().flat_map(chunks).find_map(|chunk| match chunk {
            Chunk::Abort(abort) => abort.causes.iter().next().and_then(Result::ok).map(|cause| cause.code),
            _ => None,
        });
        assert_eq!(abort, (state == "CLOSED").then_some(code::ILLEGAL_ASCONF_ACK));
    }
}

/// Numbers wrap around (section 3).
#[test]
fn numbers_wrap_around() {
    let more = [Parameter::SupportedExtensions(&EXTENSIONS)];
    let pair = Pair::with(config(1, CLIENT), with_dynamic_addresses(1, SERVER));
    let inner = conformance_rfc4895::Peer::open_with(pair, &EXTENSIONS[1..], HmacIdentifiers::SHA1, &more);
    let mut peer = Peer { inner, number: 1000 };
    for round in 0..4 {
        assert_eq!(peer.ask(&[add(round, new_address(CLIENT, 0)), delete(9, new_address(CLIENT, 0))]), []);
    }
    assert_eq!(peer.number, 1004);
}

/// A late copy of the INIT that set the association up lists an address that was deleted since. An ABORT, which has the
/// tag of the association, would end it.
#[test]
fn late_init_with_a_deleted_address_is_ignored() {
    let both = Pair::with(with_dynamic_addresses(2, CLIENT), with_dynamic_addresses(1, SERVER));
    let (mut pair, client, server) = both.establish();
    pair.pass(Duration::from_secs(2));
    request(&mut pair, CLIENT, client, &[AddressRequest::Delete(address(CLIENT, 1).ip())]).unwrap();
    pair.run();
    assert_eq!(paths(&pair, SERVER, server).len(), 1);
    let init = pair.log.iter().find(|sent| has(kind::INIT)(sent)).unwrap().clone();
    pair.deliver(&init);
    pair.run();
    assert_eq!((pair.state(CLIENT, client), pair.state(SERVER, server)), ("ESTABLISHED", "ESTABLISHED"));
}

/// A peer that changes its addresses without end has the list of used cookies grow by those of its set-up alone.
#[test]
fn moving_peers_fill_no_list() {
    let mut peer = Peer::new(1);
    let remembered = |peer: &mut Peer| peer.pair().hosts[SERVER].endpoint.used_cookies.len();
    for round in 0..20 {
        let from = new_address(CLIENT, round);
        let before = peer.known()[0];
        let number = peer.number;
        let sent = peer.ask_from(before, &[add(1, from)]);
        assert_eq!(refused(&sent, number), []);
        peer.confirm(from);
        let number = peer.number;
        let sent = peer.ask_from(from, &[delete(2, before)]);
        assert_eq!(refused(&sent, number), []);
        assert_eq!((peer.known(), remembered(&mut peer)), (vec![from], 1));
    }
}
