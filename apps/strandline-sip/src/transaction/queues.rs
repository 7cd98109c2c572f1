//! Deadlines by the hundred thousand. SIP's timers have few durations and time only advances, so deadlines of
//! one duration expire in the order in which they were set. With a queue for each duration, setting,
//! cancelling and expiring a deadline take constant time. Cancelled entries stay in their queue until they
//! outnumber the live ones, and are then removed together.

use core::time::Duration;
use std::collections::VecDeque;

use super::chunked_table::ChunkedTable;
use super::time::Time;

#[cfg(test)]
mod tests;

/// Queues with more entries than this are swept once most of their entries are stale.
const SWEEP_MIN: usize = 1024;

#[derive(Debug)]
struct Queue {
    delay: Duration,
    /// Deadlines and keys, in the order of deadlines.
    entries: VecDeque<(Time, u32)>,
    /// The number of live entries; the others were cancelled or rescheduled.
    live: usize,
}

/// Holds one deadline for each key. Keys are small numbers that are reused, such as slots of a table: the
/// memory is 16 bytes for each key up to the largest, and at most 32 bytes for each deadline, plus 1,024 for
/// each duration.
#[derive(Debug, Default)]
pub struct DeadlineQueues {
    queues: Vec<Queue>,
    /// For each key, its deadline and the queue that holds it. `Time::MAX` stands for none.
    keys: ChunkedTable<(Time, u8)>,
    latest: Time,
}

impl DeadlineQueues {
    /// Maximum number of distinct durations. Beyond that, a deadline is delayed to the next longer duration.
    pub const DURATIONS_MAX: usize = 64;

    /// Sets the deadline of `key` to `delay` after `now`, in place of any earlier one.
    pub fn schedule(&mut self, now: Time, key: u32, delay: Duration) {
        self.cancel(key);
        self.latest = self.latest.max(now);
        let number = self.queue(delay);
        let Some(queue) = self.queues.get_mut(usize::from(number)) else { return };
        let at = self.latest + queue.delay;
        queue.entries.push_back((at, key));
        queue.live += 1;
        let index = key as usize;
        while index >= self.keys.len() {
            self.keys.push((Time::MAX, 0));
        }
        if let Some(place) = self.keys.get_mut(index) {
            *place = (at, number);
        }
    }

    /// Cancels the deadline of `key`, if it has one.
    pub fn cancel(&mut self, key: u32) {
        let Some(place) = self.keys.get_mut(key as usize) else { return };
        if place.0 == Time::MAX {
            return;
        }
        let number = place.1;
        place.0 = Time::MAX;
        let Some(queue) = self.queues.get_mut(usize::from(number)) else { return };
        queue.live -= 1;
        if queue.entries.len() > SWEEP_MIN && queue.live < queue.entries.len() / 2 {
            let keys = &self.keys;
            let mut seen = queue.live;
            queue.entries.retain(|entry| {
                let stands = seen > 0 && is_live(keys, number, *entry);
                seen -= usize::from(stands);
                stands
            });
        }
    }

    /// The deadline of `key`, if it has one.
    #[must_use]
    pub fn deadline(&self, key: u32) -> Option<Time> {
        self.keys.get(key as usize).map(|(at, _)| *at).filter(|at| *at != Time::MAX)
    }

    /// The time of the first deadline.
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<Time> {
        let keys = &self.keys;
        let fronts = self.queues.iter_mut().enumerate().filter_map(|(number, queue)| {
            skip_stale(queue, keys, number as u8);
            queue.entries.front().map(|(at, _)| *at)
        });
        fronts.min()
    }

    /// Removes and returns a key whose deadline has passed at `now`, the earliest first. Call it until it
    /// returns `None`.
    pub fn pop_expired(&mut self, now: Time) -> Option<u32> {
        self.latest = self.latest.max(now);
        let at = self.next_deadline().filter(|at| *at <= now)?;
        let queue = self
            .queues
            .iter_mut()
            .find(|queue| queue.entries.front().is_some_and(|(front, _)| *front == at))?;
        let (_, key) = queue.entries.pop_front()?;
        queue.live -= 1;
        if let Some(place) = self.keys.get_mut(key as usize) {
            place.0 = Time::MAX;
        }
        Some(key)
    }

    /// The number of deadlines.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queues.iter().map(|queue| queue.live).sum()
    }

    /// Returns true if no deadline is set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of the queue for this duration.
    fn queue(&mut self, delay: Duration) -> u8 {
        if let Some(found) = self.queues.iter().position(|queue| queue.delay == delay) {
            return found as u8;
        }
        if self.queues.len() < Self::DURATIONS_MAX {
            self.queues.push(Queue { delay, entries: VecDeque::new(), live: 0 });
            return (self.queues.len() - 1) as u8;
        }
        let longer = self.queues.iter().enumerate().filter(|(_, queue)| queue.delay >= delay);
        let next = longer.min_by_key(|(_, queue)| queue.delay);
        let longest = self.queues.iter().enumerate().max_by_key(|(_, queue)| queue.delay);
        next.or(longest).map_or(0, |(number, _)| number as u8)
    }
}

/// Returns true if the entry matches the current deadline of its key.
fn is_live(keys: &ChunkedTable<(Time, u8)>, number: u8, (at, key): (Time, u32)) -> bool {
    keys.get(key as usize) == Some(&(at, number))
}

fn skip_stale(queue: &mut Queue, keys: &ChunkedTable<(Time, u8)>, number: u8) {
    while queue.entries.front().is_some_and(|entry| !is_live(keys, number, *entry)) {
        queue.entries.pop_front();
    }
}
