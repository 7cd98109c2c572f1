//! CUBIC (RFC 9438). The window is a cubic function of the time since the last loss, which fills paths with a large
//! bandwidth-delay product quickly. It never grows more slowly than that of a controller that adds one packet per
//! round trip.

#[cfg(test)]
mod tests;

use core::time::Duration;

use super::controller::{Ack, Controller, threshold_after_idle};
use super::hystart::{HyStart, Step};
use super::rfc9260::initial_window_of_ten;
use crate::time::Time;

/// C of section 5, in packets per second cubed. A quarter larger than in the RFC (decision 24).
const C: f64 = 0.5;
/// beta_cubic of section 4.6.
const BETA: f64 = 0.7;
/// alpha_cubic of section 4.3: as fair as adding one packet per round trip and halving on loss.
const ALPHA: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// Share of the window that remains after a loss on a path without a queue, where nothing overflowed (Fu and Liew,
/// TCP Veno, 2003). See decision 24.
const BETA_UNQUEUED: f64 = 0.8;
/// A round trip shows a queue if it exceeds the minimum by a sixteenth plus half a millisecond.
const QUEUE_DIVISOR: u32 = 16;
const QUEUE_MIN_US: u32 = 500;
/// The minimum round-trip time covers at most two such periods, in seconds, because the path may have become longer.
const MIN_RTT_PERIOD_S: u16 = 30;
/// Maximum target of the window as a multiple of cwnd (section 4.2).
const TARGET_MAX: f64 = 1.5;
/// Units of `fraction` in a byte.
const FRACTIONS_PER_BYTE: f64 = 65_536.0;
/// Maximum growth for one SACK in slow start, in packets. One SACK may acknowledge a whole train of packets.
const SLOW_START_MAX: u32 = 64;

/// The controller of RFC 9438. Windows are in bytes; the RFC's segments correspond to PMDCS.
#[derive(Debug, Clone)]
pub struct Cubic {
    cwnd: u32,
    ssthresh: u32,
    pmdcs: u16,
    /// True if the latest round-trip time shows a queue, or if none is known.
    queued: bool,
    /// W_max, in bytes.
    w_max: u32,
    /// W_est, in bytes.
    w_est: f64,
    /// K, in seconds.
    k: f32,
    /// Fractional byte of window growth, in units of 1 / `FRACTIONS_PER_BYTE`.
    fraction: u16,
    /// Start of congestion avoidance, moved later by the time in which the window was not used; `Time::MAX` before it
    /// begins.
    epoch: Time,
    /// Time up to which `epoch` accounts for unused time: the low bits of the milliseconds.
    known_ms: u32,
    /// True if nothing is in flight and nothing is queued. Time that passes in this state does not count towards
    /// growth.
    idle: bool,
    /// The smoothed round-trip time, and the minima of the current and the previous period, in microseconds; 0 if
    /// unknown.
    rtt_us: u32,
    min_us: [u32; 2],
    /// Start of the current period: the low bits of the seconds.
    period_s: u16,
    extra: Option<Box<Extra>>,
}

/// State that exists only during the first slow start or after a loss.
#[derive(Debug, Clone)]
enum Extra {
    /// The first slow start, in which HyStart++ watches the delay.
    SlowStart(HyStart),
    /// The window before a loss, in case the loss is spurious.
    BeforeLoss(Before),
}

#[derive(Debug, Clone, Copy)]
struct Before {
    cwnd: u32,
    ssthresh: u32,
    w_max: u32,
    w_est: f64,
    k: f32,
    epoch: Time,
}

impl Cubic {
    /// Creates a controller with the initial window of RFC 6928. `pmdcs` is in bytes.
    #[must_use]
    pub fn new(pmdcs: u32) -> Self {
        let pmdcs = pmdcs.clamp(1, u32::from(u16::MAX));
        Self {
            cwnd: initial_window_of_ten(pmdcs),
            ssthresh: u32::MAX,
            pmdcs: pmdcs as u16,
            queued: true,
            w_max: 0,
            w_est: 0.0,
            k: 0.0,
            fraction: 0,
            epoch: Time::MAX,
            known_ms: 0,
            idle: false,
            rtt_us: 0,
            min_us: [0; 2],
            period_s: 0,
            extra: None,
        }
    }

    fn packets(&self, bytes: u32) -> f64 {
        f64::from(bytes) / f64::from(self.pmdcs)
    }

    fn slow_start(&mut self, ack: &Ack) {
        let growth = ack.acked_bytes.min(self.pmdcs().saturating_mul(SLOW_START_MAX));
        // Only the first slow start searches for its end. Later ones know it (RFC 9406 section 4.3).
        if self.ssthresh != u32::MAX {
            if ack.validates(self.cwnd) {
                self.cwnd = self.cwnd.saturating_add(growth);
            }
            return;
        }
        let start = || Box::new(Extra::SlowStart(HyStart::default()));
        let Extra::SlowStart(hystart) = &mut **self.extra.get_or_insert_with(start) else { return };
        if hystart.flight_of_round(ack.flight_before) < self.cwnd.div_ceil(2) && !ack.window_full {
            return;
        }
        match hystart.on_ack(ack.now, ack.acked_bytes, ack.flight_before, growth, ack.delay()) {
            Step::Grow(bytes) => self.cwnd = self.cwnd.saturating_add(bytes),
            Step::Done => {
                self.ssthresh = self.cwnd;
                self.extra = None;
            }
        }
    }

