//! Reassembly of DATA chunks: fragments are numbered by TSN, their messages by SSN (RFC 9260 section 6.9).
//!
//! The fragments of a message have consecutive TSNs, so at most one message can be open at the cumulative TSN; its
//! fragments are joined as they arrive. Fragments beyond a gap are kept as runs of consecutive TSNs of one message. A
//! run that has both ends is a message, whatever is missing before it.
//!
//! Messages in I-DATA chunks (RFC 8260) mix, and are reassembled by MID and FSN: [`super::interleaved`].

mod header;

use core::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use strandline_wire::Data;

pub(super) use self::header::Header;
use super::arena::Arena;
use super::ordering::StreamOrder;
use super::renege::DroppedTsns;
use super::tsn_map::{Place, TsnMap};
use super::window::{HELD_COST, Window};
use crate::event::Message;
use crate::number::{StreamId, Tsn};
use crate::reconfiguration::Streams;

/// A description of the violation.
pub(super) type Violation = &'static str;

/// A message takes a buffer of at most this many times its length.
const CAPACITY_FACTOR: usize = 4;

/// Shorter messages may have a buffer of this many bytes times the factor.
const CAPACITY_MIN: usize = 16 << 10;

/// The parts of the receiving half that reassembly uses. It charges the window for what it holds.
pub(super) struct Context<'a> {
    pub(super) map: &'a TsnMap,
    pub(super) order: &'a StreamOrder,
    pub(super) window: &'a mut Window,
    pub(super) arena: &'a mut Arena,
}

/// The fragments of incomplete messages in DATA chunks. Allocates for the first one.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    held: Option<Box<Held>>,
}

/// The fragments that are held: those of the message at the cumulative TSN, joined, and those beyond gaps.
#[derive(Debug, Default)]
struct Held {
    open: Option<Open>,
    lengths: Lengths,
    /// Runs by their first TSN, all beyond the cumulative TSN. Adjacent runs of one message are always joined.
    runs: BTreeMap<Key, Run>,
    /// The last TSN of what the peer gave up, if it may be in the middle of a message: fragments that
    /// directly follow it are dropped.
    abandoned: Option<Tsn>,
    /// The first and last TSN of the latest message that was completed beyond the cumulative TSN.
    whole_beyond: Option<(Tsn, Tsn)>,
}

/// The message that has begun at or before the cumulative TSN and has not ended.
#[derive(Debug)]
struct Open {
    header: Header,
    /// TSN of the first fragment in `data`.
    first: Tsn,
    /// TSN of the last fragment that was joined.
    last: Tsn,
    /// True if no part of it was delivered yet.
    begins: bool,
    data: BytesMut,
}

/// Fragments of one message with consecutive TSNs, held because something before them is missing.
#[derive(Debug)]
struct Run {
    header: Header,
    first: Tsn,
    /// True if it contains the first fragment of the message.
    begins: bool,
    /// True if it contains the last fragment of the message.
    ends: bool,
    /// Total payload in bytes.
    bytes: usize,
    /// One fragment for each TSN.
    fragments: VecDeque<Bytes>,
}

/// Lengths of the latest part that began a message, and of the latest one that continued it: the next ones are likely
/// to have the same, so their buffers are reserved at once.
#[derive(Debug, Default)]
struct Lengths {
    beginning: u32,
    continuing: u32,
}

/// The state at the border of a TSN, as far as its neighbour has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Neighbour {
    /// The message of this header continues across the border.
    Joined(Header),
    /// A message ends or begins at the border.
    Apart,
}

