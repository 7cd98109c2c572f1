//! What timers do to outstanding chunks: T3-rtx (RFC 9260 section 6.3.3), the loss timer and tail-loss probes
//! (RFC 8985).

use core::time::Duration;

use super::interleaving::packet_room;
use super::partial::forget_path;
use super::recovery::loss_detection::{NewlyAcked, RackRecovery};
use super::recovery::send_window::SendWindow;
use super::sent::outstanding::Record;
use super::{Busy, Outbound, PROBE_ROOM, PathAck};
use crate::path_index::{PathIndex, PerPath};
use crate::time::Time;

impl Outbound {
    /// Handles an expiry of T3-rtx of the path (section 6.3.3): everything in flight on it is marked for
    /// retransmission, and fast recovery ends. `again` is true if nothing was acknowledged on it since the previous
    /// time-out, so that both are undone together. Returns the bytes that left the path's flight.
    pub(crate) fn on_timeout(&mut self, path: PathIndex, again: bool) -> u32 {
        mark_path(self, path, |rack| rack.on_path_marked(path, again))
    }

    /// Retransmits everything in flight on the path without a sign that the network lost it: a router refused it, it
    /// went with a COOKIE ECHO that is repeated, or the peer has no room for it. Returns the bytes that left the
    /// path's flight.
    pub(crate) fn send_again(&mut self, path: PathIndex) -> u32 {
        mark_path(self, path, |rack| rack.on_path_marked_without_loss(path))
    }

    /// Assigns all outstanding chunks of a path that is removed to another one, as if they had been sent
    /// there, and marks those in flight for retransmission. Nothing refers to the removed path afterwards.
    /// `round_trip` is the smoothed round-trip time of the other path, if it is known.
    pub(crate) fn move_path(&mut self, from: PathIndex, to: PathIndex, round_trip: Option<Duration>) {
        self.learnt.forget(from);
        forget_path(self, from);
        mark(self, |sent| sent.move_path(from, to, round_trip));
    }

    /// Handles an expiry of T3-rtx of the path, if there is no other path and losses are detected by time: only as
    /// many of its lowest chunks as fit `room` bytes are marked for retransmission, and the answer shows the fate of
    /// the others. With miss indications, or after an answer that did not help, it is
    /// [`on_timeout`](Self::on_timeout). `again` is as there. `room` is that of a packet on the path of the
    /// retransmission (section 6.3.3 E3).
    pub(crate) fn on_first_timeout(&mut self, path: PathIndex, again: bool, room: u32) -> u32 {
        let room = packet_room(self, room);
        let marked = mark_lowest(self, path, |rack| rack.on_timeout(path, again, room));
        marked.unwrap_or_else(|| self.on_timeout(path, again))
    }

    /// Marks what is lost when the deadline of [`loss_deadline`](Self::loss_deadline) has passed.
    pub(crate) fn on_loss_timer(&mut self, now: Time, paths: &mut PerPath<PathAck>) {
        mark(self, |sent| {
            if let Some(mut rack) = sent.rack_recovery() {
                // Nothing was acknowledged that would test a time-out with new data.
                rack.detect_loss(now, Some(NewlyAcked::default()), false, paths);
            }
        });
    }

    /// Prepares a packet that may be sent on the path regardless of its window, to learn whether the last packets
    /// were lost: data marked for retransmission, new data if `new_allowed`, or else the highest chunk in flight,
    /// which is marked then. Returns the bytes that left the path's flight.
    pub(crate) fn on_probe(&mut self, now: Time, path: PathIndex, new_allowed: bool) -> u32 {
        let pending = self.pending_bytes();
        let sendable = pending > 0 && pending.min(PROBE_ROOM) <= self.window.rwnd() as usize;
        let Some(Busy { sent, messages, partial, .. }) = self.busy.as_deref_mut() else { return 0 };
        let outstanding = &sent.outstanding;
        if outstanding.marked() > 0 || (new_allowed && sendable && !outstanding.is_full()) {
            return 0;
        }
        // A chunk that must not be retransmitted probes nothing: its loss ends its message.
        let may_probe = |tsn, record: &Record| {
            let Some((partial, key)) = partial.as_ref().zip(record.message()) else { return true };
            messages.get(key).is_none_or(|message| partial.may_probe(now, tsn, key, message))
        };
        let in_flight = outstanding.in_flight_bytes();
        let marked = sent.rack_recovery().map_or(0, |mut rack| rack.on_probe(path, may_probe));
        self.window.give_back(in_flight.saturating_sub(sent.outstanding.in_flight_bytes()));
        marked
    }
}

/// Calls `mark` with the send window, if there is one. What leaves the flight by that counts against the peer's window
/// no longer.
pub(super) fn mark<T>(outbound: &mut Outbound, mark: impl FnOnce(&mut SendWindow) -> T) -> Option<T> {
    let sent = &mut outbound.busy.as_mut()?.sent;
    let in_flight = sent.outstanding.in_flight_bytes();
    let marked = mark(sent);
    outbound.window.give_back(in_flight.saturating_sub(sent.outstanding.in_flight_bytes()));
    Some(marked)
}

/// Marks everything in flight on the path and ends fast recovery; `on_marked` is then called, with loss detection by
/// time. Returns the bytes that left the path's flight.
fn mark_path(outbound: &mut Outbound, path: PathIndex, on_marked: impl FnOnce(&mut RackRecovery<'_>)) -> u32 {
    let marked = mark(outbound, |sent| {
        let bytes = sent.mark_path(path);
        if let Some(mut rack) = sent.rack_recovery() {
            on_marked(&mut rack);
        }
        bytes
    });
    let Some(bytes) = marked else { return 0 };
    outbound.window.on_timeout(path);
    bytes
}

/// Calls `mark_with`, which marks the lowest chunks of a path. Returns the bytes that left the path's flight,
/// or `None` if `mark_with` does, or losses are not detected by time.
pub(super) fn mark_lowest(
    outbound: &mut Outbound,
    path: PathIndex,
    mark_with: impl FnOnce(&mut RackRecovery<'_>) -> Option<u32>,
) -> Option<u32> {
    let bytes = mark(outbound, |sent| mark_with(&mut sent.rack_recovery()?))??;
    outbound.window.on_timeout(path);
    Some(bytes)
}
