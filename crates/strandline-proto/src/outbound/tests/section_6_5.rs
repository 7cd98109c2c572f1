//! Stream identifiers and stream sequence numbers.

use super::*;

#[test]
fn streams_count_from_zero_each_by_itself() {
    let mut fixture = Fixture::new();
    for stream in [0, 5, 0, 99, 5, 0] {
        fixture.push_on(stream, 1);
    }
    let numbers: Vec<_> = fixture.packets(0).concat().iter().map(|c| (c.stream, c.ssn)).collect();
    assert_eq!(numbers, [(0, 0), (5, 0), (0, 1), (99, 0), (5, 1), (0, 2)]);
}

#[test]
fn number_after_65535_is_0() {
    let mut fixture = Fixture::new();
    let mut last = 0;
    for expected in 0..=65_536_u32 {
        fixture.push_on(7, 1);
        let chunk = fixture.new_chunk(0, ROOM).unwrap();
        assert_eq!(u32::from(chunk.ssn), expected % 65_536);
        last = chunk.ssn;
        fixture.sack(expected + 1, &[]);
    }
    assert_eq!(last, 0);
}

#[test]
fn unordered_messages_leave_the_number_alone() {
    let mut fixture = Fixture::new();
    fixture.push(1);
    let info = SendInfo { unordered: true, ppid: Ppid(9), ..SendInfo::default() };
    fixture
        .out
        .push(Time::ZERO, info, &mut message(1), &fixture.config, |_| fixture.config.send_buffer_start())
        .unwrap();
    fixture.push(1);
    let chunks = fixture.packets(0).concat();
    let seen: Vec<_> = chunks.iter().map(|c| (c.unordered, c.ssn)).collect();
    assert_eq!(seen, [(false, 0), (true, 0), (false, 1)]);
}

#[test]
fn stream_beyond_the_last_is_refused() {
    let mut fixture = Fixture::new();
    let info = SendInfo { stream: StreamId(100), ..SendInfo::default() };
    let refused = fixture
        .out
        .push(Time::ZERO, info, &mut message(1), &fixture.config, |_| fixture.config.send_buffer_start());
    assert_eq!(refused, Err(SendError::InvalidStream { stream: 100, streams: 100 }));
    assert_eq!(fixture.out.heap_bytes(), 0);
}

/// Fewer streams than requested: earlier messages on the others are reported, and the rest keep their order and
/// numbers.
#[test]
fn messages_on_disallowed_streams_fail() {
    let mut fixture = Fixture::new();
    for (index, stream) in [0, 10, 3, 9, 0].into_iter().enumerate() {
        fixture.push_on(stream, index + 1);
    }
    let failed = fixture.out.set_peer(5000, 9);
    let streams: Vec<_> = failed.iter().map(|f| (f.info.stream.0, f.data.len(), f.sent)).collect();
    assert_eq!(streams, [(10, 2, false), (9, 4, false)]);
    assert_eq!(fixture.out.buffered_bytes(), 1 + 3 + 5);
    assert_eq!((fixture.out.peer_rwnd(), fixture.out.streams()), (5000, 9));
    let numbers: Vec<_> = fixture.packets(0).concat().iter().map(|c| (c.stream, c.ssn)).collect();
    assert_eq!(numbers, [(0, 0), (3, 0), (0, 1)]);
}
