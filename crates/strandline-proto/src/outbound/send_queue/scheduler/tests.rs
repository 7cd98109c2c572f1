//! The order of each scheduler, its shares, and what no scheduler may do.

mod property;
mod shares;

use bytes::Bytes;

use super::*;
use crate::event::SendInfo;
use crate::outbound::messages::Payload;

/// A scheduler with its messages, sent in fragments of a maximum length.
struct Line {
    scheduler: AnyScheduler,
    settings: Settings,
    messages: Messages,
    /// The message that goes on, if fragments may not be interleaved.
    under_way: Option<MessageKey>,
    interleaves: bool,
}

impl Line {
    fn new(kind: StreamScheduler, interleaves: bool) -> Self {
        let mut scheduler = AnyScheduler::new(kind);
        scheduler.set_by_fragment(interleaves);
        let (settings, messages) = (Settings::default(), Messages::default());
        Self { scheduler, settings, messages, under_way: None, interleaves }
    }

    fn push(&mut self, stream: u16, len: usize) -> MessageKey {
        let stream = StreamId(stream);
        let payload = Payload::Shared(Bytes::from(vec![1; len]));
        let key = self.messages.insert(Message::new(SendInfo::on(stream), payload));
        self.scheduler.push(&mut self.messages, &self.settings, stream, key);
        key
    }

    fn set(&mut self, stream: u16, value: u16) {
        self.settings.set_value(StreamId(stream), value);
        self.scheduler.on_value(StreamId(stream), value);
    }

    /// Sends at most `most` bytes of the next message. Returns its key, its stream and the number of bytes.
    fn send(&mut self, most: usize) -> Option<(MessageKey, u16, usize)> {
        let fragment = match self.under_way {
            Some(key) => Fragment::of(&self.messages, key)?,
            None => self.scheduler.next(&self.messages)?,
        };
        let message = self.messages.get_mut(fragment.message)?;
        let rest = message.rest().len;
        let len = rest.min(most);
        message.on_sent(len);
        let ends = len == rest;
        self.under_way = (!ends && !self.interleaves).then_some(fragment.message);
        self.scheduler.on_sent(&mut self.messages, &self.settings, &fragment, len, ends);
        Some((fragment.message, fragment.stream.0, len))
    }

    /// Sends everything in fragments of at most `most` bytes. Returns their streams.
    fn streams(&mut self, most: usize) -> Vec<u16> {
        core::iter::from_fn(|| self.send(most)).map(|(_, stream, _)| stream).collect()
    }

    /// Begins a packet, and sends fragments until nothing more may be in it. Returns their streams.
    fn packet(&mut self, most: usize, count: usize) -> Vec<u16> {
        if self.under_way.is_none() {
            self.scheduler.begin_packet();
        }
        core::iter::from_fn(|| self.send(most)).take(count).map(|(_, stream, _)| stream).collect()
    }
}

/// Returns a line with these messages: stream and length.
fn line(kind: StreamScheduler, interleaves: bool, messages: &[(u16, usize)]) -> Line {
    let mut line = Line::new(kind, interleaves);
    for (stream, len) in messages {
        line.push(*stream, *len);
    }
    line
}

#[test]
fn first_come_first_served_ignores_streams_and_values() {
    for interleaves in [false, true] {
        let messages = [(3, 30), (1, 10), (3, 10), (2, 20)];
        let mut line = line(StreamScheduler::FirstComeFirstServed, interleaves, &messages);
        line.set(3, 9);
        assert_eq!(line.streams(10), [3, 3, 3, 1, 3, 2, 2]);
    }
}

#[test]
fn round_robin_takes_messages_or_fragments_in_turn() {
    let messages = [(3, 30), (1, 10), (3, 10), (2, 20)];
    let by_message = line(StreamScheduler::RoundRobin, false, &messages).streams(10);
    assert_eq!(by_message, [3, 3, 3, 1, 2, 2, 3]);
    let by_fragment = line(StreamScheduler::RoundRobin, true, &messages).streams(10);
    assert_eq!(by_fragment, [3, 1, 2, 3, 2, 3, 3]);
}

/// Section 3.3: a packet has chunks of one stream only, and streams have their turns with packets.
#[test]
fn packets_of_one_stream_take_turns() {
    for interleaves in [false, true] {
        let messages = [(1, 10), (2, 10), (1, 10), (2, 10), (1, 10), (3, 10)];
        let mut line = line(StreamScheduler::RoundRobinPerPacket, interleaves, &messages);
        assert_eq!(line.packet(10, 2), [1, 1], "a full packet");
        assert_eq!(line.packet(10, 4), [2, 2], "nothing else may be in it");
        assert_eq!(line.packet(10, 4), [3]);
        line.push(3, 10);
        assert_eq!(line.packet(10, 4), [1]);
        assert_eq!(line.packet(10, 4), [3]);
        assert_eq!(line.packet(10, 4), [0_u16; 0]);
    }
}

/// A packet in which nothing had room ends no turn.
#[test]
fn empty_packets_end_no_turn() {
    let mut line = line(StreamScheduler::RoundRobinPerPacket, false, &[(1, 10), (2, 10)]);
    for _ in 0..3 {
        assert_eq!(line.packet(10, 0), [0_u16; 0]);
    }
    assert_eq!(line.packet(10, 2), [1]);
}

