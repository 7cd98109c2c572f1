//! Messages in I-DATA chunks (RFC 8260): reassembly by MID and FSN, and order by MID.
//!
//! Messages of different streams arrive fragment by fragment in any mixture, and TSNs say nothing about which
//! fragments belong together. A message is known by its stream, its U bit and its MID. Its fragments are
//! joined from the first one on; those beyond a gap wait. A message whose turn has come is delivered in parts
//! once it is long enough, several of different streams at a time, but of a stream only one ordered and one
//! unordered message.

use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use strandline_wire::IData;
use strandline_wire::chunk::i_forward_tsn::SkippedMessage;

use super::arena::Arena;
use super::held::{HALF, Held, Violation, message};
use super::readable::{Key, Readable};
use super::renege::DroppedTsns;
use super::stream_credit::Credits;
use super::window::{HELD_COST, Window, message_cost};
use crate::event::Message;
use crate::number::{Fsn, Mid, StreamId, Tsn};
use crate::reconfiguration::Streams;

/// A message of which a part was delivered and that will not be completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cut {
    /// Its stream.
    pub(crate) stream: StreamId,
    /// Number of messages, or parts of some, that `recv` still returns from before its end.
    pub(crate) unread: usize,
}

/// The parts of the receiving half that take what is held or delivered.
pub(super) struct Sink<'a> {
    pub(super) window: &'a mut Window,
    pub(super) arena: &'a mut Arena,
    /// Readable messages.
    pub(super) ready: &'a mut VecDeque<Message>,
}

impl Sink<'_> {
    fn deliver(&mut self, message: Message) {
        self.window.charge(message_cost(message.data.len()));
        self.ready.push_back(message);
    }
}

/// What a fragment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// One of a message that is expected.
    Wanted,
    /// One of a message that the peer gave up: it is acknowledged and dropped.
    GivenUp,
}

/// Maximum number of messages delivered in parts that the window is not charged for while nothing of them is held.
/// Otherwise their records alone might fill a small buffer, and nothing could free it.
const FREE_MAX: usize = 1024;

/// Cost of an entry of `abandoned` or `next` in bytes: it takes 8, and as many of a node that is half full.
const NUMBER_COST: u32 = 16;

/// Number of entries of `next` that are not counted for the limit of all associations.
const NEXT_FREE: usize = 64;

/// The messages of an association that receives I-DATA.
#[derive(Debug, Default)]
pub(crate) struct Interleaved {
    messages: BTreeMap<Key, Held>,
    /// Number of these that the window is not charged for.
    free: usize,
    /// The MID of the next ordered message on each stream that was used: up to 65,536 entries of 8 bytes. Many of them
    /// count for the limit of all associations.
    next: BTreeMap<StreamId, Mid>,
    /// The streams with an unordered message of which a part was delivered, and its MID.
    partly: BTreeMap<StreamId, Mid>,
    /// The MID of the last unordered message that was abandoned on a stream: up to 65,536 entries of 8 bytes. None is
    /// forgotten, since a fragment of it that arrives later would be held until the association ends. They count for
    /// the limit of all associations.
    abandoned: BTreeMap<StreamId, Mid>,
    /// True if ordered messages were abandoned.
    skips: bool,
    /// Of which messages something can be read. It is built when that is asked for first, and kept until none is held.
    readable: Option<Box<Readable>>,
    /// The credit of the peer's streams, if it was negotiated.
    pub(super) credits: Option<Box<Credits>>,
}

impl Interleaved {
    /// Checks that a fragment agrees with what has arrived.
    pub(super) fn check(&self, data: &IData<'_>) -> Result<Kind, Violation> {
        if let Some(held) = self.messages.get(&Key::of(data)) {
            return held.check(data).map(|()| Kind::Wanted);
        }
        if data.unordered {
            let last = self.abandoned.get(&data.stream);
            let skipped = last.is_some_and(|last| data.mid.is_at_or_before(*last));
            return Ok(if skipped { Kind::GivenUp } else { Kind::Wanted });
        }
        match data.mid.distance_from(self.next(data.stream)) < HALF {
            true => Ok(Kind::Wanted),
            false if self.skips => Ok(Kind::GivenUp),
            false => Err("a message identifier was used before"),
        }
    }

    /// Returns the MID of the stream's next ordered message.
    pub(super) fn next(&self, stream: StreamId) -> Mid {
        self.next.get(&stream).copied().unwrap_or_default()
    }

    /// True if something of the message is held.
    pub(super) fn holds(&self, data: &IData<'_>) -> bool {
        self.messages.contains_key(&Key::of(data))
    }

