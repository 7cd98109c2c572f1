//! Cookies: forged, truncated, repeated, stale, oversized; and set-ups that never end.

use strandline_wire::chunk::{CookieEcho, Error, Init};
use strandline_wire::number::Tsn;
use strandline_wire::parameter::Parameters;
use strandline_wire::{Causes, CookieAck};

use super::super::raw::*;
use super::super::*;

/// Returns a cookie of the server and its tag.
fn cookie(pair: &mut Pair) -> (VerificationTag, Vec<u8>) {
    let init = init(Tsn(1));
    let ports = (RAW_PORT, PORT);
    let sent = pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&init)));
    pair.deliver(&sent);
    let (tag, _, cookie) = init_ack(&pair.wire.pop_front().unwrap());
    (tag, cookie)
}

fn echo(pair: &mut Pair, tag: VerificationTag, cookie: &[u8]) -> Vec<Sent> {
    let ports = (RAW_PORT, PORT);
    let sent = pair.forge(CLIENT, ports, tag, |packet| assert!(packet.push(&CookieEcho { cookie })));
    pair.deliver(&sent);
    pair.wire.drain(..).collect()
}

#[test]
fn a_cookie_cut_lengthened_or_altered_is_forged() {
    let mut pair = Pair::new();
    let (tag, cookie) = cookie(&mut pair);
    for len in 0..cookie.len() {
        assert!(echo(&mut pair, tag, &cookie[..len]).is_empty());
    }
    for more in [1, 4, 17, 1000, 4000 - cookie.len()] {
        let mut longer = cookie.clone();
        longer.resize(cookie.len() + more, 0);
        assert!(echo(&mut pair, tag, &longer).is_empty());
    }
    for at in 0..cookie.len() {
        let mut altered = cookie.clone();
        altered[at] = altered[at].wrapping_add(1);
        assert!(echo(&mut pair, tag, &altered).is_empty());
    }
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_forged as usize, 2 * cookie.len() + 5);
    assert_eq!(echo(&mut pair, tag, &cookie).len(), 1, "the right one is still good");
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
}

/// Two endpoints with the same seed and the same input create the same cookie: it contains only values of the
/// protocol, and no memory address of this process, for example.
#[test]
fn a_cookie_holds_nothing_of_this_process() {
    let (first, second) = (cookie(&mut Pair::new()), cookie(&mut Pair::new()));
    assert_eq!(first, second);
}

#[test]
fn a_repeated_cookie_echo_changes_no_state() {
    // The peer's last cookie again, in each state that the association may have meanwhile.
    let states: [(&str, fn(&mut Pair, AssociationId, AssociationId)); 5] = [
        ("ESTABLISHED", |_, _, _| ()),
        ("SHUTDOWN-PENDING", |pair, _, server| {
            pair.send(SERVER, server, 0, b"not acknowledged");
            pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap();
        }),
        ("SHUTDOWN-SENT", |pair, _, server| pair.hosts[SERVER].endpoint.shutdown(pair.now, server).unwrap()),
        ("SHUTDOWN-RECEIVED", |pair, client, server| {
            pair.send(SERVER, server, 0, b"not acknowledged");
            pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
            pair.run_dropping(|sent| !has(kind::SHUTDOWN)(sent));
        }),
        ("SHUTDOWN-ACK-SENT", |pair, client, _| {
            pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
            pair.run_dropping(has(kind::SHUTDOWN_COMPLETE));
        }),
    ];
    for (state, go) in states {
        let mut pair = Pair::new();
        let client = pair.connect();
        pair.run();
        let repeated = pair.log.iter().find(|sent| has(kind::COOKIE_ECHO)(sent)).unwrap().clone();
        let server = pair.accepted();
        go(&mut pair, client, server);
        pair.collect();
        pair.wire.clear();
        assert_eq!(pair.state(SERVER, server), state);
        let before = pair.hosts[SERVER].endpoint.status(server).unwrap();
        for _ in 0..3 {
            pair.deliver(&repeated);
            let answers: Vec<_> = pair.wire.drain(..).collect();
            assert_eq!(answers[0].kinds()[0], kind::COOKIE_ACK, "{state}");
            assert_eq!(answers.len(), 1, "{state}");
        }
        let after = pair.hosts[SERVER].endpoint.status(server).unwrap();
        assert_eq!(
            (after.local_tag, after.peer_tag, after.state.name()),
            (before.local_tag, before.peer_tag, state)
        );
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
        assert_eq!(pair.hosts[SERVER].endpoint.stats().established, 1);
        assert_eq!(pair.hosts[SERVER].endpoint.stats().restarts, 0);
    }
}

