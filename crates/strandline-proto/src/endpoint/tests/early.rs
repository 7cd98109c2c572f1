//! Data given before the set-up that takes more than one packet (RFC 9260 section 5.1 C, decision 49).

use strandline_wire::TlvWriter;
use strandline_wire::chunk::{Chunk, Init, InitAck, sack};
use strandline_wire::parameter::{Parameter, Parameters};

use super::raw::{client_tag, forge_good_init_ack, tsns};
use super::*;
use crate::config::Recovery;

const MESSAGE: [u8; 9_000] = [7; 9_000];

/// The client's packets with a COOKIE ECHO are next, and only the server's INIT ACK has arrived.
fn about_to_echo(mut pair: Pair) -> (Pair, AssociationId) {
    let client = pair.connect();
    pair.send(CLIENT, client, 0, &MESSAGE);
    pair.run_to(kind::COOKIE_ECHO);
    (pair, client)
}

fn assert_whole(pair: &mut Pair, client: AssociationId) {
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, MESSAGE.as_slice());
    assert_eq!(pair.recv(SERVER, server), None);
    assert_eq!(pair.hosts[SERVER].endpoint.association_count(), 1);
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().send_buffered, 0);
}

#[test]
fn early_message_arrives_before_the_cookie_ack() {
    let (mut pair, client) = about_to_echo(Pair::new());
    let echoes: Vec<Sent> = pair.wire.drain(..).collect();
    assert!(echoes.len() > 5 && echoes.len() <= 10, "{}", echoes.len());
    for sent in &echoes {
        assert_eq!(sent.kinds()[..2], [kind::COOKIE_ECHO, kind::DATA]);
        assert!(sent.bytes.len() <= 1_280);
    }
    let cookie = |sent: &Sent| sent.bytes[12..60].to_vec();
    assert!(echoes.iter().all(|sent| cookie(sent) == cookie(&echoes[0])));
    for sent in &echoes {
        let datagram = Datagram { source: sent.source, destination: None, bytes: &sent.bytes, ecn: 0 };
        pair.hosts[SERVER].endpoint.handle_datagram(pair.now, datagram);
    }
    pair.collect();
    assert_eq!(pair.wire[0].kinds(), [kind::COOKIE_ACK, kind::SACK]);
    pair.run();
    assert_whole(&mut pair, client);
}

/// The packets arrive one by one. The first is answered at once; the COOKIE ACKs of the others go with the SACK for
/// every second packet.
#[test]
fn repeated_cookie_is_answered_with_its_data() {
    let (mut pair, _) = about_to_echo(Pair::new());
    let echoes: Vec<Sent> = pair.wire.drain(..).collect();
    let mut answers = Vec::new();
    for sent in &echoes {
        let datagram = Datagram { source: sent.source, destination: None, bytes: &sent.bytes, ecn: 0 };
        pair.hosts[SERVER].endpoint.handle_datagram(pair.now, datagram);
        pair.collect();
        answers.extend(pair.wire.drain(..).map(|sent| sent.kinds()));
    }
    assert_eq!(answers.len(), 1 + (echoes.len() - 1) / 2, "{answers:?}");
    assert!(answers.iter().all(|kinds| *kinds == [kind::COOKIE_ACK, kind::SACK]), "{answers:?}");
}

/// The path's round-trip time is known from INIT to INIT ACK: nothing waits for a timer.
#[test]
fn a_long_way_changes_nothing() {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, &MESSAGE);
    pair.run_to(kind::INIT_ACK);
    pair.now += Duration::from_millis(60);
    pair.run_to(kind::COOKIE_ECHO);
    let echoes = pair.wire.iter().filter(|sent| has(kind::COOKIE_ECHO)(sent)).count();
    assert!(echoes > 5 && echoes == pair.wire.len(), "{echoes}");
    pair.run();
    let server = pair.accepted();
    assert_eq!(pair.recv(SERVER, server).unwrap().data, MESSAGE.as_slice());
    // The acknowledgement of the last packet may be delayed.
    pair.pass(Duration::from_millis(250));
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().send_buffered, 0);
}

/// The first packet to arrive creates the association, without waiting for a timer.
#[test]
fn any_of_them_may_be_lost_or_late() {
    for lost in 0..6 {
        let (mut pair, client) = about_to_echo(Pair::new());
        pair.wire.remove(lost);
        pair.pass(Duration::from_millis(500));
        assert_whole(&mut pair, client);
    }
    let (mut pair, client) = about_to_echo(Pair::new());
    pair.wire.make_contiguous().reverse();
    pair.run();
    assert_whole(&mut pair, client);
}

