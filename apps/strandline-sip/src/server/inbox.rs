//! What has come and waits to be handled: sorted by urgency, and refused when it has waited for too long.
//!
//! Everything that comes is taken from the sockets first and looked at no further than its first line. So the time that a
//! message waits here is the load, as its sender feels it: nothing is guessed from the processor's use or the length of
//! queues. See docs/decisions/0031-overload-by-waiting-time.md.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::transaction::{Flow, Time};

use super::urgency::Urgency;

/// Who has waited for longer is refused: there is more than can be done, and whoever waits longer asks again.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);
/// Bytes that may wait: no more than fits into memory, many times what can be done in time.
const BYTES_MAX: usize = 64 << 20;

/// A message that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) flow: Flow,
    pub(super) bytes: Bytes,
    came: Time,
    number: u64,
}

/// What is to be done with the next message.
#[derive(Debug)]
pub(super) enum Next {
    Handle(Waiting),
    /// It has waited for too long.
    Refuse(Waiting),
}

/// Messages that wait.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// One for each urgency.
    queues: [VecDeque<Waiting>; Urgency::ALL.len()],
    bytes: usize,
    /// Messages that came so far.
    came: u64,
    /// Messages that there was no room for.
    dropped: u64,
    /// Whose turn it is of what isn't urgent.
    turn: bool,
}

impl Inbox {
    /// A message has come.
    pub(super) fn push(&mut self, now: Time, flow: Flow, bytes: Bytes) {
        if self.bytes + bytes.len() > BYTES_MAX {
            self.dropped += 1;
            return;
        }
        let urgency = Urgency::of(&bytes);
        self.came += 1;
        self.bytes += bytes.len();
        let waiting = Waiting { flow, bytes, came: now, number: self.came };
        if let Some(queue) = self.queues.get_mut(urgency as usize) {
            queue.push_back(waiting);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.iter().all(VecDeque::is_empty)
    }

    /// The number of the message that came last.
    pub(super) fn last(&self) -> u64 {
        self.came
    }

    /// Whether a message and all that came before it are done.
    pub(super) fn is_done(&self, number: u64) -> bool {
        self.queues.iter().filter_map(VecDeque::front).all(|waiting| waiting.number > number)
    }

    /// The next message: what has begun first, then registrations and what is new by turns. What has begun is never
    /// refused: to drop it would waste what was done for it.
    pub(super) fn next(&mut self, now: Time) -> Option<Next> {
        let [begun, register, new] = &mut self.queues;
        let next = if let Some(waiting) = begun.pop_front() {
            Next::Handle(waiting)
        } else {
            self.turn = !self.turn;
            let (first, second) = if self.turn { (register, new) } else { (new, register) };
            let waiting = first.pop_front().or_else(|| second.pop_front())?;
            if now > waiting.came + PATIENCE { Next::Refuse(waiting) } else { Next::Handle(waiting) }
        };
        let (Next::Handle(waiting) | Next::Refuse(waiting)) = &next;
        self.bytes -= waiting.bytes.len();
        Some(next)
    }
}

#[cfg(test)]
mod tests;
