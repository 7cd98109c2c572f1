//! RFC 9260 section 7.2 in numbers: the congestion window after each SACK, at a path MTU of 1,280 with IPv4 and UDP.

use super::raw::*;
use super::*;
use crate::congestion::Algorithm;
use crate::stats::PathStatus;

/// The largest DATA chunk, header included, and its payload.
const PMDCS: u32 = 1240;
const FULL: usize = 1224;

/// The server as sender with data always queued. A hand-made peer acknowledges chunk by chunk.
struct Sender {
    raw: Raw,
    /// Number of chunks sent so far, and acknowledged.
    sent: u32,
    acked: u32,
}

impl Sender {
    fn new() -> Self {
        let raw = Raw::configured(|config| {
            config.path_mtu_max = config.path_mtu_initial;
            config.heartbeat_interval = None;
            config.burst_max = 0;
        });
        let mut sender = Self { raw, sent: 0, acked: 0 };
        sender.fill(20);
        sender
    }

    /// Queues full messages.
    fn fill(&mut self, messages: usize) {
        for _ in 0..messages {
            self.raw.pair.send(SERVER, self.raw.server, 0, &[0; FULL]);
        }
        let sent = self.raw.heard();
        self.count(&sent);
    }

    fn count(&mut self, sent: &[Sent]) {
        for tsn in tsns(sent).concat() {
            self.sent = self.sent.max(tsn.distance_from(self.raw.server_tsn) + 1);
        }
    }

    fn path(&self) -> PathStatus {
        self.raw.server().paths(self.raw.server).unwrap()[0].clone()
    }

    /// Acknowledges `chunks` more chunks cumulatively, 10 ms later. Returns cwnd.
    fn ack(&mut self, chunks: u32) -> u32 {
        self.acked += chunks;
        self.sack(&[])
    }

    fn sack(&mut self, gaps: &[(u16, u16)]) -> u32 {
        self.raw.pair.now += Duration::from_millis(10);
        let sent = self.raw.say_sack(self.acked, 1 << 20, gaps);
        self.count(&sent);
        self.path().cwnd
    }

    /// Runs slow start up to a window of `packets` packets, with data always queued.
    fn grow(&mut self, packets: u32) {
        while self.path().cwnd < packets * PMDCS {
            if self.raw.server().status(self.raw.server).unwrap().send_buffered < 60 * FULL {
                self.fill(60);
            }
            self.ack(1);
        }
    }

    fn in_flight(&self) -> u32 {
        self.path().flight / PMDCS
    }
}

/// Section 7.2.1: the initial window, by family and path MTU.
#[test]
fn section_7_2_1_the_initial_window() {
    for (address, mtu, cwnd) in [
        // min(4 * PMDCS, max(2 * PMDCS, 4404)); PMDCS is the MTU less 20, 8 and 12.
        ("192.0.2.101:9899", 1280, 4404),
        ("192.0.2.101:9899", 1500, 4404),
        ("192.0.2.101:9899", 576, 4 * 536),
        ("192.0.2.101:9899", 9000, 2 * 8960),
        // 4,344 for IPv6, whose header is 20 bytes longer.
        ("[2001:db8::1]:9899", 1280, 4344),
        ("[2001:db8::1]:9899", 9000, 2 * 8940),
    ] {
        let association = AssociationConfig {
            path_mtu_initial: mtu,
            path_mtu_max: mtu.max(1500),
            congestion: Algorithm::Rfc9260,
            ..AssociationConfig::default()
        };
        let config = EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::new(config, [1; 32], Time::ZERO).unwrap();
        let id = endpoint.connect(Time::ZERO, Connect::to(address.parse().unwrap(), 7)).unwrap();
        let path = &endpoint.paths(id).unwrap()[0];
        assert_eq!((path.cwnd, path.ssthresh), (cwnd, u32::MAX), "{address} {mtu}");
    }
}

