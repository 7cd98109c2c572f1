//! The link model, which decides whether and when each packet arrives.

use core::time::Duration;
use std::collections::VecDeque;

use crate::config::LinkConfig;
use crate::corruption::Corruption;
use crate::loss::LossState;
use crate::random::Random;
use crate::schedule::{Change, Schedule};
use crate::stats::LinkStats;

const NS_PER_S: u64 = 1_000_000_000;

/// The decision about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// The packet arrives.
    Delivered(Copies),
    /// The packet is dropped.
    Dropped(DropReason),
}

/// The copies of a packet that arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// The packet itself.
    pub first: Arrival,
    /// The second copy, if the link made one; never earlier than the first.
    pub duplicate: Option<Arrival>,
    /// Whether the packet met congestion and is marked if its sender allows it.
    pub marked: bool,
}

/// The arrival of one copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// Arrival time in nanoseconds since the caller's origin.
    pub arrival_ns: u64,
    /// The corruption of the copy, if any.
    pub corruption: Option<Corruption>,
}

/// The reason why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The link was cut.
    Cut,
    /// The packet was longer than the link's maximum.
    Size,
    /// The loss model dropped the packet.
    Loss,
    /// The queue was full.
    Queue,
}

/// A model of one direction of a link. Time must not go backwards from call to call.
///
/// - Input: [`offer`](Self::offer) for each packet, [`schedule`](Self::schedule) and [`change`](Self::change).
/// - Output: the [`Verdict`], [`stats`](Self::stats) and [`queued_bytes`](Self::queued_bytes).
#[derive(Debug, Clone)]
pub struct Link {
    config: LinkConfig,
    cut: bool,
    random: Random,
    loss: LossState,
    schedule: Schedule,
    /// Time when the last accepted packet has been transmitted, and the remaining fraction of a nanosecond in
    /// units of 1/rate ns. Without the fraction, rounding would make the link faster or slower than its rate.
    sent_ns: u64,
    sent_fraction: u64,
    /// For each packet in the queue, the time when it has been transmitted and its length.
    waiting: VecDeque<(u64, usize)>,
    waiting_bytes: usize,
    /// Arrival of the last packet that was not held back.
    last_arrival_ns: u64,
    /// Arrivals of the packets held back since the last one that was not.
    held_back_ns: Vec<u64>,
    stats: LinkStats,
}

impl Link {
    /// Returns a link whose random decisions come from `seed`.
    #[must_use]
    pub fn new(config: LinkConfig, seed: u64) -> Self {
        Self {
            config,
            cut: false,
            random: Random::new(seed, 0),
            loss: LossState::new(Random::new(seed, 1)),
            schedule: Schedule::default(),
            sent_ns: 0,
            sent_fraction: 0,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            last_arrival_ns: 0,
            held_back_ns: Vec::new(),
            stats: LinkStats::default(),
        }
    }

    /// Decides about a packet of `len` bytes offered to the link at `now_ns`.
    pub fn offer(&mut self, now_ns: u64, len: usize) -> Verdict {
        self.advance(now_ns);
        self.stats.offered += 1;
        self.stats.offered_bytes += len as u64;
        match self.refuses(len) {
            Some(reason) => {
                let counter = match reason {
                    DropReason::Cut => &mut self.stats.dropped_cut,
                    DropReason::Size => &mut self.stats.dropped_size,
                    DropReason::Loss => &mut self.stats.dropped_loss,
                    DropReason::Queue => &mut self.stats.dropped_queue,
                };
                *counter += 1;
                Verdict::Dropped(reason)
            }
            None => {
                self.stats.delivered += 1;
                self.stats.delivered_bytes += len as u64;
                let marked = self.waiting_bytes > self.config.mark_bytes;
                self.stats.marked += u64::from(marked);
                let sent_ns = self.send(now_ns, len);
                Verdict::Delivered(Copies { marked, ..self.travel(sent_ns) })
            }
        }
    }

    fn refuses(&mut self, len: usize) -> Option<DropReason> {
        if self.cut {
            return Some(DropReason::Cut);
        }
        if len > self.config.size_max {
            return Some(DropReason::Size);
        }
        if self.loss.takes(&self.config.loss) {
            return Some(DropReason::Loss);
        }
        let full = self.waiting_bytes.saturating_add(len) > self.config.queue_bytes_max;
        (full && self.waiting_bytes > 0).then_some(DropReason::Queue)
    }

    /// Returns the time when the packet has left the queue.
    fn send(&mut self, now_ns: u64, len: usize) -> u64 {
        let rate = self.config.rate_bps;
        if self.sent_ns < now_ns {
            self.sent_ns = now_ns;
            self.sent_fraction = 0;
        }
        if rate == 0 {
            return self.sent_ns;
        }
        let work = u128::from(len as u64) * 8 * u128::from(NS_PER_S) + u128::from(self.sent_fraction);
        // Packet lengths keep this within 64 bits; anything else saturates at the maximum time.
        let (took_ns, fraction) = match u64::try_from(work) {
            Ok(work) => (work / rate, work % rate),
            Err(_) => (u64::try_from(work / u128::from(rate)).unwrap_or(u64::MAX), 0),
        };
        self.sent_ns = self.sent_ns.saturating_add(took_ns);
        self.sent_fraction = fraction;
        self.waiting.push_back((self.sent_ns, len));
        self.waiting_bytes += len;
        self.stats.queue_bytes_max = self.stats.queue_bytes_max.max(self.waiting_bytes as u64);
        self.stats.queue_packets_max = self.stats.queue_packets_max.max(self.waiting.len() as u64);
        self.sent_ns
    }

