//! RFC 5682 (F-RTO): after a time-out one packet asks what became of the others.

use super::*;

impl Fixture {
    fn first_timeout(&mut self, path: u8) -> u32 {
        let bytes = self.out.on_first_timeout(path);
        self.flight[usize::from(path)] -= bytes;
        self.check();
        bytes
    }
}

/// The answer takes as long as one does: the others were sent before what has arrived, and are lost.
#[test]
fn the_answer_to_the_first_shows_that_all_are_lost() {
    let mut fixture = Fixture::by_time(5);
    fixture.wait(1000);
    assert_eq!(fixture.first_timeout(0), ROOM as u32);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(100);
    let (_, acks) = fixture.sack(1, &[]);
    assert_eq!(acks[0].lost_bytes, 4 * ROOM as u32);
    assert!(!acks[0].fast_retransmit_loss, "the time-out has shrunk the window already");
    assert_eq!(fixture.tsns(0), [1, 2, 3, 4]);
}

/// Nothing was lost, all was late: the answers to the first transmissions come, and nothing more is sent twice.
#[test]
fn a_time_out_that_only_delay_caused_sends_one_packet() {
    let mut fixture = Fixture::by_time(5);
    fixture.wait(1000);
    fixture.first_timeout(0);
    assert_eq!(fixture.tsns(0), [0]);
    fixture.wait(10);
    for next in 1..=5 {
        fixture.wait(1);
        let (_, acks) = fixture.sack(next, &[]);
        assert_eq!(acks[0].lost_bytes, 0);
        assert!(!fixture.out.has_retransmissions());
    }
    fixture.wait(90);
    let (_, acks) = fixture.sack_twice(5, &[], &[0]);
    assert!(acks[0].undo);
}

/// The first packet's chunks go together, as section 6.3.3 rule E3 of RFC 9260 has it.
#[test]
fn as_many_as_fit_a_packet() {
    let mut fixture = Fixture::by_time(0);
    for _ in 0..40 {
        fixture.push(100);
        fixture.packet(0);
    }
    fixture.wait(1000);
    assert_eq!(fixture.first_timeout(0), 12 * 116);
    assert_eq!(fixture.packets(0).len(), 1);
}

/// If that was of no avail, all are marked.
#[test]
fn the_second_time_out_marks_all() {
    let mut fixture = Fixture::by_time(5);
    fixture.wait(1000);
    fixture.first_timeout(0);
    fixture.packet(0);
    fixture.wait(2000);
    assert_eq!(fixture.first_timeout(0), 5 * ROOM as u32);
    assert_eq!(fixture.tsns(0), [0, 1, 2, 3, 4]);
}

/// A lone packet on a slow link may be faster than any of a full queue was: half the least round trip counts here.
#[test]
fn a_fast_answer_after_a_time_out_counts() {
    let mut fixture = Fixture::by_time(5);
    fixture.wait(1000);
    fixture.first_timeout(0);
    fixture.packet(0);
    fixture.wait(60);
    let (_, acks) = fixture.sack(1, &[]);
    assert_eq!(acks[0].lost_bytes, 4 * ROOM as u32);
}

/// Where losses are found by miss indications there is no such thing.
#[test]
fn rfc_9260_alone_marks_all() {
    let mut fixture = Fixture::with_outstanding(4);
    assert_eq!(fixture.first_timeout(0), 4 * ROOM as u32);
}
