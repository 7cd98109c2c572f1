//! Partial reliability of the sender (RFC 3758 sections 3.5 and 4.1, RFC 7496).

mod closed_window;

use strandline_wire::number::Tsn;
use strandline_wire::parameter::Parameters;
use strandline_wire::{Init, print};

use super::raw::*;
use super::*;
use crate::config::Recovery;
use crate::error::SendError;
use crate::event::FailureCause;
use crate::reliability::Reliability;

/// Forward-TSN-Supported.
const SUPPORTED: [u8; 4] = [0xc0, 0, 0, 4];

const ONCE: Reliability = Reliability::retransmissions(0);

/// A peer that supports the extension.
fn open() -> Raw {
    open_as(|_| {})
}

fn open_as(change: impl Fn(&mut AssociationConfig)) -> Raw {
    let pair = Pair::configured(|config| {
        config.heartbeat_interval = None;
        config.extensions.partial_reliability = true;
        change(config);
    });
    Raw::open(pair, Init { parameters: Parameters::new(&SUPPORTED), ..init(Tsn(1000)) })
}

fn try_send(raw: &mut Raw, info: SendInfo, len: usize) -> Result<(), SendError> {
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.send_slice(now, raw.server, info, &vec![7; len])
}

fn send(raw: &mut Raw, stream: u16, reliability: Reliability, len: usize) {
    try_send(raw, SendInfo::on(StreamId(stream)).reliability(reliability), len).unwrap();
}

/// Returns the chunks in these packets that are DATA or FORWARD TSN, as text, with TSNs counted from the first.
fn chunks_in(raw: &Raw, packets: &[Sent]) -> Vec<String> {
    let mut found = Vec::new();
    for sent in packets {
        for chunk in chunks(sent) {
            match chunk {
                strandline_wire::Chunk::Data(data) => {
                    found.push(format!("DATA {}", data.tsn.distance_from(raw.server_tsn)));
                }
                strandline_wire::Chunk::ForwardTsn(forward) => {
                    let tsn = forward.new_cumulative_tsn().distance_from(raw.server_tsn);
                    let streams: Vec<String> =
                        forward.skipped().map(|(stream, ssn)| format!("{}:{}", stream.0, ssn.0)).collect();
                    found.push(format!("FORWARD TSN {tsn} [{}]", streams.join(" ")));
                }
                _ => {}
            }
        }
    }
    found
}

/// Returns stream, cause and whether a part was sent of the messages that failed since the last call.
fn failures(raw: &mut Raw) -> Vec<(u16, FailureCause, bool)> {
    raw.pair.collect();
    let failed = |(_, event)| match event {
        Event::SendFailed(failed) => Some((failed.info.stream.0, failed.cause, failed.sent)),
        _ => None,
    };
    raw.pair.hosts[SERVER].events.drain(..).filter_map(failed).collect()
}

fn heard(raw: &mut Raw) -> Vec<String> {
    let sent = raw.heard();
    chunks_in(raw, &sent)
}

/// Waits `millis` milliseconds.
fn wait(raw: &mut Raw, millis: u64) -> Vec<String> {
    let sent = raw.wait(Duration::from_millis(millis));
    chunks_in(raw, &sent)
}

/// C1 to C4: the chunk is not retransmitted but skipped, with the highest SSN of each stream.
#[test]
fn lost_chunks_without_retransmissions_are_skipped() {
    let mut raw = open();
    for stream in [3, 3, 5, 5, 5, 5] {
        send(&mut raw, stream, ONCE, 100);
    }
    assert_eq!(heard(&mut raw).len(), 6);
    wait(&mut raw, 50);
    // The first three are lost; time shows it.
    let sent = raw.say_sack(0, 65_536, &[(4, 6)]);
    let mut found = chunks_in(&raw, &sent);
    found.extend(wait(&mut raw, 100));
    assert_eq!(found, ["FORWARD TSN 2 [3:1 5:0]"]);
    let lost = FailureCause::RetransmissionsExhausted;
    assert_eq!(failures(&mut raw), [(3, lost, true), (3, lost, true), (5, lost, true)]);
    raw.say_sack(6, 65_536, &[]);
    assert_eq!(wait(&mut raw, 60_000), [""; 0], "nothing is outstanding");
    let stats = raw.pair.hosts[SERVER].endpoint.gaps(raw.server).abandoned().unwrap();
    assert_eq!((stats.all.retransmissions.sent, stats.all.retransmissions.unsent), (3, 0));
    assert_eq!(stats.streams[&StreamId(5)].retransmissions.sent, 1);
    assert_eq!(stats.forward_tsns_sent, 1);
}

