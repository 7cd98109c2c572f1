//! Checks that windows shrink when they must, and for nothing else.
//!
//! What is retransmitted as lost was sent before the latest reduction of its path's window. Losses in two successive
//! round trips therefore cause two reductions, as does a lost retransmission (RFC 5681 section 4.3; decision 58). A
//! packet with an ECN mark was sent before it as well (RFC 3168 section 6.1.2). Only a loss, a time-out or a mark of
//! data sent after the latest reduction lowers a window, and an undo restores all of it. A mark that the undone
//! reduction covered takes effect then. The packets show what was lost or marked and when it had been sent; the
//! controller's numbers only show when the window fell, and the count of answered marks when one took effect.

use strandline_proto::config::Recovery;
use strandline_proto::stats::PathStatus;
use strandline_proto::time::Time;

use super::{Events, Step};
use crate::board::Marks;
use crate::violation::{Violation, demand};

/// A window that falls to this percentage or below has shrunk: CUBIC keeps 80 where no queue shows.
const SHRUNK_PERCENT: u64 = 82;

/// A window of this many packets cannot shrink by as much any more: the floor of RFC 9260 is four.
const FLOOR_PACKETS: u32 = 5;

/// Percentage of the earlier window that an undo restores at least. A controller that follows marks and delay may have
/// halved the window for them at the instant of the loss, which is not undone, and again right after the undo.
const RESTORED_PERCENT: u64 = 100;
const RESTORED_WITH_MARKS_PERCENT: u64 = 20;

/// Percentage of that which a further loss or mark leaves.
const RESTORED_REDUCED_PERCENT: u64 = 45;

/// The latest reduction.
#[derive(Debug, Default)]
pub(super) struct Shrinking {
    cwnd: u32,
    mtu: u16,
    controller: &'static str,
    at: Time,
    /// When the window certainly fell, unless that was undone.
    fell_at: Time,
    /// The window before the reduction, if it was for a loss or a time-out.
    before: Option<u32>,
    /// True if a loss was detected and T3-rtx expired at one instant: the window may have fallen for the loss first.
    fell_twice: bool,
    /// True if the reduction was for a time-out, and true if something was acknowledged since.
    timed_out: bool,
    answered: bool,
    /// Number of the association's recoveries so far, and of the marks that it answered.
    recoveries: u32,
    marks_answered: u32,
    /// True if a mark was reported that an earlier reduction covered. It takes effect if that is undone.
    covered: bool,
}

impl Shrinking {
    /// Examines a path. `delivered` is the number of bytes acknowledged since the last check, by which the
    /// window may have grown before it shrank. `sacks` is the number of SACKs that acknowledged data or a
    /// FORWARD TSN: the latter is an answer after a time-out as well, since it is sent and repeated in place
    /// of the data that was given up (RFC 3758 section 3.5 rules A5 and C5).
    pub(super) fn look(
        &mut self,
        path: &PathStatus,
        (delivered, sacks): (u32, u32),
        events: Events,
        marks: Marks,
    ) -> Result<(), Violation> {
        let most = (u64::from(self.cwnd) + u64::from(delivered)) * SHRUNK_PERCENT / 100;
        let small = path.cwnd <= FLOOR_PACKETS * u32::from(path.mtu);
        // An undo counts for what it undid; a new controller starts anew.
        let anew = events.undone > 0 || self.controller != path.congestion || path.srtt.is_none();
        let fell = u64::from(path.cwnd) <= most;
        let really = u64::from(path.cwnd) <= u64::from(self.cwnd) * SHRUNK_PERCENT / 100;
        let recoveries = core::mem::replace(&mut self.recoveries, events.recoveries) != events.recoveries;
        let lost = recoveries || events.timeouts > 0;
        let marked = marks != Marks::default();
        let answered =
            core::mem::replace(&mut self.marks_answered, events.marks_answered) != events.marks_answered;
        self.gives_back(path, recoveries || marked, answered && !marked, events)?;
        self.has_a_reason(path, really && !(anew || lost || events.several), marks)?;
        self.covered = (self.covered || marked) && !answered && !anew;
        self.answered |= sacks > 0;
        if anew || (marked && answered) {
            self.before = None;
        } else if lost {
            // Of time-outs in a row the window before the first counts. If an answer came in between, it is unknown
            // whether the reduction was certain.
            let in_a_row = self.timed_out && events.timeouts > 0 && !self.answered;
            self.before = match self.before {
                Some(before) if in_a_row => Some(before),
                before => Some(before.map_or(self.cwnd, |before| before.min(self.cwnd))),
            };
            self.answered = sacks > 0;
            self.timed_out = events.timeouts > 0;
            self.fell_twice = recoveries && events.timeouts > 0 || self.fell_twice && in_a_row;
        } else if really {
            self.before = None;
        }
        // A window of the same number of packets that are shorter now has not shrunk for congestion.
        let rescaled = path.mtu < self.mtu && !lost && !marked;
        if anew {
            self.fell_at = Time::ZERO;
        } else if path.cwnd < self.cwnd && !rescaled {
            self.fell_at = events.now;
        }
        if fell || small || anew {
            self.at = events.now;
        }
        (self.cwnd, self.mtu, self.controller) = (path.cwnd, path.mtu, path.congestion);
        Ok(())
    }

