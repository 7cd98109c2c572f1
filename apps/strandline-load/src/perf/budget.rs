//! How much a flow may send now: without limit, up to a number of bytes, at a given rate.

use std::time::{Duration, Instant};

use super::protocol::Parameters;

/// A sender looks at the time and at whether it is to stop once for so many bytes, or messages if they are small.
const TURN_BYTES: u32 = 64 << 10;
const TURN_MESSAGES: u32 = 256;

/// What a sender is to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Send so many messages of so many bytes each.
    Send { messages: u32, bytes: usize },
    /// Nothing before this moment.
    WaitUntil(Instant),
    /// Everything was sent.
    Done,
}

/// What a flow sends.
#[derive(Debug)]
pub(crate) struct Budget {
    message_bytes: u32,
    turn_messages: u32,
    bytes_left: Option<u64>,
    schedule: Option<Schedule>,
}

/// An open loop: message n is due at its moment, whether the ones before it are gone or not.
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

    /// The next turn. It counts as sent. The clock is read only for a schedule.
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
    /// How many messages are due, at least one; or when the next one is.
    fn due(&self, now: Instant) -> Result<u32, Instant> {
        let elapsed = now.saturating_duration_since(self.begin).as_secs_f64();
        // The first is due at once.
        let due = (elapsed * self.messages_per_second) as u64 + 1;
        if due > self.sent {
            return Ok(u32::try_from(due - self.sent).unwrap_or(u32::MAX));
        }
        let next = Duration::try_from_secs_f64(self.sent as f64 / self.messages_per_second);
        Err(self.begin + next.unwrap_or(Duration::from_secs(1)).max(Duration::from_micros(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::protocol::tests::parameters;
    use super::super::protocol::{Length, Parameters};
    use super::super::tally::now;
    use super::*;

    #[test]
    fn without_limit_a_turn_is_at_most_64_kib() {
        for (message_bytes, messages) in [(1, 256), (64, 256), (8192, 8), (1 << 20, 1)] {
            let parameters = Parameters { message_bytes, ..parameters() };
            let mut budget = Budget::new(&parameters, 0, now());
            let clock = || unreachable!("without a rate the clock is not read");
            assert_eq!(budget.turn(clock), Turn::Send { messages, bytes: message_bytes as usize });
        }
    }

    #[test]
    fn bytes_are_sent_exactly_by_all_flows_together() {
        for (total, flows, message_bytes) in
            [(10_000, 1, 1000), (10_001, 3, 1000), (7, 7, 64), (1 << 20, 5, 3)]
        {
            let length = Length::Bytes(total);
            let parameters = Parameters { length, flows, message_bytes, ..parameters() };
            parameters.validate().unwrap();
            let mut sum = 0;
            for flow in 0..flows {
                let mut budget = Budget::new(&parameters, flow, now());
                while let Turn::Send { messages, bytes } = budget.turn(now) {
                    assert!(messages > 0 && bytes > 0 && bytes <= message_bytes as usize);
                    sum += u64::from(messages) * bytes as u64;
                }
            }
            assert_eq!(sum, total);
        }
    }

    #[test]
    fn a_rate_is_kept_whatever_time_the_sender_lost() {
        let begin = now();
        // 1,000 messages a second in two flows.
        let parameters =
            Parameters { message_bytes: 100, bits_per_second: Some(800_000), flows: 2, ..parameters() };
        let mut budget = Budget::new(&parameters, 0, begin);
        let mut send_at = |ms: u64| {
            let mut sum = 0;
            while let Turn::Send { messages, .. } = budget.turn(|| begin + Duration::from_millis(ms)) {
                sum += messages;
            }
            sum
        };
        assert_eq!([send_at(0), send_at(1), send_at(3)], [1, 0, 1]);
        assert_eq!(send_at(1000), 499, "what was missed is made up for");
        let next = budget.turn(|| begin + Duration::from_millis(1001));
        assert_eq!(next, Turn::WaitUntil(begin + Duration::from_millis(1002)));
    }
}
