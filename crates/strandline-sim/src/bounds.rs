//! Bounds of what one path may send, computed from the packets on the wire and the controller's numbers,
//! independently of the engine: pacing (decision 114), proportional rate reduction (RFC 9937), bursts (decision 9),
//! the single packet after T3-rtx (RFC 9260 section 7.2.3), and a smaller window after each round trip with losses
//! (decision 58).

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

/// Maximum saved pacing credit, as a time or as packets (decision 114).
const SAVED: Duration = Duration::from_millis(4);
const SAVED_PACKETS: i64 = 10;

/// The fraction of a window that may be sent at once without pacing: an eighth, at most 65,000 bytes (decision 9).
const PIECES: u32 = 8;
const PIECE_BYTES: u32 = 65_000;

/// What may be gathered for one burst on a path with a short round-trip time and a window of some packets (decision
/// 131).
const GATHERED_BYTES: u32 = 60_000;
const GATHERED_WINDOW_MIN: u32 = 24;
const GATHERED_RTT_MAX: Duration = Duration::from_millis(5);
/// Bytes of a packet that the window does not count, at most.
const HEADERS_MAX: u32 = 100;

/// The first window (RFC 6928) in packets, or in bytes if packets become longer later (decision 36).
const FIRST_WINDOW: u32 = 10;
const FIRST_WINDOW_BYTES: u32 = 14_600;

/// Packets that a SACK may add while less is in flight than the threshold (decision 93).
const GROWTH_MAX: u64 = 64;

/// Maximum pacing rate in tenths of a window per round trip (decision 114), and in slow start.
const RATE_TENTHS: u128 = 12;
const SLOW_START_RATE_TENTHS: u128 = 40;
/// Percentage of that rate which is tolerated for rounding.
const RATE_TOLERANCE_PERCENT: u128 = 101;

const MICROS_PER_SECOND: u128 = 1_000_000;
const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// Maximum number of tracked recoveries of several paths. With more, nothing is checked.
const REDUCTIONS_MAX: usize = 8;

/// One recovery.
#[derive(Debug)]
struct Reduction {
    /// RecoverFS: the flight before its first loss was known.
    flight_at_start: u32,
    delivered: u64,
    sent: u64,
    /// Bytes that may be sent since the last acknowledgement while less is in flight than the threshold, and those
    /// that were sent.
    allowed: u64,
    sent_since: u64,
    /// Number of packets that are always allowed: in all, and since the last acknowledgement.
    exempt: u32,
    exempt_since: u32,
}

/// A token bucket. It is full when a path begins to be paced, and counts from the first paced packet: until then rate
/// and packet size may change, and with them the saved credit.
#[derive(Debug)]
struct Bucket {
    /// True if something was sent at the rate.
    used: bool,
    /// The highest rate since something was sent.
    rate: u64,
    /// True if the rate was different when something was last sent.
    changed: bool,
    bytes: i64,
    at: Time,
}

/// The bounds of one path.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// The flight at the last check, and its maximum since something was acknowledged.
    flight: u32,
    flight_max: u32,
    timeouts: u16,
    /// Number of packets that may test what became of a window probe, since the peer's window opened.
    tests: u32,
    /// The recovery under way. With several paths, those that may be.
    reductions: Vec<Reduction>,
    /// True if a router refused the flight in this recovery.
    refused: bool,
    bucket: Option<Bucket>,
    /// Number of the association's recoveries so far.
    recoveries: u32,
    /// What the SACKs of the latest instant acknowledged and what is not replaced yet: time, bytes, and number of
    /// SACKs.
    clocked: (Time, u32, u32),
    /// True if something was acknowledged on the path.
    known: bool,
    /// Number of packets that may be sent after T3-rtx expired, until something is acknowledged.
    backed_off: Option<u32>,
    shrinking: Shrinking,
    /// When data was last sent on the path.
    sent_at: Option<Time>,
}

