use bytes::Bytes;
use strandline_proto::number::Ppid;

use super::*;

/// A side that opens the odd ones of the streams from 1 on, with room for two streams that were not accepted.
fn odd() -> Dynamic {
    let mut dynamic = Dynamic::new(DynamicStreams { backlog: 2, ..DynamicStreams::default() });
    dynamic.set_even(Some(false));
    dynamic
}

fn message(stream: u16, ssn: u16) -> Message {
    let mut message = Message::whole(StreamId(stream), Ppid(0), Bytes::from_static(b"data"));
    message.ssn = Ssn(ssn);
    message
}

/// Lets a message of the peer arrive.
fn arrive(dynamic: &mut Dynamic, stream: u16, ssn: u16) -> Arrival {
    dynamic.on_taken();
    dynamic.push(message(stream, ssn), &mut Vec::new())
}

fn advance(dynamic: &mut Dynamic) -> bool {
    dynamic.advance(&mut Vec::new(), &mut Vec::new())
}

fn end(dynamic: &mut Dynamic, stream: u16, next: u16) -> bool {
    dynamic.note_ends(0, vec![(StreamId(stream), Some(Ssn(next)))]);
    advance(dynamic)
}

fn take(dynamic: &mut Dynamic, key: Key) -> Taken {
    dynamic.queue_mut(key).unwrap().take()
}

#[test]
fn numbers_serve_again_once_both_directions_end() {
    let mut dynamic = odd();
    let keys: Vec<_> = (0..3).map(|_| dynamic.take_number(6).unwrap()).collect();
    assert_eq!(keys.iter().map(|key| key.stream.0).collect::<Vec<_>>(), [1, 3, 5]);
    assert!(dynamic.take_number(6).is_none());
    assert!(!dynamic.on_closed(StreamId(3), true, &mut Vec::new()), "the peer may still send");
    assert!(dynamic.take_number(6).is_none());
    assert!(end(&mut dynamic, 3, 0));
    let again = dynamic.take_number(6).unwrap();
    assert_eq!((again.stream, again.turn != keys[1].turn), (StreamId(3), true));
    assert!(dynamic.sending(keys[1]).is_none() && dynamic.sending(again) == Some(Sending::Open));
    assert!(!end(&mut dynamic, 5, 0), "this side may still send");
    dynamic.on_closed(StreamId(5), false, &mut Vec::new());
    assert!(dynamic.take_number(6).is_none(), "its number was refused");
}

/// What is missing immediately before the end may be the mark of a reset. Earlier gaps are reported where they are.
#[test]
fn ends_are_clean_if_nothing_is_missing() {
    for (arrived, next, gaps, clean) in [
        (&[0, 1][..], 2, 0, true),
        (&[0, 1], 3, 0, false),
        (&[0, 2], 3, 1, true),
        (&[1, 3], 4, 2, true),
        (&[0, 2], 4, 1, false),
        (&[], 1, 0, false),
    ] {
        let mut dynamic = odd();
        for ssn in arrived {
            arrive(&mut dynamic, 2, *ssn);
        }
        end(&mut dynamic, 2, next);
        let key = dynamic.accept().unwrap();
        let (mut messages, mut found) = (0, 0);
        let last = loop {
            match take(&mut dynamic, key) {
                Taken::Message(_) => messages += 1,
                Taken::Error(RecvError::Abandoned) => found += 1,
                other => break other,
            }
        };
        let ended = (messages, found, matches!(last, Taken::End));
        assert_eq!(ended, (arrived.len(), gaps, clean), "{arrived:?} {next}");
        assert!(clean || matches!(last, Taken::Error(RecvError::Unfinished)));
    }
}