/// C4: unordered messages have no place in their stream.
#[test]
fn unordered_messages_are_not_listed() {
    let mut raw = open();
    let info = SendInfo::on(StreamId(4)).unordered().reliability(ONCE);
    try_send(&mut raw, info, 100).unwrap();
    heard(&mut raw);
    let found = wait(&mut raw, 1500);
    assert_eq!(found.first().map(String::as_str), Some("FORWARD TSN 0 []"), "T3-rtx has expired");
}

/// C3 and A5: FORWARD TSN is repeated until the peer acknowledges it, at last by the end of the association.
#[test]
fn forward_tsn_is_repeated_by_t3() {
    let mut raw = open_as(|config| config.association_retrans_max = 3);
    send(&mut raw, 2, ONCE, 100);
    heard(&mut raw);
    let found = wait(&mut raw, 8000);
    assert_eq!(found, ["FORWARD TSN 0 [2:0]"; 3], "after 1, 3 and 7 seconds");
    wait(&mut raw, 60_000);
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
}

/// A SACK that does not cover it, a round trip later, shows that the FORWARD TSN was lost; an earlier one does not.
#[test]
fn forward_tsn_is_repeated_once_in_round_trip() {
    let mut raw = open();
    for _ in 0..3 {
        send(&mut raw, 1, ONCE, 100);
    }
    heard(&mut raw);
    wait(&mut raw, 50);
    raw.say_sack(0, 65_536, &[(2, 3)]);
    wait(&mut raw, 120);
    send(&mut raw, 1, Reliability::FULL, 100);
    heard(&mut raw);
    let sent = raw.say_sack(0, 65_536, &[(2, 4)]);
    assert_eq!(chunks_in(&raw, &sent), ["FORWARD TSN 0 [1:0]"]);
    let sent = raw.say_sack(0, 65_536, &[(2, 4)]);
    assert_eq!(chunks_in(&raw, &sent), [""; 0]);
}

/// The number of retransmissions counts each chunk.
#[test]
fn retransmissions_up_to_limit() {
    let mut raw = open();
    send(&mut raw, 1, Reliability::retransmissions(2), 100);
    assert_eq!(heard(&mut raw), ["DATA 0"]);
    let found = wait(&mut raw, 8000);
    assert_eq!(found, ["DATA 0", "DATA 0", "FORWARD TSN 0 [1:0]"]);
}

/// RFC 3758 section 4.1: a message whose lifetime ends before it is sent takes no TSN.
#[test]
fn lifetime_ends_before_transmission() {
    let mut raw = open();
    raw.say_sack(0, 0, &[]);
    send(&mut raw, 1, Reliability::lifetime(Duration::from_millis(300)), 1000);
    send(&mut raw, 1, Reliability::FULL, 1000);
    wait(&mut raw, 299);
    assert_eq!(failures(&mut raw), []);
    wait(&mut raw, 3);
    assert_eq!(failures(&mut raw), [(1, FailureCause::Expired, false)]);
    let sent = raw.say_sack(0, 65_536, &[]);
    let mut found = chunks_in(&raw, &sent);
    found.extend(wait(&mut raw, 3000));
    assert_eq!(found.first().map(String::as_str), Some("DATA 0"), "the other message");
    assert!(!found.iter().any(|chunk| chunk.starts_with("FORWARD")), "{found:?}");
}

