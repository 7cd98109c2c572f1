//! What timers do to outstanding chunks: T3-rtx (RFC 9260 section 6.3.3), the loss timer and tail-loss probes (RFC 8985).

use super::loss_detection::{self, Newly};
use super::on_sack::SendWindow;
use super::{FULL_PACKET, Outbound, PathAck, retransmit};
use crate::path_index::{PathIndex, PerPath};
use crate::time::Time;

impl Outbound {
    /// Handles an expiry of T3-rtx of the path (section 6.3.3): everything in flight on it is marked for
    /// retransmission, and fast recovery ends. `again` is true if nothing was acknowledged on it since the previous
    /// time-out, so that both are undone together. Returns the bytes that left the path's flight.
    pub(crate) fn on_timeout(&mut self, path: PathIndex, again: bool) -> u32 {
        mark_path(self, path, |sent| loss_detection::on_path_marked(&mut sent.outstanding, path, again))
    }

    /// Retransmits everything in flight on the path without a sign that the network lost it: a router refused it, it
    /// went with a COOKIE ECHO that is repeated, or the peer has no room for it. Returns the bytes that left the
    /// path's flight.
    pub(crate) fn send_again(&mut self, path: PathIndex) -> u32 {
        mark_path(self, path, |sent| loss_detection::on_path_refused(&mut sent.outstanding, path))
    }

    /// Handles an expiry of T3-rtx of the path, if there is no other path and losses are detected by time: only as
    /// many of its lowest chunks as fit a packet are marked for retransmission, and the answer shows the fate of the
    /// others. With miss indications, or after an answer that did not help, it is [`on_timeout`](Self::on_timeout).
    /// `again` is as there.
    pub(crate) fn on_first_timeout(&mut self, path: PathIndex, again: bool) -> u32 {
        let marked = mark_lowest(self, |sent| loss_detection::on_timeout(&mut sent.outstanding, path, again));
        marked.unwrap_or_else(|| self.on_timeout(path, again))
    }

    /// Marks what is lost when the deadline of [`loss_deadline`](Self::loss_deadline) has passed.
    pub(crate) fn on_loss_timer(&mut self, now: Time, paths: &mut PerPath<PathAck>) {
        mark(self, |sent| {
            let news = Some(Newly::default());
            loss_detection::conclude(&mut sent.outstanding, &sent.gaps, now, news, paths);
        });
    }

    /// Prepares a packet that may be sent on the path regardless of its window, to learn whether the last packets
    /// were lost: data marked for retransmission, new data if `new_allowed`, or else the highest chunk in flight,
    /// which is marked then. Returns the bytes that left the path's flight.
    pub(crate) fn on_probe(&mut self, path: PathIndex, new_allowed: bool) -> u32 {
        let pending = self.pending_bytes();
        let sendable = pending > 0 && pending.min(FULL_PACKET) <= self.window.rwnd() as usize;
        let marked = mark(self, |sent| {
            let outstanding = &mut sent.outstanding;
            if outstanding.marked() > 0 || (new_allowed && sendable && !outstanding.is_full()) {
                return 0;
            }
            loss_detection::on_probe(outstanding, path)
        });
        marked.unwrap_or(0)
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

/// Marks everything in flight on the path and ends fast recovery; `judge` sees the send window afterwards. Returns the
/// bytes that left the path's flight.
fn mark_path(outbound: &mut Outbound, path: PathIndex, judge: impl FnOnce(&mut SendWindow)) -> u32 {
    let marked = mark(outbound, |sent| {
        let bytes = retransmit::mark_path(&mut sent.outstanding, path);
        sent.recovery.on_timeout();
        judge(sent);
        bytes
    });
    let Some(bytes) = marked else { return 0 };
    outbound.window.on_timeout();
    bytes
}

/// Calls `judge`, which marks the lowest chunks of a path. Returns the bytes that left the path's flight, or `None` if
/// `judge` does.
pub(super) fn mark_lowest(
    outbound: &mut Outbound,
    judge: impl FnOnce(&mut SendWindow) -> Option<u32>,
) -> Option<u32> {
    let bytes = mark(outbound, judge)??;
    outbound.window.on_timeout();
    Some(bytes)
}
