//! RFC 9260 sections 5.1 to 5.2.6.

use strandline_wire::Data;
use strandline_wire::chunk::{Chunk, CookieEcho, Init};
use strandline_wire::number::{Ssn, Tsn};
use strandline_wire::parameter::{Parameter, Parameters};

use super::raw::forge_good_init_ack;
use super::*;

#[test]
fn the_handshake_is_four_packets() {
    let (pair, client, server) = Pair::established();
    assert_eq!(pair.kinds()[..4], SETUP.map(|kind| vec![kind]));
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    assert_eq!(pair.state(SERVER, server), "ESTABLISHED");
    assert_eq!(pair.log[0].tag(), VerificationTag(0));
}

#[test]
fn data_given_before_rides_on_the_cookie_echo() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"early");
    pair.run();
    assert_eq!(pair.kinds()[2], [kind::COOKIE_ECHO, kind::DATA]);
    assert_eq!(pair.kinds()[3], [kind::COOKIE_ACK, kind::SACK]);
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "early");
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().send_buffered, 0);
}

#[test]
fn an_init_leaves_no_state() {
    let mut pair = Pair::new();
    for number in 0..1000u16 {
        let init = init(u32::from(number) + 1, 65_536, 1, 1);
        let sent = pair.forge(CLIENT, (number + 1, PORT), VerificationTag(0), |packet| {
            assert!(packet.push(&init));
        });
        pair.deliver(&sent);
    }
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().inits, 1000);
    assert!(pair.hosts[SERVER].endpoint.poll_timeout().is_none());
}

fn init(tag: u32, a_rwnd: u32, outbound_streams: u16, inbound_streams: u16) -> Init<'static> {
    Init {
        initiate_tag: VerificationTag(tag),
        a_rwnd,
        outbound_streams,
        inbound_streams,
        initial_tsn: Tsn(1),
        parameters: Parameters::new(&[]),
    }
}

#[test]
fn init_with_invalid_values_is_refused() {
    for (tag, a_rwnd, outbound, inbound, answer) in [
        (5, 65_536, 1, 1, Some(kind::INIT_ACK)),
        (0, 65_536, 1, 1, None),
        (5, 1499, 1, 1, Some(kind::ABORT)),
        (5, 65_536, 0, 1, Some(kind::ABORT)),
        (5, 65_536, 1, 0, Some(kind::ABORT)),
    ] {
        let mut pair = Pair::new();
        let init = init(tag, a_rwnd, outbound, inbound);
        let sent = pair.forge(CLIENT, (9, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
        pair.deliver(&sent);
        assert_eq!(pair.wire.pop_front().map(|sent| sent.kinds()[0]), answer, "{tag} {a_rwnd}");
    }
}

#[test]
fn an_init_bundled_with_anything_is_dropped() {
    let mut pair = Pair::new();
    let init = init(5, 65_536, 1, 1);
    let sent = pair.forge(CLIENT, (9, PORT), VerificationTag(0), |packet| {
        assert!(packet.push(&init));
        assert!(packet.push(&strandline_wire::chunk::CookieAck));
    });
    pair.deliver(&sent);
    assert!(pair.wire.is_empty());
}

#[test]
fn streams_are_the_smaller_of_both_limits() {
    let ask = |outbound, inbound| {
        let association = AssociationConfig {
            outbound_streams: outbound,
            inbound_streams_max: inbound,
            ..AssociationConfig::default()
        };
        Arc::new(association)
    };
    let client = EndpointConfig { association: ask(10, 20), ..config(1, CLIENT) };
    let server = EndpointConfig { association: ask(30, 5), ..config(1, SERVER) };
    let (pair, client, server) = Pair::with(client, server).establish();
    let here = pair.hosts[CLIENT].endpoint.status(client).unwrap();
    let there = pair.hosts[SERVER].endpoint.status(server).unwrap();
    assert_eq!((here.outbound_streams, here.inbound_streams), (5, 20));
    assert_eq!((there.outbound_streams, there.inbound_streams), (20, 5));
}

#[test]
fn each_lost_handshake_packet_is_recovered() {
    for lost in SETUP {
        let mut pair = Pair::new();
        let client = pair.connect();
        pair.send(CLIENT, client, 0, b"early");
        let mut first = true;
        pair.pass_dropping(Duration::from_secs(5), |sent| has(lost)(sent) && core::mem::take(&mut first));
        assert_eq!(pair.state(CLIENT, client), "ESTABLISHED", "chunk {lost} lost");
        let server = pair.accepted();
        assert_eq!(pair.recv(SERVER, server).unwrap().data, "early");
        assert_eq!(pair.recv(SERVER, server), None);
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
    }
}

#[test]
fn unanswered_init_ends_after_max_init_retransmits() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"early");
    pair.pass_dropping(Duration::from_secs(1000), |_| true);
    let inits = pair.log.iter().filter(|sent| has(kind::INIT)(sent)).count();
    assert_eq!(inits, 1 + 8);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    let failed =
        |event: &Event| matches!(event, Event::SendFailed(failed) if failed.data == "early" && !failed.sent);
    assert!(pair.hosts[CLIENT].events.iter().any(|(_, event)| failed(event)));
}