/// DATA on a repeated COOKIE ECHO is a duplicate like any other.
#[test]
fn data_on_repeated_cookie_echo_arrives_once() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"early");
    pair.run();
    let server = pair.accepted();
    let repeated = pair.log.iter().find(|sent| has(kind::COOKIE_ECHO)(sent)).unwrap().clone();
    for _ in 0..3 {
        pair.deliver(&repeated);
    }
    let told = sacks(&pair.wire.drain(..).collect::<Vec<_>>());
    assert_eq!(told.len(), 3);
    assert!(told.iter().all(|sack| sack.duplicates.len() == 1));
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "early");
    assert_eq!(pair.recv(SERVER, server), None);
}

/// A COOKIE ECHO that somebody has seen and repeats without end is no amplifier: DATA goes at most twice as
/// often as RFC 9260 sends it to a silent peer, and the association ends as with one.
#[test]
fn repeated_cookie_echoes_are_no_amplifier() {
    for round_trip_ms in [0, 20] {
        let mut pair = Pair::new();
        let (tag, cookie) = cookie(&mut pair);
        pair.now += Duration::from_millis(round_trip_ms);
        assert_eq!(echo(&mut pair, tag, &cookie)[0].kinds(), [kind::COOKIE_ACK]);
        let server = pair.accepted();
        pair.hosts[SERVER].events.clear();
        pair.send(SERVER, server, 0, &[7; 1000]);
        let begin = pair.now;
        let mut times = Vec::new();
        let mut from = pair.log.len();
        while pair.closed(SERVER).is_none() {
            pair.pass_dropping(Duration::from_millis(10), |_| true);
            if pair.now.since(begin) > Duration::from_secs(1) {
                echo(&mut pair, tag, &cookie);
            }
            let data = pair.log[from..].iter().filter(|sent| has(kind::DATA)(sent)).count();
            times.extend(core::iter::repeat_n(pair.now.since(begin), data));
            from = pair.log.len();
            assert!(pair.now.since(begin) < Duration::from_secs(2000), "T3-rtx never ends");
        }
        assert_eq!(pair.closed(SERVER), Some(&CloseReason::TimedOut));
        // RFC 9260 sends six packets in the first minute, and one a minute in the end.
        let within = |from: Duration| times.iter().filter(|at| **at >= from && **at < from + MINUTE).count();
        assert!(within(Duration::ZERO) <= 12, "{times:?}");
        for minute in 2..9 {
            assert!(within(minute * MINUTE) <= 4, "{times:?}");
        }
    }
}

/// A peer that lost the COOKIE ACK, and discards DATA until it has one, gets both at its next COOKIE ECHO: data that
/// timed out waits for no back-off.
#[test]
fn late_cookie_ack_brings_what_timed_out() {
    for round_trip_ms in [0, 20] {
        let mut pair = Pair::new();
        let (tag, cookie) = cookie(&mut pair);
        pair.now += Duration::from_millis(round_trip_ms);
        echo(&mut pair, tag, &cookie);
        let server = pair.accepted();
        pair.send(SERVER, server, 0, &[7; 1000]);
        // T1-cookie of the peer is longer than T3-rtx.
        pair.pass_dropping(Duration::from_millis(1500), |_| true);
        assert_eq!(pair.hosts[SERVER].endpoint.status(server).unwrap().stats.timeouts, 1);
        assert_eq!(echo(&mut pair, tag, &cookie)[0].kinds(), [kind::COOKIE_ACK, kind::DATA]);
    }
}