    /// Takes a fragment that is wanted, and delivers what it releases: messages, and parts of at least `point` bytes.
    pub(super) fn take(&mut self, data: &IData<'_>, point: usize, sink: &mut Sink<'_>) {
        let key = Key::of(data);
        if data.unordered && !self.abandoned.is_empty() {
            self.keep_abandoned_near(data.stream, data.mid);
        }
        let at_once = data.unordered || data.mid == self.next(data.stream);
        if data.beginning && data.ending && at_once {
            let bytes = sink.arena.copy(data.payload).freeze();
            sink.deliver(message(key, data.ppid, data.tsn, (true, true), bytes));
            if !data.unordered {
                self.advance(data.stream, point, sink);
            }
            return;
        }
        let held = self.messages.entry(key).or_insert_with(|| {
            sink.window.charge(HELD_COST);
            Held::new(data)
        });
        held.add(data, at_once, sink.window, sink.arena);
        if at_once && self.hand_over(key, point, sink) && !data.unordered {
            self.advance(data.stream, point, sink);
        }
    }

    /// Delivers what there is of a message whose turn has come: all of it, or a part of at least `point`
    /// bytes, or less if the peer may wait for credit of the stream. Returns true if it is complete.
    fn hand_over(&mut self, key: Key, point: usize, sink: &mut Sink<'_>) -> bool {
        let Some(held) = self.messages.get_mut(&key) else { return false };
        if held.is_complete() {
            sink.window.release(held.cost());
            sink.deliver(held.take(key));
            self.free -= usize::from(held.is_free);
            self.messages.remove(&key);
            self.forget_part(key);
            self.note_readable(key);
            self.hand_over_waiting(key, point, sink);
            return true;
        }
        let tight = || self.credits.as_ref().is_some_and(|credits| credits.is_tight(key.stream));
        if (held.data.len() >= point || tight())
            && !held.data.is_empty()
            && may_be_partial(&mut self.partly, key)
        {
            sink.window.release(held.data.len());
            sink.deliver(held.take(key));
            set_free(held, &mut self.free, sink.window);
        }
        self.note_readable(key);
        false
    }

    /// Records in the index, if there is one, what can be read of a message after a change.
    fn note_readable(&mut self, key: Key) {
        let Self { messages, partly, readable, .. } = self;
        if let Some(index) = readable {
            if messages.is_empty() {
                *readable = None;
                return;
            }
            let is_readable = messages.get(&key).is_some_and(|held| !held.data.is_empty());
            index.set(key, is_readable, partly.contains_key(&key.stream));
        }
    }

    /// Returns the index, which is exact.
    fn readable(&mut self) -> &mut Readable {
        let Self { messages, next, readable, .. } = self;
        readable.get_or_insert_with(|| {
            let mut index = Box::<Readable>::default();
            for (key, _) in messages.iter().filter(|(_, held)| !held.data.is_empty()) {
                if key.unordered || next.get(&key.stream).map_or(0, |next| next.0) == key.mid {
                    index.set(*key, true, false);
                }
            }
            index
        })
    }

    /// Delivers what there is of another unordered message of a stream, if the peer may wait for credit of
    /// it. Its parts could not be delivered before those of an earlier one.
    fn hand_over_waiting(&mut self, gone: Key, point: usize, sink: &mut Sink<'_>) {
        let tight = self.credits.as_ref().is_some_and(|credits| credits.is_tight(gone.stream));
        if !tight || !gone.unordered {
            return;
        }
        if !self.messages.is_empty()
            && let Some(key) = self.readable().unordered_of(gone.stream)
        {
            self.hand_over(key, point, sink);
        }
    }

    /// Records that the stream's next message was delivered, and delivers those that waited for it.
    fn advance(&mut self, stream: StreamId, point: usize, sink: &mut Sink<'_>) {
        loop {
            let next = self.next.entry(stream).or_default();
            *next = next.next();
            let key = Key { stream, unordered: false, mid: next.0 };
            if !self.hand_over(key, point, sink) {
                return;
            }
        }
    }

    /// Takes what there is of a long message whose turn has come, because nothing else can free the buffer. The window
    /// is not charged for it any more.
    pub(super) fn take_longest(&mut self, window: &mut Window) -> Option<Message> {
        if self.messages.is_empty() {
            return None;
        }
        self.readable();
        let Self { messages, partly, free, readable, .. } = self;
        let readable = readable.as_mut()?;
        let key = readable.longest(|key| {
            let waits = key.unordered && partly.get(&key.stream).is_some_and(|mid| mid.0 != key.mid);
            (!waits).then(|| messages.get(key).map_or(0, |held| held.data.len()))
        })?;
        let held = messages.get_mut(&key)?;
        window.release(held.data.len());
        let part = held.take(key);
        set_free(held, free, window);
        let allowed = may_be_partial(partly, key);
        debug_assert!(allowed, "only such messages were considered");
        readable.set(key, false, true);
        Some(part)
    }

