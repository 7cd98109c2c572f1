//! What is sent while the peer's window is closed and when it opens (decisions 81 and 99).

use super::interleaving::packet_room;
use super::{Outbound, timeout};
use crate::path_index::PathIndex;
use crate::time::Time;

impl Outbound {
    /// Returns the path whose lowest chunks must be retransmitted to learn whether they arrived
    /// ([`probe_opened_window`](Self::probe_opened_window)), after a SACK that opened a closed window and
    /// acknowledged nothing. T3-rtx may be backed off far, and nothing else would find out before.
    #[must_use]
    pub(crate) fn path_to_probe_opened_window(&mut self, now: Time) -> Option<PathIndex> {
        self.busy.as_deref_mut()?.sent.rack_recovery()?.path_to_probe(now)
    }

    /// Retransmits as many of the path's lowest chunks as fit `room` bytes, those of a packet. Returns the bytes that
    /// left the path's flight.
    pub(crate) fn probe_opened_window(&mut self, path: PathIndex, room: u32) -> u32 {
        let room = packet_room(self, room);
        let marked = timeout::mark(self, |sent| Some(sent.rack_recovery()?.on_window_probe(path, room)));
        marked.flatten().unwrap_or(0)
    }

    /// True if the peer answered that its window has no room for the lowest outstanding chunk.
    #[must_use]
    pub(crate) const fn window_is_shut(&self) -> bool {
        self.window.is_shut()
    }

    /// Handles an expiry of T3-rtx of the path while the peer keeps reporting a closed window (section 6.1 rule A):
    /// as many of the lowest chunks as fit `room` bytes, those of a packet, probe it. With miss indications all are
    /// retransmitted. Returns the bytes that left the path's flight.
    pub(crate) fn on_window_probe_timeout(&mut self, path: PathIndex, room: u32) -> u32 {
        let room = packet_room(self, room);
        let marked = timeout::mark_lowest(self, path, |rack| Some(rack.on_window_probe(path, room)));
        marked.unwrap_or_else(|| self.send_again(path))
    }
}