/// A chunk that is in flight when its lifetime ends is skipped only once it is lost.
#[test]
fn lifetime_ends_in_flight() {
    let mut raw = open();
    let info = Reliability::lifetime(Duration::from_millis(300));
    send(&mut raw, 1, info, 100);
    heard(&mut raw);
    assert_eq!(wait(&mut raw, 700), [""; 0]);
    assert_eq!(failures(&mut raw), []);
    assert_eq!(wait(&mut raw, 800), ["FORWARD TSN 0 [1:0]"], "T3-rtx has expired");
    assert_eq!(failures(&mut raw), [(1, FailureCause::Expired, true)]);
    // Acknowledged in time, it has not failed.
    raw.say_sack(1, 65_536, &[]);
    send(&mut raw, 1, info, 100);
    heard(&mut raw);
    raw.say_sack(2, 65_536, &[]);
    assert_eq!(wait(&mut raw, 5000), [""; 0]);
    assert_eq!(failures(&mut raw), []);
}

/// A message that arrives before its lifetime ends leaves no timer behind, also if the association has become idle.
#[test]
fn lifetime_that_ends_while_idle() {
    let mut raw = open();
    send(&mut raw, 1, Reliability::lifetime(Duration::from_secs(60)), 100);
    heard(&mut raw);
    raw.say_sack(1, 65_536, &[]);
    wait(&mut raw, 60_010);
    let due = raw.server().poll_timeout();
    assert!(due.is_none_or(|due| due > raw.pair.now + Duration::from_secs(1)), "{due:?} {:?}", raw.pair.now);
}

/// A message begins with the COOKIE ECHO, and its lifetime ends before the COOKIE ACK: the rest is not sent.
#[test]
fn lifetime_that_ends_during_set_up() {
    let mut pair = Pair::configured(|config| config.cookie_echo_packets_max = 1);
    let client = pair.connect();
    let info = SendInfo::on(StreamId(1)).reliability(Reliability::lifetime(Duration::from_millis(30)));
    let now = pair.now;
    pair.hosts[CLIENT].endpoint.send(now, client, info, vec![7; 4000].into()).unwrap();
    pair.run_to(kind::COOKIE_ACK);
    // T3-rtx and T1-cookie are not due yet.
    let ack = pair.wire.pop_front().unwrap();
    pair.pass(Duration::from_millis(100));
    pair.log.clear();
    pair.deliver(&ack);
    pair.pass(Duration::from_secs(30));
    let failed = |(_, event): &_| matches!(event, Event::SendFailed(failed) if failed.sent);
    assert!(pair.hosts[CLIENT].events.iter().any(failed));
    assert!(!pair.log.iter().any(has(kind::DATA)), "{:?}", lines(&pair.log));
    assert!(pair.log.iter().any(has(kind::FORWARD_TSN)));
}

/// After T3-rtx one packet asks what became of the others. If its messages are abandoned, the FORWARD TSN
/// asks: once the peer acknowledges that and nothing else, the others are lost, too.
#[test]
fn forward_tsn_asks_after_t3() {
    let mut raw = open();
    for _ in 0..4 {
        send(&mut raw, 1, ONCE, 1000);
    }
    assert_eq!(heard(&mut raw).len(), 4);
    assert_eq!(wait(&mut raw, 1500), ["FORWARD TSN 0 [1:0]"]);
    let sent = raw.say_sack(1, 65_536, &[]);
    assert_eq!(chunks_in(&raw, &sent), ["FORWARD TSN 3 [1:3]"]);
    assert_eq!(failures(&mut raw).len(), 4);
}