#[test]
fn both_sides_at_once_make_one_association() {
    let mut pair = Pair::new();
    let connect = |pair: &mut Pair, host: usize| {
        let remotes = vec![address(1 - host, 0)];
        let request = Connect { local_port: PORT, peer_port: PORT, remotes, local: Vec::new(), config: None };
        pair.hosts[host].endpoint.connect(pair.now, request).unwrap()
    };
    let left = connect(&mut pair, CLIENT);
    let right = connect(&mut pair, SERVER);
    pair.send(CLIENT, left, 0, b"from left");
    pair.send(SERVER, right, 0, b"from right");
    pair.pass(Duration::from_secs(5));
    for host in [CLIENT, SERVER] {
        assert_eq!(pair.hosts[host].endpoint.association_count(), 1);
    }
    assert_eq!(pair.state(CLIENT, left), "ESTABLISHED");
    assert_eq!(pair.state(SERVER, right), "ESTABLISHED");
    assert_eq!(pair.recv(SERVER, right).unwrap().data, "from left");
    assert_eq!(pair.recv(CLIENT, left).unwrap().data, "from right");
    assert_eq!(pair.recv(CLIENT, left), None);
}

#[test]
fn collision_survives_one_lost_init() {
    let mut pair = Pair::new();
    for host in [CLIENT, SERVER] {
        let remotes = vec![address(1 - host, 0)];
        let request = Connect { local_port: PORT, peer_port: PORT, remotes, local: Vec::new(), config: None };
        pair.hosts[host].endpoint.connect(pair.now, request).unwrap();
    }
    let mut inits = 0;
    pair.pass_dropping(Duration::from_secs(20), |sent| {
        inits += usize::from(has(kind::INIT)(sent));
        has(kind::INIT)(sent) && inits == 1
    });
    for host in [CLIENT, SERVER] {
        assert_eq!(pair.hosts[host].endpoint.association_count(), 1);
        let id = pair.hosts[host].events[0].0;
        assert_eq!(pair.state(host, id), "ESTABLISHED");
    }
}

#[test]
fn expired_cookie_is_stale_and_renewed() {
    let mut pair = Pair::configured(|config| config.cookie_lifetime = Duration::from_millis(100));
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"early");
    // Hold the first COOKIE ECHO back until it is stale.
    pair.run_to(kind::COOKIE_ECHO);
    pair.now += Duration::from_millis(300);
    pair.run();
    assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_stale, 1);
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    let second = pair.log.iter().filter(|sent| has(kind::INIT)(sent)).nth(1).unwrap();
    let packet = Packet::parse(&second.bytes).unwrap();
    let Ok(Chunk::Init(init)) = packet.chunks().next().unwrap().unwrap().parse() else { panic!("no INIT") };
    let asks = |raw: Result<strandline_wire::parameter::RawParameter<'_>, _>| matches!(raw.unwrap().parse(), Ok(Parameter::CookiePreservative { increment_ms }) if increment_ms >= 300);
    assert!(init.parameters.iter().any(asks));
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "early");
}

