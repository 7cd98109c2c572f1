//! Made-up messages, given up with a reason and without.

use bytes::Bytes;
use strandline_proto::event::{AssociationId, SendInfo};
use strandline_proto::number::Tsn;
use strandline_proto::reconfiguration::Streams;
use strandline_wire::{Data, Fsn, IData, Mid, PacketBuilder, VerificationTag};

use super::super::Route;
use super::*;
use crate::payload;

const LEN: usize = 10;
const ID: AssociationId = AssociationId { slot: 0, generation: 0 };
const FROM: End = End { host: 0, life: 0, id: ID };
const TO: End = End { host: 1, life: 0, id: ID };
const ONCE: Reliability = Reliability::retransmissions(0);

fn at(ms: u64) -> Time {
    Time::ZERO + Duration::from_millis(ms)
}

/// A ledger with messages 0 to 2 on stream 0, the second with a limit. `hosts` support partial reliability.
fn three(limit: Reliability, hosts: core::ops::Range<usize>) -> Ledger {
    let mut ledger = Ledger::new(0);
    ledger.set_may_skip(hosts);
    for number in 0..3 {
        let (mut info, _) = ledger.next(0, false, LEN);
        info.reliability = if number == 1 { limit } else { Reliability::FULL };
        ledger.taken(at(0), Route { from: FROM, to_host: 1 }, info, LEN);
    }
    ledger
}

/// Sends a part of the second message in I-DATA, to a peer with this tag.
fn part_departs(ledger: &mut Ledger, sender: Sender, fsn: u32, tag: u32) -> Result<(), Violation> {
    let mut buffer = [0; 100];
    let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(tag));
    let data =
        Data { ppid: Ppid(1), beginning: fsn == 0, ..Data::whole(Tsn(5 + fsn), StreamId(0), Ssn(0), b"x") };
    assert!(packet.push(&IData::of(data, Mid(0), Fsn(fsn))));
    let len = packet.finish();
    ledger.departs(at(1), sender, &buffer[..len])
}

/// Sends the second message.
fn departs(ledger: &mut Ledger, now: Time) -> Result<(), Violation> {
    let mut buffer = [0; 100];
    let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    assert!(packet.push(&Data { ppid: Ppid(1), ..Data::whole(Tsn(5), StreamId(0), Ssn(1), b"x") }));
    let len = packet.finish();
    ledger.departs(now, (0, Some(ID)), &buffer[..len])
}

/// Reports the second message as given up.
fn fails(ledger: &mut Ledger, now: Time, cause: FailureCause, sent: bool) -> Result<(), Violation> {
    let limit = ledger.records[1].reliability;
    let info = SendInfo::on(StreamId(0)).ppid(Ppid(1)).context(!1).reliability(limit);
    ledger.failed(now, FROM, 1, true, &FailedMessage::new(info, payload::content(1, LEN), sent, cause))
}

fn arrives(ledger: &mut Ledger, number: u32, ssn: u16) -> Result<(), Violation> {
    let data: Bytes = payload::content(number, LEN);
    let mut message = Message::whole(StreamId(0), Ppid(number), data);
    message.ssn = Ssn(ssn);
    ledger.received(TO, 0, (1, 2), &message).map(|_| ())
}

#[test]
fn gap_was_given_up_and_reported() {
    let lost = FailureCause::RetransmissionsExhausted;
    let mut ledger = three(ONCE, 0..2);
    departs(&mut ledger, at(1)).expect("once");
    fails(&mut ledger, at(2), lost, true).expect("right");
    arrives(&mut ledger, 0, 0).expect("the first");
    arrives(&mut ledger, 2, 2).expect("the second was given up");
    ledger.finish().expect("all are accounted for");
    let mut ledger = three(ONCE, 0..2);
    arrives(&mut ledger, 0, 0).expect("the first");
    assert!(arrives(&mut ledger, 2, 2).is_err(), "the second was not given up");
    assert!(ledger.finish().is_err());
}

#[test]
fn unsent_message_has_no_ssn() {
    let mut ledger = three(Reliability::lifetime(Duration::from_millis(50)), 0..0);
    assert!(fails(&mut ledger, at(49), FailureCause::Expired, false).is_err(), "too early");
    let mut ledger = three(Reliability::lifetime(Duration::from_millis(50)), 0..0);
    fails(&mut ledger, at(50), FailureCause::Expired, false).expect("right");
    arrives(&mut ledger, 0, 0).expect("the first");
    assert!(arrives(&mut ledger, 2, 2).is_err(), "SSN 1 is next");
}

#[test]
fn sent_message_is_given_up_by_agreement() {
    let mut ledger = three(ONCE, 0..1);
    departs(&mut ledger, at(1)).expect("once");
    assert!(fails(&mut ledger, at(2), FailureCause::RetransmissionsExhausted, true).is_err());
}

#[test]
fn limits_of_transmissions() {
    let mut ledger = three(ONCE, 0..2);
    departs(&mut ledger, at(1)).expect("once");
    assert!(departs(&mut ledger, at(2)).is_err(), "twice");
    let mut ledger = three(Reliability::lifetime(Duration::from_millis(50)), 0..2);
    departs(&mut ledger, at(50)).expect("within the granularity");
    assert!(departs(&mut ledger, at(51)).is_err());
    let mut ledger = three(Reliability::priority(1), 0..2);
    departs(&mut ledger, at(1)).expect("once");
    assert!(fails(&mut ledger, at(2), FailureCause::LowPriority, true).is_err(), "nothing took its room");
}

