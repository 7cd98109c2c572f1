//! What is known of an association between steps.

#[cfg(test)]
mod tests;

use core::net::IpAddr;

use strandline_proto::stats::{PathStatus, Reachability, Status};
use strandline_proto::time::Time;
use strandline_wire::Tsn;

use super::Before;
use super::moves::Moves;
use crate::board::{Board, recovery_end, set_by_time};
use crate::bounds::{Bounds, Events};
use crate::by_address::ByAddress;
use crate::keys::KnownKeys;
use crate::violation::Violation;

/// After this many looks in a row that found the same numbers, with no packet in between, another look changes nothing:
/// the first takes what has arrived, and the second finds nothing left.
const LOOKS: u8 = 2;

/// State of an association between steps.
#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) board: Board,
    /// The numbers at the last look; `None` before the first, and while nothing is known of what counts.
    pub(super) before: Option<Before>,
    /// Number of looks that found the same numbers, since anything touched the association.
    looks: u8,
    /// True if these numbers were checked after packets were sent.
    checked: bool,
    /// The bounds of each path, by the peer's address.
    pub(super) bounds: ByAddress<Bounds>,
    /// The path MTUs at the last check.
    mtus: ByAddress<u16>,
    /// Numbers of tail-loss probes, time-outs, recoveries and undone ones, at the last check.
    pub(super) counted: [u32; 4],
    /// For each path: number of time-outs so far, and the F-RTO test since the latest.
    timeouts_of: ByAddress<(u16, Option<FrtoTest>)>,
    /// True if losses were detected by time when nothing was outstanding.
    by_time: bool,
    /// The largest path MTU of each path: chunks may have been made for it.
    mtu_max: ByAddress<u16>,
    /// For each path: number of time-outs so far, and packets that may still test whether the latest was spurious
    /// (RFC 5682 section 2 step 2b).
    pub(super) frto_packets: ByAddress<(u16, u32)>,
    pub(super) moves: Moves,
    pub(super) keys: KnownKeys,
    /// Set when a path was removed: the number that followed what was sent by then.
    removed: Option<Tsn>,
}

/// The F-RTO test: after T3-rtx one packet reveals what became of the others (RFC 5682).
#[derive(Debug, Clone, Copy)]
struct FrtoTest {
    /// The test ends when everything before this is acknowledged, with the TSNs of messages that never existed.
    until: Tsn,
    /// True if something has been acknowledged since.
    answered: bool,
}

pub(super) fn counters(status: &Status) -> [u32; 4] {
    let stats = status.stats;
    [stats.tail_probes, stats.timeouts, stats.fast_recoveries, stats.undone]
}

impl Memory {
    /// Forgets a path that was removed: what was in flight there is sent again elsewhere.
    pub(super) fn on_removed(&mut self, address: IpAddr) {
        self.removed = self.board.next_tsn();
        self.board.on_removed(address);
        self.bounds.remove(address);
        self.mtus.remove(address);
        self.timeouts_of.remove(address);
        self.frto_packets.remove(address);
    }

    pub(super) fn events(&mut self, now: Time, status: &Status, paths: usize) -> Events {
        let counters = counters(status);
        let [probes, timeouts, recoveries, undone] =
            [0, 1, 2, 3].map(|at| counters[at].saturating_sub(self.counted[at]));
        Events {
            now,
            recoveries: status.stats.fast_recoveries,
            entered: recoveries,
            probes,
            timeouts,
            undone,
            marks_answered: status.marks_answered,
            // Events that allow a packet regardless of window and rate: probes, time-outs, fast retransmissions.
            exempt: probes + timeouts + recoveries,
            opened: false,
            // What was sent on a removed path is acknowledged, marked and lost afterwards.
            gave_up: false,
            several: paths > 1 || self.removed.is_some_and(|until| !self.board.has_passed(until)),
        }
    }

    /// Allows the retransmissions that T3-rtx justifies: everything on its path, or a single packet if there is no
    /// other path or the peer's window is closed. Returns whether the peer's window has opened.
    fn excuse(&mut self, events: Events, paths: &[PathStatus], by_time: bool) -> bool {
        let mut known = 0;
        for path in paths {
            let mtu_max = self.mtu_max.of(path.address.ip());
            *mtu_max = path.mtu.max(*mtu_max);
        }
        for path in paths {
            let address = path.address.ip();
            let (before, test) = self.timeouts_of.get(address).copied().unwrap_or_default();
            let delivered = self.board.has_delivered(address);
            let mut test = test.filter(|test| !self.board.has_passed(test.until));
            if let Some(test) = &mut test {
                test.answered |= delivered;
            }
            if path.timeouts > before {
                known += u32::from(path.timeouts - before);
                // If the test failed, it is not tried again.
                if by_time && paths.len() == 1 && test.is_none_or(|test| !test.answered) {
                    self.board.excuse_first(address, self.mtu_after_timeout(path, paths));
                } else {
                    self.board.excuse(Some(address));
                }
                test = recovery_end(&self.board).map(|until| FrtoTest { until, answered: delivered });
            }
            self.timeouts_of.insert(address, (path.timeouts, test));
        }
        // A window that opens is probed like a closed one (section 6.1 rule A).
        let opened = self.board.take_opened();
        if opened || events.timeouts > known {
            // A probe of a closed window is no error of a path, and its path is unknown.
            for path in paths.iter().filter(|_| by_time) {
                let mtu = self.mtu_after_timeout(path, paths);
                self.board.excuse_first(path.address.ip(), mtu);
            }
            if !by_time && events.timeouts > known {
                self.board.excuse(None);
            }
        }
        opened
    }

