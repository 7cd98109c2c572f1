//! Loss detection by SACKs: miss indications and fast recovery (RFC 9260 section 7.2.4).

use super::ack::PathAck;
use super::gaps::Gaps;
use crate::number::Tsn;
use crate::outbound::sent::outstanding::{FAST_MARKED, FAST_RETRANSMITTED, Outstanding, State};
use crate::path_index::{PathIndex, PerPath};

/// Number of miss indications that mark a chunk.
const MISSES: u8 = 3;

/// Fast recovery of the association.
#[derive(Debug, Default)]
pub(crate) struct FastRecovery {
    /// Fast recovery ends when everything up to here is acknowledged.
    exit: Option<Tsn>,
    /// True if the packet that is sent regardless of cwnd (rule 3) has not been sent yet.
    first_packet: bool,
    /// True if any entry of `shrunk` is set: the highest TSN sent before the path's window shrank for a mark.
    any_shrunk: bool,
    shrunk: PerPath<Option<Tsn>>,
}

impl FastRecovery {
    /// Section 6.2.1 D iv.
    pub(crate) fn on_cumulative(&mut self, cumulative: Tsn) {
        if self.exit.is_some_and(|exit| cumulative.is_at_or_after(exit)) {
            self.end();
        }
        if self.any_shrunk {
            for shrunk in &mut self.shrunk {
                shrunk.take_if(|until| cumulative.is_at_or_after(*until));
            }
            self.any_shrunk = self.shrunk.iter().any(Option::is_some);
        }
    }

    fn end(&mut self) {
        self.exit = None;
        self.first_packet = false;
    }

    /// Records that the window of a path has shrunk for marks (RFC 3168): it does not shrink again for losses of data
    /// sent so far.
    pub(crate) fn on_shrunk(&mut self, path: PathIndex, last_sent: Tsn) {
        self.shrunk[path] = Some(last_sent);
        self.any_shrunk = true;
    }

    /// Forgets a path that is removed.
    pub(crate) fn forget(&mut self, path: PathIndex) {
        self.shrunk[path] = None;
    }

    fn has_shrunk_for(&self, path: PathIndex, tsn: Tsn) -> bool {
        self.shrunk[path].is_some_and(|until| tsn.is_at_or_before(until))
    }

    /// Ends fast recovery at a time-out: T3-rtx starts slow start anew, and cwnd may grow only outside of fast
    /// recovery.
    pub(crate) fn on_timeout(&mut self) {
        self.end();
    }

    pub(crate) fn is_active(&self) -> bool {
        self.exit.is_some()
    }

    pub(crate) fn first_packet_pending(&self) -> bool {
        self.first_packet
    }

    pub(crate) fn on_first_packet(&mut self) {
        self.first_packet = false;
    }
}

/// Which chunks a SACK counts as missing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Missing {
    /// Chunks below this index: the HTNA rule.
    pub(crate) below: usize,
    /// True in fast recovery if the Cumulative TSN Ack Point advances: everything that the SACK reports missing.
    pub(crate) all: bool,
}

/// Counts miss indications and marks the chunks that have enough of them. `lowest` collects the lowest unacknowledged
/// index of each path among the examined chunks. Returns whether fast recovery began.
pub(crate) fn count_misses(
    outstanding: &mut Outstanding,
    gaps: &Gaps,
    missing: Missing,
    recovery: &mut FastRecovery,
    lowest: &mut PerPath<usize>,
    paths: &mut PerPath<PathAck>,
) -> bool {
    let limit = if missing.all { gaps.last().unwrap_or(0).max(missing.below) } else { missing.below };
    let mut marked = false;
    for index in gaps.holes(0..limit).flatten() {
        let Some(record) = outstanding.get_mut(index) else { break };
        if record.is_done() {
            continue; // Abandoned, or revoked by this SACK, which counts its one indication.
        }
        let lowest = &mut lowest[record.path];
        *lowest = (*lowest).min(index);
        marked |= count_miss(outstanding, index, recovery, paths);
    }
    let entered = marked && !recovery.is_active();
    if entered {
        recovery.exit = Some(outstanding.next_tsn().previous());
        recovery.first_packet = true;
    }
    entered
}

/// Counts one miss indication for one chunk. Returns true if that marked it.
fn count_miss(
    outstanding: &mut Outstanding,
    index: usize,
    recovery: &FastRecovery,
    paths: &mut PerPath<PathAck>,
) -> bool {
    let tsn = outstanding.tsn(index);
    let Some(record) = outstanding.get_mut(index) else { return false };
    if record.state() != State::InFlight || record.has(FAST_RETRANSMITTED) {
        return false;
    }
    record.misses += 1;
    if record.misses < MISSES {
        return false;
    }
    record.set(FAST_RETRANSMITTED | FAST_MARKED);
    let (len, path) = (record.chunk_len(), record.path);
    outstanding.change(index, State::Marked);
    let shrinks = !recovery.is_active() && !recovery.has_shrunk_for(path, tsn);
    let path = &mut paths[path];
    path.lost.bytes += len;
    path.lost.chunks += 1;
    path.begins_congestion_event |= shrinks;
    true
}