/// C5: a FORWARD TSN is repeated while the peer's window is closed, too. What the peer holds behind the gap may be what
/// closes it.
#[test]
fn forward_tsn_is_repeated_to_closed_window() {
    let mut raw = open();
    for reliability in [ONCE, Reliability::FULL] {
        send(&mut raw, 1, reliability, 1000);
    }
    heard(&mut raw);
    let mut found = Vec::new();
    for _ in 0..3 {
        let sent = raw.say_sack(0, 0, &[(2, 2)]);
        found.extend(chunks_in(&raw, &sent));
        found.extend(wait(&mut raw, 100));
    }
    assert_eq!(found[0], "FORWARD TSN 0 [1:0]");
    send(&mut raw, 2, Reliability::FULL, 1000);
    for _ in 0..3 {
        assert!(wait(&mut raw, 5000).contains(&"FORWARD TSN 0 [1:0]".to_owned()));
        raw.say_sack(0, 0, &[(2, 2)]);
    }
}

/// A SHUTDOWN of the peer acknowledges, too. That there was new data at the last SACK does not count then.
#[test]
fn shutdown_answers_forward_tsn() {
    let mut raw = open();
    for _ in 0..20 {
        send(&mut raw, 1, ONCE, 1000);
    }
    let first = heard(&mut raw).len();
    wait(&mut raw, 50);
    let sent = raw.say_sack(first as u32 - 1, 65_536, &[]);
    assert_eq!(first + chunks_in(&raw, &sent).len(), 20);
    let shutdown = |raw: &mut Raw, next| {
        let cumulative_tsn = raw.server_tsn + next;
        let sent = raw.say_all(&[&strandline_wire::chunk::Shutdown { cumulative_tsn }]);
        chunks_in(raw, &sent)
    };
    let acknowledged = first as u32 - 2;
    shutdown(&mut raw, acknowledged);
    let found = wait(&mut raw, 1500);
    assert_eq!(found, [format!("FORWARD TSN {} [1:{}]", acknowledged + 1, acknowledged + 1)]);
    assert_eq!(shutdown(&mut raw, acknowledged + 1), ["FORWARD TSN 19 [1:19]"]);
}

/// If the time-out was spurious, the peer acknowledges the others, too, and they are not abandoned.
#[test]
fn spurious_t3_abandons_one_packet() {
    let mut raw = open();
    for _ in 0..4 {
        send(&mut raw, 1, ONCE, 1000);
    }
    heard(&mut raw);
    assert_eq!(wait(&mut raw, 1500), ["FORWARD TSN 0 [1:0]"]);
    let sent = raw.say_sack(4, 65_536, &[]);
    assert_eq!(chunks_in(&raw, &sent), [""; 0]);
    assert_eq!(wait(&mut raw, 10_000), [""; 0]);
    assert_eq!(failures(&mut raw).len(), 1);
}

/// RFC 9937: what is abandoned in a recovery makes no room in the window. One SACK clocks out at most what it
/// delivered, and a packet.
#[test]
fn no_burst_for_what_was_abandoned() {
    let mut raw = open();
    send(&mut raw, 1, ONCE, 14_000);
    let in_flight = heard(&mut raw).len();
    send(&mut raw, 2, Reliability::FULL, 100_000);
    let others = heard(&mut raw).len();
    wait(&mut raw, 50);
    // The first chunk is lost, and all others are abandoned with it.
    let sent = raw.say_sack(0, 65_536, &[(2, 4)]);
    let mut found = chunks_in(&raw, &sent);
    found.extend(wait(&mut raw, 20));
    assert_eq!(failures(&mut raw).len(), 1);
    assert!(in_flight >= 9 && others <= 2, "{in_flight} {others}");
    let new = found.iter().filter(|chunk| chunk.starts_with("DATA")).count();
    assert!(new <= 4, "{found:?}");
}