    /// Returns the largest packet that may retransmit what timed out on a path: that of another active path (RFC 9260
    /// section 6.4.1), whose MTU counts then (section 6.3.3 E3). If there is none, it stays, or a path that works no
    /// better takes it.
    fn mtu_after_timeout(&self, of: &PathStatus, paths: &[PathStatus]) -> u32 {
        let is_active = |path: &PathStatus| path.state == Reachability::Active;
        let others = paths.iter().filter(|path| path.address != of.address);
        let any = others.clone().any(is_active);
        let stays = (!any).then_some(of);
        let taking = others.filter(|path| if any { is_active(path) } else { !is_active(of) }).chain(stays);
        let mtu_of = |path: &PathStatus| self.mtu_max.get(path.address.ip()).copied().unwrap_or(path.mtu);
        taking.map(mtu_of).max().map_or(0, u32::from)
    }

    /// Records that something may change the association, even if its numbers do not show that.
    pub(super) fn touch(&mut self) {
        self.checked = false;
    }

    /// Records that a packet or an event changed what is known here.
    pub(super) fn learn(&mut self) {
        self.looks = 0;
    }

    /// True if a look that finds these numbers would change nothing.
    pub(super) fn is_settled(&self, status: &Status, paths: &[PathStatus]) -> bool {
        self.looks >= LOOKS && self.has_known(status, paths)
    }

    /// True if another check would find what the last one found.
    pub(super) fn is_checked(&self) -> bool {
        self.checked
    }

    /// True if these are the numbers of the last look.
    pub(super) fn has_known(&self, status: &Status, paths: &[PathStatus]) -> bool {
        self.before.as_ref().is_some_and(|before| before.status == *status && before.paths == paths)
    }

    /// Looks at the association before it transmits.
    pub(super) fn look(
        &mut self,
        now: Time,
        (status, paths): (Status, Vec<PathStatus>),
        by_time: bool,
    ) -> Result<(), Violation> {
        self.update(now, (&status, &paths), by_time)?;
        if self.has_known(&status, &paths) {
            self.looks = self.looks.saturating_add(1);
        } else {
            (self.looks, self.checked) = (1, false);
        }
        self.before = Some(Before::new(status, paths));
        Ok(())
    }

    /// Looks at it again before its first packet, if it rested when the others were looked at.
    pub(super) fn look_again(&mut self, now: Time, by_time: bool) -> Result<(), Violation> {
        let Some(before) = self.before.take() else { return Ok(()) };
        self.update(now, (&before.status, &before.paths), by_time)?;
        self.before = Some(before);
        Ok(())
    }

    /// Records that the numbers were checked after packets were sent. They were `before` when it began.
    pub(super) fn on_checked(&mut self, before: Before, status: &Status, paths: &[PathStatus]) {
        self.before = Some(before);
        self.checked = self.looks > 0 && self.has_known(status, paths);
    }

    /// Updates the state with everything since the last check.
    fn update(
        &mut self,
        now: Time,
        (status, paths): (&Status, &[PathStatus]),
        by_time: bool,
    ) -> Result<(), Violation> {
        let mut events = self.events(now, status, paths.len());
        // Another loss recovery is adopted when nothing is outstanding.
        if self.board.is_idle() {
            self.by_time = by_time;
        }
        set_by_time(&mut self.board, by_time && self.by_time);
        events.opened = self.excuse(events, paths, by_time && self.by_time);
        let marks = self.board.take_marks();
        self.board.set_mtu_min(paths.iter().map(|path| u32::from(path.mtu)).min().unwrap_or(0));
        for path in paths {
            let address = path.address.ip();
            // A router refused longer packets, so that all of them are retransmitted (RFC 9260 section 10).
            if self.mtus.insert(address, path.mtu).is_some_and(|mtu| path.mtu < mtu) {
                self.board.excuse(Some(address));
                self.board.end_silence(now, address);
                self.bounds.of(address).on_refused();
            }
            if events.undone > 0 {
                self.board.end_silence(now, address);
            }
            self.board.set_times(now, address, path.srtt, path.rto);
            let delivered = self.board.take_delivered(address);
            self.bounds.of(address).before(delivered, path, events, marks)?;
        }
        Ok(())
    }
}
