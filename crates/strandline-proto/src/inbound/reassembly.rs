//! Reassembly of fragmented messages.
//!
//! [`super::receive`] uses only [`Reassembly`]: DATA chunks number fragments by TSN, and messages by SSN ([`by_tsn`]).
//! I-DATA chunks (RFC 8260), whose messages mix, are not reassembled here but per stream: [`super::interleaved`].

mod by_tsn;

use bytes::Bytes;
use strandline_wire::Data;

use self::by_tsn::ByTsn;
use super::arena::Arena;
use super::ordering::StreamOrder;
use super::renege::Drop;
use super::tsn_map::{Place, TsnMap};
use super::window::Window;
use crate::event::Message;
use crate::number::{Ppid, Ssn, StreamId, Tsn};
use crate::reconfiguration::Streams;

/// A description of the violation.
pub(super) type Violation = &'static str;

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

    /// Returns true if the SSN of the message was used or given up.
    fn is_past(self, order: &StreamOrder) -> bool {
        !self.unordered && self.ssn.is_before(order.next(self.stream))
    }

    /// Returns true if the message can be read as soon as it is complete.
    #[inline]
    fn is_next(self, order: &StreamOrder) -> bool {
        self.unordered || order.is_next(self.stream, self.ssn)
    }
}

/// The parts of the receiving half that reassembly uses. It charges the window for what it holds.
pub(super) struct Context<'a> {
    pub(super) map: &'a TsnMap,
    pub(super) order: &'a StreamOrder,
    pub(super) window: &'a mut Window,
    pub(super) arena: &'a mut Arena,
}

/// The fragments of incomplete messages. Allocates with the first one.
#[derive(Debug)]
pub(super) enum Reassembly {
    /// DATA chunks: the fragments of a message have consecutive TSNs (RFC 9260 section 6.9).
    ByTsn(ByTsn),
}

impl Default for Reassembly {
    fn default() -> Self {
        Self::ByTsn(ByTsn::default())
    }
}

impl Reassembly {
    /// Returns true if nothing is held.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        match self {
            Self::ByTsn(form) => form.is_empty(),
        }
    }

    /// Returns true if the chunk is the next TSN and the next fragment of a message, so that `take` needs no `check`.
    #[inline]
    pub(super) fn goes_on(&self, data: &Data<'_>, map: &TsnMap) -> bool {
        match self {
            Self::ByTsn(form) => form.goes_on(data, map),
        }
    }

    /// Checks that the numbers and flags of a chunk agree with those of the chunks that have arrived.
    #[inline]
    pub(super) fn check(&self, data: &Data<'_>, place: Place, map: &TsnMap) -> Result<(), Violation> {
        match self {
            Self::ByTsn(form) => form.check(data, place, map),
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
        match self {
            Self::ByTsn(form) => form.take(data, place, cx),
        }
    }

    /// Processes a new cumulative TSN. Returns a message, or its last part, that is complete now. Must be called until it
    /// returns none.
    pub(super) fn on_cumulative(&mut self, cx: &mut Context<'_>) -> Result<Option<Message>, Violation> {
        match self {
            Self::ByTsn(form) => form.on_cumulative(cx),
        }
    }

    /// Returns the first and last TSN of the latest message that was completed beyond a gap, once.
    pub(super) fn take_whole_beyond(&mut self) -> Option<(Tsn, Tsn)> {
        match self {
            Self::ByTsn(form) => form.take_whole_beyond(),
        }
    }

    /// Takes a part of a message whose turn has come: of one with at least `point` bytes, or of any if the association is
    /// `stuck`. The window is still charged for it.
    #[inline]
    pub(super) fn take_part(
        &mut self,
        point: usize,
        order: &StreamOrder,
        stuck: impl FnOnce() -> bool,
    ) -> Option<Message> {
        match self {
            Self::ByTsn(form) => form.take_part(point, order, stuck),
        }
    }

    /// Returns true if a message on one of these streams has begun at or before the cumulative TSN and has not ended.
    pub(super) fn has_open(&self, streams: &Streams) -> bool {
        match self {
            Self::ByTsn(form) => form.open_stream().is_some_and(|stream| streams.contains(stream)),
        }
    }

    /// Returns the stream of a message of which a part was taken and the rest is missing.
    pub(super) fn partly_delivered(&self) -> Option<StreamId> {
        match self {
            Self::ByTsn(form) => form.partly_delivered(),
        }
    }

    /// Drops the fragments of messages that began before a TSN.
    pub(super) fn drop_before(&mut self, first: Tsn) {
        match self {
            Self::ByTsn(form) => form.drop_before(first),
        }
    }

    /// Calls `add` with TSN and cost of each fragment beyond a gap.
    pub(super) fn each_beyond(&self, add: &mut impl FnMut(Tsn, usize)) {
        match self {
            Self::ByTsn(form) => form.each_beyond(add),
        }
    }

    /// Drops fragments beyond a gap.
    pub(super) fn renege(&mut self, what: &mut Drop<'_>) {
        match self {
            Self::ByTsn(form) => form.renege(what),
        }
    }

    /// Returns what the window is charged for, in bytes.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::ByTsn(form) => form.cost(),
        }
    }

    /// Drops the messages that miss a TSN before `next`, which is ahead of the cumulative TSN. The caller advances that
    /// afterwards. Returns the stream of a message of which a part was taken.
    pub(super) fn give_up(&mut self, next: Tsn, map: &TsnMap, window: &mut Window) -> Option<StreamId> {
        match self {
            Self::ByTsn(form) => form.give_up(next, map, window),
        }
    }

    /// Drops the message that has begun and not ended if its SSN is past, because the peer gave it up.
    pub(super) fn drop_past(&mut self, order: &StreamOrder, window: &mut Window) {
        match self {
            Self::ByTsn(form) => form.drop_past(order, window),
        }
    }

    /// Frees memory that is not needed while nothing arrives.
    pub(super) fn release_idle(&mut self, cumulative: Tsn) {
        match self {
            Self::ByTsn(form) => form.release_idle(cumulative),
        }
    }

    /// Returns the heap bytes of the records, and of the held payload.
    pub(super) fn heap_bytes(&self) -> (usize, usize) {
        match self {
            Self::ByTsn(form) => form.heap_bytes(),
        }
    }
}