/// Slow start: the lesser of the acknowledged bytes and one PMDCS for each SACK, while the window is full.
#[test]
fn section_7_2_1_slow_start_packet_by_packet() {
    let mut sender = Sender::new();
    assert_eq!((sender.path().cwnd, sender.in_flight()), (4404, 4));
    assert_eq!(sender.ack(1), 4404 + PMDCS);
    assert_eq!(sender.in_flight(), 5, "one replaced, one more");
    assert_eq!(sender.ack(2), 4404 + 2 * PMDCS, "two chunks in one SACK: one PMDCS");
    assert_eq!(sender.ack(1), 4404 + 3 * PMDCS);
    // A repeated SACK acknowledges nothing.
    assert_eq!(sender.ack(0), 4404 + 3 * PMDCS);
    assert_eq!(sender.ack(0), 4404 + 3 * PMDCS);
    // Gap blocks acknowledge new data without moving the cumulative TSN.
    assert_eq!(sender.sack(&[(2, 2)]), 4404 + 4 * PMDCS);
    assert_eq!(sender.sack(&[(2, 2)]), 4404 + 4 * PMDCS);
}

/// Small chunks grow the window by no more than their size.
#[test]
fn section_7_2_1_small_chunks_grow_it_by_their_size() {
    let mut sender = Sender::new();
    // 20 full chunks wait; then very many small ones fill the window.
    while sender.acked < 20 {
        sender.ack(1);
    }
    for _ in 0..2000 {
        sender.raw.pair.send(SERVER, sender.raw.server, 0, &[0; 50]);
    }
    let sent = sender.raw.heard();
    sender.count(&sent);
    let before = sender.path();
    assert!(before.flight >= before.cwnd);
    // A chunk of 50 bytes takes 68.
    assert_eq!(sender.ack(1) - before.cwnd, 68);
    let before = sender.path();
    assert!(before.flight >= before.cwnd);
    assert_eq!(sender.ack(3) - before.cwnd, 3 * 68);
}

#[test]
fn section_7_2_1_unused_window_does_not_grow() {
    let raw = Raw::configured(|config| {
        config.path_mtu_max = config.path_mtu_initial;
        config.heartbeat_interval = None;
    });
    let mut sender = Sender { raw, sent: 0, acked: 0 };
    for _ in 0..50 {
        sender.fill(3);
        assert_eq!(sender.in_flight(), 3);
        assert_eq!(sender.ack(3), 4404);
    }
}

/// Three miss indications: ssthresh = max(cwnd / 2, 4 * PMDCS), cwnd = ssthresh, one packet at once. No growth and no
/// second reduction in Fast Recovery, which ends at the exit point.
#[test]
fn section_7_2_4_fast_retransmit_and_fast_recovery() {
    let mut sender = Sender::new();
    sender.grow(20);
    sender.fill(30);
    let before = sender.path();
    let lost = sender.raw.server_tsn + sender.acked;
    let exit = sender.sent;
    let outstanding = sender.sent - sender.acked;
    assert!(outstanding >= 20);
    // The first outstanding chunk is lost. Two reports cause nothing but slow start.
    let first = sender.sack(&[(2, 2)]);
    let second = sender.sack(&[(2, 3)]);
    assert_eq!((first, second), (before.cwnd + PMDCS, before.cwnd + 2 * PMDCS));
    sender.raw.pair.now += Duration::from_millis(10);
    let answer = sender.raw.say_sack(sender.acked, 1 << 20, &[(2, 4)]);
    // The third SACK first counts as an acknowledgement (the note in 7.2.4), then halves the window.
    let full = second + PMDCS;
    assert_eq!((sender.path().cwnd, sender.path().ssthresh), (full / 2, full / 2));
    assert_eq!(tsns(&answer)[0], [lost], "at once, whatever cwnd is");
    assert_eq!(tsns(&answer).len(), 1, "only this packet while the flight exceeds cwnd");
    // A second loss within Fast Recovery is marked, without a second reduction.
    for last in 6..10 {
        sender.sack(&[(2, 4), (6, last)]);
    }
    assert_eq!((sender.path().cwnd, sender.path().ssthresh), (full / 2, full / 2));
    // The cumulative TSN moves without reaching the exit point: still no growth.
    sender.acked += 4;
    assert_eq!(sender.sack(&[(2, 5)]), full / 2);
    // Everything up to the exit point is acknowledged: growth again, first by slow start up to ssthresh, then by
    // congestion avoidance.
    sender.acked = exit;
    let after = sender.sack(&[]);
    assert!(after == full / 2 || after == full / 2 + PMDCS);
    assert_eq!(sender.path().ssthresh, full / 2);
    assert_eq!(sender.raw.server().status(sender.raw.server).unwrap().stats.fast_recoveries, 1);
}