#[test]
fn all_of_them_lost_are_followed_by_one() {
    let (mut pair, client) = about_to_echo(Pair::new());
    let before = pair.log.len();
    pair.wire.clear();
    pair.pass(Duration::from_millis(2_500));
    assert!(has(kind::COOKIE_ECHO)(&pair.log[before]));
    assert_eq!(pair.log[before + 1].kinds()[0], kind::COOKIE_ACK, "its answer is waited for");
    pair.pass(Duration::from_secs(5));
    assert_whole(&mut pair, client);
}

#[test]
fn windows_of_both_sides_bound_early_data() {
    let small = |config: &mut AssociationConfig| {
        (config.receive_buffer, config.partial_delivery_point) = (Some(4_096), 2_000);
    };
    let (pair, _) = about_to_echo(Pair::configured(small));
    assert!(pair.wire.len() <= 5, "{}", pair.wire.len());
    let (pair, _) = about_to_echo(Pair::configured(|config| config.cookie_echo_packets_max = 3));
    assert_eq!(pair.wire.len(), 3);
}

/// A cookie that fills most of a packet would be repeated for a few bytes of data each.
#[test]
fn a_long_cookie_goes_once() {
    for (cookie_bytes, often) in [(200, true), (900, false)] {
        let mut pair = Pair::new();
        let client = pair.connect();
        pair.send(CLIENT, client, 0, &MESSAGE);
        pair.collect();
        let sent = pair.wire.pop_front().unwrap();
        let packet = Packet::parse(&sent.bytes).unwrap();
        let Ok(Chunk::Init(asked)) = packet.chunks().next().unwrap().unwrap().parse() else {
            panic!("no INIT")
        };
        let mut space = [0; 1_000];
        let mut parameters = TlvWriter::new(&mut space);
        assert!(parameters.push(&Parameter::StateCookie(&vec![5; cookie_bytes])));
        let parameters = Parameters::new(parameters.finish());
        let ack = InitAck(Init { initiate_tag: VerificationTag(9), a_rwnd: 1 << 20, parameters, ..asked });
        let ports = (packet.destination_port(), packet.source_port());
        let sent = pair.forge(SERVER, ports, asked.initiate_tag, |packet| assert!(packet.push(&ack)));
        pair.deliver(&sent);
        let echoes = pair.wire.iter().filter(|sent| has(kind::COOKIE_ECHO)(sent)).count();
        assert_eq!((echoes > 5, echoes == 1), (often, !often), "{cookie_bytes}: {echoes}");
    }
}

#[test]
fn one_packet_is_all_where_that_is_wanted() {
    for change in [
        (|config: &mut AssociationConfig| config.recovery = Recovery::Rfc9260) as fn(&mut AssociationConfig),
        |config: &mut AssociationConfig| config.cookie_echo_packets_max = 1,
    ] {
        let (mut pair, client) = about_to_echo(Pair::configured(change));
        assert_eq!(pair.wire.len(), 1);
        pair.pass(Duration::from_secs(1));
        assert_whole(&mut pair, client);
    }
}

/// Some of the data was accepted by an association that has ended since. Another cookie would deliver it a second
/// time.
#[test]
fn possibly_arrived_data_is_not_sent_again() {
    let (mut pair, client) =
        about_to_echo(Pair::configured(|config| config.cookie_lifetime = Duration::from_millis(100)));
    let late = pair.wire.pop_back().unwrap();
    let first = pair.wire.pop_front().unwrap();
    pair.wire.clear();
    pair.deliver(&first);
    let server = pair.accepted();
    pair.hosts[SERVER].endpoint.abort(pair.now, server, bytes::Bytes::new()).unwrap();
    pair.collect();
    pair.wire.clear();
    pair.now += Duration::from_millis(200);
    pair.deliver(&late);
    pair.run();
    assert_eq!(pair.hosts[SERVER].endpoint.stats().cookies_stale, 1);
    assert_eq!(pair.closed(CLIENT), Some(&CloseReason::TimedOut));
    let failed = |(_, event): &&(_, Event)| matches!(event, Event::SendFailed { .. });
    assert_eq!(
        pair.hosts[CLIENT].events.iter().filter(failed).count(),
        1,
        "the application hears that it may have arrived"
    );
    assert!(pair.hosts[CLIENT].endpoint.status(client).is_none_or(|status| status.send_buffered == 0));
}