/// Data went with a COOKIE ECHO. The association that it created there is gone, all answers were lost, and the
/// repeated COOKIE ECHO is stale. A new set-up would deliver the data twice.
#[test]
fn data_of_an_earlier_cookie_is_not_repeated() {
    let mut pair = Pair::configured(|config| config.cookie_lifetime = Duration::from_millis(100));
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"early");
    pair.collect();
    while !pair.wire.front().is_some_and(has(kind::COOKIE_ECHO)) {
        let sent = pair.wire.pop_front().unwrap();
        pair.deliver(&sent);
    }
    let first = pair.wire.pop_front().unwrap();
    pair.deliver(&first);
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "early");
    pair.hosts[SERVER].endpoint.abort(pair.now, server, bytes::Bytes::new()).unwrap();
    pair.collect();
    pair.wire.clear();
    pair.pass(Duration::from_secs(4));
    pair.run();
    assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_stale, 1);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    let failed =
        pair.hosts[CLIENT].events.iter().filter(|(_, event)| matches!(event, Event::SendFailed { .. }));
    assert_eq!(failed.count(), 1, "the application hears that it may have arrived");
}

/// A listener sends no DATA before it has accepted the cookie.
#[test]
fn data_stands_for_a_lost_cookie_ack() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"request");
    pair.pass_dropping(Duration::ZERO, has(kind::COOKIE_ACK));
    assert_eq!(pair.state(CLIENT, client), "COOKIE-ECHOED");
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "request");
    pair.send(SERVER, server, 0, b"answer");
    pair.run();
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "answer");
    // The SACK for the request was lost, too. No COOKIE ECHO is sent again.
    let before = pair.log.len();
    pair.pass(Duration::from_secs(2));
    let later: Vec<Vec<u8>> = pair.log[before..].iter().map(Sent::kinds).collect();
    assert!(later.iter().flatten().all(|kind| [kind::DATA, kind::SACK].contains(kind)), "{later:?}");
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().send_buffered, 0);
    assert_eq!(pair.recv(SERVER, server), None);
}

/// DATA that the peer can't have sent for this cookie: of a TSN far from its first one, or before any COOKIE ECHO.
#[test]
fn other_data_is_no_cookie_ack() {
    for (tsn, echoed, state) in [
        (Tsn(1) + 65_535, true, "ESTABLISHED"),
        (Tsn(1) + 65_536, true, "COOKIE-ECHOED"),
        (Tsn(1).previous(), true, "COOKIE-ECHOED"),
        (Tsn(1), false, "COOKIE-ECHOED"),
    ] {
        let mut pair = Pair::new();
        let client = pair.connect();
        let init_ack = forge_good_init_ack(&mut pair);
        let data = Data::whole(tsn, StreamId(0), Ssn(0), b"x");
        let data = pair.forge(SERVER, (PORT, 5000), init_ack.tag(), |packet| assert!(packet.push(&data)));
        let now = pair.now;
        for sent in [init_ack, data] {
            let destination = Some(sent.destination.ip());
            let datagram = Datagram { source: sent.source, destination, bytes: &sent.bytes, ecn: 0 };
            pair.hosts[CLIENT].endpoint.handle_datagram(now, datagram);
            if echoed {
                pair.collect();
            }
        }
        assert_eq!(pair.state(CLIENT, client), state, "{tsn} {echoed}");
    }
}

/// The listener's COOKIE ACKs are lost while it has data, which its peer discards until one arrives: T3-rtx is backed
/// off far then.
#[test]
fn data_before_the_cookie_ack_is_repeated() {
    let mut pair = Pair::configured(|config| {
        (config.rto_min, config.to_the_letter) = (Duration::from_millis(100), true);
    });
    let client = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    let echo = pair.wire.front().unwrap().clone();
    pair.pass_dropping(Duration::ZERO, has(kind::COOKIE_ACK));
    let server = pair.accepted();
    pair.send(SERVER, server, 0, b"answer");
    pair.pass_dropping(Duration::from_secs(7), |sent| {
        has(kind::COOKIE_ACK)(sent) || sent.source == echo.source
    });
    assert!(pair.log.iter().filter(|sent| has(kind::DATA)(sent)).count() >= 3, "some time-outs");
    assert_eq!(pair.recv(CLIENT, client), None);
    // One finally arrives.
    pair.deliver(&echo);
    pair.run();
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "answer");
    assert_eq!(pair.recv(CLIENT, client), None);
}

