//! What one path may send, computed from what goes over the wire and the controller's numbers, beside what the engine makes of
//! them: pacing (decision 25), proportional rate reduction (RFC 9937), bursts (decision 9), the single packet after
//! T3-rtx (RFC 9260 section 7.2.3), and a smaller window after each round trip with losses (decision 58).

mod shrinking;
#[cfg(test)]
mod tests;

use core::time::Duration;

use strandline_proto::config::{AssociationConfig, Recovery};
use strandline_proto::stats::PathStatus;
use strandline_proto::time::Time;

use crate::board::{Marks, Traffic};
use crate::violation::{Violation, demand};
use shrinking::Shrinking;

/// What pacing saves up: so much time, or so many packets (decision 25).
const SAVED: Duration = Duration::from_millis(4);
const SAVED_PACKETS: i64 = 10;

/// The piece of a window that may go at once where nothing paces it: an eighth, 65,000 bytes at most (decision 9).
const PIECES: u32 = 8;
const PIECE_BYTES: u32 = 65_000;

/// The first window (RFC 6928): packets, or bytes where packets turn out to be longer later (decision 36).
const FIRST_WINDOW: u32 = 10;
const FIRST_WINDOW_BYTES: u32 = 14_600;

/// Packets that a SACK may add while less is in flight than the threshold (decision 23).
const GROWTH_MAX: u64 = 64;

/// Recoveries of several paths that are kept apart; with more nothing is demanded.
const REDUCTIONS_MAX: usize = 8;

/// One recovery.
#[derive(Debug)]
struct Reduction {
    /// RecoverFS: in flight before its first loss was known.
    flight_at_start: u32,
    delivered: u64,
    sent: u64,
    /// What may go since the last acknowledgement while less is in flight than the threshold, and what went.
    allowed: u64,
    sent_since: u64,
    /// Packets that went whatever the arithmetic: in all, and since the last acknowledgement.
    exempt: u32,
    exempt_since: u32,
}

/// A bucket of tokens. It is full when a path begins to be paced, and counts from the first packet that is paced: until then rate and
/// packet size may change, and what can be saved up with them.
#[derive(Debug)]
struct Bucket {
    /// Something was sent at the rate.
    used: bool,
    /// The highest rate since something was sent.
    rate: u64,
    /// It was another one when something was sent the last time.
    changed: bool,
    bytes: i64,
    at: Time,
}

/// What one path may send.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// In flight when that was last looked at, and before what has come since if nothing of that acknowledged anything.
    flight: u32,
    flight_before: u32,
    timeouts: u16,
    /// The recovery under way; of several paths, those that may be.
    reductions: Vec<Reduction>,
    /// A router refused what was in flight in this recovery.
    refused: bool,
    bucket: Option<Bucket>,
    /// Recoveries of the association so far.
    recoveries: u32,
    /// Acknowledged by the SACKs of the latest moment, and not made up for yet: bytes, and SACKs.
    clocked: (Time, u32, u32),
    /// Something was acknowledged on the path.
    known: bool,
    /// T3-rtx expired and nothing was acknowledged since: packets that may go.
    backed_off: Option<u32>,
    shrinking: Shrinking,
}

/// What happened to the association since the last look.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Events {
    pub(crate) now: Time,
    /// Recoveries entered so far.
    pub(crate) recoveries: u32,
    /// Recoveries entered.
    pub(crate) entered: u32,
    /// Tail-loss probes, and T3-rtx expirations.
    pub(crate) probes: u32,
    pub(crate) timeouts: u32,
    /// Time-outs and recoveries that were undone (RFC 3708): the window is what it was before.
    pub(crate) undone: u32,
    /// Tail-loss probes, time-outs and recoveries: each lets a packet go whatever the window.
    pub(crate) exempt: u32,
    /// The peer's window had no room for the lowest chunk, and has opened.
    pub(crate) opened: bool,
    /// The association has several paths: a recovery may be that of any.
    pub(crate) several: bool,
}