/// A whole unordered message between the parts of an ordered one completes nothing.
#[test]
fn no_clean_end_within_a_message() {
    let mut dynamic = odd();
    let push = |dynamic: &mut Dynamic, unordered, ends| {
        dynamic.on_taken();
        let mut part = message(2, 0);
        (part.unordered, part.ends) = (unordered, ends);
        assert!(matches!(dynamic.push(part, &mut Vec::new()), Arrival::Queued));
    };
    push(&mut dynamic, false, false);
    push(&mut dynamic, true, true);
    end(&mut dynamic, 2, 1);
    let key = dynamic.accept().unwrap();
    assert!(matches!(take(&mut dynamic, key), Taken::Message(_)));
    assert!(matches!(take(&mut dynamic, key), Taken::Message(_)));
    assert!(matches!(take(&mut dynamic, key), Taken::Error(RecvError::Unfinished)));
}

/// Data of small messages that wait takes little more than its length, and nothing of it is lost or out of order.
#[test]
fn small_unread_messages_are_joined() {
    const COUNT: usize = 100_000;
    let mut dynamic = Dynamic::new(DynamicStreams { joins_unread: true, ..DynamicStreams::default() });
    dynamic.set_even(Some(false));
    let (mut queued, mut expected) = (0, Vec::new());
    for number in 0..COUNT {
        let mut part = message(2, number as u16);
        // Now and then one of another kind, a large one, or one that is too long for the joined ones.
        part.ppid = Ppid(u32::from(number % 30_000 == 29_999));
        part.data = vec![number as u8; if number % 20_000 == 19_999 { 5000 } else { 1 }].into();
        expected.extend_from_slice(&part.data);
        dynamic.on_taken();
        queued += usize::from(matches!(dynamic.push(part, &mut Vec::new()), Arrival::Queued));
    }
    assert!(queued < 80, "{queued} messages");
    let key = dynamic.accept().unwrap();
    let mut found = Vec::new();
    while let Taken::Message(message) = take(&mut dynamic, key) {
        assert!(message.data.len() <= 64 << 10 && message.begins && message.ends);
        assert!(message.ppid == Ppid(0) || [1, 5000].contains(&message.data.len()));
        found.extend_from_slice(&message.data);
    }
    assert!(found == expected, "other bytes");
    end(&mut dynamic, 2, COUNT as u16);
    assert!(matches!(take(&mut dynamic, key), Taken::End));
}

/// The peer uses a number again before its answer to the reset of this side has arrived.
#[test]
fn answers_may_come_late() {
    let mut dynamic = odd();
    arrive(&mut dynamic, 2, 0);
    let first = dynamic.accept().unwrap();
    end(&mut dynamic, 2, 1);
    dynamic.get_mut(first).unwrap().sending = Sending::Closing;
    assert!(matches!(arrive(&mut dynamic, 2, 0), Arrival::Queued));
    let second = dynamic.accept().unwrap();
    assert!(second.stream == first.stream && second.turn != first.turn);
    dynamic.on_closed(StreamId(2), true, &mut Vec::new());
    assert_eq!(dynamic.sending(second), Some(Sending::Open), "the answer is for the first use");
    assert!(matches!(take(&mut dynamic, first), Taken::Message(_)));
    assert!(matches!(take(&mut dynamic, first), Taken::End));
    assert!(matches!(take(&mut dynamic, second), Taken::Message(_)));
    assert!(matches!(take(&mut dynamic, second), Taken::Nothing));
}

#[test]
fn streams_beyond_the_backlog_are_closed() {
    let mut dynamic = odd();
    for stream in [2, 4] {
        assert!(matches!(arrive(&mut dynamic, stream, 0), Arrival::Queued));
    }
    assert!(matches!(arrive(&mut dynamic, 6, 0), Arrival::Discarded(4)));
    assert!(matches!(arrive(&mut dynamic, 6, 1), Arrival::Discarded(4)));
    assert_eq!(dynamic.to_reset, [StreamId(6)]);
    assert_eq!(dynamic.to_stop, BTreeSet::from([StreamId(6)]));
    end(&mut dynamic, 8, 0);
    assert_eq!(dynamic.to_reset, [StreamId(6), StreamId(8)]);
    assert_eq!(dynamic.to_stop, BTreeSet::from([StreamId(6)]), "it has ended by itself");
}