    /// Gives up the messages of a stream up to a MID that are incomplete, and delivers the others. `tsns` TSNs were
    /// missing or waited. Adds to `cuts` the messages of which a part was delivered.
    pub(super) fn skip(
        &mut self,
        skipped: SkippedMessage,
        tsns: u32,
        point: usize,
        sink: &mut Sink<'_>,
        cuts: &mut Vec<Cut>,
    ) {
        let SkippedMessage { stream, unordered, mid } = skipped;
        let from = if unordered { mid + (HALF + 1) } else { self.next(stream) };
        if unordered {
            self.abandon_unordered(stream, mid);
        } else if mid.distance_from(from) >= tsns.min(HALF) {
            // Each message has a TSN of its own. One that is behind was delivered or abandoned before.
            return;
        } else {
            self.skips = true;
        }
        while let Some((key, mut held)) = self.take_between(stream, unordered, from, mid) {
            sink.window.release(held.cost());
            self.free -= usize::from(held.is_free);
            if held.is_complete() {
                sink.deliver(held.take(key));
                self.note_readable(key);
                continue;
            }
            if let Some(credits) = &mut self.credits {
                // The SACK that the chunk asks for tells of it.
                let _ = credits.on_gone(stream, held.len());
            }
            if !held.begins {
                cuts.push(Cut { stream, unread: sink.ready.len() });
            }
            self.forget_part(key);
            self.note_readable(key);
            self.hand_over_waiting(key, point, sink);
        }
        if !unordered {
            self.next.insert(stream, mid);
            self.advance(stream, point, sink);
        }
    }

    /// Moves the last abandoned MID of a stream along behind unordered messages that arrive. Those that come half of
    /// all numbers later would otherwise be taken for abandoned ones.
    fn keep_abandoned_near(&mut self, stream: StreamId, mid: Mid) {
        if let Some(last) = self.abandoned.get_mut(&stream)
            && mid.distance_from(*last) > HALF / 2
        {
            *last = mid + (HALF + HALF / 2);
        }
    }

    /// Remembers that unordered messages of a stream up to a MID were abandoned.
    fn abandon_unordered(&mut self, stream: StreamId, mid: Mid) {
        let last = self.abandoned.entry(stream).or_insert(mid);
        if mid.is_after(*last) {
            *last = mid;
        }
    }

    /// Records that no further part of a message will be delivered.
    fn forget_part(&mut self, key: Key) {
        if key.unordered && self.partly.get(&key.stream).is_some_and(|mid| mid.0 == key.mid) {
            self.partly.remove(&key.stream);
        }
    }

    /// Removes the first message of a stream from `from` to `to`, in serial order.
    fn take_between(&mut self, stream: StreamId, unordered: bool, from: Mid, to: Mid) -> Option<(Key, Held)> {
        let key = |mid| Key { stream, unordered, mid };
        let first = |from: u32, to: u32| self.messages.range(key(from)..=key(to)).next().map(|(key, _)| *key);
        let found = if from.0 <= to.0 {
            first(from.0, to.0)
        } else {
            first(from.0, u32::MAX).or_else(|| first(0, to.0))
        };
        self.messages.remove_entry(&found?)
    }

    /// True if nothing is held.
    pub(super) fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    /// True if a message of one of these streams is held.
    pub(super) fn has_messages_of(&self, streams: &Streams) -> bool {
        self.messages.keys().any(|key| streams.contains(key.stream))
    }

    /// Returns the streams of messages of which a part was delivered and the rest is missing.
    pub(super) fn partly_delivered(&self) -> Vec<StreamId> {
        self.messages.iter().filter(|(_, held)| !held.begins).map(|(key, _)| key.stream).collect()
    }

    /// Sets the next MIDs of streams back to 0.
    pub(super) fn reset(&mut self, streams: &Streams) {
        self.next.retain(|stream, _| !streams.contains(*stream));
        self.abandoned.retain(|stream, _| !streams.contains(*stream));
        self.readable = None;
        if let Some(credits) = &mut self.credits {
            credits.reset(streams);
        }
    }

    /// Handles a reset of all numbers after which the peer's first TSN is `next`: what is held is lost.
    pub(super) fn renumber(&mut self, next: Tsn) {
        let mut credits = self.credits.take();
        if let Some(credits) = &mut credits {
            credits.renumber(next);
        }
        *self = Self { credits, ..Self::default() };
    }