/// A path before and after it transmitted, and what it did.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) was: &'a PathStatus,
    pub(crate) path: &'a PathStatus,
    pub(crate) traffic: Traffic,
    /// The largest packet that the path may have carried.
    pub(crate) mtu: u32,
    pub(crate) events: Events,
    pub(crate) config: &'a AssociationConfig,
    /// Something went again because it was lost: when the latest of it had been sent.
    pub(crate) lost: Option<Time>,
    /// CWR went for a packet that was marked: when that had been sent.
    pub(crate) marked: Option<Time>,
}

fn bytes_in(rate: u64, time: Duration) -> i64 {
    i64::try_from(u128::from(rate) * time.as_nanos() / 1_000_000_000).unwrap_or(i64::MAX)
}

impl Bounds {
    /// All that was in flight was too long for a router and goes again: less than the threshold is in flight then, and a
    /// recovery fills that up instead of sending in proportion (RFC 9937 section 6.2).
    pub(crate) fn on_refused(&mut self) {
        self.refused = true;
    }

    /// Before anything is transmitted. `delivered`: bytes acknowledged since the last look, and SACKs that did.
    pub(crate) fn before(
        &mut self,
        (delivered, sacks): (u32, u32),
        path: &PathStatus,
        events: Events,
        marks: Marks,
    ) -> Result<(), Violation> {
        self.shrinking.look(path, delivered, events, marks)?;
        self.begin_reduction(path, events);
        self.recoveries = events.recoveries;
        if delivered > 0 {
            self.known = true;
            self.backed_off = None;
            let (at, bytes, before) =
                if self.clocked.0 == events.now { self.clocked } else { (events.now, 0, 0) };
            self.clocked = (at, bytes + delivered, before + sacks);
            for reduction in &mut self.reductions {
                reduction.on_delivered(delivered, u64::from(path.mtu));
            }
        }
        if core::mem::replace(&mut self.timeouts, path.timeouts) < path.timeouts {
            self.backed_off = Some(1);
        } else if path.error_count == 0 || events.undone > 0 {
            self.backed_off = None;
        }
        // Rule A of RFC 9260 section 6.1: T3-rtx that expires while the peer answers with a closed window lets a probe go, whatever
        // expired before. It is no error of the path, and counts for the association alone. When the window opens, a packet asks
        // what became of the probe (decision 99).
        if events.timeouts > 0 || events.opened {
            self.backed_off = self.backed_off.map(|credit| credit.max(1));
        }
        self.refill(path, events.now);
        self.flight_before = if delivered > 0 { 0 } else { self.flight };
        self.flight = path.flight;
        Ok(())
    }

    /// A recovery begins, or begins once more. Of several paths it is not known whose does: it may go by any of those that may have.
    fn begin_reduction(&mut self, path: &PathStatus, events: Events) {
        if path.recovery_window.is_none() {
            self.reductions.clear();
            self.refused = false;
            return;
        }
        let again = events.recoveries != self.recoveries;
        if !again && !self.reductions.is_empty() {
            return;
        }
        if !events.several {
            self.reductions.clear();
        }
        self.refused |= self.reductions.len() >= REDUCTIONS_MAX;
        self.reductions.truncate(REDUCTIONS_MAX - 1);
        self.reductions.push(Reduction {
            flight_at_start: self.flight.max(1),
            delivered: 0,
            sent: 0,
            allowed: 0,
            sent_since: 0,
            // The first retransmission.
            exempt: 1,
            exempt_since: 1,
        });
    }

    fn refill(&mut self, path: &PathStatus, now: Time) {
        let Some(rate) = path.pacing_rate else {
            self.bucket = None;
            return;
        };
        self.bucket = Some(match self.bucket.take() {
            None => Bucket { used: false, rate, changed: false, bytes: 0, at: now },
            Some(before) => Bucket {
                rate: rate.max(before.rate),
                changed: before.used && (before.changed || rate != before.rate),
                ..before
            },
        });
    }

