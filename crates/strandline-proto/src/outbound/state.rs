//! Read-only queries of an [`Outbound`].

use strandline_wire::DATA_CHUNK_HEADER_LEN;

use super::interleaving::{self, Interleaving};
use super::recovery::send_window::SendWindow;
use super::sent::outstanding::{Record, State};
use super::{Busy, Outbound};
use crate::number::Tsn;
use crate::path_index::PathIndex;

/// Heap of an [`Outbound`] in bytes, without the buffers that the user shares with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutboundHeap {
    /// The structure that holds the others.
    pub(crate) fixed: usize,
    /// What the scheduler keeps beside the messages, and what was set of it.
    pub(crate) queue: usize,
    /// Messages not acknowledged, sent or not.
    pub(crate) messages: usize,
    /// A record for each chunk sent and not acknowledged.
    pub(crate) chunks: usize,
    /// Gap acknowledgements.
    pub(crate) gaps: usize,
    /// Blocks for copies of small messages, including the user data in them.
    pub(crate) copies: usize,
    /// Next sequence number of each stream beyond the first few.
    pub(crate) streams: usize,
}

impl OutboundHeap {
    /// Returns the sum.
    #[must_use]
    pub(crate) const fn total(&self) -> usize {
        self.fixed + self.queue + self.messages + self.chunks + self.gaps + self.copies + self.streams
    }
}

/// Returns whether a message was refused, and there is no room for it yet.
pub(crate) fn is_blocked(outbound: &Outbound) -> bool {
    outbound.busy.as_ref().is_some_and(|busy| busy.queue.is_blocked())
}

/// Returns whether data waits for credit of its stream.
#[inline]
pub(crate) fn waits_for_credit(outbound: &Outbound) -> bool {
    outbound.busy.as_ref().is_some_and(|busy| busy.queue.parked().is_some())
}

/// Returns the number of chunks marked for retransmission.
pub(crate) fn marked_chunks(outbound: &Outbound) -> u32 {
    outbound.sent().map_or(0, |sent| sent.outstanding.marked())
}

impl Outbound {
    /// Returns the TSN of the next new chunk.
    #[must_use]
    pub(crate) fn next_tsn(&self) -> Tsn {
        self.sent().map_or(self.idle_next, |sent| sent.outstanding.next_tsn())
    }

    /// Returns the Cumulative TSN Ack Point: the highest TSN up to which the peer has everything.
    #[must_use]
    pub(crate) fn cumulative_ack(&self) -> Tsn {
        self.sent().map_or(self.idle_next.previous(), |sent| sent.outstanding.cumulative_ack())
    }

