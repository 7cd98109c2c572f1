//! Streams with queued messages in the order of a rank.

use std::collections::{BTreeMap, BTreeSet};

use super::{Fragment, Keep};
use crate::number::StreamId;
use crate::outbound::messages::{List, MessageKey, Messages};

/// Streams of which the one with the lowest rank is next. Streams of equal rank take turns.
#[derive(Debug)]
pub(super) struct Ranked<R> {
    streams: BTreeMap<StreamId, Queued<R>>,
    /// The rank and the turn of each stream.
    order: BTreeSet<(R, u64, StreamId)>,
    /// Number of turns that were assigned. Later ones come after all others of their rank.
    turns: u64,
}

/// A stream's messages and its place in the order.
#[derive(Debug)]
struct Queued<R> {
    list: List,
    rank: R,
    turn: u64,
}

impl<R> Default for Ranked<R> {
    fn default() -> Self {
        Self { streams: BTreeMap::new(), order: BTreeSet::new(), turns: 0 }
    }
}

impl<R: Copy + Ord> Ranked<R> {
    /// Appends a message. `rank` returns the rank of a stream with nothing queued.
    pub(super) fn push(
        &mut self,
        messages: &mut Messages,
        stream: StreamId,
        message: MessageKey,
        rank: impl FnOnce() -> R,
    ) {
        let Self { streams, order, turns } = self;
        let queued = streams.entry(stream).or_insert_with(|| {
            *turns += 1;
            let queued = Queued { list: List::default(), rank: rank(), turn: *turns };
            order.insert((queued.rank, queued.turn, stream));
            queued
        });
        queued.list.push(messages, message);
    }

    /// Returns all that is left of the first message of the stream that is next.
    pub(super) fn next(&self, messages: &Messages) -> Option<Fragment> {
        let (_, _, stream) = self.order.first()?;
        Fragment::of(messages, self.streams.get(stream)?.list.first()?)
    }

    /// Returns the rank of the stream that is next.
    pub(super) fn lowest(&self) -> Option<R> {
        self.order.first().map(|(rank, _, _)| *rank)
    }

    /// Returns the rank of a stream that has messages queued.
    pub(super) fn rank(&self, stream: StreamId) -> Option<R> {
        self.streams.get(&stream).map(|queued| queued.rank)
    }

    /// Sets the rank of a stream, whose turn comes after those of the same rank.
    pub(super) fn set_rank(&mut self, stream: StreamId, rank: R) {
        let Some(queued) = self.streams.get_mut(&stream) else { return };
        self.order.remove(&(queued.rank, queued.turn, stream));
        self.turns += 1;
        (queued.rank, queued.turn) = (rank, self.turns);
        self.order.insert((rank, self.turns, stream));
    }

    /// Removes the first message of a stream. Returns true if that was its last one.
    pub(super) fn pop(&mut self, messages: &mut Messages, stream: StreamId) -> bool {
        let Some(queued) = self.streams.get_mut(&stream) else { return false };
        queued.list.pop(messages);
        let empty = queued.list.first().is_none();
        if empty {
            self.order.remove(&(queued.rank, queued.turn, stream));
            self.streams.remove(&stream);
        }
        empty
    }

    /// Removes messages. Calls `on_empty` for each stream that has nothing left.
    pub(super) fn retain(
        &mut self,
        messages: &mut Messages,
        keep: &mut Keep<'_>,
        mut on_empty: impl FnMut(StreamId, R),
    ) {
        let order = &mut self.order;
        self.streams.retain(|stream, queued| {
            queued.list.retain(messages, keep);
            let empty = queued.list.first().is_none();
            if empty {
                order.remove(&(queued.rank, queued.turn, *stream));
                on_empty(*stream, queued.rank);
            }
            !empty
        });
    }

    /// Removes all messages of a stream, and returns them in their order.
    pub(super) fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey> {
        let Some(mut queued) = self.streams.remove(&stream) else { return Vec::new() };
        self.order.remove(&(queued.rank, queued.turn, stream));
        queued.list.drain(messages)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.streams.len() * (size_of::<(StreamId, Queued<R>)>() + size_of::<(R, u64, StreamId)>())
    }
}