    /// Congestion avoidance (sections 4.2 to 4.5): the larger of W_cubic and W_est, the window of a sender that adds
    /// packets.
    fn congestion_avoidance(&mut self, ack: &Ack) {
        if !ack.window_full || self.idle {
            self.exclude_unused_time(ack.now);
        }
        if !ack.window_full {
            return;
        }
        if self.epoch == Time::MAX {
            self.begin_epoch(ack.now);
        }
        let share = f64::from(ack.share);
        let pace = if share < 1.0 { self.scale_time(ack.now, share) } else { 1.0 };
        self.known_ms = millis(ack.now);
        let rtt_s = f64::from(self.rtt_us) / 1e6;
        let t = ack.now.since(self.epoch).as_secs_f64() + rtt_s * pace;
        let cubic = self.w_cubic(t);
        let cwnd = f64::from(self.cwnd);
        let target = cubic.clamp(cwnd, TARGET_MAX * cwnd);
        let acked = f64::from(ack.acked_bytes);
        // W_est (section 4.3). Compare with W_max instead of cwnd_prior, whatever share the loss left
        // (decision 24).
        let alpha = if self.w_est >= f64::from(self.w_max) { 1.0 } else { ALPHA };
        self.w_est += alpha * share * f64::from(self.pmdcs) * acked / cwnd;
        let cubic_growth = (target - cwnd) * acked / cwnd;
        let friendly_growth = self.w_est - cwnd;
        let reno_friendly = friendly_growth > 0.0 && cubic < self.w_est;
        let growth = if reno_friendly { friendly_growth } else { cubic_growth };
        // Grow no faster than slow start.
        let growth = growth.min(acked) + f64::from(self.fraction) / FRACTIONS_PER_BYTE;
        self.cwnd = self.cwnd.saturating_add(growth as u32);
        self.fraction = (growth.fract() * FRACTIONS_PER_BYTE) as u16;
    }

    fn begin_epoch(&mut self, now: Time) {
        self.epoch = now;
        self.w_est = f64::from(self.cwnd);
        if self.w_max <= self.cwnd {
            self.w_max = self.cwnd;
            self.k = 0.0;
        } else {
            self.k = (self.packets(self.w_max - self.cwnd) / C).cbrt() as f32;
        }
    }

    /// W_cubic(t) (section 4.2), in bytes; `t` is in seconds.
    #[inline]
    fn w_cubic(&self, t: f64) -> f64 {
        (C * (t - f64::from(self.k)).powi(3) + self.packets(self.w_max)) * f64::from(self.pmdcs)
    }

    /// Excludes the time since the last acknowledgement from t, because the application or the peer's receiver window
    /// limited the sender (sections 4.2 and 5.8). Time within a round trip after an acknowledgement with a full
    /// window counts (decision 24).
    fn exclude_unused_time(&mut self, now: Time) {
        let now_ms = millis(now);
        if self.epoch != Time::MAX {
            let unused = Duration::from_millis(u64::from(now_ms.wrapping_sub(self.known_ms)));
            self.epoch = now.min(self.epoch + unused);
        }
        self.known_ms = now_ms;
        self.idle = false;
    }

    /// Lets the time since the last acknowledgement count only in part, for a window that is coupled with
    /// those of other paths. Returns that part.
    ///
    /// With an increase scaled by `share`, the rate of a sender that adds packets falls with its square root.
    /// CUBIC's falls with the fourth root of C (section 5.1), so C is scaled by the square. C t^3 stays what
    /// it is if t is scaled by its cube root instead.
    fn scale_time(&mut self, now: Time, share: f64) -> f64 {
        let pace = (share * share).cbrt();
        let passed = Duration::from_millis(u64::from(millis(now).wrapping_sub(self.known_ms)));
        self.epoch = now.min(self.epoch + passed.mul_f64(1.0 - pace));
        pace
    }