    /// True if nothing is queued, outstanding or held back: everything was delivered to the peer, and no reset of
    /// outgoing streams is under way.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_pending()
            && self.busy.as_deref().is_none_or(|busy| {
                busy.sent.outstanding.is_empty()
                    && busy.queue.held().is_none()
                    && busy.queue.parked().is_none()
            })
    }

    /// True if data waits that was never sent and may be.
    #[must_use]
    pub(crate) fn has_pending(&self) -> bool {
        self.pending_bytes() > 0
    }

    /// True if chunks wait for retransmission.
    #[must_use]
    pub(crate) fn has_retransmissions(&self) -> bool {
        self.sent().is_some_and(|sent| sent.outstanding.marked() > 0)
    }

    /// True during fast recovery (section 7.2.4).
    #[must_use]
    pub(crate) fn in_fast_recovery(&self) -> bool {
        let by_time = |sent: &SendWindow| sent.rack.as_ref().is_some_and(|rack| rack.in_recovery());
        self.sent().is_some_and(|sent| sent.fast_recovery.is_active() || by_time(sent))
    }

    /// Returns the bytes of user data in flight on all paths.
    #[must_use]
    pub(crate) fn outstanding_bytes(&self) -> u32 {
        self.sent().map_or(0, |sent| sent.outstanding.in_flight_bytes())
    }

    /// True if the peer has not acknowledged every TSN that was assigned, those of data that was abandoned included.
    #[must_use]
    pub(crate) fn has_outstanding(&self) -> bool {
        self.sent().is_some_and(|sent| !sent.outstanding.is_empty())
    }

    /// Returns the bytes of user data sent and not cumulatively acknowledged: in flight, marked, or acknowledged by
    /// gap blocks.
    #[must_use]
    pub(crate) fn unacknowledged_bytes(&self) -> u32 {
        self.sent().map_or(0, |sent| sent.outstanding.bytes())
    }

    /// Returns the number of messages that were begun and are not completely acknowledged.
    #[must_use]
    pub(crate) fn unacknowledged_messages(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.messages.len() - busy.queue.pending_messages())
    }

    /// Returns the bytes of user data that were never sent and may be.
    #[must_use]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.queue.pending_bytes())
    }

    /// Returns the number of messages of which nothing was sent.
    #[must_use]
    pub(crate) fn pending_messages(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.queue.pending_messages())
    }

    /// True if the waiting data would fill a packet with room for `packet_space` bytes of chunks: Nagle's algorithm
    /// does not hold it back.
    #[must_use]
    pub(crate) fn has_full_packet(&self, packet_space: usize) -> bool {
        let headers =
            self.busy.as_ref().map_or(0, |busy| busy.queue.ready_messages()) * DATA_CHUNK_HEADER_LEN;
        self.pending_bytes() + headers >= packet_space
    }

    /// Returns the bytes that count against the send buffer: given and not cumulatively acknowledged.
    #[must_use]
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.queue.buffered_bytes())
    }

    /// Returns the bytes of chunks until everything given was sent, if the application waits for room in the send
    /// buffer.
    #[must_use]
    pub(crate) fn bytes_until_blocked(&self) -> u32 {
        let Some(busy) = self.busy.as_ref().filter(|busy| busy.queue.is_blocked()) else { return u32::MAX };
        let headers = busy.queue.ready_messages() * DATA_CHUNK_HEADER_LEN;
        u32::try_from(busy.queue.pending_bytes() + headers).unwrap_or(u32::MAX)
    }

    /// Allows a refused `push` to be retried, because the congestion window grew at once.
    pub(crate) fn retry_blocked(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.queue.retry_blocked();
        }
    }

    /// Returns true once when there is room again after `push` returned `WouldBlock`.
    /// [`SackOutcome::Applied`](super::SackOutcome::Applied) reports it too.
    pub(crate) fn take_writable(&mut self) -> bool {
        self.busy.as_mut().is_some_and(|busy| busy.queue.take_writable())
    }

    /// Returns the bytes that the peer has room for beyond those in flight.
    #[must_use]
    pub(crate) const fn peer_rwnd(&self) -> u32 {
        self.window.rwnd()
    }

    /// Returns the number of outgoing streams.
    #[must_use]
    pub(crate) const fn streams(&self) -> u16 {
        self.streams
    }

    /// True if the latest SACK reported something missing.
    #[must_use]
    pub(crate) fn has_gaps(&self) -> bool {
        self.sent().is_some_and(|sent| !sent.gaps.is_empty())
    }

    /// Returns the bytes in flight on a path, counted chunk by chunk, which the caller's own account must equal. For
    /// assertions.
    #[must_use]
    pub(crate) fn flight_of(&self, path: PathIndex) -> u32 {
        let in_flight = |r: &&Record| r.path == path && r.state() == State::InFlight;
        let Some(sent) = self.sent() else { return 0 };
        sent.outstanding.range(0, usize::MAX).filter(in_flight).map(Record::chunk_len).sum()
    }

    /// True if chunks last sent on the path are outstanding outside the flight, because no SACK had room to report
    /// them: T3-rtx keeps running for them as for the flight (section 6.3.2 R2).
    #[must_use]
    pub(crate) fn has_overdue(&self, path: PathIndex) -> bool {
        self.sent().is_some_and(|sent| sent.outstanding.has_overdue(path))
    }

    /// Returns the heap by kind.
    #[must_use]
    pub(crate) fn heap(&self) -> OutboundHeap {
        let beside = self.numbers.state();
        let idle = beside.map_or(0, |beside| beside.settings.heap_bytes());
        let interleaving = interleaving::state(&self.numbers).map_or(0, Interleaving::heap_bytes);
        let streams = self.numbers.heap_bytes() + interleaving;
        let Some(busy) = &self.busy else {
            return OutboundHeap { queue: idle, streams, ..OutboundHeap::default() };
        };
        OutboundHeap {
            fixed: size_of::<Busy>(),
            queue: busy.queue.heap_bytes(),
            messages: busy.messages.heap_bytes(),
            chunks: busy.sent.record_heap_bytes(),
            gaps: busy.sent.gaps.heap_bytes(),
            copies: busy.messages.copies_heap_bytes(),
            streams,
        }
    }
}