/// A long message changes streams with packets only if fragments may be interleaved.
#[test]
fn packets_of_long_messages_take_turns() {
    let messages = [(1, 40), (2, 40), (1, 10)];
    let packets = |interleaves| {
        let mut line = line(StreamScheduler::RoundRobinPerPacket, interleaves, &messages);
        (0..5).map(|_| line.packet(10, 2)).collect::<Vec<_>>()
    };
    assert_eq!(packets(true), [vec![1, 1], vec![2, 2], vec![1, 1], vec![2, 2], vec![1]]);
    assert_eq!(packets(false), [vec![1, 1], vec![1, 1], vec![2, 2], vec![2, 2], vec![1]]);
}

/// Section 3.4 and 4.3.2: the higher the value, the lower the priority.
#[test]
fn lower_values_are_sent_first() {
    let mut line = Line::new(StreamScheduler::Priority, false);
    for (stream, value) in [(1, 7), (2, u16::MAX), (4, 1)] {
        line.set(stream, value);
    }
    for stream in [1, 2, 3, 4, 2, 1] {
        line.push(stream, 10);
    }
    assert_eq!(line.streams(10), [3, 4, 1, 1, 2, 2]);
}

#[test]
fn equal_priorities_take_turns() {
    let messages = [(1, 20), (1, 20), (2, 20), (2, 20)];
    assert_eq!(line(StreamScheduler::Priority, false, &messages).streams(10), [1, 1, 2, 2, 1, 1, 2, 2]);
    assert_eq!(line(StreamScheduler::Priority, true, &messages).streams(10), [1, 2, 1, 2, 1, 2, 1, 2]);
}

/// A message of a higher priority goes before the next message, or before the next fragment.
#[test]
fn higher_priority_preempts() {
    for (interleaves, expected) in [(false, [1, 1, 2, 1]), (true, [2, 1, 1, 1])] {
        let mut line = Line::new(StreamScheduler::Priority, interleaves);
        line.set(1, 5);
        line.push(1, 30);
        line.push(1, 10);
        assert_eq!(line.send(10).map(|sent| sent.1), Some(1));
        line.push(2, 10);
        assert_eq!(line.streams(10), expected);
    }
}

/// A priority that changes holds for what is queued, too; a message that is under way ends first.
#[test]
fn priorities_change_while_messages_are_queued() {
    for (interleaves, expected) in [(false, [1, 3, 2, 1]), (true, [3, 2, 1, 1])] {
        let mut line = line(StreamScheduler::Priority, interleaves, &[(1, 20), (2, 10), (3, 10), (1, 10)]);
        assert_eq!(line.send(10).map(|sent| sent.1), Some(1));
        line.set(1, 3);
        line.set(2, 2);
        assert_eq!(line.streams(10), expected);
    }
}

/// The messages of a stream are taken out as by a look at all of them. Where each stream has a list of its
/// own, the others are not looked at.
#[test]
fn taking_a_stream_looks_at_no_other() {
    for (kind, turn) in
        StreamScheduler::ALL.iter().copied().flat_map(|kind| (0..8).map(move |turn| (kind, turn)))
    {
        let mut lines = [0, 1].map(|_| {
            let mut line = Line::new(kind, true);
            let keys: Vec<_> =
                (0..400).map(|number| line.push(number % 8, 10 + usize::from(number))).collect();
            for _ in 0..turn {
                line.scheduler.begin_packet();
                line.send(10);
            }
            (line, keys)
        });
        let [(by_stream, keys), (by_look, _)] = &mut lines;
        let before = by_stream.messages.pops;
        let taken = by_stream.scheduler.take_stream(&mut by_stream.messages, StreamId(3));
        let pops = by_stream.messages.pops - before;
        assert!(pops <= 50 || kind == StreamScheduler::FirstComeFirstServed, "{kind:?}: {pops}");
        let mut expected = Vec::new();
        by_look.scheduler.retain(&mut by_look.messages, &mut |key, message| {
            let keep = message.info.stream != StreamId(3);
            expected.extend((!keep).then_some(key));
            keep
        });
        assert_eq!(taken, expected, "{kind:?}");
        assert!(taken.iter().all(|key| keys.contains(key)) && taken.len() >= 49);
        for (line, _) in &mut lines {
            line.push(3, 10);
            line.push(5, 10);
        }
        let [one, other] = lines.map(|(mut line, _)| {
            let packets =
                core::iter::repeat_with(|| line.packet(10, 3)).take_while(|packet| !packet.is_empty());
            packets.take(10_000).collect::<Vec<_>>()
        });
        assert_eq!(one, other, "{kind:?}");
    }
}

/// Messages that are taken out leave the others in their order, and their streams' places.
#[test]
fn removal_keeps_the_order() {
    for &kind in StreamScheduler::ALL {
        for interleaves in [false, true] {
            let mut line = Line::new(kind, interleaves);
            let mut keys = Vec::new();
            for number in 0..30 {
                keys.push(line.push(number % 4, 10));
            }
            let removed = |key: &MessageKey| keys.iter().position(|k| k == key).is_some_and(|at| at % 3 == 1);
            let mut seen = Vec::new();
            line.scheduler.retain(&mut line.messages, &mut |key, _| {
                seen.push(key);
                !removed(&key)
            });
            assert_eq!(seen.len(), 30, "{kind:?}: each once");
            let mut left = Vec::new();
            for _ in 0..40 {
                line.scheduler.begin_packet();
                left.extend(line.send(10).map(|sent| sent.0));
            }
            for stream in 0..4 {
                let of = |at: usize| at % 4 == stream;
                let sent =
                    left.iter().filter_map(|key| keys.iter().position(|k| k == key)).filter(|at| of(*at));
                assert!(sent.eq((0..30).filter(|at| of(*at) && at % 3 != 1)), "{kind:?}");
            }
            assert_eq!(left.len(), 20, "{kind:?}");
        }
    }
}
