//! The slab of messages: each one from `push` until it is acknowledged or has failed.
//!
//! The queue, the schedulers and the records of outstanding chunks refer to a message by its [`MessageKey`], so any
//! number of messages may be partly sent at the same time. Later fragments of a message have higher TSNs. Therefore its
//! last chunk leaves the send window after all others, and takes the message with it: what is outstanding of a message
//! needs no counter.

use bytes::Bytes;
use strandline_wire::Data;

use super::copies::{Copies, Place};
use super::fragment::Rest;
use crate::event::{FailedMessage, FailureCause, SendInfo};
use crate::number::{Ppid, Ssn, StreamId, Tsn};
use crate::reconfiguration::Streams;
use crate::reliability::Reliability;

/// Identifies a message while it is in the slab. Keys are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct MessageKey(u32);

impl MessageKey {
    /// No message: out of the bounds of every slab.
    pub(super) const NONE: Self = Self(u32::MAX);

    #[inline]
    const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Where a message's bytes are.
#[derive(Debug)]
pub(super) enum Payload {
    /// In the user's own buffer.
    Shared(Bytes),
    /// Among the association's copies. Counting references to a small message would cost more than its copy.
    Copied(Place),
}

impl Payload {
    /// The payload of a message that has left the slab.
    const GONE: Self = Self::Copied(Place::EMPTY);

    /// Returns the length in bytes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Shared(bytes) => bytes.len(),
            Self::Copied(place) => place.len(),
        }
    }

    #[inline]
    fn bytes<'a>(&'a self, copies: &'a Copies) -> &'a [u8] {
        match self {
            Self::Shared(bytes) => bytes,
            Self::Copied(place) => copies.bytes(*place),
        }
    }
}

/// How a message is sent, as given to `push`, without its limit: few messages have one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Info {
    pub(super) stream: StreamId,
    pub(super) ppid: Ppid,
    pub(super) unordered: bool,
    pub(super) immediate: bool,
    pub(super) context: u32,
}

/// Whether the transmission of a message is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Limits {
    /// Not, nor is that of others without a limit of their own.
    ByDefault,
    /// Not, whatever the limit of others is.
    Never,
    /// By a limit that [`Partial`](super::partial::Partial) knows.
    Limited,
}

impl Limits {
    #[inline]
    const fn of(reliability: Reliability) -> Self {
        match reliability {
            Reliability::DEFAULT => Self::ByDefault,
            other if other.is_full() => Self::Never,
            _ => Self::Limited,
        }
    }
}

/// A user message.
#[derive(Debug)]
pub(super) struct Message {
    /// The whole message; empty once it has left the slab.
    payload: Payload,
    pub(super) info: Info,
    /// Assigned when the first fragment is sent; 0 before and for unordered messages.
    pub(super) ssn: Ssn,
    /// Bytes that have a TSN.
    sent: u32,
    limits: Limits,
    /// The next message of its [`List`], or the next free entry of the slab.
    next: MessageKey,
}

impl Message {
    /// Creates a message.
    #[inline]
    pub(super) fn new(info: SendInfo, payload: Payload) -> Self {
        let SendInfo { stream, ppid, unordered, immediate, context, reliability } = info;
        let info = Info { stream, ppid, unordered, immediate, context };
        let limits = Limits::of(reliability);
        Self { payload, info, ssn: Ssn(0), sent: 0, limits, next: MessageKey::NONE }
    }

    /// Returns true if its transmission is limited.
    #[inline]
    pub(super) fn is_limited(&self) -> bool {
        self.limits == Limits::Limited
    }

    /// Returns the bytes of user data.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.payload.len()
    }

    /// Returns true if a part of it has a TSN.
    #[inline]
    pub(super) const fn is_begun(&self) -> bool {
        self.sent > 0
    }

    /// Returns the part that has no TSN yet.
    #[inline]
    pub(super) fn rest(&self) -> Rest {
        Rest { len: self.len().saturating_sub(self.sent as usize), begun: self.is_begun() }
    }

    /// Records that the next `len` bytes get a TSN. Returns their offset.
    #[inline]
    pub(super) const fn on_sent(&mut self, len: usize) -> u32 {
        let start = self.sent;
        self.sent = start.saturating_add(len as u32);
        start
    }
}

