//! Random messages, fragments, values and changes of the scheduler: every message leaves once, and streams keep their
//! order.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;

use super::*;
use crate::outbound::send_queue::queue::Queue;

#[derive(Debug, Clone)]
enum Step {
    Push {
        stream: u16,
        len: usize,
    },
    /// A packet of so many fragments of at most so many bytes.
    Packet {
        fragments: usize,
        most: usize,
    },
    Value {
        stream: u16,
        value: u16,
    },
    Switch(StreamScheduler),
    /// Gives up messages whose length is a multiple of this.
    Remove {
        each: usize,
        begun: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..6_u16, 1..60_usize).prop_map(|(stream, len)| Step::Push { stream, len }),
        6 => (0..6_usize, 1..30_usize).prop_map(|(fragments, most)| Step::Packet { fragments, most }),
        2 => (0..6_u16, 0..4_u16).prop_map(|(stream, value)| Step::Value { stream, value }),
        1 => prop::sample::select(StreamScheduler::ALL).prop_map(Step::Switch),
        1 => (2..9_usize, any::<bool>()).prop_map(|(each, begun)| Step::Remove { each, begun }),
    ]
}

/// A queue, and the messages that it must have: of each stream in its order, with the bytes that are left.
struct Model {
    queue: Queue,
    messages: Messages,
    left: BTreeMap<u16, VecDeque<(MessageKey, usize)>>,
    /// The message that must be sent to its end.
    under_way: Option<MessageKey>,
    interleaves: bool,
}

impl Model {
    fn run(&mut self, step: &Step) {
        match *step {
            Step::Push { stream, len } => self.push(stream, len),
            Step::Packet { fragments, most } => self.packet(fragments, most),
            Step::Value { stream, value } => {
                self.queue.settings.set_value(StreamId(stream), value);
                self.queue.on_value(StreamId(stream), value);
            }
            Step::Switch(kind) => self.queue.set_scheduler(&mut self.messages, kind),
            Step::Remove { each, begun } => self.remove(each, begun),
        }
        let bytes: usize = self.left.values().flatten().map(|(_, left)| left).sum();
        assert_eq!(self.queue.pending_bytes(), bytes);
        let unsent = |(key, _): &&(MessageKey, usize)| !self.messages.get(*key).unwrap().is_begun();
        assert_eq!(self.queue.pending_messages(), self.left.values().flatten().filter(unsent).count());
    }

    fn push(&mut self, stream: u16, len: usize) {
        let payload = Payload::Shared(Bytes::from(vec![1; len]));
        let message = Message::new(SendInfo::on(StreamId(stream)), payload);
        let key = self.queue.push(&mut self.messages, message);
        self.left.entry(stream).or_default().push_back((key, len));
    }

    fn packet(&mut self, fragments: usize, most: usize) {
        assert!(self.queue.begin_packet(false));
        for number in 0..fragments {
            if !self.send(most) {
                let empty = self.left.values().all(VecDeque::is_empty);
                assert!(empty || number > 0, "something is queued, and nothing may be sent");
                return;
            }
        }
    }

    /// Sends a fragment of at most `most` bytes. Returns false if nothing may be sent in this packet.
    fn send(&mut self, most: usize) -> bool {
        let Some(fragment) = self.queue.next(&self.messages) else { return false };
        let key = fragment.message;
        let of_stream = self.left.get_mut(&fragment.stream.0).unwrap();
        let (first, left) = of_stream.front_mut().unwrap();
        assert_eq!(*first, key, "the first message of its stream");
        assert!(self.under_way.is_none_or(|under_way| under_way == key), "its chunks are consecutive");
        let message = self.messages.get_mut(key).unwrap();
        let len = message.rest().len.min(most).min(fragment.bytes_max);
        let begins = !message.is_begun();
        message.on_sent(len);
        *left -= len;
        let ends = *left == 0;
        if ends {
            of_stream.pop_front();
        }
        self.under_way = (!ends && !self.interleaves).then_some(key);
        self.queue.on_sent(&mut self.messages, &fragment, len, (begins, ends));
        true
    }

    fn remove(&mut self, each: usize, begun: bool) {
        let Self { queue, messages, left, under_way, .. } = self;
        let due = |key: MessageKey, messages: &Messages| {
            let is_begun = messages.get(key).is_some_and(Message::is_begun);
            messages.get(key).map_or(0, Message::len).is_multiple_of(each) && (begun || !is_begun)
        };
        let gone: Vec<_> =
            left.values().flatten().map(|(key, _)| *key).filter(|key| due(*key, messages)).collect();
        under_way.take_if(|key| gone.contains(key));
        left.values_mut().for_each(|of_stream| of_stream.retain(|(key, _)| !gone.contains(key)));
        if begun {
            queue.remove(messages, |key| gone.contains(&key));
        } else {
            let taken = queue.extract(messages, |message| message.len().is_multiple_of(each));
            assert_eq!(taken.len(), gone.len());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn each_message_leaves_once_in_stream_order(
        kind in prop::sample::select(StreamScheduler::ALL),
        interleaves: bool,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let mut queue = Queue::new(Settings::default(), kind, 1 << 20);
        queue.set_interleaves(interleaves);
        let messages = Messages::default();
        let mut model = Model { queue, messages, left: BTreeMap::new(), under_way: None, interleaves };
        for step in &steps {
            model.run(step);
        }
        for _ in 0..300 {
            model.packet(3, 50);
        }
        assert!(model.left.values().all(VecDeque::is_empty), "everything leaves");
    }
}
