//! Order within streams (RFC 9260 sections 6.5 and 6.6).

use super::*;

#[test]
fn a_message_comes_with_all_its_labels() {
    let mut rig = Rig::new();
    assert_eq!(rig.take(&on_stream(5, whole(FIRST, 0, b"hello"))), READABLE);
    assert!(rig.inbound.readable());
    let message = rig.recv().unwrap();
    assert_eq!((message.stream, message.ssn, message.tsn), (StreamId(5), Ssn(0), Tsn(FIRST)));
    assert_eq!((message.ppid, message.unordered), (Ppid(7), false));
    assert!(message.begins && message.ends);
    assert_eq!(&message.data[..], b"hello");
    assert!(!rig.inbound.readable());
    assert!(rig.recv().is_none());
}

#[test]
fn messages_wait_for_earlier_ones_of_their_stream() {
    let mut rig = Rig::new();
    assert_eq!(rig.take(&whole(FIRST + 2, 2, b"c")), ACCEPTED);
    assert_eq!(rig.take(&whole(FIRST + 1, 1, b"b")), ACCEPTED);
    assert!(rig.texts().is_empty());
    assert_eq!(rig.take(&whole(FIRST, 0, b"a")), READABLE);
    assert_eq!(rig.texts(), ["a", "b", "c"]);
    assert_eq!(rig.inbound.buffered_bytes(), 0);
}

#[test]
fn a_loss_holds_up_its_own_stream_only() {
    let mut rig = Rig::new();
    rig.take(&whole(FIRST + 1, 1, b"held"));
    assert_eq!(rig.take(&on_stream(1, whole(FIRST + 2, 0, b"one"))), READABLE);
    assert_eq!(rig.take(&on_stream(1, whole(FIRST + 3, 1, b"two"))), READABLE);
    assert_eq!(rig.texts(), ["one", "two"]);
    rig.take(&whole(FIRST, 0, b"late"));
    assert_eq!(rig.texts(), ["late", "held"]);
}

#[test]
fn unordered_messages_wait_for_nothing() {
    let mut rig = Rig::new();
    assert_eq!(rig.take(&unordered(whole(FIRST + 4, 0, b"now"))), READABLE);
    let message = rig.recv().unwrap();
    assert!(message.unordered);
    assert_eq!(message.ssn, Ssn(0), "the field has no meaning");
    assert_eq!(rig.take(&unordered(begin(FIRST + 1, 0, b"to"))), ACCEPTED);
    assert_eq!(rig.take(&unordered(end(FIRST + 2, 0, b"gether"))), READABLE);
    assert_eq!(rig.texts(), ["together"]);
    rig.take(&whole(FIRST, 0, b"ordered"));
    rig.take(&whole(FIRST + 3, 1, b"numbers go on"));
    assert_eq!(rig.texts(), ["ordered", "numbers go on"]);
}

#[test]
fn stream_numbers_wrap() {
    let mut rig = Rig::new();
    for number in 0..70_000_u32 {
        assert_eq!(rig.take(&whole(FIRST + number, number as u16, b"x")), READABLE);
        assert_eq!(rig.recv().unwrap().ssn, Ssn(number as u16));
    }
}

/// A sender may assign TSNs in another order than SSNs: messages still wait for their turn.
#[test]
fn order_is_by_stream_numbers_not_by_tsns() {
    let mut rig = Rig::new();
    assert_eq!(rig.take(&whole(FIRST, 2, b"c")), ACCEPTED);
    assert_eq!(rig.take(&begin(FIRST + 1, 1, b"b1")), ACCEPTED);
    assert_eq!(rig.take(&end(FIRST + 2, 1, b"b2")), ACCEPTED);
    assert_eq!(rig.take(&whole(FIRST + 3, 0, b"a")), READABLE);
    assert_eq!(rig.texts(), ["a", "b1b2", "c"]);
    assert_eq!(rig.inbound.buffered_bytes(), 0);
}

#[test]
fn a_stream_number_must_not_come_again() {
    let mut rig = Rig::new();
    rig.take(&whole(FIRST, 0, b"a"));
    assert!(is_violation(rig.take(&whole(FIRST + 1, 0, b"a again"))));
    let mut rig = Rig::new();
    rig.take(&whole(FIRST + 2, 2, b"c"));
    assert!(is_violation(rig.take(&whole(FIRST + 3, 2, b"c again"))));
}

/// Section 6.5: acknowledged, reported, discarded.
#[test]
fn a_stream_that_does_not_exist() {
    let mut rig = Rig::new();
    rig.take(&whole(FIRST, 0, b"a"));
    assert_eq!(rig.take(&on_stream(1000, whole(FIRST + 1, 0, b"bad"))), DataOutcome::InvalidStream);
    assert_eq!(rig.inbound.cumulative_tsn(), Tsn(FIRST + 1));
    assert_eq!(rig.take(&on_stream(1000, begin(FIRST + 3, 0, b"bad"))), DataOutcome::InvalidStream);
    assert_eq!(rig.take(&on_stream(1000, end(FIRST + 4, 0, b"bad"))), DataOutcome::InvalidStream);
    assert_eq!(rig.sack().gaps, [(2, 3)]);
    assert_eq!(rig.take(&on_stream(999, whole(FIRST + 2, 0, b"good"))), READABLE);
    assert_eq!(rig.inbound.cumulative_tsn(), Tsn(FIRST + 4));
    assert_eq!(rig.texts(), ["a", "good"]);
}

#[test]
fn a_chunk_without_user_data() {
    let mut rig = Rig::new();
    assert_eq!(rig.take(&whole(FIRST, 0, b"")), DataOutcome::NoUserData);
}

#[test]
fn duplicates_are_delivered_once() {
    let mut rig = Rig::new();
    rig.take(&whole(FIRST + 1, 1, b"b"));
    assert_eq!(rig.take(&whole(FIRST + 1, 1, b"b")), DataOutcome::Duplicate);
    rig.take(&whole(FIRST, 0, b"a"));
    assert_eq!(rig.take(&whole(FIRST, 0, b"a")), DataOutcome::Duplicate);
    assert_eq!(rig.take(&whole(FIRST - 50, 9, b"old")), DataOutcome::Duplicate);
    assert_eq!(rig.texts(), ["a", "b"]);
}

#[test]
fn restart_keeps_only_readable_messages() {
    let mut rig = Rig::new();
    rig.take(&whole(FIRST, 0, b"read me"));
    rig.take(&begin(FIRST + 1, 1, b"never en"));
    rig.take(&whole(FIRST + 9, 4, b"waits"));
    rig.inbound.restart(Tsn(5), 10, 1 << 20);
    assert_eq!(rig.inbound.cumulative_tsn(), Tsn(4));
    assert_eq!(rig.take(&whole(5, 0, b"new")), READABLE);
    assert_eq!(rig.texts(), ["read me", "new"]);
    assert_eq!(rig.inbound.buffered_bytes(), 0);
}
