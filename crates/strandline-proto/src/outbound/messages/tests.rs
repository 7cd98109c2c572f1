use bytes::Bytes;

use super::*;
use crate::number::StreamId;

fn message(messages: &mut Messages, stream: u16, len: usize) -> MessageKey {
    let payload = messages.copy(&vec![7; len]);
    let info = SendInfo::on(StreamId(stream));
    messages.insert(Message::new(info, payload))
}

fn stream(messages: &Messages, key: MessageKey) -> u16 {
    messages.get(key).map_or(u16::MAX, |message| message.info.stream.0)
}

/// Messages leave in any order, and their places are used again.
#[test]
fn places_are_used_again() {
    let mut messages = Messages::default();
    let keys: Vec<_> = (0..4).map(|number| message(&mut messages, number, 10)).collect();
    let heap = messages.heap_bytes();
    for round in 0..100 {
        let mut leaving = messages.leaving();
        leaving.add(keys[2]);
        leaving.add(keys[0]);
        leaving.finish();
        assert_eq!(messages.len(), 2);
        let again = [message(&mut messages, 10, round + 1), message(&mut messages, 11, round + 1)];
        assert!(again.contains(&keys[0]) && again.contains(&keys[2]));
        assert_eq!((stream(&messages, keys[1]), stream(&messages, keys[3])), (1, 3));
    }
    assert_eq!(messages.heap_bytes(), heap);
}

/// What is sent of a message is cut at the places that `on_sent` gives.
#[test]
fn fragments_make_the_message() {
    let mut messages = Messages::default();
    let bytes: Vec<u8> = (0..200).collect();
    let payload = Payload::Shared(Bytes::copy_from_slice(&bytes));
    let key = messages.insert(Message::new(SendInfo::default(), payload));
    let mut sent = Vec::new();
    for len in [50, 149, 1] {
        let rest = messages.get(key).map(Message::rest).unwrap_or(Rest { len: 0, begun: false });
        assert_eq!((rest.len, rest.begun), (200 - sent.len(), !sent.is_empty()));
        let start = messages.get_mut(key).map_or(0, |message| message.on_sent(len));
        let ends = len == rest.len;
        let data = messages.chunk(key, Tsn(start), start as usize, len, ends);
        let flags = data.as_ref().map(|data| (data.beginning, data.ending));
        assert_eq!(flags, Some((sent.is_empty(), sent.len() + len == 200)));
        sent.extend_from_slice(data.map_or(&[], |data| data.payload));
    }
    assert_eq!(sent, bytes);
}

#[test]
fn message_fails_once() {
    let mut messages = Messages::default();
    let (first, second) = (message(&mut messages, 1, 30), message(&mut messages, 2, 40));
    messages.get_mut(second).map(|message| message.on_sent(10));
    let failed = messages
        .fail(second, FailureCause::Restarted, |_| Reliability::FULL)
        .map(|f| (f.data.len(), f.sent, f.cause));
    assert_eq!(failed, Some((40, true, FailureCause::Restarted)));
    assert!(messages.fail(second, FailureCause::Restarted, |_| Reliability::FULL).is_none());
    let failed = messages
        .fail(first, FailureCause::AssociationEnded, |_| Reliability::FULL)
        .map(|f| (f.data.len(), f.sent));
    assert_eq!(failed, Some((30, false)));
    assert_eq!(messages.len(), 0);
}

/// Two lists share the slab.
#[test]
fn lists_keep_their_order() {
    let mut messages = Messages::default();
    let mut lists = [List::default(), List::default()];
    for number in 0..10 {
        let key = message(&mut messages, number, 1);
        lists[usize::from(number % 2)].push(&mut messages, key);
    }
    for (parity, list) in lists.iter_mut().enumerate() {
        let mut order = Vec::new();
        while let Some(key) = list.first() {
            order.push(stream(&messages, key));
            list.pop(&mut messages);
        }
        let expected: Vec<_> = (0..5).map(|number| 2 * number + parity as u16).collect();
        assert_eq!(order, expected);
        assert_eq!((list.first, list.last), (MessageKey::NONE, MessageKey::NONE));
    }
}