const MINUTE: Duration = Duration::from_secs(60);

/// When the INITs of both sides meet, a peer may send two COOKIE ECHOs for its one INIT.
#[test]
fn second_cookie_of_one_init_is_spent() {
    let mut pair = Pair::new();
    let (first_tag, first) = cookie(&mut pair);
    let (second_tag, second) = cookie(&mut pair);
    assert_ne!(first_tag, second_tag);
    assert_eq!(echo(&mut pair, first_tag, &first)[0].kinds(), [kind::COOKIE_ACK]);
    let server = pair.accepted();
    pair.hosts[SERVER].endpoint.abort(pair.now, server, "".into()).unwrap();
    pair.hosts[SERVER].endpoint.release(server);
    pair.wire.clear();
    assert_eq!(echo(&mut pair, second_tag, &second)[0].kinds(), [kind::ABORT]);
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_spent, 1);
}

/// After a restart and the end of the association, the cookie of the first association must not create a third.
#[test]
fn cookie_before_a_restart_is_spent() {
    let mut raw = Raw::new();
    let first = raw.pair.log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap().clone();
    let (first_tag, _, first_cookie) = init_ack(&first);
    // The peer comes back with another tag.
    let again = Init { initiate_tag: VerificationTag(77), ..init(Tsn(5)) };
    let ports = (RAW_PORT, PORT);
    let sent = raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&again)));
    raw.pair.deliver(&sent);
    let (tag, _, second_cookie) = init_ack(&raw.heard()[0]);
    assert_eq!(echo(&mut raw.pair, tag, &second_cookie)[0].kinds(), [kind::COOKIE_ACK]);
    assert_eq!(raw.server().stats().restarts, 1);
    let server = raw.server;
    raw.pair.hosts[SERVER].endpoint.abort(raw.pair.now, server, "".into()).unwrap();
    raw.pair.hosts[SERVER].endpoint.release(server);
    raw.heard();
    for (tag, cookie) in [(first_tag, &first_cookie), (tag, &second_cookie)] {
        assert_eq!(echo(&mut raw.pair, tag, cookie)[0].kinds(), [kind::ABORT]);
        assert_eq!(raw.server().association_count(), 0);
    }
    assert_eq!(raw.server().stats().cookies_spent, 2);
}

/// Data behind the COOKIE ECHO of the restart ends the association at once, and nobody holds it: its first cookie is
/// spent as well.
#[test]
fn cookie_before_a_short_restart_is_spent() {
    let mut raw = Raw::new();
    let first = raw.pair.log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap().clone();
    let (first_tag, _, first_cookie) = init_ack(&first);
    let again = Init { initiate_tag: VerificationTag(77), ..init(Tsn(5)) };
    let ports = (RAW_PORT, PORT);
    let sent = raw.pair.forge(CLIENT, ports, VerificationTag(0), |packet| assert!(packet.push(&again)));
    raw.pair.deliver(&sent);
    let (tag, _, cookie) = init_ack(&raw.heard()[0]);
    let server = raw.server;
    raw.pair.hosts[SERVER].endpoint.release(server);
    let empty = whole(Tsn(5), 0, b"");
    let sent = raw.pair.forge(CLIENT, ports, tag, |packet| {
        assert!(packet.push(&CookieEcho { cookie: &cookie }) && packet.push(&empty));
    });
    raw.pair.deliver(&sent);
    raw.heard();
    assert_eq!((raw.server().stats().restarts, raw.server().association_count()), (1, 0));
    assert_eq!(echo(&mut raw.pair, first_tag, &first_cookie)[0].kinds(), [kind::ABORT]);
    assert_eq!(raw.server().association_count(), 0);
}

