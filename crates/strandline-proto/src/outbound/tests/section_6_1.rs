//! Transmission of DATA chunks.

use super::*;

#[test]
fn tsns_are_successive_across_the_wrap() {
    let mut fixture = Fixture::with_outstanding(40);
    assert_eq!(fixture.out.next_tsn(), Tsn(INITIAL.wrapping_add(40)));
    assert_eq!(fixture.out.cumulative_ack(), Tsn(INITIAL - 1));
    fixture.sack(30, &[]);
    assert_eq!(fixture.out.cumulative_ack(), Tsn(13));
}

/// Rule A.
#[test]
fn no_new_data_beyond_the_peers_window() {
    let mut fixture = Fixture::with_window(3000);
    for _ in 0..3 {
        fixture.push(1000);
    }
    fixture.push(1);
    assert_eq!(fixture.tsns(0), [0, 1, 2], "3,000 bytes fit exactly, one byte more does not");
    assert_eq!(fixture.out.peer_rwnd(), 0);
    assert!(!fixture.out.window_probe_wanted(), "no probe while data is outstanding");
    fixture.a_rwnd = 3000;
    fixture.sack(1, &[]);
    assert_eq!(fixture.out.peer_rwnd(), 1000);
    assert_eq!(fixture.tsns(0), [3]);
}

/// Rule A: a probe is sent after 1 RTO, if nothing is outstanding; one chunk only.
#[test]
fn closed_window_is_probed_after_a_wait() {
    let mut fixture = Fixture::with_window(1000);
    for _ in 0..3 {
        fixture.push(1000);
    }
    assert_eq!(fixture.tsns(0), [0]);
    fixture.a_rwnd = 0;
    fixture.sack(1, &[]);
    assert_eq!(fixture.packet(0), []);
    assert!(fixture.out.window_probe_wanted());
    assert_eq!(fixture.packet(0), [], "not before the wait is over");
    fixture.out.permit_window_probe();
    assert_eq!(fixture.tsns(0), [1]);
    assert!(!fixture.out.window_probe_wanted());

    assert!(!fixture.out.zero_window_probing(at(0)), "no answer yet: a time-out would be an error");
    fixture.sack(1, &[]);
    assert!(fixture.out.zero_window_probing(at(0)), "the peer answers and its window is shut");
    assert_eq!(fixture.timeout(0), 1016);
    assert!(!fixture.out.zero_window_probing(at(0)), "each time-out needs an answer of its own");
    assert_eq!(fixture.tsns(0), [1], "the probe is sent again whatever the window");
    fixture.sack(1, &[]);
    assert!(fixture.out.zero_window_probing(at(0)));

    fixture.a_rwnd = 5000;
    fixture.sack(2, &[]);
    assert!(!fixture.out.zero_window_probing(at(0)));
    assert_eq!(fixture.tsns(0), [2]);
}

/// A window that opens while the probe waits makes it unnecessary.
#[test]
fn window_update_ends_the_wait_for_a_probe() {
    let mut fixture = Fixture::with_window(1000);
    fixture.push(1000);
    fixture.push(1000);
    fixture.tsns(0);
    fixture.a_rwnd = 0;
    fixture.sack(1, &[]);
    fixture.packet(0);
    assert!(fixture.out.window_probe_wanted());
    fixture.a_rwnd = 1000;
    fixture.sack(1, &[]);
    assert!(!fixture.out.window_probe_wanted());
    assert_eq!(fixture.tsns(0), [1]);
}

/// Data that the peer dropped for lack of room is a probe when it is retransmitted.
#[test]
fn retransmission_into_a_shut_window_counts_as_probing() {
    let mut fixture = Fixture::with_outstanding(3);
    fixture.a_rwnd = 0;
    fixture.sack(1, &[]);
    assert!(fixture.out.zero_window_probing(at(0)));
    fixture.timeout(0);
    assert_eq!(fixture.tsns(0), [1, 2]);
    assert!(!fixture.out.zero_window_probing(at(0)));
    let (outcome, _) = fixture.sack(0, &[]);
    assert_eq!(outcome, SackOutcome::Ignored);
    assert!(fixture.out.zero_window_probing(at(0)), "even an old SACK shows that the peer lives");
}