    /// After it was transmitted.
    pub(crate) fn after(&mut self, step: Step<'_>) -> Result<(), Violation> {
        self.flight = step.path.flight;
        if let Some(credit) = &mut self.backed_off {
            // RFC 9260 section 7.2.3 allows one packet in flight, RFC 8985 section 7.3 a probe beside it.
            let empty = u32::from(step.was.flight == 0 && *credit == 0);
            *credit += step.events.probes + empty;
        }
        if step.traffic.sent == 0 {
            return Ok(());
        }
        self.shrinking.check(&step)?;
        self.back_off(&step)?;
        rate(&step)?;
        self.burst(&step)?;
        self.pacing(&step)?;
        self.reduction(&step)
    }

    fn back_off(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let Some(credit) = &mut self.backed_off else { return Ok(()) };
        // A fast retransmission of RFC 9260 goes whatever cwnd is (section 7.2.4).
        let fast = if step.config.recovery == Recovery::Rfc9260 { step.events.entered } else { 0 };
        let (allowed, packets) = (*credit + fast, step.traffic.packets);
        *credit = allowed.saturating_sub(packets);
        demand(packets <= allowed || step.traffic.set_up, || {
            format!("{packets} packets after T3-rtx, {allowed} allowed: {:?}", step.path)
        })
    }

    /// RFC 9260 section 6.1 rule D as decision 9 has it: new data is limited to Max.Burst packets beyond what was just
    /// acknowledged, or to the rate, or to a piece of a window that fits many times.
    fn burst(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let Step { was, config, traffic, .. } = *step;
        if traffic.new == 0 {
            return Ok(());
        }
        let (_, acked, sacks) = core::mem::take(&mut self.clocked);
        if config.burst_max == 0 || traffic.set_up {
            return Ok(());
        }
        let window = was.recovery_window.unwrap_or(was.cwnd);
        // Slow start with a small window puts two in the place of each.
        let starts = config.recovery != Recovery::Rfc9260
            && !matches!(was.congestion, "bbr" | "rfc9260")
            && was.cwnd <= PIECE_BYTES
            && was.cwnd < was.ssthresh;
        // After a pause the first window may go in one piece as on a new path.
        let rests = was.flight == 0 && was.congestion != "rfc9260";
        let (acked, sacks) = match (config.to_the_letter, starts) {
            (true, _) => (0, 0),
            (false, true) => (2 * acked, 2 * sacks),
            (false, false) => (acked, sacks),
        };
        let clocked = acked + (u32::from(config.burst_max) + sacks) * step.mtu;
        let unclocked = match (&self.bucket, config.recovery) {
            (Some(bucket), _) => u32::try_from(bucket.earned(step.events.now, step.mtu)).unwrap_or(0),
            (None, Recovery::Rfc9260) => 0,
            // BBR has a rate as soon as anything was measured.
            (None, _) if !self.known || was.congestion == "bbr" => window,
            (None, _) if starts || rests => {
                (FIRST_WINDOW * step.mtu).max(FIRST_WINDOW_BYTES).max((window / PIECES).min(PIECE_BYTES))
            }
            (None, _) => (window / PIECES).min(PIECE_BYTES),
        };
        // The packet that begins below the limit may exceed it, and a probe goes in any case.
        let most = clocked.max(unclocked) + step.mtu * (1 + step.events.exempt);
        demand(traffic.new <= most, || format!("a burst of {} bytes, {most} allowed: {was:?}", traffic.new))
    }

    /// What goes over time is no more than the rate allows and what could be saved up. A packet may begin with the last byte
    /// of that. Where the rate has changed since something was sent, the highest counts: what has been saved up is reckoned by
    /// the rate when it is looked at.
    fn pacing(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let exempt = step.exempt();
        let Some(bucket) = &mut self.bucket else { return Ok(()) };
        // By which rate is not seen from here to the last packet.
        let changed = u32::from(step.was.pacing_rate != Some(bucket.rate) || bucket.changed);
        bucket.changed = step.was.pacing_rate != Some(bucket.rate);
        bucket.bytes = bucket.earned(step.events.now, step.mtu);
        bucket.used = true;
        bucket.at = step.events.now;
        bucket.rate = step.was.pacing_rate.unwrap_or(bucket.rate);
        bucket.bytes -= i64::from(step.traffic.sent);
        let least = -i64::from(step.mtu) * i64::from(1 + exempt + changed);
        let left = bucket.bytes;
        // What went whatever the rate is not to be made up for twice.
        bucket.bytes = left.max(-i64::from(step.mtu));
        demand(left >= least || step.traffic.set_up, || {
            format!("{:?} at once, {left} below what pacing allows: {:?}", step.traffic, step.path)
        })
    }

