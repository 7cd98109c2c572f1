//! What an acknowledgement means: for each path, and for the association.

use crate::config::PATHS_MAX;
use crate::time::Time;

/// What a SACK (or SHUTDOWN) changed on one path. The caller gives an array of defaults and applies each afterwards.
///
/// Bytes are those of DATA chunks, header and padding included (section 7.2). Every byte that a chunk brought to a path's
/// flight when it was sent leaves it again through exactly one of `flight_drop`, `lost_bytes`, `overdue_bytes` and the result of `Outbound::on_timeout`; see [`flight_after`](Self::flight_after).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct PathAck {
    /// Bytes acknowledged for the first time, of chunks last sent to this path: what the congestion
    /// window may grow by.
    pub(crate) acked_bytes: u32,
    /// Chunks that `acked_bytes` came in.
    pub(crate) acked_chunks: u32,
    /// Of these some went to this path alone, and are its answer (RFC 7829 section 3.2 rules 9 and 10).
    pub(crate) answered: bool,
    /// Some of the path's own chunks were still in flight: the answer is not from before a time-out.
    pub(crate) answered_in_time: bool,
    /// Bytes that left flight because they were acknowledged. Less than `acked_bytes` if a chunk had been marked for
    /// retransmission and left flight then; more, even with `acked_bytes` 0, if a chunk is acknowledged again whose
    /// acknowledgement the peer had taken back.
    pub(crate) flight_drop: u32,
    /// Bytes that left flight because they were marked for fast retransmission.
    pub(crate) lost_bytes: u32,
    /// Bytes that left flight because they are so late that they have left the network, whatever became of them: no SACK has room to say.
    pub(crate) overdue_bytes: u32,
    /// Of `lost_bytes`, what had left flight as `overdue_bytes` before.
    pub(crate) reported_bytes: u32,
    /// Bytes in flight again because the peer took back their gap acknowledgement (section 6.2.1 D iii).
    pub(crate) reneged_bytes: u32,
    /// When the latest chunk was sent that gives a round-trip time by Karn's rule (section 6.3.1 C5).
    pub(crate) rtt_sample_sent_at: Option<Time>,
    /// With that: it may have arrived long before a SACK had room to name it, and nothing else was acknowledged that tells the time.
    pub(crate) rtt_late: bool,
    /// With that, too: it may have arrived long before a SACK that told of it came through. Either makes no round trip longer.
    pub(crate) rtt_overtaken: bool,
    /// The earliest outstanding TSN of this path was acknowledged: restart T3-rtx if anything is in flight (R3).
    pub(crate) lowest_acked: bool,
    /// Loss on this path began fast recovery: adjust cwnd and ssthresh (section 7.2.4 rule 2).
    pub(crate) fast_retransmit_loss: bool,
    /// A loss of what was marked, for which the window has shrunk already (RFC 3168): it is repaired as any other.
    pub(crate) repairs: bool,
    /// With `fast_retransmit_loss`: what the window shrank for before it is in doubt still, so that both are undone together or none.
    pub(crate) undo_continues: bool,
    /// The peer took back a gap acknowledgement: start T3-rtx if it is not running (R4).
    pub(crate) reneged: bool,
    /// Where losses are found by time: the path is in recovery from loss, not from a time-out.
    pub(crate) in_recovery: bool,
    /// What was believed lost, by recovery or time-out, was not: the window is to be what it was before.
    pub(crate) undo: bool,
    /// A tail-loss probe sent again what had arrived.
    pub(crate) probe_needless: bool,
    /// Packets of new data are to go whatever the window, to learn whether a time-out was needless (RFC 5682 step 2b).
    pub(crate) asks: bool,
}

impl PathAck {
    /// Bytes in flight on the path after this, from what was in flight before.
    #[cfg(test)]
    #[must_use]
    pub(crate) const fn flight_after(&self, flight: u32) -> u32 {
        flight
            .saturating_add(self.reneged_bytes)
            .saturating_add(self.reported_bytes)
            .saturating_sub(self.overdue_bytes)
            .saturating_sub(self.flight_drop)
            .saturating_sub(self.lost_bytes)
    }

    /// A loss of this path is to be repaired, which the ones before it were not.
    #[must_use]
    pub(crate) fn begins_recovery(&self) -> bool {
        self.fast_retransmit_loss || self.repairs
    }

    /// A chunk last sent to this path is acknowledged for the first time. `alone`: it went to no other path.
    #[inline]
    pub(super) fn offer_answer(&mut self, alone: bool, in_flight: bool) {
        self.answered |= alone;
        self.answered_in_time |= alone & in_flight;
    }

    /// A chunk that was sent once, at `sent_at` if that is known, is acknowledged. `timed`: it was named when it had arrived.
    pub(super) fn offer_rtt(&mut self, sent_at: Option<Time>, timed: bool) {
        let Some(at) = sent_at else { return };
        let better = match self.rtt_sample_sent_at {
            Some(_) if self.rtt_late == timed => timed,
            Some(best) => at > best,
            None => true,
        };
        if better {
            (self.rtt_sample_sent_at, self.rtt_late) = (sent_at, !timed);
        }
    }

    /// Nothing happened on the path.
    #[must_use]
    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The entry of a path; numbers beyond the array wrap, so that no number panics.
pub(super) fn of(paths: &mut [PathAck; PATHS_MAX], path: u8) -> &mut PathAck {
    &mut paths[usize::from(path) % PATHS_MAX]
}

/// What became of a SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SackOutcome {
    /// It is older than one seen before (section 6.2.1 D i): dropped.
    Ignored,
    /// The peer broke the protocol: the association ends. Nothing was changed.
    Violation(&'static str),
    /// It was taken in.
    Applied {
        /// The Cumulative TSN Ack Point moved.
        cumulative_advanced: bool,
        /// A chunk was acknowledged for the first time, cumulatively or by a gap block.
        newly_acked: bool,
        /// Fast recovery began: one packet of retransmissions goes regardless of cwnd
        /// (`Outbound::fast_retransmit_pending`).
        entered_fast_recovery: bool,
        /// The association was in fast recovery when this arrived and still is: cwnd does not grow (section 7.2.1).
        in_fast_recovery: bool,
        /// Nothing is outstanding any more; messages may still wait to be sent.
        all_acked: bool,
        /// There is room in the send buffer again after `push` said `WouldBlock`.
        writable: bool,
        /// Bytes of user data that left the send buffer.
        delivered: usize,
    },
}