/// The minimum window after a loss is 4 PMDCS.
#[test]
fn section_7_2_3_the_window_is_not_halved_below_4_pmdcs() {
    let mut sender = Sender::new();
    sender.ack(1);
    for last in 2..=4 {
        sender.sack(&[(2, last)]);
    }
    assert_eq!((sender.path().cwnd, sender.path().ssthresh), (4 * PMDCS, 4 * PMDCS));
}

/// Congestion avoidance: when partial_bytes_acked reaches cwnd, the window grows by one PMDCS.
#[test]
fn section_7_2_2_congestion_avoidance_packet_by_packet() {
    let mut sender = Sender::new();
    sender.ack(1);
    for last in 2..=4 {
        sender.sack(&[(2, last)]);
    }
    assert_eq!((sender.path().cwnd, sender.path().ssthresh), (4 * PMDCS, 4 * PMDCS));
    // Everything arrives, which ends Fast Recovery.
    sender.acked = sender.sent;
    sender.fill(30);
    sender.sack(&[]);
    while sender.path().cwnd <= sender.path().ssthresh {
        sender.ack(1);
    }
    let begin = sender.path().cwnd;
    assert_eq!(begin, 5 * PMDCS);
    let mut windows = Vec::new();
    for _ in 0..200 {
        sender.fill(1);
        windows.push(sender.ack(1));
    }
    // One PMDCS after as many chunks as the window has: 5, then 6, 7, ...
    let steps: Vec<usize> = windows
        .windows(2)
        .enumerate()
        .filter(|(_, two)| two[1] > two[0])
        .map(|(at, two)| {
            assert_eq!(two[1] - two[0], PMDCS);
            at
        })
        .collect();
    let lengths: Vec<usize> = steps.windows(2).map(|two| two[1] - two[0]).collect();
    assert!(lengths.len() > 8);
    let first = lengths[0];
    assert!((5..=7).contains(&first));
    assert_eq!(lengths, (first..first + lengths.len()).collect::<Vec<_>>(), "{lengths:?}");
}

/// T3-rtx: cwnd = PMDCS, one packet in flight until an acknowledgement, then slow start up to the new ssthresh.
#[test]
fn section_7_2_3_after_a_time_out() {
    let mut sender = Sender::new();
    sender.grow(16);
    let before = sender.path().cwnd;
    let begin = sender.raw.pair.log.len();
    sender.raw.wait(Duration::from_millis(1100));
    let after = sender.path();
    assert_eq!((after.cwnd, after.ssthresh, after.flight), (PMDCS, before / 2, PMDCS));
    assert_eq!(sender.raw.pair.log.len() - begin, 1);
    // New messages change nothing: one packet.
    sender.fill(10);
    assert_eq!(sender.in_flight(), 1);
    assert_eq!(sender.ack(1), 2 * PMDCS);
    assert_eq!(sender.in_flight(), 2);
    assert_eq!(sender.ack(1), 3 * PMDCS);
    let mut last = 3 * PMDCS;
    while last <= before / 2 {
        let next = sender.ack(1);
        assert_eq!(next - last, PMDCS, "slow start up to ssthresh");
        last = next;
    }
    assert_eq!(sender.ack(1), last, "congestion avoidance beyond");
}

/// A pause halves the window once per RTO, down to 4 PMDCS; ssthresh keeps the old value.
#[test]
fn section_7_2_1_a_pause_halves_the_window_each_rto() {
    for (pause_ms, halvings) in [(900, 0), (1100, 1), (2100, 2), (60_000, 9)] {
        let mut sender = Sender::new();
        sender.grow(30);
        while sender.raw.server().status(sender.raw.server).unwrap().send_buffered > 0 {
            sender.acked = sender.sent;
            sender.sack(&[]);
        }
        let before = sender.path().cwnd;
        sender.raw.wait(Duration::from_millis(pause_ms));
        sender.fill(1);
        let after = sender.path();
        assert_eq!(after.cwnd, (before >> halvings).max(4 * PMDCS), "{pause_ms} ms");
        assert_eq!(after.ssthresh, if halvings == 0 { u32::MAX } else { before });
    }
}
