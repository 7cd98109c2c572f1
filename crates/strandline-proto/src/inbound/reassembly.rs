//! Reassembly of fragmented messages (RFC 9260 section 6.9).
//!
//! The fragments of a message have consecutive TSNs, so at most one message can be open at the cumulative TSN; its
//! fragments are joined as they arrive. Fragments beyond a gap are kept as runs of consecutive TSNs of one message. A
//! run that has both ends is a message, whatever is missing before it.

use core::cmp::Ordering;
use std::collections::{BTreeMap, VecDeque};

use bytes::{Bytes, BytesMut};
use strandline_wire::Data;

use super::arena::Arena;
use crate::event::Message;
use crate::number::{Ppid, Ssn, StreamId, Tsn};

/// The fields that all fragments of a message have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) stream: StreamId,
    /// 0 if unordered: the field has no meaning then (section 6.6).
    pub(super) ssn: Ssn,
    pub(super) ppid: Ppid,
    pub(super) unordered: bool,
}

impl Header {
    #[inline]
    pub(super) fn of(data: &Data<'_>) -> Self {
        let ssn = if data.unordered { Ssn(0) } else { data.ssn };
        Self { stream: data.stream, ssn, ppid: data.ppid, unordered: data.unordered }
    }

    /// Returns a whole message of these bytes.
    #[inline]
    pub(super) fn message(self, tsn: Tsn, data: Bytes) -> Message {
        let Self { stream, ssn, ppid, unordered } = self;
        Message { stream, ssn, tsn, ppid, unordered, begins: true, ends: true, data }
    }
}

/// The message that has begun at or before the cumulative TSN and has not ended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) header: Header,
    /// TSN of the first fragment in `data`.
    pub(super) first: Tsn,
    /// TSN of the last fragment that was joined.
    pub(super) last: Tsn,
    /// True if no part of it was delivered yet.
    pub(super) begins: bool,
    pub(super) data: BytesMut,
}

impl Open {
    pub(super) fn new(header: Header, first: Tsn) -> Self {
        Self { header, first, last: first, begins: true, data: BytesMut::new() }
    }

    #[inline]
    pub(super) fn append(&mut self, tsn: Tsn, fragment: &[u8], arena: &mut Arena) {
        if self.data.is_empty() {
            self.first = tsn;
        }
        self.last = tsn;
        arena.append(&mut self.data, fragment);
    }

    /// Takes out what has been joined, as a part of the message.
    pub(super) fn take(&mut self, ends: bool) -> Message {
        let data = core::mem::take(&mut self.data).freeze();
        let begins = core::mem::replace(&mut self.begins, false);
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

/// Fragments of one message with consecutive TSNs, held because something before them is missing.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) header: Header,
    pub(super) first: Tsn,
    /// True if it contains the first fragment of the message.
    pub(super) begins: bool,
    /// True if it contains the last fragment of the message.
    pub(super) ends: bool,
    /// Total payload in bytes.
    pub(super) bytes: usize,
    /// One fragment for each TSN.
    pub(super) fragments: VecDeque<Bytes>,
}

impl Run {
    fn after(&self) -> Tsn {
        self.first + self.fragments.len() as u32
    }
}

/// The state at the border of a TSN, as far as its neighbour has arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Neighbour {
    /// The message of this header continues across the border.
    Joined(Header),
    /// A message ends or begins at the border.
    Apart,
}

/// State of fragments. Allocated for the first one.
#[derive(Debug, Default)]
pub(super) struct Reassembly {
    pub(super) open: Option<Open>,
    /// Runs by their first TSN, all beyond the cumulative TSN. Adjacent runs of one message are always joined.
    runs: BTreeMap<Key, Run>,
}

impl Reassembly {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_none() && self.runs.is_empty()
    }

    /// Returns whether the chunk before `tsn`, which has arrived and is beyond the cumulative TSN, expects a
    /// continuation.
    pub(super) fn before(&self, tsn: Tsn) -> Neighbour {
        match self.runs.range(..Key(tsn)).next_back() {
            Some((_, run)) if run.after() == tsn && !run.ends => Neighbour::Joined(run.header),
            _ => Neighbour::Apart,
        }
    }

    /// Returns whether the chunk `tsn`, which has arrived, expects a chunk before it.
    pub(super) fn at(&self, tsn: Tsn) -> Neighbour {
        match self.runs.get(&Key(tsn)) {
            Some(run) if !run.begins => Neighbour::Joined(run.header),
            _ => Neighbour::Apart,
        }
    }

    /// Holds a fragment beyond a gap, as a copy so that it pins no block. Returns the message's run if it is now
    /// complete. The caller has checked that it agrees with its neighbours.
    pub(super) fn hold(&mut self, data: &Data<'_>) -> Option<Run> {
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
    pub(super) fn take_reached(&mut self, cumulative: Tsn) -> Option<Run> {
        let lowest = self.runs.first_entry()?;
        if lowest.key().0.is_at_or_before(cumulative) { Some(lowest.remove()) } else { None }
    }

    /// Copies the message under assembly out of the arena, so that it does not pin a block while its sender pauses.
    pub(super) fn unpin(&mut self) {
        if let Some(open) = &mut self.open {
            open.data = BytesMut::from(&*open.data);
        }
    }

    /// Returns the heap bytes of the records, and of the held payload.
    pub(super) fn heap_bytes(&self) -> (usize, usize) {
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

#[cfg(test)]
mod tests;