/// RFC 9260 section 7.2.4 rule 3: the packet that is sent regardless of cwnd is the one at the beginning of
/// the recovery. If its data is abandoned instead, later losses of that recovery wait for cwnd.
#[test]
fn abandoned_fast_retransmission_has_no_substitute() {
    let mut raw = open_as(|config| config.recovery = Recovery::Rfc9260);
    for (reliability, len) in [(ONCE, 1000), (Reliability::FULL, 40)] {
        send(&mut raw, 1, reliability, len);
    }
    for len in [40, 40, 1000, 40, 40, 40] {
        send(&mut raw, 1, Reliability::FULL, len);
    }
    for _ in 0..20 {
        send(&mut raw, 1, Reliability::FULL, 1000);
    }
    let last = heard(&mut raw).len() as u16;
    wait(&mut raw, 50);
    for seen in 2..=4 {
        raw.say_sack(0, 200_000, &[(2, seen)]);
    }
    assert_eq!(failures(&mut raw).len(), 1);
    let mut found = Vec::new();
    for seen in 6..=8 {
        let sent = raw.say_sack(4, 200_000, &[(2, seen - 4)]);
        found.extend(chunks_in(&raw, &sent));
    }
    assert_eq!(found, [] as [String; 0], "beyond cwnd");
    let sent = raw.say_sack(4, 200_000, &[(2, last - 4)]);
    assert_eq!(chunks_in(&raw, &sent)[0], "DATA 4");
}

/// A3: the rest of a message gets a TSN that is skipped, so that its fragments don't wait at the peer for ever.
#[test]
fn rest_of_message_is_skipped() {
    let mut raw = open();
    send(&mut raw, 6, Reliability::lifetime(Duration::from_millis(400)), 200_000);
    let sent = heard(&mut raw);
    let count = sent.len() as u32;
    assert!(sent.iter().all(|chunk| chunk.starts_with("DATA")) && count < 100, "{sent:?}");
    // All that was sent has arrived, and the peer's window is closed.
    raw.say_sack(count, 0, &[]);
    let found = wait(&mut raw, 450);
    assert_eq!(found, [format!("FORWARD TSN {count} [6:0]")]);
    assert_eq!(failures(&mut raw), [(6, FailureCause::Expired, true)]);
    send(&mut raw, 6, Reliability::FULL, 100);
    let sent = raw.say_sack(count + 1, 65_536, &[]);
    assert_eq!(chunks_in(&raw, &sent), [format!("DATA {}", count + 1)]);
}

/// Every chunk of the message is abandoned with the lost one, in flight or not.
#[test]
fn fragments_are_abandoned_together() {
    let mut raw = open();
    send(&mut raw, 6, ONCE, 4000);
    send(&mut raw, 7, ONCE, 100);
    assert_eq!(heard(&mut raw).len(), 5);
    wait(&mut raw, 50);
    // Of the four fragments the second one is missing.
    let sent = raw.say_sack(1, 65_536, &[(2, 2), (4, 4)]);
    let mut found = chunks_in(&raw, &sent);
    found.extend(wait(&mut raw, 100));
    assert_eq!(found, ["FORWARD TSN 3 [6:0]"]);
}

/// Section 3.3.2: a peer that does not support it gets everything that was begun.
#[test]
fn peer_without_support_gets_everything() {
    let mut raw = Raw::open(
        Pair::configured(|config| {
            config.heartbeat_interval = None;
            config.extensions.partial_reliability = true;
        }),
        init(Tsn(1000)),
    );
    send(&mut raw, 1, ONCE, 100);
    send(&mut raw, 1, Reliability::lifetime(Duration::from_millis(10)), 100);
    heard(&mut raw);
    let found = wait(&mut raw, 20_000);
    assert!(found.len() > 3 && found.iter().all(|chunk| chunk.starts_with("DATA")), "{found:?}");
    assert_eq!(failures(&mut raw), []);
}

