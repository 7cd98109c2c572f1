//! RFC 9260 sections 5.1, 5.2 and 5.4: set-up, Table 12 row by row, unexpected set-up chunks, path verification.

use strandline_wire::chunk::{Chunk, CookieAck, CookieEcho, Init, InitAck};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::{Parameter, Parameters};

use super::raw::*;
use super::*;
use crate::association::cookie::Cookie;
use crate::association::features::Features;
use crate::stats::Reachability;

/// Returns a cookie of the server for the association of `raw`, with its tags and Tie-Tags. Tests change it by struct
/// update.
fn cookie(raw: &Raw) -> Cookie {
    let status = raw.server().status(raw.server).unwrap();
    let (local_tie_tag, peer_tie_tag) = raw.server().context.tie_tags(status.local_tag, status.peer_tag);
    Cookie {
        created: raw.pair.now,
        lifetime_ms: 60_000,
        local_tag: status.local_tag,
        peer_tag: status.peer_tag,
        local_tie_tag,
        peer_tie_tag,
        local_port: PORT,
        peer_port: RAW_PORT,
        local_initial_tsn: Tsn(500),
        peer_initial_tsn: Tsn(7000),
        peer_rwnd: 65_536,
        outbound_streams: 10,
        inbound_streams: 10,
        features: Features::default(),
        adaptation: None,
        auth: None,
        source: address(CLIENT, 0),
        destination: None,
        addresses: Vec::new(),
        primary: None,
        named: Vec::new(),
    }
}