/// As after a restart alone, if the first INIT has a second cookie, whose tag never had an association.
#[test]
fn second_cookie_from_before_a_restart_is_spent() {
    let mut pair = Pair::new();
    let (first_tag, first) = cookie(&mut pair);
    let (second_tag, second) = cookie(&mut pair);
    assert_eq!(echo(&mut pair, first_tag, &first)[0].kinds(), [kind::COOKIE_ACK]);
    let again = Init { initiate_tag: VerificationTag(77), ..init(Tsn(5)) };
    let sent =
        pair.forge(CLIENT, (RAW_PORT, PORT), VerificationTag(0), |packet| assert!(packet.push(&again)));
    pair.deliver(&sent);
    let (tag, _, restarting) = init_ack(&pair.wire.pop_front().unwrap());
    assert_eq!(echo(&mut pair, tag, &restarting)[0].kinds(), [kind::COOKIE_ACK]);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().restarts, 1);
    let server = pair.accepted();
    pair.hosts[SERVER].endpoint.abort(pair.now, server, "".into()).unwrap();
    pair.hosts[SERVER].endpoint.release(server);
    pair.wire.clear();
    assert_eq!(echo(&mut pair, second_tag, &second)[0].kinds(), [kind::ABORT]);
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_spent, 1);
}

/// Returns the client in COOKIE-ECHOED, with a hand-made server.
fn cookie_echoed() -> (Pair, AssociationId, VerificationTag) {
    let mut pair = Pair::new();
    let client = pair.connect();
    let good = forge_good_init_ack(&mut pair);
    pair.deliver(&good);
    assert_eq!(pair.wire.pop_front().unwrap().kinds(), [kind::COOKIE_ECHO]);
    (pair, client, good.tag())
}

const STALE: [u8; 8] = [0, 3, 0, 8, 0, 0, 0, 1];

/// A server whose cookies are always stale already.
#[test]
fn stale_cookies_are_renewed_three_times() {
    let (mut pair, client, tag) = cookie_echoed();
    let stale = Error { causes: Causes::new(&STALE) };
    let mut inits = 0;
    for _ in 0..20 {
        let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&stale)));
        pair.deliver(&sent);
        if pair.state(CLIENT, client) == "CLOSED" {
            break;
        }
        inits += pair.wire.iter().filter(|sent| has(kind::INIT)(sent)).count();
        let parameters = [0, 7, 0, 8, 1, 2, 3, 4];
        let ack = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
        answer_init(&mut pair, ack);
    }
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    assert_eq!(inits, 3);
}

#[test]
fn stale_cookie_error_after_set_up_is_ignored() {
    let (mut pair, client, tag) = cookie_echoed();
    let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&CookieAck)));
    pair.deliver(&sent);
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    let stale = Error { causes: Causes::new(&STALE) };
    let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&stale)));
    pair.deliver(&sent);
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    assert!(pair.wire.is_empty());
}

#[test]
fn many_stale_causes_in_one_packet_are_one() {
    let (mut pair, client, tag) = cookie_echoed();
    let causes = [STALE; 100].concat();
    let stale = Error { causes: Causes::new(&causes) };
    let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&stale)));
    pair.deliver(&sent);
    assert_eq!(pair.state(CLIENT, client), "COOKIE-WAIT");
    assert_eq!(pair.wire.len(), 1);
}

