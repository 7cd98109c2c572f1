//! Several messages partly sent at the same time, which RFC 8260 allows, and another scheduler than first come, first
//! served. DATA chunks stand for those that number fragments.

use super::*;
use crate::config::StreamScheduler;

impl Fixture {
    /// One message of each of these lengths, on streams from 1. `interleaves`: their fragments alternate.
    fn round_robin(lengths: &[usize], interleaves: bool) -> Self {
        let mut fixture = Self::new();
        for (stream, len) in (1..).zip(lengths) {
            fixture.push_on(stream, *len);
        }
        let Busy { queue, messages, .. } = fixture.out.busy.as_deref_mut().unwrap();
        queue.set_scheduler(messages, StreamScheduler::RoundRobin);
        if interleaves {
            queue.set_interleaves(true);
        }
        fixture
    }
}

fn set_scheduler(out: &mut Outbound, scheduler: StreamScheduler) {
    scheduling::set_scheduler(out, scheduler, StreamScheduler::FirstComeFirstServed);
}

fn streams(chunks: &[Sent]) -> Vec<u16> {
    chunks.iter().map(|chunk| chunk.stream).collect()
}

#[test]
fn fragments_of_two_messages_alternate() {
    let mut fixture = Fixture::round_robin(&[3 * FULL, 3 * FULL], true);
    let chunks = fixture.packets(0).concat();
    assert_eq!(streams(&chunks), [1, 2, 1, 2, 1, 2]);
    let flags: Vec<_> = chunks.iter().map(|chunk| (chunk.beginning, chunk.ending)).collect();
    let (first, middle, last) = ((true, false), (false, false), (false, true));
    assert_eq!(flags, [first, first, middle, middle, last, last]);
    for stream in [1, 2] {
        let of_it = chunks.iter().filter(|chunk| chunk.stream == stream);
        let bytes: Vec<u8> = of_it.flat_map(|chunk| chunk.payload.clone()).collect();
        assert!(bytes == message(3 * FULL), "the message of stream {stream}");
    }
}

/// Whichever of the chunks are lost, they go again with their bytes, and each message is finished with its last chunk.
#[test]
fn alternating_fragments_are_lost_in_any_combination() {
    for lost in 1_u32..64 {
        let mut fixture = Fixture::round_robin(&[3 * FULL, 3 * FULL], true);
        let chunks = fixture.packets(0).concat();
        let is_lost = |tsn: &u32| lost >> tsn & 1 == 1;
        let next = (0..6).find(is_lost).unwrap();
        let arrived = (next..6).filter(|tsn| !is_lost(tsn));
        let gaps: Vec<_> = arrived.map(|tsn| (tsn, tsn)).collect();
        fixture.sack(next, &gaps);
        let unfinished = 2 - usize::from(next > 4);
        assert_eq!(fixture.out.unacknowledged_messages(), unfinished, "lost: {lost:06b}");
        fixture.timeout(0);
        let again: Vec<_> = fixture.packets(0).concat();
        let expected: Vec<_> = chunks.into_iter().filter(|chunk| is_lost(&chunk.tsn)).collect();
        assert!(again == expected, "lost: {lost:06b}");
        assert!(applied(fixture.sack(6, &[]).0).all_acked);
        assert_eq!((fixture.out.unacknowledged_messages(), fixture.out.buffered_bytes()), (0, 0));
    }
}

/// Messages finish while an earlier one is still sent; their places are used again.
#[test]
fn short_messages_overtake_a_long_one() {
    let mut fixture = Fixture::round_robin(&[50 * FULL, 10], true);
    fixture.new_chunk(0, ROOM);
    fixture.new_chunk(0, ROOM);
    let heap = fixture.out.heap().messages;
    for next in 2..40 {
        fixture.sack(next, &[]);
        assert_eq!(fixture.out.unacknowledged_messages(), 1);
        if next % 2 == 0 {
            fixture.push_on(2, 10);
        }
        assert_eq!(fixture.new_chunk(0, ROOM).map(|chunk| chunk.stream), Some(1 + (next % 2) as u16));
    }
    assert_eq!(fixture.out.heap().messages, heap);
}