fn echo(raw: &mut Raw, cookie: &Cookie) -> Vec<Sent> {
    let sealed = raw.server().context.cookies.seal(cookie);
    let echo = CookieEcho { cookie: &sealed };
    let sent = raw.pair.forge(CLIENT, (RAW_PORT, PORT), cookie.local_tag, |p| assert!(p.push(&echo)));
    raw.pair.deliver(&sent);
    raw.heard()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Row {
    Restart,
    Collision,
    Duplicate,
    Discard,
}

/// Every combination of matching, other and no tags in the cookie against an established association: rows A, B and D
/// as in the table, row C and everything that is not in the table discarded silently. A peer of row B that numbers its
/// data anew has restarted.
#[test]
fn section_5_2_4_table_12_in_every_combination() {
    const OTHER: u32 = 0x0bad_cafe;
    for (local, renumbers) in [(true, true), (true, false), (false, true)] {
        for peer in [true, false] {
            for local_tie in ['M', 'X', '0'] {
                for peer_tie in ['M', 'X', '0'] {
                    let mut raw = Raw::new();
                    raw.server_sends(100);
                    let right = cookie(&raw);
                    let tie = |which, right| match which {
                        'M' => right,
                        'X' => OTHER,
                        _ => 0,
                    };
                    let made = Cookie {
                        local_tag: if local { right.local_tag } else { VerificationTag(OTHER) },
                        peer_tag: if peer { right.peer_tag } else { VerificationTag(OTHER + 1) },
                        local_tie_tag: tie(local_tie, right.local_tie_tag),
                        peer_tie_tag: tie(peer_tie, right.peer_tie_tag),
                        peer_initial_tsn: if renumbers { Tsn(7000) } else { raw.tsn },
                        ..right.clone()
                    };
                    let expected = match (local, peer, local_tie, peer_tie) {
                        (false, false, 'M', 'M') => Row::Restart,
                        (true, false, ..) if renumbers => Row::Restart,
                        (true, false, ..) => Row::Collision,
                        (true, true, ..) => Row::Duplicate,
                        _ => Row::Discard,
                    };
                    let before = raw.server().status(raw.server).unwrap();
                    let answer: Vec<u8> = echo(&mut raw, &made).iter().flat_map(Sent::kinds).collect();
                    let after = raw.server().status(raw.server).unwrap();
                    let what = format!("{local} {peer} {local_tie} {peer_tie}");
                    assert_eq!(answer.contains(&kind::COOKIE_ACK), expected != Row::Discard, "{what}");
                    assert_eq!(after.state.name(), "ESTABLISHED", "{what}");
                    let tags = match expected {
                        Row::Restart | Row::Collision => (made.local_tag, made.peer_tag),
                        Row::Duplicate | Row::Discard => (right.local_tag, right.peer_tag),
                    };
                    assert_eq!((after.local_tag, after.peer_tag), tags, "{what}");
                    let mut events = raw.pair.hosts[SERVER].events.iter();
                    let restarted = events.any(|(_, event)| matches!(event, Event::Restarted { .. }));
                    assert_eq!(restarted, expected == Row::Restart, "{what}");
                    assert_eq!(after.in_flight == 0, expected == Row::Restart, "{what}");
                    assert_eq!(raw.server().association_count(), 1, "{what}");
                    if expected == Row::Discard {
                        assert!(answer.is_empty(), "{what}");
                        assert_eq!(format!("{:?}", after.stats), format!("{:?}", before.stats), "{what}");
                    }
                }
            }
        }
    }
}

/// Row A: congestion control starts anew, and data is numbered from the cookie's TSNs.
#[test]
fn section_5_2_4_a_resets_congestion_control_and_numbers() {
    let mut raw = Raw::new();
    let fresh = raw.server().paths(raw.server).unwrap()[0].clone();
    for number in 0..50 {
        raw.server_sends(1000);
        raw.say_sack(number + 1, 1 << 20, &[]);
    }
    raw.server_sends(1000);
    raw.wait(Duration::from_secs(5));
    let worn = raw.server().paths(raw.server).unwrap()[0].clone();
    assert!(worn.ssthresh < u32::MAX && worn.srtt.is_some() && worn.error_count > 0);
    let made = Cookie { local_tag: VerificationTag(11), peer_tag: VerificationTag(12), ..cookie(&raw) };
    echo(&mut raw, &made);
    let path = raw.server().paths(raw.server).unwrap()[0].clone();
    assert_eq!(
        (path.cwnd, path.ssthresh, path.srtt, path.rto),
        (fresh.cwnd, fresh.ssthresh, None, fresh.rto)
    );
    assert_eq!((path.flight, path.error_count), (0, 0));
    let sent = raw.server_sends(10);
    assert_eq!(tsns(&sent), [[Tsn(500)]]);
    assert_eq!(sent[0].tag(), VerificationTag(12));
    raw.tag = VerificationTag(11);
    assert_eq!(sacks(&raw.say_data(&whole(Tsn(7000), 0, b"anew")))[0].cumulative, Tsn(7000));
    assert_eq!(raw.read(), [b"anew"]);
}

/// Row A in SHUTDOWN-ACK-SENT is `restart_during_shutdown_ack_sent_is_refused`. In the other shutdown states the
/// association is established again and the peer's shutdown is forgotten. A shutdown that the application requested
/// begins anew.
#[test]
fn section_5_2_4_a_begins_an_own_shutdown_anew() {
    let mut raw = Raw::new();
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    raw.heard();
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
    raw.wait(Duration::from_secs(100));
    let made = Cookie { local_tag: VerificationTag(11), peer_tag: VerificationTag(12), ..cookie(&raw) };
    let sent = echo(&mut raw, &made);
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
    let shutdown = sent.iter().find(|sent| has(kind::SHUTDOWN)(sent)).expect("it begins anew");
    assert_eq!(shutdown.tag(), VerificationTag(12));
    // T5-shutdown-guard of the previous association would expire 200 s later.
    raw.wait(Duration::from_secs(250));
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
}

#[test]
fn section_5_2_4_a_ends_the_peers_shutdown() {
    let mut raw = Raw::new();
    raw.server_sends(1000);
    raw.say(|packet| assert!(packet.push(&strandline_wire::Shutdown { cumulative_tsn: Tsn(0) })));
    assert_eq!(raw.state(), "SHUTDOWN-RECEIVED");
    let made = Cookie { local_tag: VerificationTag(11), peer_tag: VerificationTag(12), ..cookie(&raw) };
    echo(&mut raw, &made);
    assert_eq!(raw.state(), "ESTABLISHED");
    let sent = raw.wait(Duration::from_secs(1000));
    assert!(!sent.iter().any(has(kind::SHUTDOWN)));
    let aborted = sent.iter().find(|sent| has(kind::ABORT)(sent)).expect("HEARTBEATs go unanswered");
    assert!(String::from_utf8_lossy(&aborted.bytes).contains("Association.Max.Retrans"));
}

/// Rows B and D in COOKIE-WAIT and COOKIE-ECHOED: the peer's COOKIE ECHO establishes the association, the T1 timer
/// stops, and queued data is sent.
#[test]
fn section_5_2_4_b_and_d_end_the_set_up() {
    for echoed in [false, true] {
        for same_tag in [false, true] {
            if same_tag && !echoed {
                continue; // In COOKIE-WAIT the peer's tag is unknown: row "M 0".
            }
            let mut pair = Pair::new();
            let client = pair.connect();
            pair.send(CLIENT, client, 0, b"given before");
            let own = client_tag(&mut pair);
            if echoed {
                let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
                let ack = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
                answer_init(&mut pair, ack);
                assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
            }
            let tag = if same_tag { RAW_TAG } else { VerificationTag(77) };
            let table = &pair.hosts[CLIENT].endpoint.table;
            let local_initial_tsn = table.at(client.slot).unwrap().own_init(own).initial_tsn;
            let made = Cookie {
                created: pair.now,
                lifetime_ms: 60_000,
                local_tag: own,
                peer_tag: tag,
                local_tie_tag: 0,
                peer_tie_tag: 0,
                local_port: 5000,
                peer_port: PORT,
                local_initial_tsn,
                peer_initial_tsn: Tsn(1),
                peer_rwnd: 65_536,
                outbound_streams: 10,
                inbound_streams: 10,
                features: Features::default(),
                adaptation: None,
                auth: None,
                source: address(SERVER, 0),
                destination: None,
                addresses: Vec::new(),
                primary: None,
                named: Vec::new(),
            };
            let sealed = pair.hosts[CLIENT].endpoint.context.cookies.seal(&made);
            let echo = CookieEcho { cookie: &sealed };
            let sent = pair.forge(SERVER, (PORT, 5000), own, |packet| assert!(packet.push(&echo)));
            pair.wire.clear();
            pair.deliver(&sent);
            assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "{echoed} {same_tag}");
            let answers: Vec<_> = pair.wire.drain(..).collect();
            assert_eq!(answers[0].kinds()[0], kind::COOKIE_ACK, "COOKIE ACK first");
            assert_eq!(answers[0].tag(), tag);
            // T1-cookie or T1-init is stopped. In COOKIE-ECHOED the data went with the COOKIE ECHO.
            pair.pass_dropping(Duration::from_secs(10), |_| true);
            assert!(!pair.log.iter().skip(1).any(has(kind::INIT)));
            let data = pair.log.iter().filter(|sent| has(kind::DATA)(sent)).count();
            assert!(data >= 1, "{echoed} {same_tag}");
            // A late INIT ACK or COOKIE ACK changes nothing any more (5.2.3, 5.2.5).
            let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
            let late = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
            let sent = pair.forge(SERVER, (PORT, 5000), own, |packet| assert!(packet.push(&InitAck(late))));
            pair.deliver(&sent);
            let sent = pair.forge(SERVER, (PORT, 5000), own, |packet| assert!(packet.push(&CookieAck)));
            pair.deliver(&sent);
            assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
        }
    }
}