/// Only the first chunk names its message. The INITs of both sides met after it was sent, and the peer's
/// later one counts (RFC 9260 section 5.2.4 action B).
#[test]
fn message_goes_on_under_another_tag() {
    let (sender, other) = ((0, Some(ID)), (0, Some(AssociationId { slot: 1, ..ID })));
    let mut ledger = three(ONCE, 0..2);
    part_departs(&mut ledger, sender, 0, 3).expect("it begins");
    part_departs(&mut ledger, sender, 1, 9).expect("the same message");
    assert!(part_departs(&mut ledger, sender, 1, 9).is_err(), "twice");
    assert!(part_departs(&mut ledger, other, 2, 9).is_err(), "the message of nobody");
}

/// The peer has restarted, gives up its first message, and resets its streams before a message of it arrives.
#[test]
fn reset_right_after_a_restart() {
    let mut ledger = three(ONCE, 0..2);
    arrives(&mut ledger, 0, 0).expect("the first");
    ledger.restarted(FROM);
    ledger.restarted(TO);
    for number in 3..6 {
        let (info, _) = ledger.next(0, false, LEN);
        assert_eq!(info.ppid, Ppid(number));
        ledger.taken(at(0), Route { from: FROM, to_host: 1 }, info, LEN);
    }
    ledger.records[3].failed = Some(Fate { sent: true, abandoned: true });
    ledger.reset(TO, &Streams::All);
    arrives(&mut ledger, 4, 0).expect("the first since the reset");
    arrives(&mut ledger, 5, 1).expect("the next");
}

/// Rule 7: the SSNs of a stream begin anew with its reset, and with nothing else. Messages that were given up may
/// have had theirs before or after it.
#[test]
fn reset_begins_the_numbers_anew() {
    let first_delivered = |gives_up: bool, resets: bool| {
        let mut ledger = three(ONCE, 0..2);
        arrives(&mut ledger, 0, 0).expect("the first");
        if gives_up {
            ledger.records[1].failed = Some(Fate { sent: true, abandoned: true });
        }
        if resets {
            ledger.reset(TO, &Streams::Listed(vec![StreamId(0)]));
        }
        ledger
    };
    for (gives_up, resets, number, ssn, right) in [
        (false, false, 1, 1, true),
        (false, false, 1, 0, false),
        (false, true, 1, 0, true),
        // Sent before the reset.
        (false, true, 1, 1, false),
        (true, true, 2, 0, true),
        (true, true, 2, 1, true),
        (true, true, 2, 2, false),
    ] {
        let mut ledger = first_delivered(gives_up, resets);
        let case = (gives_up, resets, number, ssn);
        assert_eq!(arrives(&mut ledger, number, ssn).is_ok(), right, "{case:?}");
    }
    // The next number follows, and what was sent before the first one does not.
    let mut ledger = first_delivered(false, true);
    arrives(&mut ledger, 1, 0).expect("the first since the reset");
    assert!(arrives(&mut ledger, 2, 0).is_err(), "one reset, one beginning");
    let mut ledger = first_delivered(true, true);
    arrives(&mut ledger, 2, 0).expect("the first since the reset");
    assert!(arrives(&mut ledger, 1, 1).is_err(), "it is of before the reset");
    // A reset of another stream changes nothing here.
    let mut ledger = first_delivered(false, false);
    ledger.reset(TO, &Streams::Listed(vec![StreamId(1)]));
    assert!(arrives(&mut ledger, 1, 0).is_err());
}

/// Rule 9: a FORWARD TSN has skipped a chunk that had not arrived. Its message is never delivered.
#[test]
fn skipped_message_is_not_delivered() {
    const TAG: u32 = 3;
    let packet_of = |chunk: &dyn Fn(&mut PacketBuilder<'_>) -> bool| {
        let mut buffer = [0; 100];
        let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(TAG));
        assert!(chunk(&mut packet));
        let len = packet.finish();
        buffer[..len].to_vec()
    };
    let data = packet_of(&|packet| {
        packet.push(&Data { ppid: Ppid(1), ..Data::whole(Tsn(5), StreamId(0), Ssn(1), b"x") })
    });
    let forward = packet_of(&|packet| packet.push_raw(kind::FORWARD_TSN, 0, 4).is_some());
    let other = End { id: AssociationId { slot: 1, ..ID }, ..TO };
    for (arrives_first, skips, right) in [
        (false, Some((TO, Tsn(5))), false),
        (false, Some((TO, Tsn(6))), false),
        (true, Some((TO, Tsn(5))), true),
        (false, Some((TO, Tsn(4))), true),
        (false, Some((other, Tsn(5))), true),
        (false, None, true),
    ] {
        let mut ledger = three(ONCE, 0..2);
        departs(&mut ledger, at(1)).expect("once");
        if arrives_first {
            ledger.arrives(1, &data, None);
        }
        ledger.arrives(1, &forward, skips);
        ledger.arrives(1, &data, None);
        arrives(&mut ledger, 0, 0).expect("the first");
        assert_eq!(arrives(&mut ledger, 1, 1).is_ok(), right, "{arrives_first} {skips:?}");
    }
}