/// A cookie too large for any packet of ours: the set-up fails in time instead of waiting for ever.
#[test]
fn oversized_cookie_ends_the_set_up() {
    let mut pair = Pair::new();
    let client = pair.connect();
    let mut parameters = vec![0, 7];
    parameters.extend_from_slice(&3000u16.to_be_bytes());
    parameters.resize(3000, 0xcc);
    let ack = Init { parameters: Parameters::new(&parameters), ..init(Tsn(1)) };
    let good = forge_init_ack(&mut pair, ack);
    let datagram = Datagram { source: good.source, destination: None, bytes: &good.bytes, ecn: 0 };
    let endpoint = &mut pair.hosts[CLIENT].endpoint;
    endpoint.handle_datagram(pair.now, datagram);
    // The smallest buffer that a driver may use.
    let mut buffer = [0; 2048];
    for _ in 0..1000 {
        while endpoint.poll_transmit(pair.now, &mut buffer, 1).is_some() {}
        let Some(next) = endpoint.poll_timeout() else { break };
        pair.now = pair.now.max(next);
        endpoint.handle_timeout(pair.now);
    }
    assert_eq!(endpoint.poll_timeout(), None);
    assert_eq!(pair.state(CLIENT, client), "CLOSED");
}

/// Data and other chunks before the set-up is complete have no effect.
#[test]
fn premature_chunks_do_not_advance_the_set_up() {
    let others = [kind::ABORT, kind::COOKIE_ECHO, kind::INIT_ACK];
    for number in (0..=15).filter(|number| !others.contains(number)) {
        for value in [&[][..], &[0; 4], &[1; 16], &[0, 3, 0, 8, 0, 0, 0, 1]] {
            let mut pair = Pair::new();
            let client = pair.connect();
            pair.send(CLIENT, client, 0, b"waits");
            let tag = client_tag(&mut pair);
            let chunk = AnyChunk { kind: number, flags: 0, value };
            let sent = pair.forge(SERVER, (PORT, 5000), tag, |packet| assert!(packet.push(&chunk)));
            pair.deliver(&sent);
            assert_eq!(pair.state(CLIENT, client), "COOKIE-WAIT", "{number} {value:?}");
            pair.wire.clear();
            // The set-up continues.
            pair.pass(Duration::from_secs(3));
            assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "{number} {value:?}");
            let server = pair.accepted();
            assert_eq!(pair.recv(SERVER, server).unwrap().data, "waits");
        }
    }
}

/// Cookies are stateless, so a tag in one may be given to another association meanwhile.
#[test]
fn cookie_with_a_foreign_tag_touches_nobody() {
    use crate::association::cookie::Cookie;
    let (mut pair, client, server) = Pair::established();
    let status = pair.hosts[SERVER].endpoint.status(server).unwrap();
    let other: core::net::SocketAddr = "198.51.100.7:9899".parse().unwrap();
    let sealed = pair.hosts[SERVER].endpoint.context.cookies.seal(&Cookie {
        created: pair.now,
        lifetime_ms: 60_000,
        local_tag: status.local_tag,
        peer_tag: VerificationTag(99),
        local_tie_tag: 0,
        peer_tie_tag: 0,
        local_port: PORT,
        peer_port: RAW_PORT,
        local_initial_tsn: Tsn(1),
        peer_initial_tsn: Tsn(1),
        peer_rwnd: 65_536,
        outbound_streams: 1,
        inbound_streams: 1,
        features: crate::association::features::Features::default(),
        adaptation: None,
        auth: None,
        source: other,
        destination: None,
        addresses: Vec::new(),
        primary: None,
        named: Vec::new(),
    });
    let mut sent = pair.forge(CLIENT, (RAW_PORT, PORT), status.local_tag, |packet| {
        assert!(packet.push(&CookieEcho { cookie: &sealed }));
    });
    sent.source = other;
    pair.deliver(&sent);
    assert_eq!(pair.wire.drain(..).map(|sent| sent.kinds()).collect::<Vec<_>>(), [[kind::ABORT]]);
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
    assert_eq!(pair.hosts[SERVER].endpoint.status(server).unwrap().peer_tag, status.peer_tag);
    pair.send(SERVER, server, 0, b"still there");
    pair.run();
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "still there");
}