/// The data is acknowledged, and the COOKIE ACK is lost: only T1-cookie runs, and no timer of data.
#[test]
fn early_sack_starts_no_timer() {
    let (mut pair, client) = about_to_echo_by_hand();
    let first = tsns(pair.wire.make_contiguous())[0][0];
    let tag = client_tag(&mut pair);
    let sack = pair.forge(SERVER, (PORT, 5000), tag, |packet| {
        assert!(sack::write(packet, first, 1 << 20, core::iter::empty(), &[]));
    });
    pair.now += HALF;
    pair.deliver(&sack);
    let before = pair.log.len();
    let endpoint = &mut pair.hosts[CLIENT].endpoint;
    let end = pair.now + Duration::from_millis(900);
    let mut wakes = 0;
    while let Some(at) = endpoint.poll_timeout().filter(|at| *at < end) {
        wakes += 1;
        assert!(wakes < 10, "it wakes again and again");
        pair.now = pair.now.max(at);
        endpoint.handle_timeout(pair.now);
    }
    let stats = endpoint.status(client).unwrap().stats;
    assert_eq!((stats.timeouts, stats.tail_probes), (0, 0));
    pair.pass_dropping(Duration::from_secs(2), |_| true);
    assert!(pair.log.len() > before && pair.log[before..].iter().all(has(kind::COOKIE_ECHO)));
    assert_eq!(pair.hosts[CLIENT].endpoint.status(client).unwrap().stats.timeouts, 0);
}

/// The client has just sent its packets with the COOKIE ECHO, after a hand-made INIT ACK that took 60 ms.
fn about_to_echo_by_hand() -> (Pair, AssociationId) {
    let mut pair = Pair::new();
    let client = pair.connect();
    pair.send(CLIENT, client, 0, &MESSAGE);
    let ack = forge_good_init_ack(&mut pair);
    pair.now += 2 * HALF;
    pair.deliver(&ack);
    assert!(pair.wire.len() > 5 && pair.wire.iter().all(has(kind::COOKIE_ECHO)), "{}", pair.wire.len());
    (pair, client)
}

/// The COOKIE ACK was lost, and the SACK beside it was not. The data with the next COOKIE ECHO is new and its SACK
/// could wait, but the COOKIE ACK does not.
#[test]
fn late_cookie_is_answered_at_once() {
    let (mut pair, _) = about_to_echo(Pair::new());
    let echoes: Vec<Sent> = pair.wire.drain(..).collect();
    let hand_over = |pair: &mut Pair, sent: &Sent| {
        let datagram = Datagram { source: sent.source, destination: None, bytes: &sent.bytes, ecn: 0 };
        pair.hosts[SERVER].endpoint.handle_datagram(pair.now, datagram);
        pair.collect();
        pair.wire.drain(..).map(|sent| sent.kinds()).collect::<Vec<_>>()
    };
    assert_eq!(hand_over(&mut pair, &echoes[0]), [[kind::COOKIE_ACK, kind::SACK]]);
    pair.now += Duration::from_secs(1);
    let answers = hand_over(&mut pair, &echoes[1]);
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][0], kind::COOKIE_ACK);
}

/// Delay on the wire before each kind of set-up packet is delivered.
const HALF: Duration = Duration::from_millis(30);

fn established_over_a_long_way() -> (Pair, AssociationId, AssociationId) {
    let mut pair = Pair::new();
    let client = pair.connect();
    for kind in [kind::INIT_ACK, kind::COOKIE_ECHO, kind::COOKIE_ACK] {
        pair.run_to(kind);
        pair.now += HALF;
    }
    pair.run();
    let server = pair.accepted();
    (pair, client, server)
}

/// The cookie's timestamp gives the listener a round-trip time, and it probes for its first answer if that is lost.
#[test]
fn listener_learns_the_rtt_from_the_cookie() {
    let (mut pair, client, server) = established_over_a_long_way();
    let srtt = pair.hosts[SERVER].endpoint.paths(server).unwrap()[0].srtt;
    assert_eq!(srtt, Some(2 * HALF));
    pair.send(SERVER, server, 0, b"answer");
    let mut first = true;
    pair.pass_dropping(Duration::from_millis(400), |sent| {
        has(kind::DATA)(sent) && core::mem::take(&mut first)
    });
    assert!(!first, "it was lost");
    assert_eq!(pair.recv(CLIENT, client).unwrap().data, "answer");
}

/// A COOKIE ECHO that was repeated by its timer is no measurement of the round-trip time.
#[test]
fn a_late_cookie_measures_nothing() {
    let mut pair = Pair::new();
    let _ = pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    pair.now += Duration::from_millis(1_500);
    pair.run();
    let server = pair.accepted();
    assert_eq!(pair.hosts[SERVER].endpoint.paths(server).unwrap()[0].srtt, None);
}

/// No acknowledgement can clock it yet (RFC 6928 section 2).
#[test]
fn the_first_window_goes_in_one_piece() {
    let (mut pair, client, _) = established_over_a_long_way();
    let before = pair.log.len();
    pair.send(CLIENT, client, 0, &[7; 40_000]);
    pair.collect();
    let sent = pair.log.len() - before;
    assert!((10..=13).contains(&sent), "{sent}");
}