/// Rule A: a time-out needs an answer since the last one of its path. The probe of another path may still be answered.
#[test]
fn each_path_needs_answers_of_its_own() {
    let mut fixture = Fixture::with_outstanding(3);
    fixture.a_rwnd = 0;
    fixture.sack(1, &[]);
    fixture.timeout(0);
    assert!(!fixture.out.zero_window_probing(at(0)));
    assert!(fixture.out.zero_window_probing(at(1)));
    fixture.timeout(1);
    assert!(!fixture.out.zero_window_probing(at(1)));
    fixture.sack(0, &[]);
    assert!(fixture.out.zero_window_probing(at(0)) && fixture.out.zero_window_probing(at(1)));
}

/// Silly windows: less than a full packet is sent only if it is half of the largest window ever.
#[test]
fn small_opening_gets_no_small_fragment() {
    let mut fixture = Fixture::with_window(10_000);
    fixture.push(20_000);
    let sent: usize = fixture.packets(0).concat().iter().map(|chunk| chunk.payload.len()).sum();
    assert_eq!(sent, 6 * FULL, "the seventh would be a fragment of {} bytes", 10_000 - 6 * FULL);
    fixture.a_rwnd = 1000;
    fixture.sack(6, &[]);
    assert_eq!(fixture.packet(0), []);
    assert!(fixture.out.window_probe_wanted());
}

/// A peer whose whole buffer is smaller than a packet still gets data without probing.
#[test]
fn window_smaller_than_a_packet_is_filled() {
    let mut fixture = Fixture::with_window(1000);
    fixture.push(1400);
    let chunk = &fixture.packet(0)[0];
    assert_eq!((chunk.payload.len(), chunk.ending), (1000, false));
    fixture.sack(1, &[]);
    assert_eq!(fixture.packet(0)[0].payload.len(), 400);
}

/// Rule C.
#[test]
fn new_data_waits_for_retransmissions() {
    let mut fixture = Fixture::with_outstanding(2);
    fixture.push(10);
    fixture.timeout(0);
    assert!(fixture.out.has_retransmissions());
    assert_eq!(fixture.new_chunk(0, ROOM), None);
    assert_eq!(fixture.again(0, ROOM).unwrap().tsn, 0);
    assert_eq!(fixture.new_chunk(0, ROOM), None);
    assert_eq!(fixture.again(0, ROOM).unwrap().tsn, 1);
    assert_eq!(fixture.new_chunk(0, ROOM).unwrap().tsn, 2);
}

/// At most 2^16 - 1 ordered messages of a stream, and no TSN that a gap block could not report.
#[test]
fn send_window_holds_no_more_than_65535_chunks() {
    let mut fixture = Fixture::new();
    fixture.config.send_messages_max = 100_000;
    for _ in 0..65_540 {
        fixture.push(1);
    }
    let count = core::iter::from_fn(|| fixture.new_chunk(0, ROOM)).count();
    assert_eq!(count, 65_535);
    let (outcome, _) = fixture.raw_sack(Tsn(INITIAL - 1), &[GapBlock { start: 2, end: 65_535 }]);
    assert!(applied(outcome).newly_acked);
    assert_eq!(fixture.new_chunk(0, ROOM), None, "gap acknowledgements don't move the send window");
    fixture.sack(3, &[]);
    assert_eq!(core::iter::from_fn(|| fixture.new_chunk(0, ROOM)).count(), 3);
}

