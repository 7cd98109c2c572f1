//! The link: what happens to each packet, and when.

use core::time::Duration;
use std::collections::VecDeque;

use crate::config::LinkConfig;
use crate::corruption::Corruption;
use crate::loss::LossState;
use crate::random::Random;
use crate::schedule::{Change, Schedule};
use crate::stats::LinkStats;

const NS_PER_S: u64 = 1_000_000_000;

/// What a link does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Verdict {
    /// It arrives.
    Delivered(Copies),
    /// It does not.
    Dropped(DropReason),
}

/// The copies that arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Copies {
    /// The packet.
    pub first: Arrival,
    /// Its second copy, if the link made one; never earlier than the first.
    pub duplicate: Option<Arrival>,
    /// There was congestion: the packet is marked, if it may be.
    pub marked: bool,
}

/// One copy's arrival.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When, in nanoseconds since the caller's origin.
    pub arrival_ns: u64,
    /// How it is damaged, if it is.
    pub corruption: Option<Corruption>,
}

/// Why a packet does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DropReason {
    /// The link was cut.
    Cut,
    /// The packet was longer than the link carries.
    Size,
    /// The loss model took it.
    Loss,
    /// The queue was full.
    Queue,
}

/// One direction of a link. Time must not go backwards from call to call.
///
/// - in: [`offer`](Self::offer) for each packet, [`schedule`](Self::schedule) and [`change`](Self::change)
/// - out: the [`Verdict`]; [`stats`](Self::stats), [`queued_bytes`](Self::queued_bytes)
#[derive(Debug, Clone)]
pub struct Link {
    config: LinkConfig,
    cut: bool,
    random: Random,
    loss: LossState,
    schedule: Schedule,
    /// When the last packet taken has been sent, and how much of a nanosecond more, in units of 1/rate ns: without it
    /// rounding would make the link faster or slower than its rate.
    sent_ns: u64,
    sent_fraction: u64,
    /// When each waiting packet has been sent, and its length.
    waiting: VecDeque<(u64, usize)>,
    waiting_bytes: usize,
    /// Arrival of the last packet that kept its place.
    last_arrival_ns: u64,
    /// Arrivals of the packets held back since then.
    held_back_ns: Vec<u64>,
    stats: LinkStats,
}

impl Link {
    /// A link whose random decisions come from `seed`.
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

    /// Decides about a packet of `len` bytes handed to the link at `now_ns`.
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

    /// When the packet has left the queue.
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
        // Sizes of packets keep this within 64 bits; anything else saturates at the end of time.
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

    /// When a packet that left the queue at `sent_ns` arrives, and what becomes of it on the way.
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

    /// Arrival after delay and jitter, not before what kept its place.
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

    /// Lets time pass: packets leave the queue, changes that are due happen.
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

    /// Makes a change when time comes to `at_ns`. Changes take effect with the first packet offered at that time or
    /// later; what is in the queue or on its way keeps its arrival.
    pub fn schedule(&mut self, at_ns: u64, change: Change) {
        self.schedule.add(at_ns, change);
    }

    /// Time of the next scheduled change.
    #[must_use]
    pub fn next_change_ns(&self) -> Option<u64> {
        self.schedule.next()
    }

    /// Makes a change now.
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

    /// Nothing passes until [`heal`](Self::heal).
    pub fn cut(&mut self) {
        self.cut = true;
    }

    /// The link works again.
    pub fn heal(&mut self) {
        self.cut = false;
    }

    /// Whether the link is cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The parameters at present.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Bytes in the queue at `now_ns`, the packet being sent included.
    pub fn queued_bytes(&mut self, now_ns: u64) -> usize {
        self.advance(now_ns);
        self.waiting_bytes
    }

    /// When the last packet that was taken has left the queue: a packet offered before that waits until then.
    #[must_use]
    pub fn free_at_ns(&self) -> u64 {
        self.sent_ns
    }

    /// What the link has done so far.
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
