//! When a path gets a HEARTBEAT (RFC 9260 sections 5.4 and 8.3), and which answer counts.

#[cfg(test)]
mod tests;

use core::time::Duration;

use crate::time::Time;

/// How often a path is probed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Only on request.
    Off,
    /// Once per RTO, while the address is unconfirmed (section 5.4) or potentially failed (RFC 7829).
    EachRto,
    /// Every HB.interval + RTO, with the RTO varied by 50 % up or down (section 8.3).
    Interval(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// No answer is outstanding.
    None,
    /// The answer is outstanding, and the RTO has not passed yet.
    Awaited,
    /// As before, and a packet from the address has arrived since. Without an answer after the RTO, another HEARTBEAT
    /// is due and this one counts as no error: its answer may have gone to an address of ours that was just deleted.
    Heard,
    /// The RTO has passed and counted as an error. An answer still shows that the path works.
    Late,
}

/// The heartbeat of one path. It is stopped until [`start`](Self::start) is called. A requested HEARTBEAT may be sent
/// at any time.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeat {
    nonce: u64,
    sent_at: Time,
    /// End of the current heartbeat period.
    next_at: Time,
    answer: Answer,
    /// True if something that measures the round-trip time was sent in this period, so that the path is not idle.
    path_used: bool,
}

impl Heartbeat {
    pub(crate) fn new() -> Self {
        Self { nonce: 0, sent_at: Time::ZERO, next_at: Time::MAX, answer: Answer::None, path_used: false }
    }

    /// Starts heartbeats. An unconfirmed address is probed at once.
    pub(crate) fn start(&mut self, now: Time, pace: Pace, rto: Duration, random: u32) {
        self.schedule(now, pace, rto, random);
        if pace == Pace::EachRto {
            self.next_at = now;
        }
    }

    /// Begins a heartbeat period at `from`. `random` is any number and determines the jitter.
    pub(crate) fn schedule(&mut self, from: Time, pace: Pace, rto: Duration, random: u32) {
        self.path_used = false;
        self.next_at = match pace {
            Pace::Off => Time::MAX,
            Pace::EachRto => from + rto,
            Pace::Interval(interval) => from + interval.saturating_add(jittered(rto, random)),
        };
    }

    /// Makes the next HEARTBEAT due now, unless heartbeats are off.
    pub(crate) fn hurry(&mut self) {
        if self.next_at != Time::MAX {
            self.next_at = Time::ZERO;
            self.path_used = false;
        }
    }

    /// Stops heartbeats and awaits none, because a SHUTDOWN or SHUTDOWN ACK was sent.
    pub(crate) fn stop(&mut self) {
        *self = Self::new();
    }

    /// Records that something was sent that can measure the round-trip time.
    pub(crate) fn on_path_used(&mut self) {
        self.path_used = true;
    }

    /// Returns the next time at which [`on_expired`](Self::on_expired) or [`is_due`](Self::is_due) may return true.
    #[inline]
    pub(crate) fn deadline(&self, rto: Duration) -> Time {
        match self.answer {
            Answer::Awaited | Answer::Heard => self.sent_at + rto,
            Answer::None | Answer::Late => self.next_at,
        }
    }

    /// True if a HEARTBEAT should be sent. If the path turns out not to be idle, begins a new period at `last_sent`
    /// instead.
    pub(crate) fn is_due(
        &mut self,
        now: Time,
        last_sent: Time,
        pace: Pace,
        rto: Duration,
        random: u32,
    ) -> bool {
        if matches!(self.answer, Answer::Awaited | Answer::Heard) || now < self.next_at {
            return false;
        }
        if self.path_used {
            self.schedule(last_sent, pace, rto, random);
        }
        now >= self.next_at
    }

    /// Records that a HEARTBEAT with `nonce` was sent. An earlier unanswered one is forgotten.
    pub(crate) fn on_sent(&mut self, now: Time, nonce: u64, pace: Pace, rto: Duration, random: u32) {
        self.nonce = nonce;
        self.sent_at = now;
        self.answer = Answer::Awaited;
        self.schedule(now, pace, rto, random);
    }

    /// Defers the next HEARTBEAT until `at`, because HEARTBEATs of other paths used this opportunity (HB.Max.Burst).
    pub(crate) fn defer(&mut self, at: Time) {
        self.next_at = self.next_at.max(at);
    }

    /// Defers the next HEARTBEAT by an RTO, because the limits for unconfirmed addresses are exhausted. The RTO is
    /// varied by 50 %, so that many HEARTBEATs do not coincide again.
    pub(crate) fn defer_varied(&mut self, now: Time, rto: Duration, random: u32) {
        self.defer(now + jittered(rto, random));
    }

    /// Returns true once for each HEARTBEAT whose RTO passed without an answer, unless [`on_heard`](Self::on_heard) was
    /// called meanwhile. Call [`schedule_after_loss`](Self::schedule_after_loss) then.
    pub(crate) fn on_expired(&mut self, now: Time, rto: Duration) -> bool {
        if now < self.sent_at + rto {
            return false;
        }
        let expired = self.answer == Answer::Awaited;
        if self.answer == Answer::Heard {
            self.hurry();
        }
        if matches!(self.answer, Answer::Awaited | Answer::Heard) {
            self.answer = Answer::Late;
        }
        expired
    }

    /// Schedules the next HEARTBEAT after an unanswered one. `rto` has been backed off, and `pace` may have become
    /// slower.
    pub(crate) fn schedule_after_loss(&mut self, now: Time, pace: Pace, rto: Duration, random: u32) {
        match pace {
            Pace::EachRto => self.next_at = now, // An RTO has just passed.
            pace => self.schedule(self.sent_at, pace, rto, random),
        }
    }

    /// Processes a HEARTBEAT ACK with `nonce`. Returns when the HEARTBEAT was sent, or `None` if no such one is
    /// outstanding.
    pub(crate) fn on_ack(&mut self, nonce: u64) -> Option<Time> {
        if self.answer == Answer::None || nonce != self.nonce {
            return None;
        }
        self.answer = Answer::None;
        Some(self.sent_at)
    }

    /// Makes the next HEARTBEAT due now if the latest one is unanswered and at least `least` old: a packet
    /// from the address shows that another may be answered. What passed so far counts as no error.
    pub(crate) fn repeat(&mut self, now: Time, least: Duration) {
        if self.answer != Answer::None && now >= self.sent_at + least {
            self.answer = Answer::Late;
            self.hurry();
        }
    }

    /// Records a packet from the address while an answer is awaited.
    pub(crate) fn on_heard(&mut self) {
        if self.answer == Answer::Awaited {
            self.answer = Answer::Heard;
        }
    }

    /// Returns when the latest HEARTBEAT was sent; the origin of time if none was.
    pub(crate) fn sent_at(&self) -> Time {
        self.sent_at
    }
}

/// Returns `rto` times a factor evenly distributed between 0.5 and 1.5.
fn jittered(rto: Duration, random: u32) -> Duration {
    let nanos = u64::try_from(rto.as_nanos()).unwrap_or(u64::MAX);
    let part = (u128::from(nanos) * u128::from(random)) >> 32;
    Duration::from_nanos((nanos / 2).saturating_add(u64::try_from(part).unwrap_or(u64::MAX)))
}
