use bytes::Bytes;

use super::*;
use crate::number::{Ppid, Tsn};

fn message(stream: u16, ssn: u16) -> Message {
    Message {
        stream: StreamId(stream),
        ssn: Ssn(ssn),
        tsn: Tsn(0),
        ppid: Ppid(0),
        unordered: false,
        begins: true,
        ends: true,
        data: Bytes::from_static(b"x"),
    }
}

#[test]
fn each_stream_has_its_turns() {
    for stream in [0, 3, 4, 63, 64, u16::MAX] {
        let stream = StreamId(stream);
        let mut order = StreamOrder::default();
        assert!(order.is_next(stream, Ssn(0)));
        assert_eq!(order.turn(stream, Ssn(1), 2), Turn::Later);
        order.advance(stream);
        assert_eq!(order.turn(stream, Ssn(1), 2), Turn::Now);
        assert_eq!(order.turn(stream, Ssn(0), 2), Turn::Past);
        assert!(order.is_next(StreamId(stream.0 ^ 1), Ssn(0)));
    }
}

/// More messages than serial arithmetic can distinguish may be in flight, if as many TSNs are.
#[test]
fn tsn_separates_far_ahead_from_past() {
    let order = StreamOrder::default();
    assert_eq!(order.turn(StreamId(0), Ssn(60_000), 60_001), Turn::Later);
    assert_eq!(order.turn(StreamId(0), Ssn(60_000), 59_999), Turn::Past);
    assert_eq!(order.turn(StreamId(0), Ssn(u16::MAX), 1), Turn::Past);
}

#[test]
fn waiting_messages_are_found_across_the_wrap() {
    let mut order = StreamOrder::default();
    for _ in 0..u16::MAX {
        order.advance(StreamId(1));
    }
    assert!(order.wait(message(1, 0), Tsn(0)));
    assert!(order.take_next(StreamId(1)).is_none());
    order.advance(StreamId(1));
    assert_eq!(order.take_next(StreamId(1)), Some(message(1, 0)));
    assert!(!order.has_waiting());
}

#[test]
fn a_number_waits_once_for_each_stream() {
    let mut order = StreamOrder::default();
    assert!(order.wait(message(1, 5), Tsn(5)));
    assert!(order.wait(message(2, 5), Tsn(5)));
    assert!(!order.wait(message(1, 5), Tsn(5)));
}

#[test]
fn waiting_costs_heap_only_while_it_lasts() {
    let mut order = StreamOrder::default();
    assert_eq!(order.heap_bytes(), (0, 0));
    assert!(order.wait(message(0, 1), Tsn(1)));
    order.release_idle();
    assert!(order.has_waiting());
    order.advance(StreamId(0));
    assert!(order.take_next(StreamId(0)).is_some());
    order.release_idle();
    assert_eq!(order.heap_bytes(), (0, 0));
    order.advance(StreamId(40));
    order.release_idle();
    assert!(order.is_next(StreamId(40), Ssn(1)), "what was delivered is not forgotten");
}
