//! What an [`Outbound`] holds and waits for: questions that change nothing.

use strandline_wire::DATA_CHUNK_HEADER_LEN;

use super::on_sack::SendWindow;
use super::outstanding::{Record, State};
use super::{Busy, Outbound};
use crate::number::Tsn;

/// Heap of an [`Outbound`] in bytes; what the user shares with it is not counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct OutboundHeap {
    /// What holds the following together.
    pub(crate) fixed: usize,
    /// Messages not sent yet.
    pub(crate) queue: usize,
    /// Messages sent and not acknowledged.
    pub(crate) messages: usize,
    /// A record for each chunk sent and not acknowledged.
    pub(crate) chunks: usize,
    /// Gap acknowledgements.
    pub(crate) gaps: usize,
    /// Blocks for copies of small messages, the user data in them included.
    pub(crate) copies: usize,
    /// Next sequence number of each stream beyond the first few.
    pub(crate) streams: usize,
}

impl OutboundHeap {
    /// The sum.
    #[must_use]
    pub(crate) const fn total(&self) -> usize {
        self.fixed + self.queue + self.messages + self.chunks + self.gaps + self.copies + self.streams
    }
}

impl Outbound {
    /// The TSN that the next new chunk gets.
    #[must_use]
    pub(crate) fn next_tsn(&self) -> Tsn {
        self.sent().map_or(self.idle_next, |sent| sent.outstanding.next_tsn())
    }

    /// The Cumulative TSN Ack Point: the highest TSN up to which the peer has everything.
    #[must_use]
    #[cfg(test)]
    pub(crate) fn cumulative_ack(&self) -> Tsn {
        self.sent().map_or(self.idle_next.previous(), |sent| sent.outstanding.cumulative_ack())
    }

    /// Nothing waits and nothing is outstanding: everything given was delivered to the peer.
    #[must_use]
    pub(crate) fn is_empty(&self) -> bool {
        !self.has_pending() && self.sent().is_none_or(|sent| sent.outstanding.is_empty())
    }

    /// Data waits that was never sent.
    #[must_use]
    pub(crate) fn has_pending(&self) -> bool {
        self.pending_bytes() > 0
    }

    /// Chunks wait to be sent again.
    #[must_use]
    pub(crate) fn has_retransmissions(&self) -> bool {
        self.sent().is_some_and(|sent| sent.outstanding.marked() > 0)
    }

    /// Fast recovery is under way (section 7.2.4).
    #[must_use]
    pub(crate) fn in_fast_recovery(&self) -> bool {
        let by_time =
            |sent: &SendWindow| sent.outstanding.rack.as_ref().is_some_and(|rack| rack.in_recovery());
        self.sent().is_some_and(|sent| sent.recovery.is_active() || by_time(sent))
    }

    /// Bytes of user data in flight on all paths.
    #[must_use]
    pub(crate) fn outstanding_bytes(&self) -> u32 {
        self.sent().map_or(0, |sent| sent.outstanding.in_flight_bytes())
    }

    /// Bytes of user data sent and not acknowledged cumulatively: in flight, marked, or acknowledged by gap blocks.
    #[must_use]
    pub(crate) fn unacknowledged_bytes(&self) -> u32 {
        self.sent().map_or(0, |sent| sent.outstanding.bytes())
    }

    /// Messages begun and not acknowledged whole.
    #[must_use]
    pub(crate) fn unacknowledged_messages(&self) -> usize {
        self.sent().map_or(0, |sent| sent.outstanding.messages())
    }

    /// Bytes of user data that were never sent.
    #[must_use]
    pub(crate) fn pending_bytes(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.queue.pending_bytes())
    }

    /// Messages of which nothing was sent.
    #[must_use]
    pub(crate) fn pending_messages(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.queue.pending_messages())
    }

    /// The data that waits would fill a packet with room for `packet_space` bytes of chunks: Nagle's rule does not
    /// hold it back.
    #[must_use]
    pub(crate) fn has_full_packet(&self, packet_space: usize) -> bool {
        self.pending_bytes() + self.pending_messages() * DATA_CHUNK_HEADER_LEN >= packet_space
    }

    /// Bytes that count against the send buffer: given and not acknowledged cumulatively.
    #[must_use]
    pub(crate) fn buffered_bytes(&self) -> usize {
        self.busy.as_ref().map_or(0, |busy| busy.queue.buffered_bytes())
    }

    /// Bytes of chunks until all that was given has been sent, if the application waits for room in the send buffer.
    #[must_use]
    pub(crate) fn bytes_until_blocked(&self) -> u32 {
        let Some(busy) = self.busy.as_ref().filter(|busy| busy.queue.is_blocked()) else { return u32::MAX };
        let headers = busy.queue.pending_messages() * DATA_CHUNK_HEADER_LEN;
        u32::try_from(busy.queue.pending_bytes() + headers).unwrap_or(u32::MAX)
    }

    /// The congestion window grew at one go: a `push` that was refused may do now.
    pub(crate) fn ask_again(&mut self) {
        if let Some(busy) = &mut self.busy {
            busy.queue.ask_again();
        }
    }

    /// True once when there is room again after `push` said `WouldBlock`. [`SackOutcome::Applied`] tells it too.
    pub(crate) fn take_writable(&mut self) -> bool {
        self.busy.as_mut().is_some_and(|busy| busy.queue.take_writable())
    }

    /// Bytes that the peer has room for beyond what is in flight.
    #[must_use]
    pub(crate) const fn peer_rwnd(&self) -> u32 {
        self.window.rwnd()
    }

    /// Outgoing streams.
    #[must_use]
    pub(crate) const fn streams(&self) -> u16 {
        self.streams
    }

    /// The latest SACK told of something that is missing.
    #[must_use]
    pub(crate) fn has_gaps(&self) -> bool {
        self.sent().is_some_and(|sent| !sent.gaps.is_empty())
    }

    /// Bytes in flight on a path, counted chunk by chunk: what the caller's own account must equal. For checks.
    #[must_use]
    pub(crate) fn flight_of(&self, path: u8) -> u32 {
        let in_flight = |r: &&Record| r.path == path && r.state() == State::InFlight;
        let Some(sent) = self.sent() else { return 0 };
        sent.outstanding.range(0, usize::MAX).filter(in_flight).map(Record::chunk_len).sum()
    }

    /// Chunks last sent to the path are outstanding though they count as flight no longer, since no SACK had room to name
    /// them: T3-rtx goes on for them as for what is in flight (section 6.3.2 R2).
    #[must_use]
    pub(crate) fn has_overdue(&self, path: u8) -> bool {
        self.sent().is_some_and(|sent| sent.outstanding.has_overdue(path))
    }

    /// Heap held, by kind.
    #[must_use]
    pub(crate) fn heap(&self) -> OutboundHeap {
        let streams = self.numbers.heap_bytes();
        let Some(busy) = &self.busy else { return OutboundHeap { streams, ..OutboundHeap::default() } };
        OutboundHeap {
            fixed: size_of::<Busy>(),
            queue: busy.queue.heap_bytes(),
            messages: busy.sent.outstanding.message_heap_bytes(),
            chunks: busy.sent.outstanding.record_heap_bytes(),
            gaps: busy.sent.gaps.heap_bytes(),
            copies: busy.copies.heap_bytes(),
            streams,
        }
    }

    /// Heap held in bytes; what the user shares is not counted.
    #[must_use]
    pub(crate) fn heap_bytes(&self) -> usize {
        self.heap().total()
    }
}