/// All messages of an association.
#[derive(Debug)]
pub(super) struct Messages {
    entries: Vec<Message>,
    /// The first free entry.
    free: MessageKey,
    /// Number of messages.
    len: usize,
    copies: Copies,
    /// Number of times that a message was taken out of a list.
    #[cfg(test)]
    pub(super) pops: usize,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            free: MessageKey::NONE,
            len: 0,
            copies: Copies::default(),
            #[cfg(test)]
            pops: 0,
        }
    }
}

impl Messages {
    /// Copies the bytes of a message, which `insert` must take next.
    #[inline]
    pub(super) fn copy(&mut self, bytes: &[u8]) -> Payload {
        Payload::Copied(self.copies.push(bytes))
    }

    #[inline]
    pub(super) fn insert(&mut self, message: Message) -> MessageKey {
        self.len += 1;
        let key = self.free;
        if let Some(entry) = self.entries.get_mut(key.index()) {
            self.free = entry.next;
            *entry = message;
            return key;
        }
        self.append(message)
    }

    #[cold]
    fn append(&mut self, message: Message) -> MessageKey {
        let key = MessageKey(self.entries.len() as u32);
        self.entries.push(message);
        key
    }

    #[inline]
    pub(super) fn get(&self, key: MessageKey) -> Option<&Message> {
        self.entries.get(key.index())
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: MessageKey) -> Option<&mut Message> {
        self.entries.get_mut(key.index())
    }

    /// Returns a chunk of the message: `len` bytes from `start` on.
    #[inline]
    pub(super) fn chunk(
        &self,
        key: MessageKey,
        tsn: Tsn,
        start: usize,
        len: usize,
        ending: bool,
    ) -> Option<Data<'_>> {
        let message = self.get(key)?;
        let payload = message.payload.bytes(&self.copies).get(start..start + len)?;
        Some(Data { beginning: start == 0, ..message.data(tsn, ending, payload) })
    }

    /// Returns the single chunk of a message that is not fragmented.
    #[inline]
    pub(super) fn whole(&self, key: MessageKey, tsn: Tsn) -> Option<Data<'_>> {
        let message = self.get(key)?;
        Some(message.data(tsn, true, message.payload.bytes(&self.copies)))
    }

    /// Removes finished messages one by one.
    #[inline]
    pub(super) fn leaving(&mut self) -> Leaving<'_> {
        let Self { entries, free, len, copies, .. } = self;
        Leaving { first_free: *free, entries, free, len, copies, block: 0, in_block: 0 }
    }

    /// Removes a message that the peer has, and to which nothing refers.
    pub(super) fn leave(&mut self, key: MessageKey) {
        let mut leaving = self.leaving();
        leaving.add(key);
        leaving.finish();
    }

    /// Removes a message that was not delivered and is in no [`List`]. `limit` returns its limit if it has one. Returns
    /// `None` if it was removed before.
    pub(super) fn fail(
        &mut self,
        key: MessageKey,
        cause: FailureCause,
        limit: impl FnOnce(MessageKey) -> Reliability,
    ) -> Option<FailedMessage> {
        let entry = self.entries.get_mut(key.index()).filter(|entry| entry.len() > 0)?;
        let Info { stream, ppid, unordered, immediate, context } = entry.info;
        let reliability = match entry.limits {
            Limits::ByDefault => Reliability::DEFAULT,
            Limits::Never => Reliability::FULL,
            Limits::Limited => limit(key),
        };
        let info = SendInfo { stream, ppid, unordered, immediate, context, reliability };
        let sent = entry.is_begun();
        let data = match core::mem::replace(&mut entry.payload, Payload::GONE) {
            Payload::Shared(bytes) => bytes,
            Payload::Copied(place) => {
                let bytes = Bytes::copy_from_slice(self.copies.bytes(place));
                self.copies.release(place.block(), 1);
                bytes
            }
        };
        entry.next = self.free;
        self.free = key;
        self.len -= 1;
        Some(FailedMessage { info, data, sent, cause })
    }

    /// Returns the number of messages of these streams that are not sent to their ends.
    pub(super) fn unsent_of(&self, streams: &Streams) -> usize {
        let unsent = |message: &&Message| message.rest().len > 0 && streams.contains(message.info.stream);
        self.entries.iter().filter(unsent).count()
    }

    /// Returns the messages that are not sent to their ends.
    pub(super) fn unsent(&self) -> impl Iterator<Item = (MessageKey, &Message)> {
        let keyed = self.entries.iter().enumerate().map(|(index, entry)| (MessageKey(index as u32), entry));
        keyed.filter(|(_, message)| message.rest().len > 0)
    }

    /// Returns the number of messages.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Message>()
    }

    pub(super) fn copies_heap_bytes(&self) -> usize {
        self.copies.heap_bytes()
    }
}