/// Case C, with a cookie that the peer received before its NAT changed the port.
#[test]
fn section_5_2_4_c_another_port_changes_nothing() {
    let mut raw = Raw::new();
    let mut unused = Cookie { local_tag: VerificationTag(11), ..cookie(&raw) };
    unused.source.set_port(40_000);
    let answer = echo(&mut raw, &unused);
    assert!(answer.is_empty(), "an ABORT would end the association: {answer:?}");
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// Step 3: a stale cookie is accepted if both tags match; otherwise an ERROR is sent.
#[test]
fn section_5_2_4_step_3_age_matters_only_for_other_tags() {
    for same in [true, false] {
        let mut raw = Raw::new();
        let old = Cookie { lifetime_ms: 10, ..cookie(&raw) };
        let old = if same { old } else { Cookie { peer_tag: VerificationTag(13), ..old } };
        raw.pair.pass(Duration::from_millis(20));
        let answer = echo(&mut raw, &old);
        assert_eq!(answer[0].kinds(), [if same { kind::COOKIE_ACK } else { kind::ERROR }]);
        let status = raw.server().status(raw.server).unwrap();
        assert_eq!(status.peer_tag, RAW_TAG);
        if !same {
            // Section 3.3.10.3: the staleness in microseconds.
            assert_eq!(answer[0].bytes[16..24], [0, 3, 0, 8, 0, 0, 0x27, 0x10]);
        }
    }
}

/// An INIT in each state: our own tag only during our own set-up, and Tie-Tags only if there is an association to tie
/// to.
#[test]
fn section_5_2_1_and_5_2_2_an_init_in_each_state() {
    let open = |raw: &Raw, sent: &Sent| {
        let (tag, _, sealed) = init_ack(sent);
        (tag, raw.server().context.cookies.open(&sealed, raw.pair.now).unwrap())
    };
    let ask = |raw: &mut Raw| {
        let init = Init { initiate_tag: VerificationTag(99), ..init(Tsn(3)) };
        let ports = (RAW_PORT, PORT);
        let sent = raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
        raw.pair.deliver(&sent);
        raw.heard().pop().unwrap()
    };
    let states: [(&str, fn(&mut Raw)); 3] = [
        ("ESTABLISHED", |_| ()),
        ("SHUTDOWN-PENDING", |raw| {
            raw.server_sends(10);
            raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
        }),
        ("SHUTDOWN-SENT", |raw| raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap()),
    ];
    for (state, go) in states {
        let mut raw = Raw::new();
        go(&mut raw);
        raw.heard();
        let answer = ask(&mut raw);
        assert_eq!(answer.tag(), VerificationTag(99));
        assert_eq!(answer.destination, address(CLIENT, 0));
        let (tag, inside) = open(&raw, &answer);
        let ties = raw.server().context.tie_tags(raw.tag, RAW_TAG);
        assert_ne!(tag, raw.tag, "a new Initiate Tag");
        assert_eq!((inside.local_tie_tag, inside.peer_tie_tag), ties, "{state}");
        assert!(ties.0 != 0 && ties.1 != 0);
        assert_eq!(raw.state(), state, "nothing else changes");
        let Some(Chunk::InitAck(ack)) = chunks(&answer).into_iter().next() else { panic!("no INIT ACK") };
        assert_eq!(ack.outbound_streams, 100, "no more than the INIT allows");
    }
    // Without an association there are no Tie-Tags.
    let mut raw = Raw::new();
    let first = raw.pair.log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap().clone();
    let (_, inside) = open(&raw, &first);
    assert_eq!((inside.local_tie_tag, inside.peer_tie_tag), (0, 0));
    // In SHUTDOWN-ACK-SENT the SHUTDOWN ACK is repeated.
    let cumulative_tsn = raw.server_tsn.previous();
    raw.say(|packet| assert!(packet.push(&strandline_wire::Shutdown { cumulative_tsn })));
    assert_eq!(raw.state(), "SHUTDOWN-ACK-SENT");
    assert_eq!(ask(&mut raw).kinds(), [kind::SHUTDOWN_ACK]);
}

/// COOKIE-WAIT and COOKIE-ECHOED: the INIT ACK has our own tag and TSN again, and T1 keeps running.
#[test]
fn section_5_2_1_init_during_set_up_gets_own_parameters() {
    for echoed in [false, true] {
        let mut pair = Pair::new();
        let client = pair.connect();
        let own = client_tag(&mut pair);
        let Some(Chunk::Init(ours)) = chunks(&pair.log[0]).into_iter().next() else { panic!("no INIT") };
        let (tsn, streams) = (ours.initial_tsn, (ours.outbound_streams, ours.inbound_streams));
        if echoed {
            let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
            let ack = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
            answer_init(&mut pair, ack);
        }
        let theirs = Init { initiate_tag: VerificationTag(50), inbound_streams: u16::MAX, ..init(Tsn(1)) };
        let tag = VerificationTag(0);
        let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&theirs)));
        pair.deliver(&sent);
        let answer = pair.wire.pop_front().unwrap();
        assert_eq!((answer.tag(), answer.destination), (VerificationTag(50), address(SERVER, 0)));
        let Some(Chunk::InitAck(ack)) = chunks(&answer).into_iter().next() else { panic!("no INIT ACK") };
        assert_eq!((ack.initiate_tag, ack.initial_tsn), (own, tsn));
        assert_eq!((ack.outbound_streams, ack.inbound_streams), streams);
        assert_eq!(pair.state(CLIENT, client), if echoed { "COOKIE-ECHOED" } else { "COOKIE-WAIT" });
        pair.log.clear();
        pair.pass_dropping(Duration::from_millis(1100), |_| true);
        assert_eq!(pair.log[0].kinds(), [if echoed { kind::COOKIE_ECHO } else { kind::INIT }], "T1 runs on");
        // With an additional address, COOKIE-ECHOED answers with an ABORT and nothing changes.
        let more = [0, 5, 0, 8, 203, 0, 113, 1];
        let theirs = Init { parameters: Parameters::new(&more), ..theirs };
        let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&theirs)));
        pair.wire.clear();
        pair.deliver(&sent);
        let answer = pair.wire.pop_front().unwrap();
        assert_eq!(answer.kinds(), [if echoed { kind::ABORT } else { kind::INIT_ACK }]);
        if echoed {
            // The cause lists the new addresses as in the INIT.
            assert_eq!(answer.bytes[16..], [&[0, 11, 0, 12][..], &more].concat());
        }
        assert_eq!(pair.hosts[CLIENT].endpoint.association_count(), 1);
    }
}