/// RFC 7496 section 3.2: the lowest priorities make room for higher ones, and for messages of other policies.
#[test]
fn low_priorities_make_room() {
    let mut raw = open_as(|config| {
        config.send_buffer = Some(10_000);
    });
    raw.say_sack(0, 0, &[]);
    let of = Reliability::priority;
    for number in [1, 9, 5, 9] {
        send(&mut raw, number as u16, of(number), 2500);
    }
    let info = |number| SendInfo::on(StreamId(20)).reliability(of(number));
    assert_eq!(try_send(&mut raw, info(9), 2500), Err(SendError::WouldBlock), "none is lower");
    assert_eq!(failures(&mut raw), []);
    try_send(&mut raw, info(4), 2500).unwrap();
    assert_eq!(failures(&mut raw), [(9, FailureCause::LowPriority, false)]);
    send(&mut raw, 21, Reliability::FULL, 5000);
    assert_eq!(failures(&mut raw).len(), 2);
    assert_eq!(try_send(&mut raw, SendInfo::on(StreamId(0)), 10_000), Err(SendError::WouldBlock));
    assert_eq!(failures(&mut raw), [], "less room than is needed is not made");
    let stats = raw.pair.hosts[SERVER].endpoint.gaps(raw.server).abandoned().unwrap();
    assert_eq!(stats.all.priority.unsent, 3);
}

/// Section 3.5 A2: what was abandoned ends a shutdown's wait.
#[test]
fn shutdown_follows_what_was_abandoned() {
    let mut raw = open();
    raw.say_sack(0, 0, &[]);
    send(&mut raw, 1, Reliability::lifetime(Duration::from_millis(300)), 1000);
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.shutdown(now, raw.server).unwrap();
    assert_eq!(raw.state(), "SHUTDOWN-PENDING");
    let sent = raw.wait(Duration::from_millis(350));
    assert!(sent.iter().any(|sent| sent.kinds() == [kind::SHUTDOWN]), "{:?}", lines(&sent));
}

fn lines(packets: &[Sent]) -> Vec<String> {
    packets.iter().map(|sent| print::line(&sent.bytes).to_string()).collect()
}

/// More streams than one FORWARD TSN has room for are skipped one after the other.
#[test]
fn streams_that_exceed_one_forward_tsn() {
    let peer = Init { inbound_streams: 1000, parameters: Parameters::new(&SUPPORTED), ..init(Tsn(1000)) };
    let mut raw = Raw::open(
        Pair::configured(|config| {
            config.heartbeat_interval = None;
            config.extensions.partial_reliability = true;
            config.path_mtu_max = 1280;
        }),
        peer,
    );
    for stream in 0..=400 {
        send(&mut raw, stream, ONCE, 1);
    }
    assert_eq!(heard(&mut raw).len(), 401);
    wait(&mut raw, 50);
    let sent = raw.say_sack(0, 1 << 20, &[(401, 401)]);
    let mut first = chunks_in(&raw, &sent);
    first.extend(wait(&mut raw, 20));
    let (tsn, streams) = skipped(&first);
    assert_eq!(streams, tsn + 1, "a stream for each TSN");
    assert!((250..400).contains(&streams), "{first:?}");
    let last = (401 - tsn - 1) as u16;
    let sent = raw.say_sack(tsn + 1, 1 << 20, &[(last, last)]);
    assert_eq!(skipped(&chunks_in(&raw, &sent)), (399, 400 - streams));
}

/// Returns the TSN of the only FORWARD TSN in these lines, and its number of streams.
fn skipped(found: &[String]) -> (u32, u32) {
    let [line] = found else { panic!("{found:?}") };
    let (tsn, streams) = line.strip_prefix("FORWARD TSN ").unwrap().split_once(' ').unwrap();
    (tsn.parse().unwrap(), streams.split(' ').count() as u32)
}

