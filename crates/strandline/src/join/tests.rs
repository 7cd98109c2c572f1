use bytes::Bytes;
use strandline_proto::event::AssociationId as EngineId;
use strandline_proto::number::Ppid;

use super::*;

fn part(stream: u16, unordered: bool, text: &'static str, (begins, ends): (bool, bool)) -> Message {
    let data = Bytes::from_static(text.as_bytes());
    let mut part = Message::whole(StreamId(stream), Ppid(1), data);
    (part.unordered, part.begins, part.ends) = (unordered, begins, ends);
    part
}

const FIRST: (bool, bool) = (true, false);
const MIDDLE: (bool, bool) = (false, false);
const LAST: (bool, bool) = (false, true);
const WHOLE: (bool, bool) = (true, true);

#[test]
fn interleaved_streams_are_kept_apart() {
    let mut joiner = Joiner::new(20);
    let mut push = |stream, unordered, text, place| {
        let joined = joiner.push(part(stream, unordered, text, place)).unwrap();
        joined.map(|message| (message.begins && message.ends, message.data))
    };
    assert_eq!(push(1, false, "one ", FIRST), None);
    assert_eq!(push(2, false, "two ", FIRST), None);
    assert_eq!(push(1, true, "now", WHOLE), Some((true, "now".into())));
    assert_eq!(push(1, true, "un", FIRST), None);
    assert_eq!(push(1, false, "and ", MIDDLE), None);
    assert_eq!(push(2, false, "too", LAST), Some((true, "two too".into())));
    assert_eq!(push(1, true, "ordered", LAST), Some((true, "unordered".into())));
    assert_eq!(push(1, false, "only", LAST), Some((true, "one and only".into())));
    assert_eq!(joiner.bytes(), 0);
}

#[test]
fn too_long_is_reported_once_and_dropped() {
    let mut joiner = Joiner::new(6);
    let too_long = Err(JoinError::TooLong { stream: 1, limit: 6 });
    assert_eq!(joiner.push(part(1, false, "1234", FIRST)), Ok(None));
    assert_eq!(joiner.push(part(1, false, "567", MIDDLE)), too_long);
    assert_eq!(joiner.bytes(), 0, "what was held is given back");
    assert_eq!(joiner.push(part(1, false, "1234567", MIDDLE)), Ok(None));
    assert_eq!(joiner.push(part(1, false, "8", LAST)), Ok(None));
    assert_eq!(joiner.push(part(1, false, "1234567", WHOLE)), too_long);
    assert_eq!(joiner.push(part(1, false, "123456", WHOLE)).unwrap().unwrap().data, "123456");
    assert!(joiner.held.is_empty());
}

#[test]
fn limit_covers_all_incomplete_messages() {
    let mut joiner = Joiner::new(6);
    joiner.push(part(1, false, "1234", FIRST)).unwrap();
    let full = Err(JoinError::Full { stream: 2, limit: 6 });
    assert_eq!(joiner.push(part(2, false, "123", FIRST)), full);
    assert_eq!(joiner.push(part(1, false, "56", LAST)).unwrap().unwrap().data, "123456");
}

/// A whole message is not held, so that it needs no room beside what is.
#[test]
fn whole_messages_pass_full_joiners() {
    let mut joiner = Joiner::new(6);
    joiner.push(part(1, false, "1234", FIRST)).unwrap();
    for (stream, unordered) in [(2, false), (1, true)] {
        let whole = joiner.push(part(stream, unordered, "abcdef", WHOLE));
        assert_eq!(whole.unwrap().unwrap().data, "abcdef");
        let too_long = Err(JoinError::TooLong { stream, limit: 6 });
        assert_eq!(joiner.push(part(stream, unordered, "abcdefg", WHOLE)), too_long);
    }
    assert_eq!(joiner.bytes(), 4);
    assert_eq!(joiner.push(part(1, false, "56", LAST)).unwrap().unwrap().data, "123456");
}

#[test]
fn errors_name_the_sum_if_it_exceeds() {
    let mut joiner = Joiner::new(6);
    let too_long = joiner.push(part(1, false, "1234567", WHOLE)).unwrap_err().to_string();
    assert!(too_long.starts_with("a message on stream 1 is longer than 6 bytes"), "{too_long}");
    joiner.push(part(1, false, "1234", FIRST)).unwrap();
    joiner.push(part(2, false, "1", FIRST)).unwrap();
    let no_room = joiner.push(part(2, false, "23", MIDDLE)).unwrap_err().to_string();
    assert!(no_room.contains("stream 2") && no_room.contains("together"), "{no_room}");
}

#[test]
fn restarts_and_missing_beginnings() {
    let mut joiner = Joiner::new(100);
    let lacks = Err(JoinError::NoBeginning { stream: 3 });
    assert_eq!(joiner.push(part(3, false, "x", MIDDLE)), lacks);
    assert_eq!(joiner.push(part(3, false, "y", LAST)), Ok(None));
    joiner.push(part(3, false, "old", FIRST)).unwrap();
    joiner.push(part(3, false, "new ", FIRST)).unwrap();
    assert_eq!(joiner.push(part(3, false, "life", LAST)).unwrap().unwrap().data, "new life");
    joiner.push(part(3, false, "old", FIRST)).unwrap();
    joiner.clear();
    assert_eq!(joiner.push(part(3, false, "z", LAST)), lacks);
    assert!(joiner.held.is_empty());
}

#[test]
fn associations_are_kept_apart() {
    let id = |slot| AssociationId { shard: 0, id: EngineId { slot, generation: 0 } };
    let mut joiner = EndpointJoiner::new(10);
    joiner.push(id(1), part(0, false, "one ", FIRST)).unwrap();
    joiner.push(id(2), part(0, false, "two ", FIRST)).unwrap();
    assert_eq!(joiner.bytes(), 8);
    assert!(joiner.forget(id(2)) && !joiner.forget(id(2)));
    assert_eq!(joiner.push(id(1), part(0, false, "end", LAST)).unwrap().unwrap().data, "one end");
    assert_eq!(joiner.bytes(), 0);
    assert!(joiner.joiners.is_empty());
}