    /// Checks that an undo restored the window. If something is lost or marked at the same instant, the window has
    /// shrunk from there (`shrinks`), and if a loss was detected when T3-rtx expired, the time-out alone may be
    /// undone. BBR's window is that of its model, and those of DCTCP and Swift may follow marks and delay at once.
    /// `answers` is true if a mark that was reported earlier took effect, which shrinks the restored window (decision
    /// 58).
    fn gives_back(
        &mut self,
        path: &PathStatus,
        shrinks: bool,
        answers: bool,
        events: Events,
    ) -> Result<(), Violation> {
        let undone = events.undone > 0 && !events.several && self.controller == path.congestion;
        let Some(before) = self.before.take_if(|_| undone) else { return Ok(()) };
        let percent = match path.congestion {
            // T3-rtx may have expired after that.
            _ if events.timeouts > 0 => 0,
            "bbr" => 0,
            "swift" | "dctcp" => RESTORED_WITH_MARKS_PERCENT,
            _ => RESTORED_PERCENT,
        };
        // The others answer marks in their own time, as in `has_a_reason`.
        let by_mark = answers && matches!(path.congestion, "cubic" | "rfc9260");
        demand(!by_mark || self.covered, || {
            format!("undone, and a mark took effect that nobody reported: {path:?}")
        })?;
        let reduced = shrinks || answers || self.fell_twice;
        let percent = if reduced { percent * RESTORED_REDUCED_PERCENT / 100 } else { percent };
        demand(u64::from(path.cwnd) >= u64::from(before) * percent / 100, || {
            format!("undone, and the window is not what it was, {before}: {path:?}")
        })
    }

    /// Checks the reason if the window fell without a loss: data sent after the latest reduction was marked. DCTCP
    /// and Swift react to more than that, and BBR follows its model.
    fn has_a_reason(&self, path: &PathStatus, fell: bool, marks: Marks) -> Result<(), Violation> {
        let judged = fell && matches!(path.congestion, "cubic" | "rfc9260") && path.mtu == self.mtu;
        let marked = marks.unknown || marks.sent_at.is_some_and(|sent_at| sent_at >= self.fell_at);
        demand(!judged || marked, || {
            format!(
                "the window fell from {} for nothing since {:?}, {marks:?}: {path:?}",
                self.cwnd, self.fell_at
            )
        })
    }

    /// Checks the window after packets were sent.
    pub(super) fn check(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        // A pause lowers it when it ends.
        self.cwnd = step.path.cwnd;
        let by_loss = !matches!(step.was.congestion, "bbr");
        let by_mark = by_loss && step.was.congestion != "dctcp" && !step.events.several;
        if let Some(sent_at) = step.marked {
            demand(!by_mark || sent_at <= self.at, || {
                format!("marked, sent at {sent_at:?}, and the window has not shrunk since {:?}", self.at)
            })?;
        }
        let Some(sent_at) = step.lost else { return Ok(()) };
        // Fast Recovery of RFC 9260 covers all losses in it. BBR does not react to losses. The data of a tail-loss
        // probe need not have been lost.
        let bound = step.config.recovery != Recovery::Rfc9260 && by_loss && step.events.probes == 0;
        demand(!bound || sent_at <= self.at, || {
            format!(
                "lost after it was sent at {sent_at:?}, and the window has not shrunk since {:?}: {:?}",
                self.at, step.was
            )
        })
    }
}
