//! RFC 3522: an acknowledgement that arrives sooner than any answer to the retransmission could.

use super::*;

/// Chunk 0 of six was declared lost and retransmitted; a quarter of the round trip of 100 ms is the margin.
fn sent_again(size: usize) -> Fixture {
    let mut fixture = Fixture::with_rack(0);
    for len in [size, FULL, FULL, FULL, FULL, FULL] {
        fixture.push(len);
        fixture.new_chunk(0, ROOM).unwrap();
        fixture.wait(1);
    }
    fixture.wait(100);
    let (_, acks) = fixture.sack(0, &[(1, 5)]);
    assert!(acks[0].begins_congestion_event);
    assert_eq!(fixture.tsns(0), [0]);
    fixture
}

#[test]
fn too_early_acknowledgement_shows_no_loss() {
    for (ms, is_undone) in [(10, true), (74, true), (76, false)] {
        let mut fixture = sent_again(FULL);
        fixture.wait(ms);
        let (_, acks) = fixture.sack(6, &[]);
        assert_eq!((acks[0].undo, acks[0].in_recovery), (is_undone, false), "{ms}");
        fixture.wait(100 - ms);
        let (_, acks) = fixture.sack_twice(6, &[], &[0]);
        assert_eq!(acks[0].undo, !is_undone, "{ms}: once, and by the duplicate if by nothing else");
    }
}

/// A chunk of half a packet may be twice as fast if the transmission time dominates.
#[test]
fn a_short_chunk_is_given_less_time() {
    for (ms, is_undone) in [(36, true), (39, false)] {
        let mut fixture = sent_again(FULL / 2);
        fixture.wait(ms);
        let (_, acks) = fixture.sack(6, &[]);
        assert_eq!(acks[0].undo, is_undone, "{ms}");
    }
}

/// The first of two retransmissions may have been needed: the acknowledgement is its answer.
#[test]
fn two_retransmissions_prove_nothing() {
    let mut fixture = sent_again(FULL);
    for _ in 0..4 {
        fixture.wait(1);
        fixture.push(FULL);
        fixture.packet(0);
    }
    fixture.wait(140);
    let (_, acks) = fixture.sack(0, &[(1, 9)]);
    assert!(acks[0].lost.bytes > 0, "lost once more");
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(10);
    let (_, acks) = fixture.sack(10, &[]);
    assert!(!acks[0].undo);
    fixture.wait(10);
    let (_, acks) = fixture.sack_twice(10, &[], &[0]);
    assert!(!acks[0].undo, "one of three was lost");
}

/// One of two was really lost.
#[test]
fn one_real_loss_is_enough() {
    let mut fixture = Fixture::with_rack(8);
    fixture.wait(7);
    fixture.sack(0, &[(2, 7)]);
    assert_eq!(fixture.tsns(0), [0, 1]);
    fixture.wait(10);
    let (_, acks) = fixture.sack(1, &[(2, 7)]);
    assert!(!acks[0].undo && acks[0].in_recovery);
    fixture.wait(90);
    let (_, acks) = fixture.sack(8, &[]);
    assert!(!acks[0].undo);
}

/// It was retransmitted on another path, which may be faster.
#[test]
fn of_two_paths_only_duplicates_tell() {
    let mut fixture = Fixture::with_rack(6);
    fixture.push(FULL);
    fixture.new_chunk(1, ROOM).unwrap();
    fixture.wait(5);
    fixture.sack(0, &[(1, 6)]);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(10);
    let (_, acks) = fixture.sack(7, &[]);
    assert!(!acks[0].undo);
    let (_, acks) = fixture.sack_twice(7, &[], &[0]);
    assert!(acks[0].undo);
}

/// The reordering window grows as with reported duplicates: three acknowledged packets no longer make a loss.
#[test]
fn it_widens_the_reordering_window() {
    let mut fixture = sent_again(FULL);
    fixture.wait(10);
    fixture.sack(6, &[]);
    for _ in 0..6 {
        fixture.push(FULL);
        fixture.packet(0);
    }
    let sent = fixture.now;
    fixture.wait(100);
    fixture.sack(6, &[(7, 11)]);
    assert_eq!(fixture.tsns(0), [0; 0]);
    fixture.loss_timer().unwrap();
    assert_eq!(fixture.now.since(sent), Duration::from_millis(150));
}
