//! Several paths: retransmissions move to the path that the caller names.

use super::*;

/// Section 6.4: the outstanding counts of the old and the new address follow the chunk.
#[test]
fn retransmission_moves_flight_to_the_other_path() {
    let mut fixture = Fixture::with_outstanding(3);
    fixture.timeout(0);
    assert_eq!(fixture.tsns(1), [0, 1, 2]);
    assert_eq!(fixture.flight[..2], [0, 3 * ROOM as u32]);
    let (_, acks) = fixture.sack(3, &[]);
    assert!(acks[0].is_nothing());
    assert_eq!((acks[1].acked.bytes, acks[1].acked.lowest), (3 * ROOM as u32, true));
    assert_eq!(acks[1].rtt.sent_at, None);
}

/// Chunks that waited for fast retransmission when their path timed out use the path for timed-out ones.
#[test]
fn timeout_turns_fast_retransmissions_into_timed_out_ones() {
    let mut fixture = Fixture::with_outstanding(5);
    for last in 2..5 {
        fixture.sack(1, &[(2, last)]);
    }
    assert!(fixture.out.retransmission().unwrap().fast);
    assert!(fixture.out.fast_retransmit_pending());
    assert_eq!(fixture.timeout(0), 0);
    assert!(!fixture.out.retransmission().unwrap().fast);
    assert!(!fixture.out.fast_retransmit_pending());
    assert_eq!(fixture.tsns(1), [1]);
}

/// RFC 7829 section 3.2 rules 9 and 10: data sent on one path only is that path's answer, even if it was sent there
/// twice.
#[test]
fn what_went_to_several_paths_is_no_answer() {
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        for by_gap in [false, true] {
            let mut fixture = Fixture::new();
            for path in [5, first] {
                fixture.push(FULL);
                assert_eq!(fixture.packet(path).len(), 1);
            }
            if !by_gap {
                fixture.sack(1, &[]);
            }
            fixture.timeout(first);
            fixture.again(second, ROOM).unwrap();
            let (_, acks) = if by_gap { fixture.sack(0, &[(1, 1)]) } else { fixture.sack(2, &[]) };
            let ack = acks[usize::from(second)];
            let alone = first == second;
            assert_eq!(
                (ack.acked.answered, ack.acked.answered_in_time),
                (alone, alone),
                "{first} {second} {by_gap}"
            );
            assert_eq!(ack.acked.flight_drop, ROOM as u32);
            assert!(acks.iter().filter(|ack| ack.acked.answered).count() <= 1);
        }
    }
}

/// It had timed out and was not retransmitted: it may have arrived long ago.
#[test]
fn what_had_timed_out_is_a_late_answer() {
    let mut fixture = Fixture::with_outstanding(2);
    fixture.timeout(0);
    let (_, acks) = fixture.sack(2, &[]);
    assert_eq!((acks[0].acked.answered, acks[0].acked.answered_in_time), (true, false));
}