impl Reassembly {
    /// Returns true if nothing is held.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.held.as_ref().is_none_or(|held| held.is_empty())
    }

    /// Returns true if the chunk is the next TSN and the next fragment of a message, so that `take` needs no `check`.
    #[inline]
    pub(super) fn goes_on(&self, data: &Data<'_>, map: &TsnMap) -> bool {
        let Some(open) = self.held.as_ref().and_then(|held| held.open.as_ref()) else { return false };
        !data.beginning
            && !map.has_gaps()
            && data.tsn == map.cumulative().next()
            && open.header == Header::of(data)
    }

    /// Checks that the B and E bits, the stream, SSN, PPID and U bit agree with the chunks on both sides, as far as
    /// these have arrived. Fragments of a message have consecutive TSNs and share these fields (sections 3.3.1 and
    /// 6.9).
    #[inline]
    pub(super) fn check(&self, data: &Data<'_>, place: Place, map: &TsnMap) -> Result<(), Violation> {
        let header = Header::of(data);
        let before = match (&self.held, place) {
            (Some(held), Place::Next) => match &held.open {
                Some(open) => Some(Neighbour::Joined(open.header)),
                None if held.follows_abandoned(data.tsn) => None,
                None => Some(Neighbour::Apart),
            },
            (None, Place::Next) => Some(Neighbour::Apart),
            (held, _) if map.contains(data.tsn.previous()) => {
                Some(held.as_ref().map_or(Neighbour::Apart, |held| held.before(data.tsn)))
            }
            _ => None,
        };
        match before {
            Some(Neighbour::Apart) if !data.beginning => return Err("a fragment without the one before it"),
            Some(Neighbour::Joined(_)) if data.beginning => {
                return Err("a message begins before the last one ended");
            }
            Some(Neighbour::Joined(other)) if other != header => {
                return Err("fragments of one message differ");
            }
            _ => {}
        }
        let next = data.tsn.next();
        if !map.has_gaps() || !map.contains(next) {
            return Ok(());
        }
        match self.held.as_ref().map_or(Neighbour::Apart, |held| held.at(next)) {
            Neighbour::Apart if !data.ending => Err("a fragment without the one after it"),
            Neighbour::Joined(_) if data.ending => Err("a message ends before its last fragment"),
            Neighbour::Joined(other) if other != header => Err("fragments of one message differ"),
            _ => Ok(()),
        }
    }

    /// Takes a fragment that is checked and recorded in the TSN map. Returns the message, or its last part, if it is
    /// complete, and its last TSN.
    #[inline(always)]
    pub(super) fn take(
        &mut self,
        data: &Data<'_>,
        place: Place,
        cx: &mut Context<'_>,
    ) -> Option<(Message, Tsn)> {
        let held = self.held.get_or_insert_default();
        if place != Place::Next {
            return held.take_beyond(data, cx);
        }
        let open = match &mut held.open {
            Some(open) => open,
            None if data.beginning => held.open.insert(Open::new(Header::of(data), data.tsn)),
            None => {
                held.abandoned = (!data.ending).then_some(data.tsn);
                return None;
            }
        };
        open.append(data.tsn, data.payload, &held.lengths, cx.arena);
        cx.window.charge(data.payload.len());
        if !data.ending {
            return None;
        }
        held.finish_open(cx.window, cx.order).map(|message| (message, data.tsn))
    }

    /// Processes a new cumulative TSN. Returns a message, or its last part, that is complete now. Must be
    /// called until it returns none.
    pub(super) fn on_cumulative(&mut self, cx: &mut Context<'_>) -> Result<Option<Message>, Violation> {
        let Some(held) = &mut self.held else { return Ok(None) };
        let cumulative = cx.map.cumulative();
        while let Some(run) = held.take_reached(cumulative) {
            release_run(cx.window, &run);
            if !run.begins && held.open.is_none() && held.follows_abandoned(run.first) {
                held.abandoned = run.open_end();
                continue;
            }
            cx.window.charge(run.bytes);
            let open = match &mut held.open {
                Some(open) if !run.begins && open.header == run.header && open.last.next() == run.first => {
                    open
                }
                None if run.begins => held.open.insert(Open::new(run.header, run.first)),
                _ => return Err("fragments of a message are not consecutive"),
            };
            let mut tsn = run.first;
            for fragment in &run.fragments {
                open.append(tsn, fragment, &held.lengths, cx.arena);
                tsn = tsn.next();
            }
            if run.ends
                && let Some(message) = held.finish_open(cx.window, cx.order)
            {
                return Ok(Some(message));
            }
        }
        // What follows an open message must continue it; a chunk on an invalid stream does not.
        match &held.open {
            Some(open) if open.last != cumulative => Err("a message was not ended"),
            _ => Ok(None),
        }
    }

    /// Returns the first and last TSN of the latest message that was completed beyond a gap, once.
    pub(super) fn take_whole_beyond(&mut self) -> Option<(Tsn, Tsn)> {
        self.held.as_mut()?.whole_beyond.take()
    }

    /// Takes what there is of the open message, if its turn has come.
    #[inline]
    pub(super) fn take_part(
        &mut self,
        point: usize,
        order: &StreamOrder,
        stuck: impl FnOnce() -> bool,
    ) -> Option<Message> {
        let Held { open, lengths, .. } = &mut **self.held.as_mut()?;
        let open = open.as_mut()?;
        if open.data.is_empty() || (open.data.len() < point && !stuck()) {
            return None;
        }
        open.header.is_next(order).then(|| open.take(false, lengths))
    }

    /// Returns true if a message on one of these streams has begun at or before the cumulative TSN and has not ended.
    pub(super) fn has_open(&self, streams: &Streams) -> bool {
        let open = self.held.as_ref().and_then(|held| held.open.as_ref());
        open.is_some_and(|open| streams.contains(open.header.stream))
    }

    /// Returns the stream of the open message if a part of it was taken.
    pub(super) fn partly_delivered(&self) -> Option<StreamId> {
        let open = self.held.as_ref()?.open.as_ref()?;
        (!open.begins).then_some(open.header.stream)
    }

    /// Drops the fragments of messages that began before a TSN.
    pub(super) fn drop_before(&mut self, first: Tsn) {
        if let Some(held) = &mut self.held {
            held.open.take_if(|open| open.last.is_before(first));
            held.runs.retain(|_, run| run.first.is_at_or_after(first));
        }
    }

    /// Drops the messages that miss a TSN before `next`, which is ahead of the cumulative TSN. The caller advances that
    /// afterwards. Returns the stream of a message of which a part was taken.
    pub(super) fn abandon(&mut self, next: Tsn, map: &TsnMap, window: &mut Window) -> Option<StreamId> {
        let last = next.previous();
        let arrived = map.contains(last);
        if self.held.is_none() && arrived {
            return None;
        }
        let held = self.held.get_or_insert_default();
        // The TSN after its last fragment is missing.
        let open = held.open.take();
        window.release(open.as_ref().map_or(0, |open| open.data.len()));
        held.abandoned = (!arrived).then_some(last);
        while let Some(lowest) = held.runs.first_entry() {
            let run = lowest.get();
            if run.first.is_at_or_after(next) || (run.begins && run.after().is_at_or_after(next)) {
                break;
            }
            let run = lowest.remove();
            release_run(window, &run);
            if run.after().is_at_or_after(next) {
                held.abandoned = run.open_end();
            }
        }
        open.filter(|open| !open.begins).map(|open| open.header.stream)
    }

    /// Drops the message that has begun and not ended if its SSN is past, because the peer gave it up.
    pub(super) fn drop_past(&mut self, order: &StreamOrder, window: &mut Window) {
        let Some(held) = &mut self.held else { return };
        if let Some(open) = held.open.take_if(|open| open.header.is_past(order)) {
            window.release(open.data.len());
            held.abandoned = Some(open.last);
        }
    }

    /// Calls `add` with TSN and cost of each fragment beyond a gap.
    pub(super) fn each_beyond(&self, add: &mut impl FnMut(Tsn, usize)) {
        for run in self.held.iter().flat_map(|held| held.runs.values()) {
            let mut tsn = run.first;
            for fragment in &run.fragments {
                add(tsn, fragment.len() + HELD_COST);
                tsn = tsn.next();
            }
        }
    }

    /// Drops fragments beyond a gap.
    pub(super) fn renege(&mut self, what: &mut DroppedTsns<'_>) {
        let Some(held) = &mut self.held else { return };
        // It may be dropped, and not arrive as a whole again.
        held.whole_beyond = None;
        while let Some(mut highest) = held.runs.last_entry() {
            let run = highest.get_mut();
            while what.takes(run.after().previous())
                && let Some(fragment) = run.fragments.pop_back()
            {
                run.bytes -= fragment.len();
                run.ends = false;
                what.on_dropped(run.after(), fragment.len() + HELD_COST);
                if run.fragments.is_empty() {
                    break;
                }
            }
            if !run.fragments.is_empty() {
                run.fragments.shrink_to_fit();
                return;
            }
            highest.remove();
        }
    }

    /// Returns what the window is charged for, in bytes.
    pub(super) fn cost(&self) -> usize {
        let Some(held) = &self.held else { return 0 };
        let open = held.open.as_ref().map_or(0, |open| open.data.len());
        open + held.runs.values().map(|run| run.bytes + run.fragments.len() * HELD_COST).sum::<usize>()
    }

    /// Frees memory that is not needed while nothing arrives.
    pub(super) fn release_idle(&mut self, cumulative: Tsn) {
        match &mut self.held {
            Some(held) if !held.is_empty() || held.abandoned == Some(cumulative) => held.unpin(),
            _ => self.held = None,
        }
    }

    /// Returns the heap bytes of the records, and of the held payload.
    pub(super) fn heap_bytes(&self) -> (usize, usize) {
        self.held.as_ref().map_or((0, 0), |held| held.heap_bytes())
    }
}

