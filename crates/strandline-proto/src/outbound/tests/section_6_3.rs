//! Round-trip times (6.3.1), what the timers need to know (6.3.2), T3-rtx expiry (6.3.3).

use super::*;

/// C4, C5: one sample for each path, from the chunk sent last.
#[test]
fn sample_comes_from_each_paths_latest_chunk() {
    let mut fixture = Fixture::new();
    let mut sent = Vec::new();
    for path in [0, 1, 0, 1] {
        fixture.wait(10);
        fixture.push(FULL);
        fixture.packet(path);
        sent.push(fixture.now);
    }
    let (_, acks) = fixture.sack(4, &[]);
    assert_eq!(acks[0].rtt.sent_at, Some(sent[2]));
    assert_eq!(acks[1].rtt.sent_at, Some(sent[3]));
    assert_eq!(acks[2].rtt.sent_at, None);
}

/// C5: never from a retransmitted chunk, nor from one sent before another was retransmitted.
#[test]
fn retransmission_invalidates_outstanding_samples() {
    let mut fixture = Fixture::with_outstanding(3);
    fixture.sack(0, &[(2, 2)]);
    fixture.timeout(0);
    fixture.wait(5);
    assert_eq!(fixture.tsns(0), [0, 1]);
    fixture.wait(5);
    fixture.push(FULL);
    fixture.packet(0);
    let sent = fixture.now;
    let (_, acks) = fixture.sack(3, &[]);
    assert_eq!(acks[0].rtt.sent_at, None);
    let (_, acks) = fixture.sack(4, &[]);
    assert_eq!(acks[0].rtt.sent_at, Some(sent));
}

#[test]
fn gap_acknowledged_chunk_gives_a_sample_once() {
    let mut fixture = Fixture::with_outstanding(3);
    fixture.wait(10);
    let (_, acks) = fixture.sack(0, &[(1, 1)]);
    assert_eq!(acks[0].rtt.sent_at, Some(Time::ZERO));
    let (_, acks) = fixture.sack(0, &[(1, 1)]);
    assert_eq!(acks[0].rtt.sent_at, None);
}

/// R3, on each path separately.
#[test]
fn earliest_chunk_acknowledged_is_told() {
    let mut fixture = Fixture::new();
    for path in [0, 1, 0, 1] {
        fixture.push(FULL);
        fixture.packet(path);
    }
    let (_, acks) = fixture.sack(0, &[(2, 2)]);
    assert!(!acks[0].acked.lowest, "0 is still outstanding there");
    let (_, acks) = fixture.sack(0, &[(1, 2)]);
    assert!(acks[1].acked.lowest && !acks[0].acked.lowest);
    let (_, acks) = fixture.sack(1, &[]);
    assert!(acks[0].acked.lowest && !acks[1].acked.lowest);
}

/// E3, F1: everything in flight on that path, and only there, is marked; lowest TSN first.
#[test]
fn time_out_marks_its_paths_flight() {
    let mut fixture = Fixture::new();
    for path in [0, 1, 0, 0] {
        fixture.push(FULL);
        fixture.packet(path);
    }
    fixture.sack(0, &[(2, 2)]);
    assert_eq!(fixture.timeout(0), 2 * ROOM as u32, "0 and 3; 2 is acknowledged");
    assert_eq!(fixture.flight[..2], [0, ROOM as u32]);
    let next = Retransmission { size: ROOM, last_path: at(0), fast: false, repeated: false, probe: false };
    assert_eq!(fixture.out.retransmission(), Some(next));
    assert_eq!(fixture.tsns(0), [0, 3]);
    assert_eq!(fixture.out.retransmission(), None);
    assert_eq!(fixture.timeout(0), 2 * ROOM as u32, "and again");
    assert_eq!(fixture.tsns(0), [0, 3]);
}

/// E3: as many chunks as fit one packet.
#[test]
fn retransmissions_are_bundled() {
    let mut fixture = Fixture::new();
    for _ in 0..6 {
        fixture.push(400);
        fixture.packet(0);
    }
    fixture.timeout(0);
    let sizes: Vec<_> = fixture.packets(0).iter().map(Vec::len).collect();
    assert_eq!(sizes, [3, 3]);
}

