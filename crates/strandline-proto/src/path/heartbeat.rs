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
    /// Once in each RTO, as long as the address is not confirmed (section 5.4) or may have failed (RFC 7829).
    EachRto,
    /// HB.interval + RTO, the latter varied by half of it to either side (section 8.3).
    Interval(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Nothing is to be answered.
    None,
    /// The RTO since the HEARTBEAT has not passed yet.
    Awaited,
    /// The RTO has passed and was counted as an error; an answer still shows that the path works.
    Late,
}

/// The heartbeat of one path. Stopped until [`start`](Self::start) is called; one that is requested may be sent at any
/// time.
#[derive(Debug, Clone)]
pub(crate) struct Heartbeat {
    nonce: u64,
    sent_at: Time,
    /// When the present heartbeat period ends.
    next_at: Time,
    answer: Answer,
    /// Something that measures the round-trip time was sent in the present period: the path is not idle.
    path_used: bool,
}

impl Heartbeat {
    pub(crate) fn new() -> Self {
        Self { nonce: 0, sent_at: Time::ZERO, next_at: Time::MAX, answer: Answer::None, path_used: false }
    }

    /// Heartbeats begin. An address that is not confirmed is probed at once.
    pub(crate) fn start(&mut self, now: Time, pace: Pace, rto: Duration, random: u32) {
        self.schedule(now, pace, rto, random);
        if pace == Pace::EachRto {
            self.next_at = now;
        }
    }

    /// Begins a heartbeat period at `from`. `random` is any number, used for the jitter.
    pub(crate) fn schedule(&mut self, from: Time, pace: Pace, rto: Duration, random: u32) {
        self.path_used = false;
        self.next_at = match pace {
            Pace::Off => Time::MAX,
            Pace::EachRto => from + rto,
            Pace::Interval(interval) => from + interval.saturating_add(jittered(rto, random)),
        };
    }

    /// The next HEARTBEAT goes now, where any go.
    pub(crate) fn hurry(&mut self) {
        if self.next_at != Time::MAX {
            self.next_at = Time::ZERO;
            self.path_used = false;
        }
    }

    /// No HEARTBEAT any more, and none is awaited: a SHUTDOWN or SHUTDOWN ACK was sent.
    pub(crate) fn stop(&mut self) {
        *self = Self::new();
    }

    /// Something was sent that can measure the round-trip time.
    pub(crate) fn on_path_used(&mut self) {
        self.path_used = true;
    }

    /// When [`on_expired`](Self::on_expired) or [`is_due`](Self::is_due) will have something to tell.
    #[inline]
    pub(crate) fn deadline(&self, rto: Duration) -> Time {
        match self.answer {
            Answer::Awaited => self.sent_at + rto,
            Answer::None | Answer::Late => self.next_at,
        }
    }

    /// A HEARTBEAT should be sent. If the path turns out not to be idle, begins a new period at `last_sent` instead.
    pub(crate) fn is_due(
        &mut self,
        now: Time,
        last_sent: Time,
        pace: Pace,
        rto: Duration,
        random: u32,
    ) -> bool {
        if self.answer == Answer::Awaited || now < self.next_at {
            return false;
        }
        if self.path_used {
            self.schedule(last_sent, pace, rto, random);
        }
        now >= self.next_at
    }

    /// A HEARTBEAT with `nonce` was sent. An earlier one that was not answered is forgotten.
    pub(crate) fn on_sent(&mut self, now: Time, nonce: u64, pace: Pace, rto: Duration, random: u32) {
        self.nonce = nonce;
        self.sent_at = now;
        self.answer = Answer::Awaited;
        self.schedule(now, pace, rto, random);
    }

    /// Other paths' HEARTBEATs took this opportunity (HB.Max.Burst): the next one comes at `at`.
    pub(crate) fn defer(&mut self, at: Time) {
        self.next_at = self.next_at.max(at);
    }

    /// The limits for unconfirmed addresses leave no room for a HEARTBEAT now. It comes an RTO later, varied by half of it, so
    /// that many don't come together again.
    pub(crate) fn defer_varied(&mut self, now: Time, rto: Duration, random: u32) {
        self.defer(now + jittered(rto, random));
    }

    /// The RTO passed without an answer: true once for each HEARTBEAT, which is to be followed by
    /// [`schedule_after_loss`](Self::schedule_after_loss).
    pub(crate) fn on_expired(&mut self, now: Time, rto: Duration) -> bool {
        let expired = self.answer == Answer::Awaited && now >= self.sent_at + rto;
        if expired {
            self.answer = Answer::Late;
        }
        expired
    }

    /// The next HEARTBEAT after one that was not answered; `rto` has been backed off, `pace` may have become slower.
    pub(crate) fn schedule_after_loss(&mut self, now: Time, pace: Pace, rto: Duration, random: u32) {
        match pace {
            Pace::EachRto => self.next_at = now, // an RTO has just passed
            pace => self.schedule(self.sent_at, pace, rto, random),
        }
    }

    /// A HEARTBEAT ACK with `nonce` came: when the HEARTBEAT had been sent, or `None` if no such one is outstanding.
    pub(crate) fn on_ack(&mut self, nonce: u64) -> Option<Time> {
        if self.answer == Answer::None || nonce != self.nonce {
            return None;
        }
        self.answer = Answer::None;
        Some(self.sent_at)
    }

    /// When the latest HEARTBEAT was sent; the origin of time if none was.
    pub(crate) fn sent_at(&self) -> Time {
        self.sent_at
    }
}

/// `rto` varied evenly between half and one and a half of it.
fn jittered(rto: Duration, random: u32) -> Duration {
    let nanos = u64::try_from(rto.as_nanos()).unwrap_or(u64::MAX);
    let part = (u128::from(nanos) * u128::from(random)) >> 32;
    Duration::from_nanos((nanos / 2).saturating_add(u64::try_from(part).unwrap_or(u64::MAX)))
}