/// Section 5.2.1 rules 1 and 2: the INIT comes from an address that the application did not name, but lists one that
/// it did. Only that one may get an answer.
#[test]
fn section_5_2_1_cookie_wait_answers_only_named_addresses() {
    for reported in [true, false] {
        let mut pair = Pair::new();
        let client = pair.connect();
        client_tag(&mut pair);
        let IpAddr::V4(named) = address(SERVER, 0).ip() else { panic!("IPv4 here") };
        let mut buffer = [0; 64];
        let mut writer = strandline_wire::TlvWriter::new(&mut buffer);
        if reported {
            assert!(writer.push(&Parameter::Ipv4Address(named)));
        }
        let theirs = Init { parameters: Parameters::new(writer.finish()), ..init(Tsn(1)) };
        let tag = VerificationTag(0);
        let mut sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&theirs)));
        sent.source = "203.0.113.5:9899".parse().unwrap();
        pair.deliver(&sent);
        let answers: Vec<_> = pair.wire.drain(..).collect();
        let to_named: Vec<_> = answers.iter().filter(|sent| sent.destination == address(SERVER, 0)).collect();
        assert_eq!(to_named.len(), usize::from(reported));
        assert_eq!(to_named.first().map(|sent| sent.kinds()), reported.then(|| vec![kind::INIT_ACK]));
        assert_eq!(pair.state(CLIENT, client), "COOKIE-WAIT");
    }
}

