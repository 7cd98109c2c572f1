//! The effects of an acknowledgement on each path, and on the association.

use crate::time::Time;

/// What a SACK (or SHUTDOWN) changed on one path. The caller passes an array of defaults and applies each entry
/// afterwards.
///
/// Bytes are those of DATA chunks, header and padding included (section 7.2). Every byte that a chunk added to a
/// path's flight when it was sent leaves it again through exactly one of `acked.flight_drop`, `lost.bytes`,
/// `lost.overdue_bytes` and the result of `Outbound::on_timeout`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PathAck {
    pub(crate) acked: Acked,
    pub(crate) lost: Lost,
    pub(crate) rtt: RttSample,
    /// True if a loss on this path begins a congestion event: adjust cwnd and ssthresh (section 7.2.4 rule 2). The loss
    /// was found by miss indications, by time, or by a tail-loss probe that repaired it.
    pub(crate) begins_congestion_event: bool,
    /// True if a loss of marked data, for which the window has already shrunk (RFC 3168), is repaired.
    pub(crate) repairs: bool,
    /// With `begins_congestion_event`: true if the previous reduction may still be spurious, so that both are undone
    /// together or neither.
    pub(crate) undo_continues: bool,
    /// With loss detection by time: true if the path is in recovery from a loss, not from a time-out.
    pub(crate) in_recovery: bool,
    /// True if the presumed loss, by recovery or time-out, was spurious: the old window must be restored.
    pub(crate) undo: bool,
    /// True if a tail-loss probe retransmitted data that had arrived.
    pub(crate) probe_spurious: bool,
    /// True if packets of new data must be sent regardless of the window, to test whether a time-out was spurious
    /// (RFC 5682 step 2b).
    pub(crate) probes_timeout: bool,
}

/// What is acknowledged on one path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Acked {
    /// Bytes acknowledged for the first time, of chunks last sent on this path: the congestion window may grow by
    /// these.
    pub(crate) bytes: u32,
    /// Number of chunks in `bytes`.
    pub(crate) chunks: u32,
    /// Bytes that left the flight because they were acknowledged. Less than `bytes` if a chunk had been marked for
    /// retransmission and left the flight then. More, even with `bytes` 0, if a revoked acknowledgement is repeated.
    pub(crate) flight_drop: u32,
    /// True if some of them were sent on this path only, which makes them its answer (RFC 7829 section 3.2 rules 9
    /// and 10).
    pub(crate) answered: bool,
    /// True if some of the path's own chunks were still in flight, so that the answer does not precede a time-out.
    pub(crate) answered_in_time: bool,
    /// True if a FORWARD TSN that was sent on this path is acknowledged.
    pub(crate) skipped: bool,
    /// True if the earliest outstanding TSN of this path was acknowledged: restart T3-rtx if anything is in flight
    /// (R3).
    pub(crate) lowest: bool,
}

/// What is lost on one path, or revoked by the peer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Lost {
    /// Bytes that left the flight because they were marked for fast retransmission.
    pub(crate) bytes: u32,
    /// Number of chunks in `bytes`.
    pub(crate) chunks: u32,
    /// Bytes that left the flight because they are overdue: they have left the network, and no SACK has room to
    /// report their fate.
    pub(crate) overdue_bytes: u32,
    /// Part of `bytes` that had left the flight as `overdue_bytes` before.
    pub(crate) reported_bytes: u32,
    /// Bytes in flight again because the peer revoked their gap acknowledgement (section 6.2.1 D iii).
    pub(crate) reneged_bytes: u32,
    /// True if the peer revoked a gap acknowledgement: start T3-rtx if it is not running (R4).
    pub(crate) reneged: bool,
}

/// A measurement of the round-trip time of one path.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct RttSample {
    /// When the latest chunk was sent that measures the round-trip time by Karn's rule (section 6.3.1 C5).
    pub(crate) sent_at: Option<Time>,
    /// True if that chunk may have arrived long before a SACK had room to report it, and no other chunk measures the
    /// time.
    pub(crate) late: bool,
    /// True if that chunk may have arrived long before a SACK that reported it came through. Neither case may
    /// increase the round-trip time.
    pub(crate) after_lost_sack: bool,
}

impl PathAck {
    /// Returns the bytes in flight on the path after this, given those before.
    #[cfg(test)]
    #[must_use]
    pub(crate) const fn flight_after(&self, flight: u32) -> u32 {
        flight
            .saturating_add(self.lost.reneged_bytes)
            .saturating_add(self.lost.reported_bytes)
            .saturating_sub(self.lost.overdue_bytes)
            .saturating_sub(self.acked.flight_drop)
            .saturating_sub(self.lost.bytes)
    }

    /// True if this begins the repair of a loss on this path.
    #[must_use]
    pub(crate) fn begins_recovery(&self) -> bool {
        self.begins_congestion_event || self.repairs
    }

    /// Records that a chunk last sent on this path is acknowledged for the first time. `alone` is true if it was sent
    /// on no other path.
    #[inline]
    pub(crate) fn note_answer(&mut self, alone: bool, in_flight: bool) {
        self.acked.answered |= alone;
        self.acked.answered_in_time |= alone & in_flight;
    }

    /// Records that a chunk that was sent once, at `sent_at` if that is known, is acknowledged. `timed` is true if it
    /// was reported when it arrived.
    pub(crate) fn note_rtt(&mut self, sent_at: Option<Time>, timed: bool) {
        let Some(at) = sent_at else { return };
        let better = match self.rtt.sent_at {
            Some(_) if self.rtt.late == timed => timed,
            Some(best) => at > best,
            None => true,
        };
        if better {
            (self.rtt.sent_at, self.rtt.late) = (sent_at, !timed);
        }
    }

    /// True if nothing happened on the path.
    #[must_use]
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The outcome of a SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SackOutcome {
    /// Older than an earlier one (section 6.2.1 D i): dropped.
    Ignored,
    /// A protocol violation of the peer: the association ends. Nothing was changed.
    Violation(&'static str),
    /// Processed.
    Applied {
        /// True if the Cumulative TSN Ack Point advanced.
        cumulative_advanced: bool,
        /// True if a chunk was acknowledged for the first time, cumulatively or by a gap block.
        newly_acked: bool,
        /// True if fast recovery began: one packet of retransmissions is sent regardless of cwnd
        /// (`Outbound::fast_retransmit_pending`).
        entered_fast_recovery: bool,
        /// True if the association was in fast recovery before and still is: cwnd does not grow (section 7.2.1).
        in_fast_recovery: bool,
        /// True if nothing is outstanding any more; messages may still be queued.
        all_acked: bool,
        /// True if there is room in the send buffer again after `push` returned `WouldBlock`.
        writable: bool,
        /// True if the SACK opened a closed window and acknowledged nothing: the lowest chunks probe it.
        window_opened: bool,
        /// Bytes of user data that left the send buffer.
        delivered: usize,
    },
}
