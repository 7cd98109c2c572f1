//! RFC 5682 (F-RTO): after a time-out one packet reveals the fate of the others.

use super::*;

impl Fixture {
    fn first_timeout(&mut self, path: u8) -> u32 {
        self.one_more_timeout(path, false)
    }

    fn one_more_timeout(&mut self, path: u8, again: bool) -> u32 {
        let bytes = self.out.on_first_timeout(at(path), again, ROOM as u32);
        self.flight[usize::from(path)] -= bytes;
        self.check();
        bytes
    }
}

/// The answer takes as long as usual: the others were sent before what has arrived, and are lost.
#[test]
fn answer_to_the_first_packet_proves_losses() {
    let mut fixture = Fixture::with_rack(5);
    fixture.wait(1000);
    assert_eq!(fixture.first_timeout(0), ROOM as u32);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(1, &[]);
    assert_eq!(acks[0].lost.bytes, 4 * ROOM as u32);
    assert!(!acks[0].begins_congestion_event, "the time-out has shrunk the window already");
    assert_eq!(fixture.tsns(0), [1, 2, 3, 4]);
}

/// The path has failed, and its first packet goes on another one. The answer proves that the others are lost as well,
/// also if there is new data, which would not use the failed path.
#[test]
fn answer_on_another_path_proves_losses() {
    for new_data in [false, true] {
        let mut fixture = Fixture::with_rack(5);
        fixture.wait(1000);
        fixture.first_timeout(0);
        assert_eq!(fixture.tsns(1), [0]);
        if new_data {
            fixture.push(FULL);
        }
        fixture.wait(20);
        let (_, acks) = fixture.sack(1, &[]);
        assert_eq!(acks[0].lost.bytes, 4 * ROOM as u32);
        assert!(!acks[0].probes_timeout && !acks[0].undo, "{acks:?}");
        assert!(!acks[0].begins_congestion_event, "the time-out has shrunk the window already");
        assert_eq!(fixture.tsns(1)[..4], [1, 2, 3, 4]);
    }
}

/// The first transmissions were only late, though the path counts as failed.
#[test]
fn late_answers_end_the_test_on_another_path() {
    let mut fixture = Fixture::with_rack(5);
    fixture.wait(1000);
    fixture.first_timeout(0);
    assert_eq!(fixture.tsns(1), [0]);
    fixture.wait(20);
    let (_, acks) = fixture.sack(2, &[]);
    assert!(acks[0].undo && acks[0].lost.bytes == 0, "the second went only before the time-out: {acks:?}");
    assert!(!fixture.out.has_retransmissions());
}

/// Everything was only late: the answers to the first transmissions arrive, and nothing more is sent twice.
#[test]
fn spurious_time_out_sends_one_packet() {
    for late in [10, 250] {
        let mut fixture = Fixture::with_rack(5);
        fixture.wait(1000);
        fixture.first_timeout(0);
        assert_eq!(fixture.tsns(0), [0]);
        fixture.wait(late);
        let (_, acks) = fixture.sack(2, &[]);
        assert!(acks[0].undo && acks[0].lost.bytes == 0, "step 3b: the second went only before the time-out");
        assert!(!fixture.out.in_fast_recovery());
        for next in 3..=5 {
            fixture.wait(1);
            let (_, acks) = fixture.sack(next, &[]);
            assert!(acks[0].lost.bytes == 0 && !acks[0].undo);
            assert!(!fixture.out.has_retransmissions());
        }
        let (_, acks) = fixture.sack_twice(5, &[], &[0]);
        assert!(!acks[0].undo, "once");
    }
}

/// Five chunks are outstanding, the first was retransmitted, and there is new data.
fn asking() -> Fixture {
    let mut fixture = Fixture::with_rack(5);
    fixture.wait(1000);
    fixture.first_timeout(0);
    assert_eq!(fixture.tsns(0), [0]);
    for _ in 0..2 {
        fixture.push(FULL);
    }
    fixture.wait(100);
    // This may be the answer to either transmission.
    let (_, acks) = fixture.sack(1, &[]);
    assert!(acks[0].probes_timeout && acks[0].lost.bytes == 0, "step 2b");
    assert_eq!(fixture.tsns(0), [5, 6], "new data");
    fixture
}