/// Events have their place among the messages that the engine holds.
#[test]
fn a_stop_concerns_the_stream_of_its_time() {
    let mut dynamic = odd();
    arrive(&mut dynamic, 2, 0);
    let first = dynamic.accept().unwrap();
    dynamic.get_mut(first).unwrap().sending = Sending::Closing;
    dynamic.note_ends(0, vec![(StreamId(2), Some(Ssn(1)))]);
    dynamic.note_stops(1, vec![StreamId(2)]);
    advance(&mut dynamic);
    assert!(dynamic.to_reset.is_empty(), "its message has not arrived");
    arrive(&mut dynamic, 2, 0);
    let mut stopped = Vec::new();
    dynamic.advance(&mut stopped, &mut Vec::new());
    assert_eq!((&stopped[..], &dynamic.to_reset[..]), (&[StreamId(2)][..], &[StreamId(2)][..]));
    let second = dynamic.accept().unwrap();
    assert!(dynamic.was_stopped(second) && !dynamic.was_stopped(first));
    assert_eq!(dynamic.sending(second), Some(Sending::Stopped));
}

/// What was noted before a loss belongs to the streams before it.
#[test]
fn a_loss_has_its_place_too() {
    let mut dynamic = odd();
    let own = dynamic.take_number(100).unwrap();
    arrive(&mut dynamic, 2, 0);
    let peers = dynamic.accept().unwrap();
    dynamic.note_loss(1, RecvError::Restarted);
    assert!(dynamic.is_lost(own) && dynamic.sending(own).is_none());
    assert!(dynamic.take_number(100).is_none(), "messages of before are still to come");
    arrive(&mut dynamic, 2, 1);
    assert!(advance(&mut dynamic));
    for _ in 0..2 {
        assert!(matches!(take(&mut dynamic, peers), Taken::Message(_)));
    }
    assert!(matches!(take(&mut dynamic, peers), Taken::Error(RecvError::Restarted)));
    assert!(matches!(take(&mut dynamic, own), Taken::Error(RecvError::Restarted)));
    assert!(dynamic.is_lost(own) && dynamic.is_lost(peers));
    let next = dynamic.take_number(100).unwrap();
    assert!(next.stream == own.stream && !dynamic.is_lost(next));
}

/// Streams of this side that it has not opened, and those below the first dynamic one, are not accepted.
#[test]
fn foreign_messages_are_returned() {
    let mut dynamic = odd();
    assert!(matches!(arrive(&mut dynamic, 0, 0), Arrival::Foreign(_)));
    assert!(matches!(arrive(&mut dynamic, 7, 0), Arrival::Foreign(_)));
    end(&mut dynamic, 7, 0);
    assert!(dynamic.accept().is_none());
}

/// What is noted at one position is joined. Beyond a limit the peer's resets are denied, until half of it is applied.
#[test]
fn marks_have_a_limit() {
    let (mut dynamic, idle) = (odd(), odd().memory());
    let streams: Vec<_> = (100..300).map(StreamId).collect();
    let mut requests = 0;
    while dynamic.take_denial() != Some(true) {
        dynamic.note_stops(1, streams.clone());
        requests += 1;
    }
    assert!((marks::BYTES_MAX / 400..=marks::BYTES_MAX / 400 + 1).contains(&requests), "{requests}");
    assert!(dynamic.memory() > idle + marks::BYTES_MAX);
    dynamic.note_stops(1, streams);
    assert_eq!(dynamic.take_denial(), None, "it was said before");
    arrive(&mut dynamic, 2, 0);
    advance(&mut dynamic);
    assert_eq!((dynamic.take_denial(), dynamic.marks.memory()), (Some(false), 0));
}
