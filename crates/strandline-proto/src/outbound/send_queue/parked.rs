//! Messages of streams whose credit has no room for them (docs/stream-credit.md section 4.2): they are out of the
//! scheduler, so that they hold up no other stream, and have a part of the send buffer of their own.

use std::collections::BTreeMap;

use super::scheduler::Keep;
use crate::number::StreamId;
use crate::outbound::messages::{List, Message, MessageKey, Messages};

/// Fraction of the room for parked messages that one stream may use.
const STREAM_DIVISOR: usize = 4;

/// Bytes that a stream may have queued beyond its credit.
pub(crate) const BEYOND_CREDIT_MAX: usize = 128 << 10;

/// Bytes for which each message of a stream counts at least towards that: a small one takes as much memory.
pub(crate) const COUNTED_MIN: usize = 256;

/// Maximum number of times that the interval between STREAM BLOCKED chunks doubles.
const BACK_OFF_MAX: u8 = 8;

/// The parked messages of a stream, in their order. The first one may be partly sent.
#[derive(Debug, Default)]
struct Stream {
    list: List,
    /// Bytes without a TSN.
    bytes: usize,
    /// Number of messages.
    count: usize,
    /// A message was refused for lack of room.
    refused: bool,
    /// The credit that the first message waits for, in bytes.
    wanted: usize,
}

/// All parked messages.
#[derive(Debug, Default)]
pub(crate) struct Parked {
    streams: BTreeMap<StreamId, Stream>,
    /// Bytes without a TSN.
    pub(crate) bytes: usize,
    /// Messages of which nothing was sent.
    pub(crate) waiting: usize,
    /// A stream was parked, or got credit, since the timer was last set.
    changed: bool,
    /// Number of STREAM BLOCKED chunks since the peer last granted credit.
    sent: u8,
    /// The peer has not acknowledged anything since the last STREAM BLOCKED.
    unanswered: bool,
    /// The last stream that the latest STREAM BLOCKED named.
    last_named: StreamId,
}

impl Parked {
    pub(crate) fn contains(&self, stream: StreamId) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Sets the credit that the first message of a stream waits for, in bytes.
    pub(crate) fn set_wanted(&mut self, stream: StreamId, wanted: usize) {
        if let Some(parked) = self.streams.get_mut(&stream) {
            parked.wanted = wanted;
        }
    }

    /// Returns the credit that the first message of a stream waits for, in bytes: 0 if another one waited before.
    pub(crate) fn wanted(&self, stream: StreamId) -> Option<usize> {
        self.streams.get(&stream).map(|parked| parked.wanted)
    }

    /// Adds a message behind those of its stream.
    pub(crate) fn push(&mut self, messages: &mut Messages, stream: StreamId, key: MessageKey) {
        let Some(message) = messages.get(key) else { return };
        let (len, begun) = (message.rest().len, message.is_begun());
        let parked = self.streams.entry(stream).or_default();
        parked.list.push(messages, key);
        parked.bytes += len;
        parked.count += 1;
        self.bytes += len;
        self.waiting += usize::from(!begun);
    }

    /// Removes a stream, for its messages to be scheduled. They are returned in their order. `on_refused` is
    /// called if one was refused.
    pub(crate) fn take(
        &mut self,
        messages: &mut Messages,
        stream: StreamId,
        on_refused: impl FnOnce(StreamId),
    ) -> Vec<MessageKey> {
        let Some(mut parked) = self.streams.remove(&stream) else { return Vec::new() };
        if parked.refused {
            on_refused(stream);
        }
        self.bytes = self.bytes.saturating_sub(parked.bytes);
        let keys = parked.list.drain(messages);
        let begun = keys.iter().filter(|key| messages.get(**key).is_some_and(Message::is_begun)).count();
        self.waiting = self.waiting.saturating_sub(keys.len() - begun);
        keys
    }

    /// Removes messages. The others keep their order. `on_refused` is called for each stream of which one was refused.
    pub(crate) fn retain(
        &mut self,
        messages: &mut Messages,
        keep: &mut Keep<'_>,
        mut on_refused: impl FnMut(StreamId),
    ) {
        for stream in self.streams.keys().copied().collect::<Vec<_>>() {
            for key in self.take(messages, stream, &mut on_refused) {
                if messages.get(key).is_some_and(|message| keep(key, message)) {
                    self.push(messages, stream, key);
                }
            }
        }
    }

    /// Returns whether a message of `len` bytes has room, with a send buffer of `limit` bytes and of `messages_max`
    /// messages; `None` if the stream is not parked.
    pub(crate) fn has_room(
        &mut self,
        stream: StreamId,
        len: usize,
        limit: usize,
        messages_max: usize,
    ) -> Option<bool> {
        let parked = self.streams.get_mut(&stream)?;
        let most = (limit / STREAM_DIVISOR).min(BEYOND_CREDIT_MAX);
        let held = parked.bytes.max(parked.count * COUNTED_MIN);
        let room = held + len <= most && self.bytes + len <= limit;
        let fits = (parked.bytes == 0 || room) && self.waiting < messages_max;
        parked.refused |= !fits;
        Some(fits)
    }

    /// Returns the streams, beginning behind those that the latest STREAM BLOCKED named.
    pub(crate) fn next_blocked(&self) -> impl Iterator<Item = StreamId> {
        let later =
            self.streams.range((core::ops::Bound::Excluded(self.last_named), core::ops::Bound::Unbounded));
        later.chain(self.streams.range(..=self.last_named)).map(|(stream, _)| *stream)
    }

    /// Records a STREAM BLOCKED that names `last` as its last stream.
    pub(crate) fn on_stream_blocked_sent(&mut self, last: StreamId) {
        self.last_named = last;
        self.unanswered = true;
        self.sent = self.sent.saturating_add(1).min(BACK_OFF_MAX);
    }

    /// Records an acknowledgement, which the peer sends in answer to a STREAM BLOCKED.
    pub(crate) fn on_answer(&mut self) {
        self.unanswered = false;
    }

    /// True if the latest STREAM BLOCKED has no answer.
    pub(crate) fn is_unanswered(&self) -> bool {
        self.unanswered
    }

    /// Records that a stream was parked, or that the peer granted credit.
    pub(crate) fn on_granted(&mut self) {
        self.sent = 0;
        self.changed = true;
    }

    /// Returns true once after a stream was parked, or got credit: the next STREAM BLOCKED is due after an RTO.
    pub(crate) fn take_changed(&mut self) -> bool {
        core::mem::take(&mut self.changed)
    }

    /// Returns by which power of two the interval of STREAM BLOCKED chunks is longer than the RTO.
    pub(crate) fn back_off(&self) -> u8 {
        self.sent
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(crate) fn streams(&self) -> impl Iterator<Item = StreamId> {
        self.streams.keys().copied()
    }

    /// Returns the streams of which a message was refused.
    pub(crate) fn refused(&self) -> impl Iterator<Item = StreamId> {
        self.streams.iter().filter(|(_, parked)| parked.refused).map(|(stream, _)| *stream)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + self.streams.len() * size_of::<(StreamId, Stream)>()
    }
}