    fn update_rtt(&mut self, ack: &Ack) {
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX).max(1);
        if let Some(rtt_us) = ack.rtt.map(micros) {
            let old = self.rtt_us;
            self.rtt_us = if old == 0 { rtt_us } else { old - old / 8 + rtt_us / 8 };
        }
        if let Some(rtt_us) = ack.delay().map(micros) {
            let min_us = self.min_rtt_with(ack.now, rtt_us);
            self.queued = rtt_us - min_us >= min_us / QUEUE_DIVISOR + QUEUE_MIN_US;
        }
    }

    /// Returns the minimum round-trip time in microseconds, including `rtt_us`.
    fn min_rtt_with(&mut self, now: Time, rtt_us: u32) -> u32 {
        let now_s = (now.as_nanos() / 1_000_000_000) as u16;
        let [current, before] = &mut self.min_us;
        if now_s.wrapping_sub(self.period_s) > MIN_RTT_PERIOD_S {
            *before = core::mem::take(current);
            self.period_s = now_s;
        }
        *current = if *current == 0 { rtt_us } else { rtt_us.min(*current) };
        if *before == 0 { *current } else { (*before).min(*current) }
    }

    fn pmdcs(&self) -> u32 {
        u32::from(self.pmdcs)
    }

    /// Reduces the window (sections 4.6 and 4.7). `mild` is true if no queue overflowed.
    fn on_loss(&mut self, mild: bool) {
        let Self { cwnd, ssthresh, w_max, w_est, k, epoch, .. } = *self;
        if let Some(Extra::BeforeLoss(before)) = self.extra.as_deref_mut() {
            // Of several losses in a row the largest window counts.
            (before.cwnd, before.ssthresh) = (before.cwnd.max(cwnd), before.ssthresh.max(ssthresh));
        } else {
            let before = Before { cwnd, ssthresh, w_max, w_est, k, epoch };
            self.extra = Some(Box::new(Extra::BeforeLoss(before)));
        }
        let beta = if mild { BETA_UNQUEUED } else { BETA };
        // A loss below the last maximum means that another flow claims its share (fast convergence).
        let shared = cwnd < w_max;
        let kept = if shared { (1.0 + beta) / 2.0 } else { 1.0 };
        self.w_max = (f64::from(cwnd) * kept) as u32;
        self.ssthresh = ((f64::from(cwnd) * beta) as u32).max(self.pmdcs().saturating_mul(2));
        self.epoch = Time::MAX;
        self.fraction = 0;
    }
}

impl Controller for Cubic {
    fn window(&self) -> u32 {
        self.cwnd
    }

    fn slow_start_threshold(&self) -> u32 {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: &Ack) {
        self.update_rtt(ack);
        if ack.in_fast_recovery || ack.ecn_echoed {
            return;
        }
        if self.cwnd < self.ssthresh {
            self.slow_start(ack);
        } else {
            self.congestion_avoidance(ack);
        }
    }

    fn on_starved(&mut self, flight: u32) {
        self.idle |= flight == 0;
    }

    fn on_sent(&mut self, now: Time, _bytes: u32) {
        if self.idle {
            self.exclude_unused_time(now);
        }
    }

    fn on_fast_retransmit(&mut self, _now: Time) {
        // Packets that were sent after the lost one and arrived show whether there is a queue.
        self.on_loss(!self.queued);
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    fn on_timeout(&mut self, _now: Time) {
        // After several time-outs in a row, keep the values before the first.
        if self.cwnd > self.pmdcs() {
            self.on_loss(false);
            self.cwnd = self.pmdcs();
            // The window before the time-out is no guide any more: growth begins anew where slow start ends (section
            // 4.8).
            self.w_max = 0;
        }
    }

    fn on_certain(&mut self) {
        self.extra.take_if(|extra| matches!(**extra, Extra::BeforeLoss(_)));
    }

    fn on_undo(&mut self) {
        if let Some(Extra::BeforeLoss(before)) = self.extra.as_deref().cloned() {
            self.extra = None;
            self.cwnd = self.cwnd.max(before.cwnd);
            self.ssthresh = self.ssthresh.max(before.ssthresh);
            self.w_max = before.w_max;
            self.w_est = before.w_est;
            self.k = before.k;
            self.epoch = before.epoch;
        }
    }

    fn on_ecn(&mut self, _now: Time) {
        self.on_loss(false);
        self.cwnd = self.cwnd.min(self.ssthresh);
        self.on_certain();
    }

    fn heap_bytes(&self) -> usize {
        self.extra.as_ref().map_or(0, |_| size_of::<Extra>())
    }

    fn release_idle(&mut self) {
        self.extra = None;
    }

    fn on_idle(&mut self, rto_periods: u32) {
        if rto_periods == 0 {
            return;
        }
        // As in RFC 9260 section 7.2.1, but never below the initial window.
        self.idle = true;
        let floor = initial_window_of_ten(self.pmdcs());
        if self.cwnd <= floor {
            return;
        }
        self.ssthresh = threshold_after_idle(self.cwnd, self.ssthresh);
        self.cwnd = self.cwnd.checked_shr(rto_periods).unwrap_or(0).max(floor);
        self.epoch = Time::MAX;
    }

    fn on_mtu(&mut self, pmdcs: u32) {
        let before = self.pmdcs();
        self.pmdcs = pmdcs.clamp(1, u32::from(u16::MAX)) as u16;
        // Before the first loss, keep the number of packets when their size changes: other senders begin with large
        // packets.
        if self.ssthresh == u32::MAX {
            let scaled = u64::from(self.cwnd) * u64::from(self.pmdcs) / u64::from(before);
            let (first, window) =
                (initial_window_of_ten(self.pmdcs()), u32::try_from(scaled).unwrap_or(u32::MAX));
            let fresh = self.cwnd <= initial_window_of_ten(before);
            self.cwnd = if fresh { first } else { window.max(first) };
        }
        self.cwnd = self.cwnd.max(self.pmdcs());
    }
}

fn millis(time: Time) -> u32 {
    (time.as_nanos() / 1_000_000) as u32
}