#[test]
fn new_data_asks_and_older_data_is_acknowledged() {
    let mut fixture = asking();
    let (_, acks) = fixture.sack(2, &[]);
    assert!(acks[0].undo && !acks[0].probes_timeout && acks[0].lost.bytes == 0, "step 3b");
    fixture.wait(100);
    let (_, acks) = fixture.sack(7, &[]);
    assert_eq!((acks[0].undo, acks[0].lost.bytes), (false, 0));
}

#[test]
fn new_data_decides_the_time_out() {
    let mut fixture = asking();
    fixture.wait(100);
    let (_, acks) = fixture.sack(1, &[(5, 5)]);
    assert!(!acks[0].undo && !acks[0].probes_timeout);
    assert_eq!(acks[0].lost.bytes, 4 * ROOM as u32, "step 3a: all the others are lost");
    assert_eq!(fixture.tsns(0), [1, 2, 3, 4]);
}

/// One SACK for everything: the first chunk may have been lost, and the others reported only now (step 2a). A second
/// copy of it proves more.
#[test]
fn all_at_once_prove_nothing() {
    let mut fixture = Fixture::with_rack(5);
    fixture.wait(1000);
    fixture.first_timeout(0);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(5, &[]);
    assert!(!acks[0].undo);
    let (_, acks) = fixture.sack_twice(5, &[], &[0]);
    assert!(acks[0].undo);
}

/// The first packet's chunks are sent together, as in RFC 9260 section 6.3.3 rule E3.
#[test]
fn as_many_as_fit_a_packet() {
    let mut fixture = Fixture::with_rack(0);
    for _ in 0..40 {
        fixture.push(100);
        fixture.packet(0);
    }
    fixture.wait(1000);
    assert_eq!(fixture.first_timeout(0), 12 * 116);
    assert_eq!(fixture.packets(0).len(), 1);
}

/// There was an answer after the first time-out, and another time-out follows: everything is marked.
#[test]
fn a_time_out_after_an_answer_marks_all() {
    let mut fixture = asking();
    fixture.wait(2000);
    assert_eq!(fixture.one_more_timeout(0, false), 6 * ROOM as u32);
    assert_eq!(fixture.tsns(0), [1, 2, 3, 4, 5, 6]);
}

/// Section 3.2: nothing arrived since the first time-out, so the test continues. One packet is retransmitted each
/// time, and that everything was only late shows in the same way, however often the timer expired.
#[test]
fn consecutive_time_outs_are_tested_alike() {
    for times in 2..5 {
        let mut fixture = Fixture::with_rack(5);
        fixture.wait(1000);
        fixture.first_timeout(0);
        assert_eq!(fixture.tsns(0), [0]);
        for _ in 1..times {
            fixture.wait(2000);
            assert_eq!(fixture.one_more_timeout(0, true), ROOM as u32);
            assert_eq!(fixture.tsns(0), [0]);
        }
        fixture.wait(100);
        let (_, acks) = fixture.sack(2, &[]);
        assert!(acks[0].undo && acks[0].lost.bytes == 0, "{times}: step 3b");
    }
}

/// If they were genuine, the answer to the last one shows it.
#[test]
fn genuine_consecutive_time_outs_resend_all() {
    let mut fixture = Fixture::with_rack(5);
    fixture.wait(1000);
    fixture.first_timeout(0);
    fixture.packet(0);
    fixture.wait(2000);
    fixture.one_more_timeout(0, true);
    fixture.packet(0);
    fixture.wait(100);
    let (_, acks) = fixture.sack(1, &[]);
    assert_eq!((acks[0].lost.bytes, acks[0].undo), (4 * ROOM as u32, false));
    assert_eq!(fixture.tsns(0), [1, 2, 3, 4]);
}

/// A single packet on a slow link may be faster than any of a full queue was: half the minimum round-trip time counts
/// here.
#[test]
fn a_fast_answer_after_a_time_out_counts() {
    let mut fixture = Fixture::with_rack(5);
    fixture.wait(1000);
    fixture.first_timeout(0);
    fixture.packet(0);
    fixture.wait(60);
    let (_, acks) = fixture.sack(1, &[]);
    assert_eq!(acks[0].lost.bytes, 4 * ROOM as u32);
}

/// With loss detection by miss indications there is no such test.
#[test]
fn rfc_9260_alone_marks_all() {
    let mut fixture = Fixture::with_outstanding(4);
    assert_eq!(fixture.first_timeout(0), 4 * ROOM as u32);
}
