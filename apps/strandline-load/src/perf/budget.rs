//! The sending budget of a flow: unlimited, up to a number of bytes, or at a given rate.

use std::time::{Duration, Instant};

use super::protocol::Parameters;

/// Number of bytes (or of messages, if they are small) after which a sender checks the time and whether to
/// stop.
const TURN_BYTES: u32 = 64 << 10;
const TURN_MESSAGES: u32 = 256;

/// The next action of a sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Send this many messages of this many bytes each.
    Send { messages: u32, bytes: usize },
    /// Send nothing before this moment.
    WaitUntil(Instant),
    /// Everything was sent.
    Done,
}

/// The amount that a flow sends.
#[derive(Debug)]
pub(crate) struct Budget {
    message_bytes: u32,
    turn_messages: u32,
    bytes_left: Option<u64>,
    schedule: Option<Schedule>,
}

/// An open-loop schedule: message n is due at its own time, whether earlier ones have been sent or not.
#[derive(Debug)]
struct Schedule {
    begin: Instant,
    messages_per_second: f64,
    sent: u64,
}

impl Budget {
    pub(crate) fn new(parameters: &Parameters, flow: u16, begin: Instant) -> Self {
        let message_bytes = parameters.message_bytes.max(1);
        let schedule = parameters.bits_per_second.map(|bits| Schedule {
            begin,
            messages_per_second: bits as f64
                / f64::from(parameters.flows.max(1))
                / parameters.message_bits().max(1.0),
            sent: 0,
        });
        Self {
            message_bytes,
            turn_messages: (TURN_BYTES / message_bytes).clamp(1, TURN_MESSAGES),
            bytes_left: parameters.bytes_of_flow(flow),
            schedule,
        }
    }

    /// Returns the next turn, which then counts as sent. Reads the clock only for a schedule.
    pub(crate) fn turn(&mut self, clock: impl FnOnce() -> Instant) -> Turn {
        let size = u64::from(self.message_bytes);
        let mut messages = self.turn_messages;
        let mut bytes = self.message_bytes;
        if let Some(left) = self.bytes_left {
            if left == 0 {
                return Turn::Done;
            }
            // The last message may be shorter.
            if left < size {
                bytes = left as u32;
            }
            messages = messages.min(u32::try_from(left / size).unwrap_or(u32::MAX).max(1));
        }
        if let Some(schedule) = &mut self.schedule {
            match schedule.due(clock()) {
                Ok(due) => messages = messages.min(due),
                Err(next) => return Turn::WaitUntil(next),
            }
            schedule.sent += u64::from(messages);
        }
        if let Some(left) = &mut self.bytes_left {
            *left -= u64::from(messages) * u64::from(bytes);
        }
        Turn::Send { messages, bytes: bytes as usize }
    }
}

impl Schedule {
    /// Returns how many messages are due, at least one.
    ///
    /// # Errors
    /// The time when the next message is due.
    fn due(&self, now: Instant) -> Result<u32, Instant> {
        let elapsed = now.saturating_duration_since(self.begin).as_secs_f64();
        // The first message is due at once.
        let due = (elapsed * self.messages_per_second) as u64 + 1;
        if due > self.sent {
            return Ok(u32::try_from(due - self.sent).unwrap_or(u32::MAX));
        }
        let next = Duration::try_from_secs_f64(self.sent as f64 / self.messages_per_second);
        Err(self.begin + next.unwrap_or(Duration::from_secs(1)).max(Duration::from_micros(1)))
    }
}

#[cfg(test)]
mod tests;
