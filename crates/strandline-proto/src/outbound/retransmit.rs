//! Retransmission: T3-rtx time-outs (RFC 9260 section 6.3.3) and the chunks marked for retransmission (6.1 C).

use super::fragment;
use super::recovery::send_window::SendWindow;
use super::sent::outstanding::{FAST_MARKED, PROBE, RESENT, State};
use crate::path_index::PathIndex;
use crate::time::Time;

/// The next chunk to retransmit: the lowest TSN marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retransmission {
    /// Bytes that it takes in a packet, including header and padding. More than an empty packet holds if the path MTU
    /// has fallen since: fragments are never cut again, so IP must fragment it (section 6.9).
    pub(crate) size: usize,
    /// The path that it was last sent on.
    pub(crate) last_path: PathIndex,
    /// True if fast retransmit marked it: it should use the same path (section 6.4). Otherwise T3-rtx expired, and it
    /// should use another path if there is one.
    pub(crate) fast: bool,
    /// True if it was retransmitted before, with loss detection by time: another path may be better (in RFC 9260 fast
    /// retransmissions stay on theirs).
    pub(crate) repeated: bool,
    /// True for a tail-loss probe, which nothing indicates as lost.
    pub(crate) probe: bool,
}

impl SendWindow {
    /// Marks every chunk in flight on the path, and ends fast recovery. Section 6.3.3 E3 retransmits the lowest chunks
    /// at once and marks the others; here all are marked, and the congestion window of one packet after the time-out
    /// lets the first ones be sent. Returns their bytes, including headers and padding.
    pub(super) fn mark_path(&mut self, path: PathIndex) -> u32 {
        let outstanding = &mut self.outstanding;
        let mut bytes = 0;
        for index in 0..outstanding.len() {
            let Some(record) = outstanding.get_mut(index) else { break };
            if record.path != path {
                continue;
            }
            record.clear(FAST_MARKED); // Chunks that waited for fast retransmission timed out too.
            match record.state() {
                State::InFlight => bytes += record.chunk_len(),
                State::Overdue => {}
                _ => continue,
            }
            outstanding.change(index, State::Marked);
        }
        self.fast_recovery.on_timeout();
        bytes
    }

    /// Returns what [`resend_next`](Self::resend_next) would send, whatever the space.
    pub(super) fn retransmission(&mut self) -> Option<Retransmission> {
        let index = self.outstanding.first_marked()?;
        let record = self.outstanding.get(index)?;
        Some(Retransmission {
            size: record.chunk_len() as usize,
            last_path: record.path,
            fast: record.has(FAST_MARKED),
            repeated: self.rack.is_some() && record.has(RESENT),
            probe: record.has(PROBE),
        })
    }

    /// Retransmits the lowest marked chunk on `path` if it fits. A later one that would fit has to wait, so that the
    /// TSNs of a packet, and of successive packets, ascend. Returns its index.
    pub(super) fn resend_next(&mut self, now: Time, path: PathIndex, space: usize) -> Option<usize> {
        let index = self.outstanding.first_marked()?;
        let record = self.outstanding.get(index)?;
        if usize::from(record.len) > fragment::payload_room(space) {
            return None;
        }
        self.resend(now, index, path);
        Some(index)
    }
}