/// T1-init and T1-cookie try the next address of the peer, and double.
#[test]
fn section_5_1_t1_tries_every_address_and_backs_off() {
    for lost in [kind::INIT, kind::COOKIE_ECHO] {
        let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
        let remotes = vec![address(SERVER, 0), address(SERVER, 1)];
        let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
        let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
        let mut times = Vec::new();
        while pair.state(CLIENT, client) != "CLOSED" {
            let from = pair.log.len();
            pair.pass_dropping(Duration::from_millis(100), has(lost));
            let sent = pair.log[from..].iter().filter(|sent| has(lost)(sent));
            times.extend(sent.map(|sent| (pair.now, sent.destination)));
            assert!(times.len() < 20);
        }
        assert_eq!(times.len(), 9, "Max.Init.Retransmits is 8");
        assert!(times.windows(2).all(|two| two[0].1 != two[1].1), "each on the other address");
        let seconds: Vec<_> =
            times.windows(2).map(|two| two[1].0.since(two[0].0).as_secs_f32().round()).collect();
        // Each path has its own RTO. That of the path on which the INIT ACK arrived is known (decision 56).
        let expected = match lost {
            kind::INIT => [1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0, 8.0],
            _ => [0.0, 1.0, 1.0, 2.0, 2.0, 4.0, 4.0, 8.0],
        };
        assert_eq!(seconds, expected, "{lost}");
        assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    }
}