/// Removes messages; see [`Messages::leaving`].
#[derive(Debug)]
pub(super) struct Leaving<'a> {
    entries: &'a mut [Message],
    free: &'a mut MessageKey,
    len: &'a mut usize,
    copies: &'a mut Copies,
    first_free: MessageKey,
    /// The block of the latest copy, and how many copies of it leave: mostly, neighbours are copied to the same block.
    block: u32,
    in_block: u32,
}

impl Leaving<'_> {
    /// Removes a message that is acknowledged to its last byte.
    #[inline]
    pub(super) fn add(&mut self, key: MessageKey) {
        let Some(entry) = self.entries.get_mut(key.index()) else { return };
        match entry.payload {
            Payload::Copied(place) if place.block() == self.block => self.in_block += 1,
            _ => self.add_other(key),
        }
        let Some(entry) = self.entries.get_mut(key.index()) else { return };
        entry.next = self.first_free;
        self.first_free = key;
    }

    /// Removes a message in another block or in the user's buffer.
    #[inline(never)]
    fn add_other(&mut self, key: MessageKey) {
        let Some(entry) = self.entries.get_mut(key.index()) else { return };
        if let Payload::Copied(place) = entry.payload {
            self.release_block();
            self.block = place.block();
            self.in_block = 1;
        } else {
            entry.payload = Payload::GONE;
            *self.len -= 1;
        }
    }

    fn release_block(&mut self) {
        if self.in_block > 0 {
            *self.len -= self.in_block as usize;
            self.copies.release(self.block, core::mem::take(&mut self.in_block));
        }
    }

    /// Completes the removal.
    #[inline]
    pub(super) fn finish(mut self) {
        self.release_block();
        *self.free = self.first_free;
    }
}

impl Message {
    /// Returns a chunk with these bytes, flagged as the first one.
    #[inline]
    fn data<'a>(&self, tsn: Tsn, ending: bool, payload: &'a [u8]) -> Data<'a> {
        Data {
            tsn,
            stream: self.info.stream,
            ssn: self.ssn,
            ppid: self.info.ppid,
            unordered: self.info.unordered,
            beginning: true,
            ending,
            immediate: ending && self.info.immediate,
            payload,
        }
    }
}

/// A list of messages, linked in the slab. A scheduler has one for the association or one for each stream.
#[derive(Debug, Clone, Copy)]
pub(super) struct List {
    first: MessageKey,
    last: MessageKey,
}

impl Default for List {
    fn default() -> Self {
        Self { first: MessageKey::NONE, last: MessageKey::NONE }
    }
}

impl List {
    /// Appends a message that is in no list.
    #[inline]
    pub(super) fn push(&mut self, messages: &mut Messages, key: MessageKey) {
        match messages.get_mut(self.last) {
            Some(last) => last.next = key,
            None => self.first = key,
        }
        self.last = key;
    }

    /// Returns the first message.
    #[inline]
    pub(super) fn first(&self) -> Option<MessageKey> {
        (self.first != MessageKey::NONE).then_some(self.first)
    }

    /// Removes the first message.
    #[inline]
    pub(super) fn pop(&mut self, messages: &mut Messages) {
        #[cfg(test)]
        {
            messages.pops += 1;
        }
        let Some(first) = messages.get_mut(self.first) else { return };
        self.first = core::mem::replace(&mut first.next, MessageKey::NONE);
        if self.first == MessageKey::NONE {
            self.last = MessageKey::NONE;
        }
    }

    /// Removes all messages. Returns them in their order.
    pub(super) fn drain(&mut self, messages: &mut Messages) -> Vec<MessageKey> {
        let next = || {
            let key = self.first()?;
            self.pop(messages);
            Some(key)
        };
        core::iter::from_fn(next).collect()
    }

    /// Removes messages that `keep` returns false for. The others keep their order.
    pub(super) fn retain(
        &mut self,
        messages: &mut Messages,
        keep: &mut dyn FnMut(MessageKey, &Message) -> bool,
    ) {
        let mut all = core::mem::take(self);
        while let Some(key) = all.first() {
            all.pop(messages);
            if messages.get(key).is_some_and(|message| keep(key, message)) {
                self.push(messages, key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
