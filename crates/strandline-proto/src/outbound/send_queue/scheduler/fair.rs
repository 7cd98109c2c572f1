//! Bytes in equal shares (RFC 8260 section 3.5) or in proportion to weights (section 3.6): start-time fair
//! queueing (Goyal, Vin and Cheng, 1996).
//!
//! Each stream has a virtual time, which advances with the bytes that it sends, divided by its weight; the
//! stream that is furthest behind is next. A stream that had nothing queued starts at the time of the one
//! that was served last, so that it can't claim what it did not use. But it does not start before its own
//! time: otherwise, one that queues a message whenever the previous one has left would have no turn to wait
//! for.

use std::collections::{BTreeMap, BTreeSet};

use super::super::settings::Settings;
use super::ranked::Ranked;
use super::{Fragment, Keep, Scheduler};
use crate::number::StreamId;
use crate::outbound::messages::{MessageKey, Messages};

/// Virtual time of a byte of a stream with the weight 1. With any other one a byte takes at least 1.
const BYTE_TIME: u64 = 1 << 16;

/// Streams share the bytes.
#[derive(Debug, Default)]
pub(crate) struct Fair {
    /// The streams that have messages queued, by their virtual times.
    streams: Ranked<u128>,
    /// Streams have weights.
    weighted: bool,
    /// The virtual time of the stream that was served last. All times are 0 again once nothing is queued.
    now: u128,
    ahead: Ahead,
}

/// The virtual times of streams with nothing queued, as far as they are later than that of the stream served last.
#[derive(Debug, Default)]
struct Ahead {
    times: BTreeMap<StreamId, u128>,
    order: BTreeSet<(u128, StreamId)>,
}

impl Ahead {
    fn insert(&mut self, stream: StreamId, time: u128) {
        self.times.insert(stream, time);
        self.order.insert((time, stream));
    }

    fn take(&mut self, stream: StreamId) -> Option<u128> {
        let time = self.times.remove(&stream)?;
        self.order.remove(&(time, stream));
        Some(time)
    }

    /// Forgets those that are not ahead any more.
    fn advance(&mut self, now: u128) {
        while let Some((time, stream)) = self.order.first().copied().filter(|(time, _)| *time <= now) {
            self.order.remove(&(time, stream));
            self.times.remove(&stream);
        }
    }
}

impl Fair {
    pub(super) fn weighted() -> Self {
        Self { weighted: true, ..Self::default() }
    }

    pub(super) const fn is_weighted(&self) -> bool {
        self.weighted
    }

    /// Returns the virtual time that `len` bytes of a stream take.
    fn cost(&self, settings: &Settings, stream: StreamId, len: usize) -> u128 {
        let weight = if self.weighted { settings.value(stream).max(1) } else { 1 };
        u128::from(len as u64 * BYTE_TIME / u64::from(weight))
    }

    /// Forgets all times once nothing is queued.
    fn end(&mut self) {
        if self.streams.is_empty() {
            self.now = 0;
            self.ahead = Ahead::default();
        }
    }
}

impl Scheduler for Fair {
    fn push(&mut self, messages: &mut Messages, _: &Settings, stream: StreamId, message: MessageKey) {
        let Self { streams, now, ahead, .. } = self;
        streams.push(messages, stream, message, || ahead.take(stream).map_or(*now, |own| own.max(*now)));
    }

    fn next(&self, messages: &Messages) -> Option<Fragment> {
        self.streams.next(messages)
    }

    fn on_sent(
        &mut self,
        messages: &mut Messages,
        settings: &Settings,
        fragment: &Fragment,
        len: usize,
        ends: bool,
    ) {
        let stream = fragment.stream;
        let (Some(time), Some(lowest)) = (self.streams.rank(stream), self.streams.lowest()) else { return };
        self.now = self.now.max(lowest);
        self.ahead.advance(self.now);
        let time = time + self.cost(settings, stream, len);
        if !ends || !self.streams.pop(messages, stream) {
            self.streams.set_rank(stream, time);
            return;
        }
        if time > self.now {
            self.ahead.insert(stream, time);
        }
        self.end();
    }

    fn retain(&mut self, messages: &mut Messages, keep: &mut Keep<'_>) {
        let (now, ahead) = (self.now, &mut self.ahead);
        self.streams.retain(messages, keep, |stream, time| {
            if time > now {
                ahead.insert(stream, time);
            }
        });
        self.end();
    }

    fn take_stream(&mut self, messages: &mut Messages, stream: StreamId) -> Vec<MessageKey> {
        let time = self.streams.rank(stream);
        let taken = self.streams.take_stream(messages, stream);
        if let Some(time) = time.filter(|time| *time > self.now) {
            self.ahead.insert(stream, time);
        }
        self.end();
        taken
    }

    fn has_reserve(&self, stream: StreamId) -> bool {
        self.streams.rank(stream).is_none()
    }

    fn heap_bytes(&self) -> usize {
        let ahead = size_of::<(StreamId, u128)>() + size_of::<(u128, StreamId)>();
        self.streams.heap_bytes() + self.ahead.times.len() * ahead
    }
}
