//! Numbers in order, and with gaps.

use bytes::Bytes;
use strandline_proto::number::{Ppid, StreamId};

use super::*;

/// Receives a message with this SSN. Returns true if messages are missing before it.
fn receives(expected: &mut Expected, ssn: u16) -> bool {
    expected.on_received(&Ok(Some(message(ssn))))
}

fn message(ssn: u16) -> Message {
    let mut message = Message::whole(StreamId(0), Ppid(0), Bytes::new());
    message.ssn = Ssn(ssn);
    message
}

#[test]
fn messages_in_order_miss_nothing() {
    let mut expected = Expected::UpTo(Ssn(0));
    for ssn in [0, 1, 2] {
        assert!(!receives(&mut expected, ssn));
    }
    assert!(!expected.on_end(Ssn(3)));
    // Unread when the stream was opened, across the end of the numbers.
    let mut expected = Expected::UpTo(Ssn(1));
    for ssn in [65_534, 65_535, 0, 1] {
        assert!(!receives(&mut expected, ssn));
    }
}

#[test]
fn gaps_are_found_once() {
    let mut expected = Expected::UpTo(Ssn(0));
    assert!(receives(&mut expected, 1), "the first is missing");
    assert!(!receives(&mut expected, 2));
    assert!(receives(&mut expected, 5));
    assert!(expected.on_end(Ssn(7)));
    assert!(!expected.on_end(Ssn(7)));
}

#[test]
fn unordered_messages_and_parts_have_no_turn() {
    let mut expected = Expected::Exactly(Ssn(3));
    let mut unordered = message(0);
    unordered.unordered = true;
    assert!(!expected.on_received(&Ok(Some(unordered))));
    let mut part = message(2);
    part.begins = false;
    assert!(!expected.on_received(&Ok(Some(part))));
    assert!(!receives(&mut expected, 3));
}

#[test]
fn reported_breaks_are_no_gaps() {
    for (error, ssn) in [(RecvError::Restarted, 0), (RecvError::Reset, 0), (RecvError::Abandoned, 9)] {
        let mut expected = Expected::Exactly(Ssn(7));
        assert!(!expected.on_received(&Err(error)));
        assert!(!receives(&mut expected, ssn));
        assert!(receives(&mut expected, ssn + 2));
    }
}