#[test]
fn forged_replayed_and_misdirected_cookies_make_nothing() {
    let mut pair = Pair::new();
    let _ = pair.connect();
    pair.run();
    let echo = pair.log.iter().find(|sent| has(kind::COOKIE_ECHO)(sent)).unwrap().clone();
    // A replayed one is a duplicate for the existing association. It is acknowledged, without other effects.
    pair.deliver(&echo);
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
    assert_eq!(pair.wire.pop_front().unwrap().kinds(), [kind::COOKIE_ACK]);
    let packet = Packet::parse(&echo.bytes).unwrap();
    let Ok(Chunk::CookieEcho(CookieEcho { cookie })) = packet.chunks().next().unwrap().unwrap().parse()
    else {
        panic!("no COOKIE ECHO")
    };
    // With other ports or another tag than it was made for.
    for (ports, tag) in [((5001, PORT), echo.tag()), ((5000, PORT), VerificationTag(echo.tag().0 ^ 1))] {
        let sent = pair.forge(CLIENT, ports, tag, |packet| assert!(packet.push(&CookieEcho { cookie })));
        pair.deliver(&sent);
        assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
    }
    // Altered.
    let mut altered = cookie.to_vec();
    altered[20] ^= 1;
    let sent = pair.forge(CLIENT, (5000, PORT), echo.tag(), |packet| {
        assert!(packet.push(&CookieEcho { cookie: &altered }));
    });
    pair.deliver(&sent);
    assert!(pair.wire.is_empty());
    assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_forged, 3);
}

#[test]
fn cookie_echo_after_the_end_opens_nothing() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, b"once");
    pair.run();
    let echo = pair.log.iter().find(|sent| has(kind::COOKIE_ECHO)(sent)).unwrap().clone();
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, "once");
    pair.hosts[CLIENT].endpoint.abort(pair.now, client, "".into()).unwrap();
    pair.run();
    pair.hosts[SERVER].endpoint.release(server);
    pair.deliver(&echo);
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 0);
    assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_spent, 1);
}

#[test]
fn unexpected_init_ack_and_cookie_ack_are_dropped() {
    let (mut pair, client, _) = Pair::established();
    let ack = pair.log.iter().find(|sent| has(kind::INIT_ACK)(sent)).unwrap().clone();
    let cookie_ack = pair.log.iter().find(|sent| has(kind::COOKIE_ACK)(sent)).unwrap().clone();
    pair.deliver(&ack);
    pair.deliver(&cookie_ack);
    assert!(pair.wire.is_empty());
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
}

#[test]
fn unrecognised_parameters_follow_their_high_bits() {
    for (kind, reported) in [(0x3fff_u16, false), (0x7fff, true), (0xbfff, false), (0xffff, true)] {
        let [high, low] = kind.to_be_bytes();
        let unknown = [high, low, 0, 8, 1, 2, 3, 4];
        let parameters = Parameters::new(&unknown);
        let init = Init { parameters, ..init(77, 65_536, 1, 1) };
        let mut pair = Pair::new();
        let sent = pair.forge(CLIENT, (9, PORT), VerificationTag(0), |packet| assert!(packet.push(&init)));
        pair.deliver(&sent);
        let answer = pair.wire.pop_front().unwrap();
        let packet = Packet::parse(&answer.bytes).unwrap();
        let Ok(Chunk::InitAck(ack)) = packet.chunks().next().unwrap().unwrap().parse() else {
            panic!("no INIT ACK")
        };
        let is_report = |raw: &strandline_wire::parameter::RawParameter<'_>| raw.kind == 8;
        assert_eq!(ack.parameters.iter().flatten().any(|raw| is_report(&raw)), reported, "{kind:#x}");
    }
}