/// Events of the association since the last check.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Events {
    pub(crate) now: Time,
    /// Number of recoveries entered so far.
    pub(crate) recoveries: u32,
    /// Number of recoveries entered since the last check.
    pub(crate) entered: u32,
    /// Number of tail-loss probes, and of T3-rtx expirations.
    pub(crate) probes: u32,
    pub(crate) timeouts: u32,
    /// Number of time-outs and recoveries that were undone (RFC 3708): the window has its old size.
    pub(crate) undone: u32,
    /// Number of ECN marks answered so far.
    pub(crate) marks_answered: u32,
    /// Number of tail-loss probes, time-outs and recoveries: each allows a packet regardless of the window.
    pub(crate) exempt: u32,
    /// True if the peer's window had no room for the lowest chunk, and has opened.
    pub(crate) opened: bool,
    /// True if the association has several paths: a recovery may belong to any of them.
    pub(crate) several: bool,
    /// True if data in flight was given up while packets were built.
    pub(crate) gave_up: bool,
}

/// A path before and after it transmitted, and what it sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step<'a> {
    pub(crate) was: &'a PathStatus,
    pub(crate) path: &'a PathStatus,
    pub(crate) traffic: Traffic,
    /// The largest packet that the path may have carried.
    pub(crate) mtu: u32,
    pub(crate) events: Events,
    pub(crate) config: &'a AssociationConfig,
    /// When the latest chunk was sent that was retransmitted as lost.
    pub(crate) lost: Option<Time>,
    /// When the packet was sent whose mark CWR answers.
    pub(crate) marked: Option<Time>,
}

fn bytes_in(rate: u64, time: Duration) -> i64 {
    i64::try_from(u128::from(rate) * time.as_nanos() / NANOS_PER_SECOND).unwrap_or(i64::MAX)
}

/// True if new data may have waited for a SACK that makes room for a burst of [`GATHERED_BYTES`].
fn gathers(step: &Step<'_>, window: u32) -> bool {
    step.config.recovery != Recovery::Rfc9260
        && step.was.congestion != "rfc9260"
        && step.was.srtt.is_some_and(|srtt| srtt < GATHERED_RTT_MAX)
        && step.was.recovery_window.is_none()
        && step.was.pacing_rate.is_none()
        && window >= GATHERED_WINDOW_MIN * u32::from(step.was.mtu).saturating_sub(HEADERS_MAX)
}

impl Bounds {
    /// Handles a flight that was too long for a router and is retransmitted: less than the threshold is in flight
    /// then, and a recovery fills that up instead of sending in proportion (RFC 9937 section 6.2).
    pub(crate) fn on_refused(&mut self) {
        self.refused = true;
    }