impl Lengths {
    fn expected(&self, begins: bool) -> usize {
        (if begins { self.beginning } else { self.continuing }) as usize
    }

    fn on_part(&mut self, begins: bool, bytes: usize) {
        let latest = if begins { &mut self.beginning } else { &mut self.continuing };
        *latest = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
}

impl Open {
    fn new(header: Header, first: Tsn) -> Self {
        Self { header, first, last: first, begins: true, data: BytesMut::new() }
    }

    #[inline]
    fn append(&mut self, tsn: Tsn, fragment: &[u8], lengths: &Lengths, arena: &mut Arena) {
        if self.data.is_empty() {
            self.first = tsn;
        }
        self.last = tsn;
        arena.append(&mut self.data, fragment, lengths.expected(self.begins));
    }

    /// Takes out what has been joined, as a part of the message.
    fn take(&mut self, ends: bool, lengths: &mut Lengths) -> Message {
        let data = core::mem::take(&mut self.data);
        let begins = core::mem::replace(&mut self.begins, false);
        lengths.on_part(begins, data.len());
        // A buffer that turned out too large is not pinned by an unread message.
        let fits = data.capacity() / CAPACITY_FACTOR <= data.len().max(CAPACITY_MIN);
        let data = if fits { data.freeze() } else { Bytes::copy_from_slice(&data) };
        Message { begins, ends, ..self.header.message(self.first, data) }
    }
}

/// A TSN as a key. All keys lie within 65,536 of one another, so that serial order is a total order among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key(Tsn);

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.0.distance_from(other.0).cast_signed()).cmp(&0)
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Run {
    fn after(&self) -> Tsn {
        self.first + self.fragments.len() as u32
    }

    /// Returns its last TSN if that does not end the message.
    fn open_end(&self) -> Option<Tsn> {
        (!self.ends).then(|| self.after().previous())
    }
}