/// Messages that are partly sent are reported whole and once, then those of which nothing was sent.
#[test]
fn alternating_messages_fail_whole() {
    let mut fixture = Fixture::round_robin(&[3 * FULL, 2 * FULL, 20], true);
    fixture.push_on(3, 30);
    for _ in 0..3 {
        fixture.new_chunk(0, ROOM);
    }
    fixture.sack(1, &[]);
    let failed = fixture.out.fail_all(FailureCause::AssociationEnded);
    let failed: Vec<_> = failed.iter().map(|f| (f.info.stream.0, f.data.len(), f.sent)).collect();
    assert_eq!(failed, [(2, 2 * FULL, true), (3, 20, true), (1, 3 * FULL, true), (3, 30, false)]);
    assert!(fixture.out.is_empty());
}

/// Without interleaving a scheduler chooses among messages: fragments have consecutive TSNs (RFC 9260 section 6.9).
#[test]
fn data_chunks_of_a_message_are_consecutive() {
    let mut fixture = Fixture::round_robin(&[2 * FULL, 2 * FULL], false);
    for stream in [1, 1, 2] {
        fixture.push_on(stream, 2 * FULL);
    }
    let chunks = fixture.packets(0).concat();
    assert_eq!(streams(&chunks), [1, 1, 2, 2, 1, 1, 2, 2, 1, 1]);
    let flags = chunks.iter().map(|chunk| (chunk.beginning, chunk.ending));
    assert!(flags.eq([(true, false), (false, true)].into_iter().cycle().take(10)));
}

/// A scheduler that is changed in mid-message lets it end first.
#[test]
fn schedulers_change_under_way() {
    let mut fixture = Fixture::new();
    for (stream, len) in [(1, 3 * FULL), (1, 10), (2, 2 * FULL), (3, 10)] {
        fixture.push_on(stream, len);
    }
    let mut chunks = Vec::from_iter(fixture.new_chunk(0, ROOM));
    for scheduler in [StreamScheduler::RoundRobin, StreamScheduler::FirstComeFirstServed] {
        set_scheduler(&mut fixture.out, scheduler);
        chunks.extend(fixture.new_chunk(0, ROOM));
    }
    set_scheduler(&mut fixture.out, StreamScheduler::RoundRobin);
    chunks.extend(fixture.packets(0).concat());
    // The order after the first message is that of the last change: the streams as they stood in line.
    assert_eq!(streams(&chunks), [1, 1, 1, 2, 2, 3, 1]);
    assert!(applied(fixture.sack(7, &[]).0).all_acked);
}

/// Streams with queued data leave a quarter of the buffer to others.
#[test]
fn a_full_buffer_has_room_for_other_streams() {
    for (scheduler, has_reserve) in
        [(StreamScheduler::FirstComeFirstServed, false), (StreamScheduler::RoundRobin, true)]
    {
        let mut config = AssociationConfig { send_buffer: Some(8000), ..AssociationConfig::default() };
        config.stream_scheduler = scheduler;
        let mut out = Outbound::new(Tsn(1), u32::MAX, 10);
        let mut push = |stream: u16, len: usize| {
            let info = SendInfo::on(StreamId(stream));
            out.push_slice(Time::from_nanos(0), info, &vec![0; len], &config, |_| 8000).is_ok()
        };
        assert!(push(1, 4000) && push(1, 4000) && !push(1, 1));
        assert_eq!(push(2, 1000), has_reserve);
        assert!(!push(2, 1), "it has queued data now");
        assert_eq!(push(3, 1000), has_reserve);
        assert!(!push(4, 1), "the reserve is used up");
    }
}

/// Whole messages that share a packet are taken in the scheduler's order, too.
#[test]
fn bundled_messages_follow_the_scheduler() {
    let mut fixture = Fixture::round_robin(&[10, 10], false);
    for stream in [1, 1, 2, 2] {
        fixture.push_on(stream, 10);
    }
    let mut buffer = vec![0; ROOM + 12];
    let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    let urgency = Urgency { always: false, from_bytes: u32::MAX };
    let bundled = fixture.out.bundle(fixture.now, at(0), ROOM, urgency, &mut packet);
    let len = packet.finish();
    let packet = Packet::parse(&buffer[..len]).unwrap();
    let order: Vec<_> = packet
        .chunks()
        .map(|chunk| match chunk.unwrap().parse().unwrap() {
            Chunk::Data(data) => (data.stream.0, data.ssn.0),
            _ => panic!("not DATA"),
        })
        .collect();
    assert_eq!(order, [(1, 0), (2, 0), (1, 1), (2, 1), (1, 2), (2, 2)]);
    fixture.flight[0] += bundled.bytes;
    fixture.check();
    assert!(applied(fixture.sack(6, &[]).0).all_acked);
}
