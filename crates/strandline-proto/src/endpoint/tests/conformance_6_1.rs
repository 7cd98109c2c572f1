//! RFC 9260 sections 6.1 and 6.3: what may be sent when, and the retransmission timer, packet by packet. The server
//! sends, and a hand-made peer acknowledges.

use strandline_wire::chunk::{Chunk, Init};
use strandline_wire::number::Tsn;

use super::raw::*;
use super::*;
use crate::config::Recovery;
use crate::congestion::Algorithm;
use crate::stats::{PathStatus, Status};

/// The largest DATA chunk (PMDCS) and its payload at a path MTU of 1,280 with IPv4 and UDP.
const PMDCS: u32 = 1240;
const FULL: usize = 1224;

fn steady(change: impl Fn(&mut AssociationConfig)) -> Raw {
    Raw::configured(|config| {
        config.path_mtu_max = config.path_mtu_initial;
        config.heartbeat_interval = None;
        change(config);
    })
}

fn path(raw: &Raw) -> PathStatus {
    raw.server().paths(raw.server).unwrap()[0].clone()
}

fn status(raw: &Raw) -> Status {
    raw.server().status(raw.server).unwrap()
}

/// Queues full messages at the server. Returns the number of packets that are sent at once.
fn offer(raw: &mut Raw, messages: usize) -> usize {
    for _ in 0..messages {
        raw.pair.send(SERVER, raw.server, 0, &[0; FULL]);
    }
    tsns(&raw.heard()).len()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

#[test]
fn rule_a_no_data_beyond_the_peers_window() {
    let pair = Pair::configured(|config| config.heartbeat_interval = None);
    let mut raw = Raw::open(pair, Init { a_rwnd: 3000, ..init(Tsn(1)) });
    for _ in 0..10 {
        raw.pair.send(SERVER, raw.server, 0, &[0; 1000]);
    }
    assert_eq!(tsns(&raw.heard()).concat().len(), 3);
    assert_eq!(status(&raw).peer_rwnd, 0);
    // 1 acknowledged, room for 2,000 in all, 2,000 outstanding: none.
    assert!(raw.say_sack(1, 2000, &[]).is_empty());
    assert_eq!(tsns(&raw.say_sack(2, 2500, &[])).concat().len(), 1);
    assert!(raw.say_sack(3, 1999, &[]).is_empty(), "999 is less than the next chunk");
}

/// One chunk after one RTO, then with growing intervals. Any number of answered probes is no error. An open window
/// ends the probing.
#[test]
fn rule_a_closed_window_is_probed_rarely() {
    let mut raw = steady(|config| config.association_retrans_max = 3);
    let tsn = raw.server_tsn;
    assert_eq!(tsns(&raw.server_sends(100)), [[tsn]]);
    raw.say_sack(1, 0, &[]);
    for _ in 0..5 {
        raw.pair.send(SERVER, raw.server, 0, &[7; 100]);
    }
    assert!(raw.heard().is_empty());
    let mut probes = Vec::new();
    let begin = raw.pair.now;
    for _ in 0..4000 {
        for sent in raw.wait(ms(100)) {
            assert_eq!(tsns(&[sent]), [[tsn + 1]], "one chunk");
            probes.push(raw.pair.now.since(begin).as_secs());
            raw.say_sack(1, 0, &[]);
        }
    }
    assert_eq!(probes[..8], [1, 2, 4, 8, 16, 32, 64, 124].map(|at: u64| probes[0] * at), "{probes:?}");
    assert_eq!(probes[0], 1);
    assert_eq!((raw.state(), status(&raw).error_count, path(&raw).error_count), ("ESTABLISHED", 0, 0));
    assert_eq!(path(&raw).ssthresh, u32::MAX, "no sign of congestion either");
    let sent = raw.say_sack(2, 10_000, &[]);
    assert_eq!(tsns(&sent).concat(), [tsn + 2, tsn + 3, tsn + 4, tsn + 5]);
}

/// Unanswered probes are errors like any others.
#[test]
fn rule_a_unanswered_probes_end_the_association() {
    let mut raw = steady(|config| config.association_retrans_max = 3);
    raw.server_sends(100);
    raw.say_sack(1, 0, &[]);
    raw.server_sends(100);
    raw.wait(Duration::from_secs(600));
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
}

/// A probe recovers from the loss of a window update.
#[test]
fn rule_a_lost_window_update_is_recovered() {
    let (mut pair, client, server) = Pair::configured(|config| {
        config.receive_buffer = Some(10_000);
        config.partial_delivery_point = 10_000;
        config.heartbeat_interval = None;
    })
    .establish();
    for number in 0..50u8 {
        pair.send(CLIENT, client, 0, &[number; 1000]);
    }
    pair.pass(Duration::from_secs(10));
    // The application reads everything; the server's window updates are lost.
    let mut read = core::iter::from_fn(|| pair.recv(SERVER, server)).count();
    pair.wire.clear();
    pair.pass(Duration::from_secs(70));
    read += core::iter::from_fn(|| pair.recv(SERVER, server)).count();
    for _ in 0..20 {
        pair.pass(Duration::from_secs(2));
        read += core::iter::from_fn(|| pair.recv(SERVER, server)).count();
    }
    assert_eq!(read, 50);
}

#[test]
fn rule_b_cwnd_is_exceeded_by_one_packet() {
    let mut raw = steady(|config| config.burst_max = 0);
    assert_eq!(path(&raw).cwnd, 4404);
    assert_eq!(offer(&mut raw, 10), 4);
    // 3,720 is below 4,404, so a fourth full packet begins; 4,960 is not.
    assert_eq!(path(&raw).flight, 4 * PMDCS);
    assert!(path(&raw).flight < 4404 + PMDCS);
}

/// Header and padding count: with 1 byte of user data each it is 220 chunks, not thousands.
#[test]
fn rule_b_counts_headers_and_padding() {
    let mut raw = steady(|config| config.burst_max = 0);
    for _ in 0..1000 {
        raw.pair.send(SERVER, raw.server, 0, b"x");
    }
    let counts: Vec<_> = tsns(&raw.heard()).iter().map(Vec::len).collect();
    assert_eq!(counts, [62; 4], "packets of 1,240 bytes of chunks");
    assert_eq!(path(&raw).flight, 4 * 62 * 20);
}

#[test]
fn rule_c_retransmissions_precede_new_data() {
    let mut raw = steady(|_| ());
    let tsn = raw.server_tsn;
    offer(&mut raw, 3);
    raw.pair.send(SERVER, raw.server, 1, &[9; FULL]);
    raw.pair.send(SERVER, raw.server, 1, &[9; FULL]);
    raw.heard();
    let again = raw.wait(ms(1100));
    assert_eq!(tsns(&again), [[tsn]], "one packet of the earliest");
    // cwnd is one packet now: the others, and new data, wait for the acknowledgement.
    assert_eq!((path(&raw).cwnd, path(&raw).ssthresh), (PMDCS, 4 * PMDCS));
    let next = raw.say_sack(1, 65_536, &[]);
    assert_eq!(tsns(&next)[0], [tsn + 1]);
    let sent: Vec<_> = tsns(&next).concat();
    assert!(!sent.contains(&(tsn + 4)), "not before what is marked");
}

/// Max.Burst of 4: an idle large window is not sent at once. Each SACK clocks out what it acknowledged and a burst.
#[test]
fn rule_d_a_burst_is_limited() {
    for (burst_max, expected) in [(4, 4), (2, 2), (0, 0)] {
        let mut raw = steady(|config| config.burst_max = 0);
        let mut next = 0;
        while path(&raw).cwnd < 17 * PMDCS {
            raw.pair.now += ms(10);
            if status(&raw).send_buffered < 40 * FULL {
                next += offer(&mut raw, 20) as u32;
            }
            next += tsns(&raw.say_sack(next, 1 << 20, &[])).len() as u32;
        }
        while status(&raw).send_buffered > 0 {
            next += tsns(&raw.say_sack(next, 1 << 20, &[])).len() as u32;
        }
        let window = path(&raw).cwnd.div_ceil(PMDCS) as usize;
        assert!(window >= 17, "{window}");
        let config = AssociationConfig {
            burst_max,
            path_mtu_max: 1280,
            heartbeat_interval: None,
            // With RACK the pacing rate would replace the limit.
            recovery: Recovery::Rfc9260,
            // Another controller would start anew.
            congestion: Algorithm::Rfc9260,
            ..Default::default()
        };
        let server = raw.server;
        raw.pair.hosts[SERVER].endpoint.configure(raw.pair.now, server, Arc::new(config)).unwrap();
        // One message, so that there is one opportunity to send.
        raw.pair.send(SERVER, raw.server, 0, &vec![0; 60 * FULL]);
        let sent = tsns(&raw.heard()).len();
        assert_eq!(sent, if burst_max == 0 { window } else { expected });
        if burst_max == 0 {
            continue;
        }
        let more = tsns(&raw.say_sack(next + 2, 1 << 20, &[])).len();
        assert_eq!(more, 2 + expected, "what was acknowledged, and a burst");
    }
}

/// A delayed SACK is bundled with DATA, in front of it.
#[test]
fn a_sack_that_waits_goes_with_data() {
    let mut raw = steady(|_| ());
    raw.say_data(&whole(raw.tsn, 0, b"acknowledged at once"));
    assert!(raw.say_data(&whole(raw.tsn + 1, 1, b"delayed")).is_empty());
    let sent = raw.server_sends(10);
    assert_eq!(sent[0].kinds(), [kind::SACK, kind::DATA]);
    assert_eq!(sacks(&sent)[0].cumulative, raw.tsn + 1);
    // No acknowledgement is pending any more.
    assert!(raw.server_sends(10)[0].kinds() == [kind::DATA]);
    assert!(raw.wait(ms(500)).is_empty());
}

/// With a full window messages are accepted, and none is sent until some are acknowledged.
#[test]
fn a_full_window_takes_messages_and_sends_none() {
    let mut raw = steady(|_| ());
    assert_eq!(offer(&mut raw, 4), 4);
    for _ in 0..20 {
        assert_eq!(offer(&mut raw, 1), 0);
    }
    assert!(!tsns(&raw.say_sack(1, 1 << 20, &[])).is_empty());
}

/// The I bit is set if the application asks for it, on the last chunk only; in SHUTDOWN-PENDING; and when the window
/// is filled.
#[test]
fn i_bit_is_set_where_useful() {
    let bits = |sent: &[Sent]| -> Vec<bool> {
        let of = |sent: &Sent| -> Vec<bool> {
            let bit =
                |chunk: Chunk<'_>| if let Chunk::Data(data) = chunk { Some(data.immediate) } else { None };
            chunks(sent).into_iter().filter_map(bit).collect()
        };
        sent.iter().flat_map(of).collect()
    };
    let mut raw = steady(|_| ());
    let info = SendInfo { immediate: true, ..SendInfo::default() };
    let server = raw.server;
    let now = raw.pair.now;
    raw.pair.hosts[SERVER].endpoint.send(now, server, info, vec![0; FULL + 100].into()).unwrap();
    assert_eq!(bits(&raw.heard()), [false, true]);
    assert_eq!(bits(&raw.server_sends(10)), [false]);
    // The packet that fills the congestion window.
    raw.say_sack(3, 1 << 20, &[]);
    raw.pair.send(SERVER, raw.server, 0, &vec![0; 10 * FULL]);
    let sent = bits(&raw.heard());
    assert!(!sent[0] && sent[sent.len() - 1], "{sent:?}");
    // SHUTDOWN-PENDING.
    let mut raw = steady(|_| ());
    raw.pair.send(SERVER, raw.server, 0, b"last words");
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    assert_eq!(bits(&raw.heard()), [true]);
}

/// Rules C1 to C3, C6: RTO.Initial, the first measurement, and further ones, in milliseconds.
#[test]
fn section_6_3_1_the_rto_in_numbers() {
    let mut raw = steady(|config| {
        config.rto_min = ms(1);
        config.sack_delay = ms(0);
    });
    assert_eq!((path(&raw).srtt, path(&raw).rto), (None, ms(1000)));
    let mut measure = |next, rtt| {
        raw.server_sends(10);
        raw.pair.now += ms(rtt);
        raw.say_sack(next, 1 << 20, &[]);
        (path(&raw).srtt.unwrap().as_micros(), path(&raw).rto.as_micros())
    };
    assert_eq!(measure(1, 100), (100_000, 300_000)); // 100 + 4 * 50
    assert_eq!(measure(2, 200), (112_500, 362_500)); // var 3/4 * 50 + 1/4 * 100 = 62.5
    assert_eq!(measure(3, 112), (112_437, 300_437)); // var 3/4 * 62.5 + 1/4 * 0.5 = 47
}

/// C4: one measurement per round trip. C5: none from retransmitted chunks, nor from chunks that were outstanding at
/// that time.
#[test]
fn section_6_3_1_c4_and_c5() {
    let mut raw = steady(|config| config.rto_min = ms(1));
    raw.server_sends(10);
    raw.pair.now += ms(50);
    raw.server_sends(10);
    raw.pair.now += ms(50);
    raw.say_sack(1, 1 << 20, &[]);
    assert_eq!(path(&raw).srtt, Some(ms(100)));
    raw.pair.now += ms(400);
    raw.say_sack(2, 1 << 20, &[]);
    assert_eq!(path(&raw).srtt, Some(ms(100)), "it was sent before the last measurement: same round trip");
    // Retransmitted: its late acknowledgement is no measurement, and the RTO stays backed off.
    raw.server_sends(10);
    raw.server_sends(10);
    let again = raw.wait(ms(350));
    assert_eq!(tsns(&again)[0][0], raw.server_tsn + 2);
    let rto = path(&raw).rto;
    assert_eq!(rto, ms(600));
    raw.say_sack(4, 1 << 20, &[]);
    assert_eq!((path(&raw).srtt, path(&raw).rto), (Some(ms(100)), rto));
    // New data is measured again, and the back-off is over.
    raw.server_sends(10);
    raw.pair.now += ms(100);
    raw.say_sack(5, 1 << 20, &[]);
    assert!(path(&raw).rto < ms(400), "{:?}", path(&raw).rto);
}

/// R1: the first chunk starts the timer, and later ones do not restart it. R2: it stops when everything is
/// acknowledged. R3: it restarts when the earliest chunk is acknowledged, and not for a later one.
#[test]
fn section_6_3_2_t3_rtx_starts_restarts_and_stops() {
    let fires = |raw: &mut Raw| {
        let begin = raw.pair.now;
        for _ in 0..400 {
            if !raw.wait(ms(10)).is_empty() {
                return Some(raw.pair.now.since(begin).as_millis());
            }
        }
        None
    };
    let two = || {
        let mut raw = steady(|_| ());
        raw.server_sends(100);
        raw.wait(ms(400));
        raw.server_sends(100);
        raw.wait(ms(200));
        raw
    };
    // R1: one second after the first.
    assert_eq!(fires(&mut two()), Some(410));
    // R3: the earliest is acknowledged, so the timer restarts.
    let mut raw = two();
    raw.say_sack(1, 1 << 20, &[]);
    let after = fires(&mut raw).unwrap();
    assert!((1000..=1900).contains(&after), "{after}");
    // Only a later one: the timer keeps running.
    let mut raw = two();
    raw.say_sack(0, 1 << 20, &[(2, 2)]);
    assert_eq!(fires(&mut raw), Some(410));
    // R2.
    let mut raw = two();
    raw.say_sack(2, 1 << 20, &[]);
    assert_eq!(fires(&mut raw), None);
}

/// R4: a revoked acknowledgement starts the timer if it is stopped.
#[test]
fn section_6_3_2_r4_reneging_starts_the_timer() {
    let mut raw = steady(|_| ());
    raw.server_sends(100);
    raw.server_sends(100);
    // A gap block acknowledges both chunks: nothing is in flight, and the timer has stopped.
    raw.say_sack(0, 1 << 20, &[(1, 2)]);
    assert_eq!(path(&raw).flight, 0);
    raw.wait(ms(5000));
    raw.say_sack(0, 1 << 20, &[(1, 1)]);
    let again = raw.wait(ms(1100));
    assert_eq!(tsns(&again), [[raw.server_tsn + 1]]);
}

/// E1 to E3: cwnd and ssthresh, a doubled RTO, and as many of the earliest chunks as fit one packet.
#[test]
fn section_6_3_3_a_time_out_sends_one_packet() {
    let mut raw = steady(|_| ());
    let tsn = raw.server_tsn;
    for _ in 0..6 {
        assert_eq!(tsns(&raw.server_sends(500)).len(), 1);
    }
    let again = raw.wait(ms(1100));
    // 1,252 bytes of a packet less 12 hold two chunks of 516.
    assert_eq!(tsns(&again), [[tsn, tsn + 1]]);
    let after = path(&raw);
    assert_eq!((after.cwnd, after.ssthresh, after.rto), (PMDCS, 4 * PMDCS, ms(2000)));
    assert_eq!(after.error_count, 1);
    // The others are sent as soon as cwnd allows, when the first are acknowledged.
    let next = raw.say_sack(2, 1 << 20, &[]);
    assert_eq!(tsns(&next)[0], [tsn + 2, tsn + 3]);
    assert_eq!(status(&raw).stats.retransmissions as usize, 2 + tsns(&next).concat().len());
}

/// Stream sequence numbers start from 0 on every stream and grow by one with each ordered message. Unordered messages
/// do not change them.
#[test]
fn section_6_5_stream_numbers_count_ordered_messages() {
    let mut raw = steady(|config| config.burst_max = 0);
    let mut seen = Vec::new();
    for (stream, unordered) in
        [(0, false), (5, false), (0, true), (0, false), (5, true), (5, false), (99, false)]
    {
        let info = SendInfo { stream: StreamId(stream), unordered, ..SendInfo::default() };
        let (now, server) = (raw.pair.now, raw.server);
        raw.pair.hosts[SERVER].endpoint.send(now, server, info, vec![0; 10].into()).unwrap();
        for sent in raw.heard() {
            for chunk in chunks(&sent) {
                if let Chunk::Data(data) = chunk {
                    assert_eq!(data.unordered, unordered);
                    seen.push((data.stream.0, data.unordered, data.ssn.0));
                }
            }
        }
    }
    let ordered: Vec<_> =
        seen.iter().filter(|(_, unordered, _)| !unordered).map(|(s, _, n)| (*s, *n)).collect();
    assert_eq!(ordered, [(0, 0), (5, 0), (0, 1), (5, 1), (99, 0)]);
    // Beyond the negotiated streams: refused (section 5.1.1).
    let info = SendInfo { stream: StreamId(100), ..SendInfo::default() };
    let refused = raw.pair.hosts[SERVER].endpoint.send(raw.pair.now, raw.server, info, "x".into());
    assert!(refused.is_err());
}

/// Rule A: the window is closed, and the packets that probe it are too long for the path, except the last one, which is
/// answered. The path MTU falls, so that the lowest chunk arrives.
#[test]
fn rule_a_window_probes_may_be_too_long() {
    let mut raw = Raw::configured(|config| config.to_the_letter = false);
    for len in [1000, 1000, 10] {
        raw.server_sends(len);
    }
    assert!(raw.say_sack(0, 0, &[(3, 3)]).is_empty());
    let mtu = |raw: &Raw| raw.server().paths(raw.server).unwrap()[0].mtu;
    let before = mtu(&raw);
    let mut again = Vec::new();
    for _ in 0..600 {
        let sent = raw.wait(Duration::from_millis(100));
        if !sent.is_empty() {
            raw.say_sack(0, 0, &[(3, 3)]);
        }
        again.extend(sent);
    }
    let is_first = |sent: &&Sent| tsns(core::slice::from_ref(sent)) == [[raw.server_tsn]];
    assert!(again.iter().filter(is_first).any(|sent| sent.fragment), "{again:?}");
    assert!(mtu(&raw) < before);
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// A tail-loss probe and T3-rtx are due at one instant, since the program was held up: only the time-out counts. The
/// peer reported little room, which a probe of its window fills, and an old SACK shows that the peer is alive.
#[test]
fn overdue_window_probe_is_no_tail_loss() {
    let mut raw = Raw::open(Pair::new(), Init { a_rwnd: 3000, ..init(Tsn(1)) });
    for number in 1..5 {
        raw.server_sends(700);
        raw.pair.now += ms(10);
        raw.say_sack(number, if number == 4 { 100 } else { 3000 }, &[]);
    }
    let probe = raw.server_tsn + 4;
    for _ in 0..3 {
        assert!(raw.server_sends(700).is_empty(), "no room");
    }
    while !raw.wait(ms(1)).iter().any(has(kind::DATA)) {}
    raw.say_sack(3, 3000, &[]);
    let now = raw.pair.now + Duration::from_secs(5);
    raw.pair.now = now;
    raw.pair.hosts[SERVER].endpoint.handle_timeout(now);
    assert_eq!(tsns(&raw.heard()), [[probe]]);
    let stats = status(&raw).stats;
    assert_eq!((stats.timeouts, stats.tail_probes), (1, 0));
    // Both probes of the flight are left.
    assert_eq!(tsns(&raw.wait(ms(1500))), [[probe], [probe]]);
    assert_eq!(status(&raw).stats.timeouts, 1);
}