impl Held {
    fn is_empty(&self) -> bool {
        self.open.is_none() && self.runs.is_empty()
    }

    /// Returns true if a fragment may be the next one of a message that the peer gave up.
    fn follows_abandoned(&self, tsn: Tsn) -> bool {
        self.abandoned == Some(tsn.previous())
    }

    /// Returns whether the chunk before `tsn`, which has arrived and is beyond the cumulative TSN, expects a
    /// continuation.
    fn before(&self, tsn: Tsn) -> Neighbour {
        match self.runs.range(..Key(tsn)).next_back() {
            Some((_, run)) if run.after() == tsn && !run.ends => Neighbour::Joined(run.header),
            _ => Neighbour::Apart,
        }
    }

    /// Returns whether the chunk `tsn`, which has arrived, expects a chunk before it.
    fn at(&self, tsn: Tsn) -> Neighbour {
        match self.runs.get(&Key(tsn)) {
            Some(run) if !run.begins => Neighbour::Joined(run.header),
            _ => Neighbour::Apart,
        }
    }

    /// Takes a fragment beyond a gap. Returns the message if it is complete, and its last TSN.
    #[inline(never)]
    fn take_beyond(&mut self, data: &Data<'_>, cx: &mut Context<'_>) -> Option<(Message, Tsn)> {
        cx.window.charge(data.payload.len() + HELD_COST);
        let run = self.hold(data)?;
        self.whole_beyond = Some((run.first, run.after().previous()));
        release_run(cx.window, &run);
        let at_once = run.header.is_next(cx.order);
        let mut bytes = if at_once { cx.arena.buffer(run.bytes) } else { BytesMut::with_capacity(run.bytes) };
        for fragment in &run.fragments {
            bytes.extend_from_slice(fragment);
        }
        Some((run.header.message(run.first, bytes.freeze()), run.after().previous()))
    }

