//! Two uses of a dynamic stream, and messages and ends in the wrong one.

use strandline_proto::event::{AssociationId, Message};
use strandline_proto::time::Time;
use strandline_wire::Ppid;

use super::super::Route;
use super::*;
use crate::payload;

const LEN: usize = 10;
const ID: AssociationId = AssociationId { slot: 0, generation: 0 };
const FROM: End = End { host: 0, life: 0, id: ID };
const TO: End = End { host: 1, life: 0, id: ID };
const STREAM: StreamId = StreamId(4);

/// A ledger with messages 0 and 1 in the first use of the stream, and message 2 in the second.
fn two_uses(finished: bool) -> Ledger {
    let mut ledger = Ledger::new(0);
    for number in 0..3 {
        let (info, _) = ledger.next(STREAM.0, false, LEN);
        ledger.taken(Time::ZERO, Route { from: FROM, to_host: 1 }, info, LEN);
        if number == 1 {
            ledger.closes(FROM, STREAM.0, finished);
        }
    }
    ledger
}

fn arrives(ledger: &mut Ledger, number: u32, ssn: u16) -> Result<(), Violation> {
    let mut message = Message::whole(STREAM, Ppid(number), payload::content(number, LEN));
    message.ssn = Ssn(ssn);
    ledger.received(TO, 0, (1, 2), &message).map(|_| ())
}

fn ends(ledger: &mut Ledger, next: u16) -> Result<(), Violation> {
    ledger.ended(TO, 0, STREAM, Ssn(next))
}

#[test]
fn each_message_arrives_in_its_use() {
    let mut ledger = two_uses(true);
    for (number, ssn) in [(0, 0), (1, 1)] {
        assert!(arrives(&mut ledger, number, ssn).is_ok());
    }
    assert!(ends(&mut ledger, 2).is_ok());
    assert!(arrives(&mut ledger, 2, 0).is_ok());
    assert!(ledger.all_ended(TO, 0).is_ok());
    assert!(ends(&mut ledger, 1).is_err(), "the second use was not closed");
}

#[test]
fn messages_of_two_uses_are_not_mixed() {
    let mut ledger = two_uses(true);
    assert!(arrives(&mut ledger, 0, 0).is_ok());
    assert!(arrives(&mut ledger, 1, 1).is_ok());
    assert!(arrives(&mut ledger, 2, 2).is_err(), "before the end of the first use");
    let mut ledger = two_uses(true);
    assert!(arrives(&mut ledger, 0, 0).is_ok());
    assert!(ends(&mut ledger, 1).is_err(), "message 1 is missing and was not given up");
}

#[test]
fn an_end_tells_what_became_of_it() {
    for (finished, next) in [(true, 3), (true, 1), (false, 2)] {
        let mut ledger = two_uses(finished);
        for (number, ssn) in [(0, 0), (1, 1)] {
            assert!(arrives(&mut ledger, number, ssn).is_ok());
        }
        assert!(ends(&mut ledger, next).is_err(), "{finished} {next}");
    }
    let mut ledger = two_uses(false);
    for (number, ssn) in [(0, 0), (1, 1)] {
        assert!(arrives(&mut ledger, number, ssn).is_ok());
    }
    assert!(ends(&mut ledger, 3).is_ok());
}

#[test]
fn finished_streams_end_before_a_shutdown() {
    let mut ledger = two_uses(true);
    assert!(arrives(&mut ledger, 0, 0).is_ok());
    assert!(ledger.all_ended(TO, 0).is_err());
}
