//! Order within streams (RFC 9260 sections 6.5 and 6.6): whole messages that arrived before their turn wait here.

use std::collections::BTreeMap;

use super::stream_tree::StreamTree;
use crate::event::Message;
use crate::number::{Ssn, StreamId};

/// Number of streams whose next SSN is stored inline.
const INLINE: usize = 4;

/// The position of an ordered message in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is the next one.
    Now,
    /// Others come first.
    Later,
    /// Its SSN was used before.
    Past,
}

/// The order of all streams.
#[derive(Debug, Default)]
pub(super) struct StreamOrder {
    /// Next SSN of the first streams.
    first: [Ssn; INLINE],
    /// Allocated for the first message that has to wait, or the first stream beyond those.
    more: Option<Box<More>>,
}

#[derive(Debug, Default)]
struct More {
    /// Next SSN of the other streams.
    tree: StreamTree,
    /// Waiting messages by stream and SSN. The next SSN of a stream is looked up exactly, so their order does not
    /// matter.
    waiting: BTreeMap<(StreamId, u16), Message>,
}

impl StreamOrder {
    /// Returns the next SSN of the stream.
    #[inline]
    fn next(&self, stream: StreamId) -> Ssn {
        match self.first.get(usize::from(stream.0)) {
            Some(&ssn) => ssn,
            None => self.more.as_ref().map_or(Ssn(0), |more| more.tree.next(stream)),
        }
    }

    /// True if this is the next SSN of the stream.
    #[inline]
    pub(super) fn is_next(&self, stream: StreamId, ssn: Ssn) -> bool {
        self.next(stream) == ssn
    }

    /// Returns the turn of a message whose first TSN lies `ahead` beyond the cumulative TSN.
    ///
    /// As many as 65,534 messages of a stream may be in flight before this one, more than serial arithmetic can
    /// distinguish from the past. But each of them has a missing TSN, so an SSN that claims to be further ahead than
    /// that is past.
    #[inline]
    pub(super) fn turn(&self, stream: StreamId, ssn: Ssn, ahead: u32) -> Turn {
        match ssn.distance_from(self.next(stream)) {
            0 => Turn::Now,
            early if early < 1 << 15 || u32::from(early) <= ahead => Turn::Later,
            _ => Turn::Past,
        }
    }

    /// Records that the stream's next message was delivered.
    #[inline]
    pub(super) fn advance(&mut self, stream: StreamId) {
        match self.first.get_mut(usize::from(stream.0)) {
            Some(ssn) => *ssn = ssn.next(),
            None => self.more.get_or_insert_default().tree.advance(stream),
        }
    }

    #[inline]
    pub(super) fn has_waiting(&self) -> bool {
        self.more.as_ref().is_some_and(|more| !more.waiting.is_empty())
    }

    /// Stores a message until its turn. Returns false if a message with its SSN is already waiting.
    pub(super) fn wait(&mut self, message: Message) -> bool {
        let more = self.more.get_or_insert_default();
        more.waiting.insert((message.stream, message.ssn.0), message).is_none()
    }

    /// Takes the message whose turn has come on a stream.
    pub(super) fn take_next(&mut self, stream: StreamId) -> Option<Message> {
        let key = (stream, self.next(stream).0);
        self.more.as_mut()?.waiting.remove(&key)
    }

    /// Frees the memory for waiting messages if none waits.
    pub(super) fn release_idle(&mut self) {
        if self.more.as_ref().is_some_and(|more| more.waiting.is_empty() && more.tree.is_empty()) {
            self.more = None;
        }
    }

    /// Returns the heap bytes of the records, and of the held payload.
    pub(super) fn heap_bytes(&self) -> (usize, usize) {
        let Some(more) = &self.more else { return (0, 0) };
        let waiting = more.waiting.len() * size_of::<((StreamId, u16), Message)>();
        let payload = more.waiting.values().map(|message| message.data.len()).sum();
        (size_of::<More>() + more.tree.heap_bytes() + waiting, payload)
    }
}

#[cfg(test)]
mod tests;