/// Two endpoints and a lossy path: every message is delivered or reported, none both ways unless a part of it was sent,
/// and each stream stays in order.
#[test]
fn messages_of_all_kinds_under_losses() {
    let mut failed_in_all = 0;
    for seed in 0..20 {
        let mut random = Random(seed);
        let (mut pair, client, server) = Pair::established();
        let (mut given, mut failed) = (0, std::collections::BTreeSet::new());
        let mut delivered = std::collections::BTreeSet::new();
        let mut last = std::collections::BTreeMap::new();
        for _ in 0..100 {
            for _ in 0..random.below(8) {
                let reliability = match random.below(4) {
                    0 => Reliability::FULL,
                    1 => Reliability::lifetime(Duration::from_millis(random.below(300))),
                    2 => Reliability::retransmissions(random.below(3) as u16),
                    _ => Reliability::priority(random.below(4) as u32),
                };
                let stream = StreamId(random.below(4) as u16);
                let info = SendInfo { context: given, ..SendInfo::on(stream).reliability(reliability) };
                let mut data = vec![0; 4 + random.below(6000) as usize];
                data[..4].copy_from_slice(&given.to_be_bytes());
                let now = pair.now;
                if pair.hosts[CLIENT].endpoint.send(now, client, info, data.into()).is_ok() {
                    given += 1;
                }
            }
            pair.pass_dropping(Duration::from_millis(20), |_| random.below(10) == 0);
            receive(&mut pair, server, &mut last, &mut delivered);
        }
        pair.pass_dropping(Duration::from_secs(30), |_| random.below(10) == 0);
        let now = pair.now;
        pair.hosts[CLIENT].endpoint.shutdown(now, client).unwrap();
        pair.pass(Duration::from_secs(120));
        receive(&mut pair, server, &mut last, &mut delivered);
        assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown), "seed {seed}");
        for (_, event) in &pair.hosts[CLIENT].events {
            let Event::SendFailed(message) = event else { continue };
            assert!(failed.insert(message.info.context), "reported twice");
            assert!(message.info.reliability != Reliability::FULL);
            assert_eq!(message.data[..4], message.info.context.to_be_bytes());
            assert!(message.sent || !delivered.contains(&message.info.context));
        }
        assert!((0..given).all(|number| delivered.contains(&number) || failed.contains(&number)));
        failed_in_all += failed.len();
    }
    assert!(failed_in_all > 100, "{failed_in_all}");
}

/// A FORWARD TSN that is too long for the path makes packets shorter, as DATA does (RFC 8899 section 4.3).
#[test]
fn long_forward_tsn_shrinks_to_the_path_mtu() {
    let (mut pair, client, _) = Pair::configured(|config| {
        config.heartbeat_interval = None;
        config.extensions.partial_reliability = true;
    })
    .establish();
    pair.pass(Duration::from_secs(1));
    for stream in 0..250 {
        let info = SendInfo::on(StreamId(stream)).reliability(ONCE);
        pair.hosts[CLIENT].endpoint.send_slice(pair.now, client, info, b"x").unwrap();
    }
    let lost = |sent: &Sent| has(kind::DATA)(sent) || (sent.bytes.len() > 600 && !sent.fragment);
    pair.pass_dropping(Duration::from_secs(60), lost);
    assert!(pair.log.iter().any(|sent| has(kind::FORWARD_TSN)(sent) && sent.bytes.len() > 600));
    pair.log.clear();
    pair.pass_dropping(Duration::from_secs(60), lost);
    assert!(!pair.log.iter().any(has(kind::FORWARD_TSN)), "it is acknowledged");
    assert_eq!(pair.closed(CLIENT), None);
}

/// Reads what has arrived, whole messages only.
fn receive(
    pair: &mut Pair,
    server: AssociationId,
    last: &mut std::collections::BTreeMap<u16, u32>,
    delivered: &mut std::collections::BTreeSet<u32>,
) {
    while let Some(message) = pair.recv(SERVER, server) {
        assert!(message.begins && message.ends, "no message is long enough for parts");
        let number = u32::from_be_bytes(message.data[..4].try_into().unwrap());
        assert!(delivered.insert(number), "delivered twice");
        let before = last.insert(message.stream.0, number);
        assert!(before.is_none_or(|before| before < number), "out of order");
    }
}

/// A generator of small random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}
