use super::*;
use bytes::Bytes;
use strandline_proto::number::{Ppid, Ssn, Tsn};

fn message(stream: u16, size: usize) -> Message {
    Message {
        stream: StreamId(stream),
        ssn: Ssn(0),
        tsn: Tsn(0),
        ppid: Ppid(0),
        unordered: false,
        begins: true,
        ends: true,
        data: Bytes::from(vec![0; size]),
    }
}

#[test]
fn readers_get_their_streams_within_the_bound() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let mut routes = Routes::new(1000);
    assert!(routes.claim(StreamId(1)));
    assert!(!routes.claim(StreamId(1)));
    routes.push(message(1, 400), &mut read, &mut woken);
    routes.push(message(2, 500), &mut read, &mut woken);
    assert!(routes.is_full());
    assert_eq!(routes.pop(None).map(|m| m.stream), Some(StreamId(2)));
    assert!(!routes.is_full());
    assert!(routes.pop(None).is_none());
    assert_eq!(routes.pop(Some(StreamId(1))).map(|m| m.data.len()), Some(400));
    assert_eq!(routes.held_bytes, 0);
}

#[test]
fn late_reader_finds_earlier_messages() {
    let (mut read, mut woken) = (WaitQueue::default(), Vec::new());
    let mut routes = Routes::new(10_000);
    routes.push(message(3, 1), &mut read, &mut woken);
    routes.push(message(4, 2), &mut read, &mut woken);
    routes.push(message(3, 3), &mut read, &mut woken);
    assert!(routes.claim(StreamId(3)));
    assert_eq!(routes.pop(Some(StreamId(3))).map(|m| m.data.len()), Some(1));
    routes.unclaim(StreamId(3), &mut read, &mut woken);
    let rest: Vec<usize> = std::iter::from_fn(|| routes.pop(None)).map(|m| m.data.len()).collect();
    assert_eq!(rest, [2, 3]);
}