    /// Takes the open message, which is complete, or its last part.
    #[inline(never)]
    fn finish_open(&mut self, window: &mut Window, order: &StreamOrder) -> Option<Message> {
        let mut open = self.open.take()?;
        window.release(open.data.len());
        let header = open.header;
        let mut message = open.take(true, &mut self.lengths);
        if message.begins && !header.is_next(order) {
            // It may wait for long and gets its own allocation, so that it does not pin a block.
            message.data = Bytes::copy_from_slice(&message.data);
        }
        Some(message)
    }

    /// Holds a fragment beyond a gap, as a copy so that it pins no block. Returns the message's run if it is now
    /// complete. The caller has checked that it agrees with its neighbours.
    fn hold(&mut self, data: &Data<'_>) -> Option<Run> {
        let first = self.join_before(data);
        self.join_after(first);
        let whole = self.runs.get(&Key(first)).is_some_and(|run| run.begins && run.ends);
        if whole { self.runs.remove(&Key(first)) } else { None }
    }

    /// Adds a fragment to the run that ends before it, or as a new run. Returns the run's first TSN.
    fn join_before(&mut self, data: &Data<'_>) -> Tsn {
        let payload = Bytes::copy_from_slice(data.payload);
        if let Some((_, run)) = self.runs.range_mut(..Key(data.tsn)).next_back()
            && !data.beginning
            && run.after() == data.tsn
        {
            run.bytes += payload.len();
            run.fragments.push_back(payload);
            run.ends = data.ending;
            return run.first;
        }
        let bytes = payload.len();
        let mut fragments = VecDeque::with_capacity(1);
        fragments.push_back(payload);
        let header = Header::of(data);
        let run =
            Run { header, first: data.tsn, begins: data.beginning, ends: data.ending, bytes, fragments };
        self.runs.insert(Key(data.tsn), run);
        data.tsn
    }

    /// Joins the run that begins at `first` with the following one, if that belongs to the same message. The shorter
    /// list moves to the longer one: a message costs n log n whatever the order of its fragments.
    fn join_after(&mut self, first: Tsn) {
        let Some(run) = self.runs.get(&Key(first)) else { return };
        let after = run.after();
        if run.ends || self.runs.get(&Key(after)).is_none_or(|next| next.begins) {
            return;
        }
        let Some(mut next) = self.runs.remove(&Key(after)) else { return };
        let Some(run) = self.runs.get_mut(&Key(first)) else { return };
        if run.fragments.len() >= next.fragments.len() {
            run.fragments.append(&mut next.fragments);
        } else {
            while let Some(fragment) = run.fragments.pop_back() {
                next.fragments.push_front(fragment);
            }
            run.fragments = next.fragments;
        }
        run.bytes += next.bytes;
        run.ends = next.ends;
    }

    /// Takes the lowest run if the cumulative TSN has reached it.
    fn take_reached(&mut self, cumulative: Tsn) -> Option<Run> {
        let lowest = self.runs.first_entry()?;
        if lowest.key().0.is_at_or_before(cumulative) { Some(lowest.remove()) } else { None }
    }

    /// Copies the message under assembly out of the arena, so that it does not pin a block while its sender pauses.
    fn unpin(&mut self) {
        if let Some(open) = &mut self.open {
            open.data = BytesMut::from(&*open.data);
        }
    }

    /// Returns the heap bytes of the records, and of the held payload.
    fn heap_bytes(&self) -> (usize, usize) {
        let entry = size_of::<(Key, Run)>();
        let (mut records, mut payload) =
            (size_of::<Self>(), self.open.as_ref().map_or(0, |open| open.data.len()));
        for run in self.runs.values() {
            records += entry + run.fragments.capacity() * size_of::<Bytes>();
            payload += run.bytes;
        }
        (records, payload)
    }
}

/// Releases what the window was charged for a run.
fn release_run(window: &mut Window, run: &Run) {
    window.release(run.bytes + run.fragments.len() * HELD_COST);
}

#[cfg(test)]
mod tests;