/// The I bit is on the last chunk of the message that asks for it.
#[test]
fn immediate_is_set_on_the_last_chunk_only() {
    let mut fixture = Fixture::new();
    let info = SendInfo { immediate: true, ..SendInfo::default() };
    fixture
        .out
        .push(Time::ZERO, info, &mut message(FULL + 1), &fixture.config, |_| {
            fixture.config.send_buffer_start()
        })
        .unwrap();
    fixture.push(1);
    let chunks = fixture.packets(0).concat();
    let bits: Vec<_> = chunks.iter().map(|chunk| chunk.immediate).collect();
    assert_eq!(bits, [false, true, false]);
}

/// T3-rtx restarts when the earliest outstanding chunk of the path is retransmitted.
#[test]
fn earliest_outstanding_chunk_is_told_for_each_path() {
    let mut fixture = Fixture::new();
    for path in [0, 1, 0, 1] {
        fixture.push(FULL);
        fixture.packet(path);
    }
    let earliest =
        |fixture: &Fixture, tsn: u32, path| fixture.out.is_earliest_outstanding(Tsn(INITIAL) + tsn, at(path));
    assert!(earliest(&fixture, 0, 0) && !earliest(&fixture, 2, 0));
    assert!(earliest(&fixture, 1, 1) && !earliest(&fixture, 3, 1));
    fixture.sack(0, &[(1, 1)]);
    assert!(earliest(&fixture, 3, 1), "what a gap block acknowledged is not outstanding");
    assert!(!earliest(&fixture, 9, 0), "a TSN that was never sent");
}

/// The query of Nagle's algorithm.
#[test]
fn full_packet_is_counted_with_chunk_headers() {
    let mut fixture = Fixture::new();
    for _ in 0..5 {
        fixture.push(200);
    }
    assert!(!fixture.out.has_full_packet(ROOM));
    for _ in 0..2 {
        fixture.push(200);
    }
    assert!(fixture.out.has_full_packet(ROOM), "7 * 216 bytes");
    assert_eq!((fixture.out.pending_bytes(), fixture.out.pending_messages()), (1400, 7));
}

/// Rule A: a gap is missing, and what lies beyond it fills the peer's buffer. The probe of the closed window goes on
/// another path than the gap, and its answer shows that the rest of the gap is lost.
#[test]
fn answered_probe_fills_the_rest_of_a_gap() {
    for probing_path in [0, 1] {
        let mut fixture = Fixture::with_rack(5);
        fixture.push(FULL);
        assert_eq!(fixture.tsns(1), [5]);
        fixture.a_rwnd = 0;
        fixture.sack(0, &[(5, 5)]);
        fixture.wait(1000);
        assert!(fixture.out.zero_window_probing(at(0)));
        fixture.flight[0] -= fixture.out.on_window_probe_timeout(at(0), ROOM as u32);
        assert_eq!(fixture.tsns(probing_path), [0], "one packet");
        fixture.wait(100);
        let (_, acks) = fixture.sack(1, &[(5, 5)]);
        assert_eq!(acks[0].lost.bytes, 4 * ROOM as u32);
        assert_eq!(fixture.tsns(probing_path), [1, 2, 3, 4]);
    }
}

/// Rule A: a probe that the peer has no room for shows nothing about other data, on whatever path it goes.
#[test]
fn dropped_probe_shows_no_loss() {
    for probing_path in [0, 1] {
        let mut fixture = Fixture::with_rack(5);
        fixture.a_rwnd = 0;
        fixture.sack(0, &[]);
        for _ in 0..3 {
            fixture.wait(1000);
            let path = fixture.out.path_of(Tsn(INITIAL)).unwrap();
            let marked = fixture.out.on_window_probe_timeout(path, ROOM as u32);
            fixture.flight[usize::from(path)] -= marked;
            assert_eq!(fixture.tsns(probing_path), [0], "one packet");
            fixture.wait(100);
            let (_, acks) = fixture.sack(0, &[]);
            assert_eq!(acks[0].lost.bytes, 0);
            assert!(!fixture.out.has_retransmissions());
        }
    }
}
