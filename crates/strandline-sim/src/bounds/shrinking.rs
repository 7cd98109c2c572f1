//! That windows shrink when they have to, and for nothing else.
//!
//! What goes again because it was lost had been sent before the latest reduction of its path's window. So losses in two successive
//! round trips make two of them, and so does a retransmission that is lost (RFC 5681 section 4.3; decision 58). A packet that the
//! network marked had been sent before it as well (RFC 3168 section 6.1.2). Nothing lowers a window but a loss, a time-out or a mark of
//! what was sent after the latest reduction; and what is undone gives back all that was taken. The packets tell what was lost and when
//! it had been sent, the controller's numbers only when the window fell.

use strandline_proto::config::Recovery;
use strandline_proto::stats::PathStatus;
use strandline_proto::time::Time;

use super::{Events, Step};
use crate::board::Marks;
use crate::violation::{Violation, demand};

/// A window that falls to so many hundredths, or below, has shrunk: CUBIC leaves 80 where no queue shows.
const SHRUNK_PERCENT: u64 = 82;

/// A window of so many packets cannot shrink by as much any more: the floor of RFC 9260 is four.
const FLOOR_PACKETS: u32 = 5;

/// The latest reduction.
#[derive(Debug, Default)]
pub(super) struct Shrinking {
    cwnd: u32,
    mtu: u16,
    controller: &'static str,
    at: Time,
    /// When it certainly fell, unless that was undone.
    fell_at: Time,
    /// The window before it, if it was for a loss or a time-out.
    before: Option<u32>,
    /// That was a time-out; and something was acknowledged since.
    timed_out: bool,
    answered: bool,
    /// Recoveries of the association so far.
    recoveries: u32,
}

impl Shrinking {
    /// `delivered`: bytes acknowledged since the last look. The window may have grown by so many before it shrank.
    pub(super) fn look(
        &mut self,
        path: &PathStatus,
        delivered: u32,
        events: Events,
        marks: Marks,
    ) -> Result<(), Violation> {
        let most = (u64::from(self.cwnd) + u64::from(delivered)) * SHRUNK_PERCENT / 100;
        let small = path.cwnd <= FLOOR_PACKETS * u32::from(path.mtu);
        // What was undone counts for what it undid; a new controller begins anew.
        let anew = events.undone > 0 || self.controller != path.congestion || path.srtt.is_none();
        let fell = u64::from(path.cwnd) <= most;
        let really = u64::from(path.cwnd) <= u64::from(self.cwnd) * SHRUNK_PERCENT / 100;
        let recoveries = core::mem::replace(&mut self.recoveries, events.recoveries) != events.recoveries;
        let lost = recoveries || events.timeouts > 0;
        self.gives_back(path, recoveries || marks != Marks::default(), events)?;
        self.has_a_reason(path, really && !(anew || lost || events.several), marks)?;
        self.answered |= delivered > 0;
        if anew || marks != Marks::default() {
            self.before = None;
        } else if lost {
            // Of time-outs in a row what was before the first; of what followed on an answer it is not known whether that was certain.
            let in_a_row = self.timed_out && events.timeouts > 0 && !self.answered;
            self.before = match self.before {
                Some(before) if in_a_row => Some(before),
                before => Some(before.map_or(self.cwnd, |before| before.min(self.cwnd))),
            };
            self.answered = delivered > 0;
            self.timed_out = events.timeouts > 0;
        } else if really {
            self.before = None;
        }
        // A window of as many packets as before that are shorter now has not shrunk for congestion.
        let rescaled = path.mtu < self.mtu && !lost && marks == Marks::default();
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

    /// What was undone: the window is what it was. If something is lost or told to be marked in the same moment, it has shrunk from there
    /// (`shrinks`); BBR's is that of its model, and those of DCTCP and Swift may follow marks and delay at once.
    fn gives_back(&mut self, path: &PathStatus, shrinks: bool, events: Events) -> Result<(), Violation> {
        let undone = events.undone > 0 && !events.several && self.controller == path.congestion;
        let Some(before) = self.before.take_if(|_| undone) else { return Ok(()) };
        let percent = match path.congestion {
            // Perhaps T3-rtx expired after that.
            _ if events.timeouts > 0 => 0,
            "bbr" => 0,
            "swift" | "dctcp" => 40,
            _ => 100,
        };
        let percent = if shrinks { percent.min(45) } else { percent };
        demand(u64::from(path.cwnd) >= u64::from(before) * percent / 100, || {
            format!("undone, and the window is not what it was, {before}: {path:?}")
        })
    }

    /// A window that fell though nothing was lost: something was marked of what had been sent after the latest reduction. DCTCP and
    /// Swift go by more than that, and BBR by its model.
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

    /// After packets were sent.
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
        // Fast Recovery of RFC 9260 is one for whatever is lost in it. BBR does not go by losses. A tail-loss probe need not
        // have been lost.
        let bound = step.config.recovery != Recovery::Rfc9260 && by_loss && step.events.probes == 0;
        demand(!bound || sent_at <= self.at, || {
            format!(
                "lost after it was sent at {sent_at:?}, and the window has not shrunk since {:?}: {:?}",
                self.at, step.was
            )
        })
    }
}