    /// Updates the bounds before anything is transmitted. `delivered` is the number of bytes acknowledged since the
    /// last check, and of SACKs that did so.
    pub(crate) fn before(
        &mut self,
        (delivered, sacks): (u32, u32),
        path: &PathStatus,
        events: Events,
        marks: Marks,
    ) -> Result<(), Violation> {
        self.shrinking.look(path, (delivered, sacks), events, marks)?;
        self.begin_reduction(path, events);
        self.recoveries = events.recoveries;
        if sacks > 0 {
            self.backed_off = None;
        }
        if delivered > 0 {
            self.known = true;
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
        // RFC 9260 section 6.1 rule A: a T3-rtx that expires while the peer reports a closed window allows a probe,
        // whatever expired before. It is no error of the path and counts for the association only. When the window
        // opens, a packet tests what became of the probe (decision 99).
        if events.timeouts > 0 || events.opened {
            self.backed_off = self.backed_off.map(|credit| credit.max(1));
        }
        self.tests = self.tests.max(u32::from(events.opened));
        self.refill(path, events.now);
        self.flight_max = if delivered > 0 { 0 } else { self.flight_max.max(self.flight) };
        self.flight = path.flight;
        Ok(())
    }

    /// Begins a recovery, or begins it again. With several paths it is unknown whose recovery begins: any that may
    /// have begun can justify the traffic.
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
            None => Bucket::begin(rate, now),
            Some(before) => Bucket {
                rate: rate.max(before.rate),
                changed: before.used && (before.changed || rate != before.rate),
                ..before
            },
        });
    }

    /// Checks the bounds after the path transmitted.
    pub(crate) fn after(&mut self, step: Step<'_>) -> Result<(), Violation> {
        self.flight = step.path.flight;
        if let Some(credit) = &mut self.backed_off {
            // RFC 9260 section 7.2.3 allows one packet in flight, and RFC 8985 section 7.3 a probe beside it.
            let empty = u32::from(step.begins_flight() && *credit == 0);
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
        self.reduction(&step)?;
        self.sent_at = Some(step.events.now);
        Ok(())
    }

    fn back_off(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let Some(credit) = &mut self.backed_off else { return Ok(()) };
        // A fast retransmission of RFC 9260 is sent regardless of cwnd (section 7.2.4).
        let fast = if step.config.recovery == Recovery::Rfc9260 { step.events.entered } else { 0 };
        let (allowed, packets) = (*credit + fast, step.traffic.packets);
        *credit = allowed.saturating_sub(packets);
        demand(packets <= allowed || step.traffic.set_up, || {
            format!("{packets} packets after T3-rtx, {allowed} allowed: {:?}", step.path)
        })
    }

    /// Checks RFC 9260 section 6.1 rule D as decision 9 implements it: new data is limited to Max.Burst packets
    /// beyond what was just acknowledged, or to the rate, or to a fraction of a large window.
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
        // Slow start with a small window sends two packets for each acknowledged one.
        let starts = config.recovery != Recovery::Rfc9260
            && !matches!(was.congestion, "bbr" | "rfc9260")
            && was.cwnd <= PIECE_BYTES
            && was.cwnd < was.ssthresh;
        // After a pause the first window may be sent at once as on a new path.
        let rests = step.begins_flight() && was.congestion != "rfc9260";
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
            // A small window in slow start may go at once, unless the path paused for an RTO (decision 114).
            (None, _) if starts && self.sent_at.is_some_and(|at| step.events.now.since(at) < was.rto) => {
                window
            }
            (None, _) if starts || rests => {
                (FIRST_WINDOW * step.mtu).max(FIRST_WINDOW_BYTES).max((window / PIECES).min(PIECE_BYTES))
            }
            (None, _) => (window / PIECES).min(PIECE_BYTES),
        };
        let gathered = if sacks > 0 && gathers(step, window) { GATHERED_BYTES } else { 0 };
        let unclocked = unclocked.max(gathered);
        // The packet that begins below the limit may exceed it, and a probe is always allowed.
        let most = clocked.max(unclocked) + step.mtu * (1 + step.events.exempt);
        demand(traffic.new <= most, || format!("a burst of {} bytes, {most} allowed: {was:?}", traffic.new))
    }

    /// Checks that over time no more is sent than the rate and the saved credit allow. A packet may begin with the
    /// last byte of that. If the rate has changed since something was sent, the highest counts, because the saved
    /// credit is computed by the current rate.
    fn pacing(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        let exempt = step.exempt();
        let Some(bucket) = &mut self.bucket else { return Ok(()) };
        if step.traffic.set_up {
            // What goes with a COOKIE ECHO is not paced, and pacing begins after it (decision 114).
            *bucket = Bucket::begin(step.was.pacing_rate.unwrap_or(bucket.rate), step.events.now);
            return Ok(());
        }
        let starts_anew = bucket.idle_ended(step);
        // The rate that applied to the last packet is unknown here.
        let changed = u32::from(step.was.pacing_rate != Some(bucket.rate) || bucket.changed);
        bucket.changed = step.was.pacing_rate != Some(bucket.rate);
        bucket.bytes = bucket.earned(step.events.now, step.mtu);
        bucket.used = true;
        bucket.at = step.events.now;
        bucket.rate = step.was.pacing_rate.unwrap_or(bucket.rate);
        bucket.bytes -= i64::from(step.traffic.sent);
        let least = -i64::from(step.mtu) * i64::from(1 + exempt + changed);
        let left = bucket.bytes;
        let in_window = step.path.flight < step.path.cwnd + step.mtu * (1 + step.events.exempt);
        // Packets sent regardless of the rate need not be made up for twice.
        bucket.bytes = left.max(-i64::from(step.mtu));
        demand(left >= least || (starts_anew && in_window), || {
            format!("{:?} at once, {left} below what pacing allows: {:?}", step.traffic, step.path)
        })
    }

    /// Checks RFC 9937: while more is in flight than the threshold, the sent bytes relate to the delivered bytes as
    /// the threshold to the initial flight. Below it the flight grows neither beyond the threshold nor faster than in
    /// slow start.
    fn reduction(&mut self, step: &Step<'_>) -> Result<(), Violation> {
        // That packet left the flight when the window opened, and replaces itself.
        let exempt = step.exempt() + core::mem::take(&mut self.tests);
        let rested = self.has_rested(step, exempt);
        let reductions = if self.refused { &mut [] } else { self.reductions.as_mut_slice() };
        // What a probe retransmits left the flight when its timer expired, as did a chunk whose loss was found by
        // time. With pacing the retransmission follows later.
        let replaced = step.path.flight <= step.was.flight.max(self.flight_max);
        let probed = step.traffic.packets <= exempt;
        // With several paths chunks leave the flight for another path, which is not tracked here.
        let mut allowed = reductions.is_empty() || replaced || probed || rested;
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

impl Bounds {
    /// True if nothing was in flight on the path, or sent there, for an RTO. What is acknowledged on another path keeps
    /// the recovery of the association open, but clocks nothing here: the window of section 7.2.1 limits what is sent
    /// after an idle period, and ends the proportional reduction.
    fn has_rested(&self, step: &Step<'_>, exempt: u32) -> bool {
        let Step { was, path, events, .. } = *step;
        let idle = self.sent_at.is_some_and(|at| events.now.since(at) >= was.rto);
        let ends = path.recovery_window.is_none() && path.flight < path.cwnd + step.mtu * (1 + exempt);
        was.flight == 0 && idle && ends
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
    fn begin(rate: u64, now: Time) -> Self {
        Self { used: false, rate, changed: false, bytes: 0, at: now }
    }

    /// True if the first packet of this step ended an idle period and reduced cwnd (RFC 9260 section 7.2.1), so that
    /// the path is in slow start with a small window. That is not paced (decision 114): the reduced window and
    /// Max.Burst limit the rest.
    fn idle_ended(&self, step: &Step<'_>) -> bool {
        let Step { was, path, .. } = *step;
        let idle = was.flight == 0 && (!self.used || step.events.now.since(self.at) >= was.rto);
        let starts = path.cwnd < path.ssthresh && path.cwnd <= PIECE_BYTES;
        idle && starts && path.cwnd < was.cwnd && path.pacing_rate.is_none()
    }

    fn earned(&self, now: Time, mtu: u32) -> i64 {
        let full = bytes_in(self.rate, SAVED).max(i64::from(mtu) * SAVED_PACKETS);
        if !self.used {
            return full;
        }
        self.bytes.saturating_add(bytes_in(self.rate, now.since(self.at)) + 1).min(full)
    }
}

impl Step<'_> {
    /// Returns the number of packets that are allowed regardless of window and rate.
    fn exempt(&self) -> u32 {
        self.events.exempt + u32::from(self.was.flight == 0)
    }

    /// True if only what was sent in this step is in flight: nothing was before, or it was given up.
    fn begins_flight(&self) -> bool {
        let is_alone = self.traffic.new == self.traffic.sent || self.events.gave_up;
        self.was.flight == 0 || (is_alone && self.path.flight <= self.traffic.sent)
    }
}

/// Checks the pacing rate if the controller has no rate of its own.
fn rate(step: &Step<'_>) -> Result<(), Violation> {
    let was = step.was;
    let (Some(rate), Some(srtt)) = (was.pacing_rate, was.srtt) else { return Ok(()) };
    let names_one = was.congestion == "bbr";
    let tenths = if was.cwnd < was.ssthresh { SLOW_START_RATE_TENTHS } else { RATE_TENTHS };
    let thousandths = tenths * RATE_TOLERANCE_PERCENT;
    let most = u128::from(was.cwnd) * thousandths * MICROS_PER_SECOND / 1000 / srtt.as_micros().max(1) + 1;
    demand(names_one || u128::from(rate) <= most, || format!("paced at more than {most} a second: {was:?}"))
}