    /// RFC 9937: while more is in flight than the threshold, what was sent in a recovery is to what was delivered as the
    /// threshold is to what was in flight; below it the flight does not grow beyond the threshold, nor faster than in slow
    /// start.
    fn reduction(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let exempt = step.exempt();
        let reductions = if self.refused { &mut [] } else { self.reductions.as_mut_slice() };
        // What a probe sends again has left the flight when its timer expired.
        let replaced = step.path.flight <= step.was.flight.max(self.flight_before);
        let probed = step.traffic.packets <= exempt;
        // With several paths chunks leave the flight for another one, of which these accounts know nothing.
        let mut allowed = reductions.is_empty() || replaced || probed;
        for reduction in &mut *reductions {
            allowed |= reduction.allows(step, exempt);
        }
        demand(allowed, || {
            format!(
                "more sent in recovery than in proportion: {reductions:?}\n before {:?}\n after {:?}",
                step.was, step.path
            )
        })
    }
}

impl Reduction {
    fn allows(&mut self, step: &Step<'_>, exempt: u32) -> bool {
        self.sent += u64::from(step.traffic.sent);
        self.sent_since += u64::from(step.traffic.sent);
        self.exempt += exempt;
        self.exempt_since += exempt;
        let mtu = u64::from(step.mtu);
        let threshold = step.was.cwnd.max(step.path.cwnd);
        let share = (self.delivered * u64::from(threshold)).div_ceil(u64::from(self.flight_at_start));
        let in_proportion = self.sent <= share + mtu * u64::from(1 + self.exempt);
        let below = step.path.flight < threshold + step.mtu * (1 + exempt);
        let slowly = self.sent_since <= self.allowed + mtu * u64::from(1 + self.exempt_since);
        in_proportion || (below && slowly)
    }

    fn on_delivered(&mut self, bytes: u32, mtu: u64) {
        let bytes = u64::from(bytes);
        self.delivered += bytes;
        let replaced = self.delivered.saturating_sub(self.sent).max(bytes);
        self.allowed = replaced + bytes.clamp(mtu, mtu * GROWTH_MAX);
        self.sent_since = 0;
        self.exempt_since = u32::from(self.sent == 0);
    }
}

impl Bucket {
    fn earned(&self, now: Time, mtu: u32) -> i64 {
        let full = bytes_in(self.rate, SAVED).max(i64::from(mtu) * SAVED_PACKETS);
        if !self.used {
            return full;
        }
        self.bytes.saturating_add(bytes_in(self.rate, now.since(self.at)) + 1).min(full)
    }
}

impl Step<'_> {
    /// Packets that may go whatever window and rate.
    fn exempt(&self) -> u32 {
        self.events.exempt + u32::from(self.was.flight == 0)
    }
}

/// Decision 25: 1.2 windows in each round trip, four in slow start, where the controller names no rate of its own.
fn rate(step: &Step<'_>) -> Result<(), Violation> {
    let was = step.was;
    let (Some(rate), Some(srtt)) = (was.pacing_rate, was.srtt) else { return Ok(()) };
    let names_one = was.congestion == "bbr";
    let tenths = if was.cwnd < was.ssthresh { 40 } else { 12 };
    // A hundredth, and a byte, for what is rounded off.
    let most = u128::from(was.cwnd) * tenths * 101 * 1_000_000 / 1000 / srtt.as_micros().max(1) + 1;
    demand(names_one || u128::from(rate) <= most, || format!("paced at more than {most} a second: {was:?}"))
}