/// A late acknowledgement of marked chunks counts, though they had left the flight before.
#[test]
fn marked_chunk_acknowledged_before_it_is_sent_again() {
    let mut fixture = Fixture::with_outstanding(2);
    fixture.timeout(0);
    let (outcome, acks) = fixture.sack(2, &[]);
    assert!(applied(outcome).all_acked);
    assert_eq!((acks[0].acked.bytes, acks[0].acked.flight_drop), (2 * ROOM as u32, 0));
    assert!(!fixture.out.has_retransmissions());
    assert_eq!(fixture.packet(0), []);
}

#[test]
fn timeout_without_anything_in_flight() {
    let mut fixture = Fixture::new();
    assert_eq!(fixture.timeout(3), 0);
    fixture.push(1);
    assert_eq!(fixture.timeout(0), 0);
}

/// C5 with loss detection by time: all SACKs were lost for two seconds. The answer is to the retransmission, and
/// earlier arrivals do not increase the round-trip time, whether a gap block reports the answer or not.
#[test]
fn lost_sacks_do_not_lengthen_the_rtt() {
    for probed in [false, true] {
        let mut fixture = Fixture::with_rack(6);
        fixture.wait(2000);
        if probed {
            fixture.flight[0] -= fixture.out.on_probe(Time::ZERO, at(0), false);
            assert_eq!(fixture.tsns(0), [5]);
        } else {
            fixture.flight[0] -= fixture.out.on_first_timeout(at(0), false, ROOM as u32);
            assert_eq!(fixture.tsns(0), [0]);
        }
        fixture.wait(100);
        let (_, acks) = if probed { fixture.sack(4, &[(5, 5)]) } else { fixture.sack(6, &[]) };
        assert!(acks[0].acked.bytes > 0);
        assert!(acks[0].rtt.sent_at.is_none() || acks[0].rtt.after_lost_sack, "{probed}: {:?}", acks[0]);
    }
}

/// An answer that is too soon for the retransmission is for earlier data: it is a measurement.
#[test]
fn too_early_answer_measures_earlier_data() {
    let mut fixture = Fixture::with_rack(3);
    fixture.sack(1, &[]);
    fixture.wait(300);
    fixture.flight[0] -= fixture.out.on_probe(Time::ZERO, at(0), false);
    assert_eq!(fixture.tsns(0), [2]);
    fixture.wait(10);
    let (_, acks) = fixture.sack(3, &[]);
    assert!(acks[0].rtt.sent_at.is_some() && !acks[0].rtt.after_lost_sack, "{:?}", acks[0]);
}

/// Data of one path is retransmitted on another after T3-rtx: its answer says nothing about the first path either.
#[test]
fn retransmission_elsewhere_measures_nothing() {
    let mut fixture = Fixture::with_rack(6);
    fixture.wait(2000);
    fixture.flight[0] -= fixture.out.on_first_timeout(at(0), false, ROOM as u32);
    assert_eq!(fixture.tsns(1), [0]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(6, &[]);
    assert!(acks[0].rtt.sent_at.is_none() || acks[0].rtt.after_lost_sack, "{:?}", acks[0]);
}

/// E3: as many of the lowest chunks as fit the packet that they are retransmitted in, and at least one. Its
/// size depends on the path that it takes, not on the one before.
#[test]
fn time_out_marks_one_packet() {
    let chunk = 100 + 16;
    for (room, chunks) in [(5 * chunk, 5), (5 * chunk - 1, 4), (20 * chunk, 10), (50, 1)] {
        let mut fixture = Fixture::with_rack(0);
        for _ in 0..10 {
            fixture.push(100);
        }
        assert_eq!(fixture.tsns(0).len(), 10);
        fixture.wait(1000);
        let marked = fixture.out.on_first_timeout(at(0), false, room);
        assert_eq!(marked, chunks * chunk, "{room}");
        fixture.flight[0] -= marked;
        fixture.check();
    }
}
