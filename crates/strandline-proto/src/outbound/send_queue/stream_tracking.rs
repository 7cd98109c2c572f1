//! The messages that a reset of streams, or the end of a dynamic stream, has to wait for: messages that are
//! held back until a reset is answered, and the number of messages of each dynamic stream that are not sent
//! to their ends. A dynamic stream is closed once it has none.

use std::collections::{BTreeMap, BTreeSet};

use super::held::Held;
use super::parked::COUNTED_MIN;
use crate::number::StreamId;

/// The queued messages that a reset or the end of a stream waits for.
#[derive(Debug, Default)]
pub(crate) struct StreamTracking {
    /// The messages that wait for a reset.
    pub(crate) held: Option<Held>,
    /// The messages of dynamic streams.
    pub(crate) unsent: Option<Unsent>,
}

impl StreamTracking {
    /// Counts the messages of streams from `first` on.
    pub(crate) fn counting(first: StreamId) -> Box<Self> {
        Box::new(Self { held: None, unsent: Some(Unsent::new(first)) })
    }

    /// Records that a message of a stream was sent to its end, or will not be sent.
    /// `len` is its length. Returns true if another message of the stream was refused because of such.
    #[cold]
    #[inline(never)]
    pub(crate) fn on_gone(&mut self, stream: StreamId, len: usize) -> bool {
        if let Some(held) = &mut self.held {
            held.on_gone(stream);
        }
        self.unsent.as_mut().is_some_and(|unsent| {
            unsent.on_gone(stream, len);
            unsent.refused.remove(&stream)
        })
    }

    /// Returns the heap bytes, itself included.
    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.unsent.as_ref().map_or(0, Unsent::heap_bytes)
    }
}

/// The messages of dynamic streams that are not sent to their ends.
#[derive(Debug)]
pub(crate) struct Unsent {
    /// The first dynamic stream.
    first: StreamId,
    /// These messages of each stream that has some.
    counts: BTreeMap<StreamId, Count>,
    /// Streams of which a message was refused because of them.
    refused: BTreeSet<StreamId>,
    /// Streams that have some and are to be closed.
    closing: BTreeSet<StreamId>,
    /// Those of them that have none any more.
    pub(crate) drained: Vec<StreamId>,
    /// Streams of which no message was sent to its end, and which are awaited.
    starting: BTreeSet<StreamId>,
    /// Those of them of which one was, or was abandoned.
    pub(crate) started: Vec<StreamId>,
}

/// The messages of a stream, and the sum of their lengths.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    messages: usize,
    bytes: usize,
}

impl Unsent {
    fn new(first: StreamId) -> Self {
        Self {
            first,
            counts: BTreeMap::new(),
            refused: BTreeSet::new(),
            closing: BTreeSet::new(),
            drained: Vec::new(),
            starting: BTreeSet::new(),
            started: Vec::new(),
        }
    }

    pub(crate) fn on_pushed(&mut self, stream: StreamId, len: usize) {
        if stream >= self.first {
            let count = self.counts.entry(stream).or_default();
            count.messages += 1;
            count.bytes += len;
        }
    }

    /// Returns whether the unsent messages of a stream, with another one of `len` bytes, have at most `most`
    /// bytes, each counted as [`COUNTED_MIN`] at least. Two may have more: one of them is being sent. If not,
    /// [`StreamTracking::on_gone`] says when it may be different.
    pub(crate) fn has_room(&mut self, stream: StreamId, len: usize, most: usize) -> bool {
        let fits =
            |count: &Count| count.messages < 2 || count.bytes.max(count.messages * COUNTED_MIN) + len <= most;
        let has_room = self.counts.get(&stream).is_none_or(fits);
        if !has_room {
            self.refused.insert(stream);
        }
        has_room
    }

    /// Returns true once if a message of the stream was refused.
    pub(crate) fn take_refused(&mut self, stream: StreamId) -> bool {
        self.refused.remove(&stream)
    }

    pub(crate) fn on_gone(&mut self, stream: StreamId, len: usize) {
        let Some(count) = self.counts.get_mut(&stream) else { return };
        count.messages = count.messages.saturating_sub(1);
        count.bytes = count.bytes.saturating_sub(len);
        if self.starting.remove(&stream) {
            self.started.push(stream);
        }
        if count.messages == 0 {
            self.counts.remove(&stream);
            if self.closing.remove(&stream) {
                self.drained.push(stream);
            }
        }
    }

    /// Lets a stream be reported as drained once it has no message. Returns true if it has none now.
    pub(crate) fn close(&mut self, stream: StreamId) -> bool {
        let has_some = self.counts.contains_key(&stream);
        if has_some {
            self.closing.insert(stream);
        }
        !has_some
    }

    /// Lets a stream be reported as started once a message of it was sent to its end, or abandoned. `begun`
    /// messages have a number. Returns true if one was sent to its end.
    pub(crate) fn start(&mut self, stream: StreamId, begun: usize) -> bool {
        let unsent = self.counts.get(&stream).map_or(0, |count| count.messages);
        let is_started = begun > 1 || (begun == 1 && unsent == 0);
        if !is_started {
            self.starting.insert(stream);
        }
        is_started
    }

    /// Lets none of these be reported as started.
    pub(crate) fn forget_starts(&mut self, is_concerned: impl Fn(StreamId) -> bool) {
        self.starting.retain(|stream| !is_concerned(*stream));
        self.started.retain(|stream| !is_concerned(*stream));
    }

    /// Returns the streams of which a message was refused.
    pub(crate) fn refused(&self) -> impl Iterator<Item = StreamId> {
        self.refused.iter().copied()
    }

    fn heap_bytes(&self) -> usize {
        self.counts.len() * size_of::<(StreamId, Count)>()
            + (self.refused.len() + self.closing.len() + self.starting.len()) * size_of::<StreamId>()
            + (self.drained.capacity() + self.started.capacity()) * size_of::<StreamId>()
    }
}
