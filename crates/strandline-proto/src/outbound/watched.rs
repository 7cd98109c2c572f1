//! What is watched of queued messages while a reset of streams is under way, or streams are dynamic: messages that are
//! held back, and how many of each dynamic stream are not sent to their ends. A dynamic stream is closed once it has none.

use std::collections::{BTreeMap, BTreeSet};

use super::held::Held;
use crate::number::StreamId;

/// What is watched.
#[derive(Debug, Default)]
pub(super) struct Watched {
    /// The messages that wait for a reset.
    pub(super) held: Option<Held>,
    /// The messages of dynamic streams.
    pub(super) unsent: Option<Unsent>,
}

impl Watched {
    /// Counts the messages of streams from `first` on.
    pub(super) fn counting(first: StreamId) -> Box<Self> {
        Box::new(Self { held: None, unsent: Some(Unsent::new(first)) })
    }

    /// Records that a message of a stream was sent to its end, or will not be sent.
    #[cold]
    #[inline(never)]
    pub(super) fn on_gone(&mut self, stream: StreamId) {
        if let Some(held) = &mut self.held {
            held.on_gone(stream);
        }
        if let Some(unsent) = &mut self.unsent {
            unsent.on_gone(stream);
        }
    }

    /// Returns the heap bytes, itself included.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.unsent.as_ref().map_or(0, Unsent::heap_bytes)
    }
}

/// The messages of dynamic streams that are not sent to their ends.
#[derive(Debug)]
pub(super) struct Unsent {
    /// The first dynamic stream.
    first: StreamId,
    /// Number of these messages for each stream that has some.
    counts: BTreeMap<StreamId, usize>,
    /// Streams that have some and are to be closed.
    closing: BTreeSet<StreamId>,
    /// Those of them that have none any more.
    pub(super) drained: Vec<StreamId>,
}

impl Unsent {
    const fn new(first: StreamId) -> Self {
        Self { first, counts: BTreeMap::new(), closing: BTreeSet::new(), drained: Vec::new() }
    }

    pub(super) fn on_pushed(&mut self, stream: StreamId) {
        if stream >= self.first {
            *self.counts.entry(stream).or_default() += 1;
        }
    }

    pub(super) fn on_gone(&mut self, stream: StreamId) {
        let Some(count) = self.counts.get_mut(&stream) else { return };
        *count = count.saturating_sub(1);
        if *count == 0 {
            self.counts.remove(&stream);
            if self.closing.remove(&stream) {
                self.drained.push(stream);
            }
        }
    }

    /// Lets a stream be reported as drained once it has no message. Returns true if it has none now.
    pub(super) fn close(&mut self, stream: StreamId) -> bool {
        let has_some = self.counts.contains_key(&stream);
        if has_some {
            self.closing.insert(stream);
        }
        !has_some
    }

    fn heap_bytes(&self) -> usize {
        self.counts.len() * size_of::<(StreamId, usize)>()
            + self.closing.len() * size_of::<StreamId>()
            + self.drained.capacity() * size_of::<StreamId>()
    }
}