    /// Decides when a packet that left the queue at `sent_ns` arrives, and whether it is held back,
    /// duplicated or corrupted.
    fn travel(&mut self, sent_ns: u64) -> Copies {
        let held_back = self.random.chance(self.config.reordering.probability);
        let arrival_ns = if held_back {
            let extra_max = nanos(self.config.reordering.extra_delay_max);
            let extra = self.random.up_to(extra_max);
            let arrival = self.arrival(sent_ns).saturating_add(extra);
            self.held_back_ns.push(arrival);
            arrival
        } else {
            let arrival = self.arrival(sent_ns);
            self.last_arrival_ns = arrival;
            let overtaken = self.held_back_ns.iter().filter(|&&held| held > arrival).count();
            self.stats.reordered += overtaken as u64;
            self.held_back_ns.clear();
            arrival
        };
        let first = self.copy(arrival_ns);
        let duplicate = self.random.chance(self.config.duplication).then(|| {
            self.stats.duplicated += 1;
            self.copy(arrival_ns)
        });
        Copies { first, duplicate, marked: false }
    }

    /// Returns the arrival after delay and jitter, not before the last packet that was not held back.
    fn arrival(&mut self, sent_ns: u64) -> u64 {
        let jitter = self.random.up_to(nanos(self.config.jitter));
        let arrival = sent_ns.saturating_add(nanos(self.config.delay)).saturating_add(jitter);
        arrival.max(self.last_arrival_ns)
    }

    fn copy(&mut self, arrival_ns: u64) -> Arrival {
        let corruption =
            self.random.chance(self.config.corruption).then(|| Corruption::draw(&mut self.random));
        self.stats.corrupted += u64::from(corruption.is_some());
        Arrival { arrival_ns, corruption }
    }

    /// Advances time: packets leave the queue and due changes take effect.
    fn advance(&mut self, now_ns: u64) {
        while let Some(changes) = self.schedule.take_due(now_ns) {
            for change in changes {
                self.change(change);
            }
        }
        while let Some(&(sent_ns, len)) = self.waiting.front() {
            if sent_ns > now_ns {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= len;
        }
    }

    /// Schedules a change for `at_ns`. It takes effect with the first packet offered at that time or later;
    /// packets that are queued or in transit keep their arrival.
    pub fn schedule(&mut self, at_ns: u64, change: Change) {
        self.schedule.add(at_ns, change);
    }

    /// Returns the time of the next scheduled change.
    #[must_use]
    pub fn next_change_ns(&self) -> Option<u64> {
        self.schedule.next()
    }

    /// Makes a change immediately.
    pub fn change(&mut self, change: Change) {
        match change {
            Change::Config(config) => {
                if config.loss != self.config.loss {
                    self.loss.reset();
                }
                self.config = config;
            }
            Change::Delay(delay) => self.config.delay = delay,
            Change::Jitter(jitter) => self.config.jitter = jitter,
            Change::Rate(rate_bps) => self.config.rate_bps = rate_bps,
            Change::Queue(bytes) => self.config.queue_bytes_max = bytes,
            Change::Mark(bytes) => self.config.mark_bytes = bytes,
            Change::SizeMax(bytes) => self.config.size_max = bytes,
            Change::Loss(loss) => {
                self.config.loss = loss;
                self.loss.reset();
            }
            Change::Reordering(reordering) => self.config.reordering = reordering,
            Change::Duplication(probability) => self.config.duplication = probability,
            Change::Corruption(probability) => self.config.corruption = probability,
            Change::Cut => self.cut = true,
            Change::Heal => self.cut = false,
        }
        // The fraction is in units of the old rate.
        self.sent_fraction = 0;
    }

    /// Cuts the link: every packet is dropped until [`heal`](Self::heal).
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// Ends a cut.
    pub fn heal(&mut self) {
        self.cut = false;
    }

    /// Returns whether the link is cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns the current parameters.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Returns the bytes in the queue at `now_ns`, the packet in transmission included.
    pub fn queued_bytes(&mut self, now_ns: u64) -> usize {
        self.advance(now_ns);
        self.waiting_bytes
    }

    /// Returns the time when the last accepted packet has left the queue. A packet offered earlier waits
    /// until then.
    #[must_use]
    pub fn free_at_ns(&self) -> u64 {
        self.sent_ns
    }

    /// Returns the link's counters.
    #[must_use]
    pub fn stats(&self) -> &LinkStats {
        &self.stats
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