    /// Sets all MIDs back to 0, except on streams that have begun anew (`has_begun`), and drops the messages that were
    /// sent before the TSN `first`.
    pub(super) fn go_on(&mut self, first: Tsn, has_begun: impl Fn(StreamId) -> bool) {
        self.messages.retain(|_, held| held.latest.is_at_or_after(first));
        self.free = self.messages.values().filter(|held| held.is_free).count();
        let messages = &self.messages;
        let holds =
            |stream: StreamId, mid: Mid| messages.contains_key(&Key { stream, unordered: true, mid: mid.0 });
        self.partly.retain(|stream, mid| holds(*stream, *mid));
        self.next.retain(|stream, _| has_begun(*stream));
        self.abandoned.clear();
        self.readable = None;
        if let Some(credits) = &mut self.credits {
            credits.go_on(first);
        }
    }

    /// Drops everything that was received and not delivered, and keeps the numbers of the next messages.
    pub(super) fn close(&mut self) {
        let next = core::mem::take(&mut self.next);
        *self = Self { next, skips: self.skips, ..Self::default() };
    }

    /// Calls `add` with TSN and cost of each fragment, or message in one chunk, that [`renege`](Self::renege) may drop.
    pub(super) fn each_beyond(&self, add: &mut impl FnMut(Tsn, usize)) {
        for held in self.messages.values() {
            if held.is_single() {
                add(held.first, held.cost());
            }
            held.beyond.values().for_each(|(tsn, bytes)| add(*tsn, bytes.len() + HELD_COST));
        }
    }

    /// Drops fragments and messages in one chunk beyond a gap. Fragments that were joined stay.
    pub(super) fn renege(&mut self, what: &mut DroppedTsns<'_>) {
        let Self { messages, free, credits, readable, .. } = self;
        *readable = None;
        let mut dropped = Vec::new();
        messages.retain(|key, held| {
            dropped.clear();
            let keeps = if held.is_single() && what.takes(held.first) {
                what.on_dropped(held.first, held.cost());
                dropped.push((held.first, held.data.len()));
                false
            } else {
                held.renege(what, &mut dropped);
                let keeps = !(held.begins && held.next == Fsn(0) && held.beyond.is_empty());
                what.window.release(if keeps { 0 } else { held.cost() });
                keeps
            };
            *free -= usize::from(!keeps && held.is_free);
            if let Some(credits) = credits {
                dropped.iter().for_each(|(tsn, len)| credits.on_dropped(key.stream, *tsn, *len));
            }
            keeps
        });
        if let Some(credits) = credits {
            credits.forget_missing(what.map);
        }
    }

    /// Returns what the window is charged for, in bytes.
    pub(super) fn cost(&self) -> usize {
        self.messages.values().map(Held::cost).sum()
    }

    /// Copies held messages out of shared blocks, so that they do not pin them while their sender pauses.
    pub(super) fn release_idle(&mut self) {
        for held in self.messages.values_mut() {
            held.data = BytesMut::from(&*held.data);
        }
    }

    /// Returns the bytes of the records that a peer can make on each stream and that stay until their streams are
    /// reset.
    pub(super) fn record_bytes(&self) -> u32 {
        (self.abandoned.len() + self.next.len().saturating_sub(NEXT_FREE)) as u32 * NUMBER_COST
    }

    /// Returns the heap bytes of the records, and of the held payload.
    pub(super) fn heap_bytes(&self) -> (usize, usize) {
        let numbers = self.next.len() + self.partly.len() + self.abandoned.len();
        let (mut records, mut payload) = (size_of::<Self>() + numbers * size_of::<(StreamId, Mid)>(), 0);
        for held in self.messages.values() {
            records += size_of::<(Key, Held)>() + held.beyond.len() * size_of::<(u32, Tsn, Bytes)>();
            payload += held.len();
        }
        records += self.credits.as_ref().map_or(0, |credits| credits.heap_bytes());
        records += self.readable.as_ref().map_or(0, |index| index.heap_bytes());
        (records, payload)
    }
}

/// Stops charging the window for the record of a message that is delivered in parts, of which there are `free` so far.
fn set_free(held: &mut Held, free: &mut usize, window: &mut Window) {
    if !held.is_free && *free < FREE_MAX {
        held.is_free = true;
        *free += 1;
        window.release(HELD_COST);
    }
}

/// Records that a part of a message is delivered. Returns false without a change if the rest of another
/// unordered message of its stream has to be delivered first.
fn may_be_partial(partly: &mut BTreeMap<StreamId, Mid>, key: Key) -> bool {
    !key.unordered || partly.entry(key.stream).or_insert(Mid(key.mid)).0 == key.mid
}