/// Section 5.1.5 steps 1 to 7 for a listener: nothing before a valid cookie, COOKIE ACK first, DATA acknowledged at
/// once in the same packet.
#[test]
fn section_5_1_5_cookie_ack_precedes_data_acknowledgement() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"with the cookie");
    pair.run();
    assert_eq!(pair.kinds()[2..4], [vec![kind::COOKIE_ECHO, kind::DATA], vec![kind::COOKIE_ACK, kind::SACK]]);
}

/// Section 5.1.5 step 1: without its key the cookie counts as forged.
#[test]
fn section_5_1_5_cookie_survives_one_key_change_only() {
    let short =
        |config: EndpointConfig| EndpointConfig { cookie_key_lifetime: Duration::from_secs(70), ..config };
    for changes in [1, 2] {
        let mut pair = Pair::with(config(1, CLIENT), short(config(1, SERVER)));
        let ask = |pair: &mut Pair| {
            let init = init(Tsn(1));
            let ports = (RAW_PORT, PORT);
            let sent = pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
            pair.deliver(&sent);
            init_ack(&pair.wire.pop_front().unwrap())
        };
        pair.now += Duration::from_secs(60);
        let (tag, _, sealed) = ask(&mut pair);
        for _ in 0..changes {
            // The next INIT after the key is due replaces it.
            pair.now += Duration::from_secs(if changes == 1 { 20 } else { 75 });
            ask(&mut pair);
        }
        let echo = CookieEcho { cookie: &sealed };
        let sent = pair.forge(CLIENT, (RAW_PORT, PORT), tag, |packet| assert!(packet.push(&echo)));
        pair.deliver(&sent);
        let answer = pair.wire.pop_front().map(|sent| sent.kinds());
        assert_eq!(answer, (changes == 1).then(|| vec![kind::COOKIE_ACK]));
    }
}

/// Section 5.4: which addresses are confirmed at once on either side, and which only by their nonce.
#[test]
fn section_5_4_which_addresses_are_confirmed() {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let client = pair.connect();
    // Only HEARTBEATs are lost, so that they confirm no address.
    pair.pass_dropping(Duration::from_millis(10), has(kind::HEARTBEAT));
    let server = pair.accepted();
    for (host, id) in [(CLIENT, client), (SERVER, server)] {
        let paths = pair.hosts[host].endpoint.paths(id).unwrap();
        let states: Vec<_> = paths.iter().map(|path| path.state).collect();
        assert_eq!(states, [Reachability::Active, Reachability::Unconfirmed], "{host}");
        // An unconfirmed address cannot become the primary path.
        let refused = pair.hosts[host].endpoint.set_primary(pair.now, id, address(1 - host, 1).ip());
        assert_eq!(refused, Err(crate::error::PathError::Unconfirmed));
    }
    // Rule 1: an address that the application names is confirmed from the start.
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let remotes = vec![address(SERVER, 0), address(SERVER, 1)];
    let request = Connect { local_port: 5000, peer_port: PORT, remotes, local: Vec::new(), config: None };
    let client = pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap();
    pair.pass_dropping(Duration::from_millis(10), has(kind::HEARTBEAT));
    let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    assert!(paths.iter().all(|path| path.state == Reachability::Active));
}

/// Section 5.4: one probe per RTO until Path.Max.Retrans is exceeded, and none after that. The association's error
/// count does not change.
#[test]
fn section_5_4_silent_address_costs_only_probes() {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let client = pair.connect();
    let dead = |sent: &Sent| sent.destination.ip() == address(SERVER, 1).ip();
    pair.pass_dropping(Duration::from_secs(600), dead);
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().error_count, 0);
    let probes = pair.log.iter().filter(|sent| dead(sent) && has(kind::HEARTBEAT)(sent)).count();
    assert_eq!(probes, 6);
    let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    assert_eq!(paths[1].state, Reachability::Unconfirmed);
}
