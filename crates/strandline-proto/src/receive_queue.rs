//! The carrier's receive queue: the packets that wait in its socket until they are read. All associations of an
//! endpoint share it, and what does not fit is lost. Each association has a window of its own, so the windows of many
//! that receive at once would together exceed the queue.

use core::time::Duration;

use crate::time::Time;

/// Length of the intervals in which flows are counted.
const INTERVAL: Duration = Duration::from_millis(10);

/// Number of packets in an interval that make a flow. Associations that exchange a message now and then leave
/// the queue to the others.
const FLOW_MIN: u8 = 4;

/// Minimum share in bytes: four packets of 1,500 bytes, so that losses are repaired without time-outs.
const SHARE_MIN: u32 = 6_000;

/// Over a path with a longer round-trip time most of the window is on the way, not in the queue.
const SHORT_RTT: Duration = Duration::from_millis(5);

/// Maximum share of a flow in bytes over a path with at most this round-trip time; over a longer one it is
/// larger in proportion, so that a flow may always carry 15 Gbit/s. More would only wait in the queue: what
/// shares the socket, and the processor's cache, with a bulk transfer would have to wait longer.
const FLOW_MAX: u32 = 384 << 10;
const FLOW_RTT: Duration = Duration::from_micros(200);

/// Divisor of the part of the queue's capacity by which drops lower what is divided, and of the part by which
/// each interval without drops raises it again: down by a quarter at most once in an interval, and from
/// nothing to all in 2.56 s.
const LOWERED_BY: u32 = 4;
const RAISED_BY: u32 = 256;

/// Divides the queue among the flows that arrive at the same time.
#[derive(Debug)]
pub(crate) struct ReceiveQueue {
    /// Bytes of packets that the queue should hold; `u32::MAX` if there is no limit.
    capacity: u32,
    /// Bytes of packets that are divided: fewer than `capacity` after the queue has overflowed.
    bytes: u32,
    /// Start of the interval in which `bytes` was last adapted to drops.
    adapted: Time,
    /// End of the current interval.
    until: Time,
    /// Number of the current interval, never 0.
    interval: u8,
    /// Flows counted in the current interval, and in the one before.
    flows: u32,
    flows_before: u32,
}

impl ReceiveQueue {
    /// Creates a queue of this many bytes; `u32::MAX` means that there is no limit.
    pub(crate) const fn new(bytes: u32) -> Self {
        Self {
            capacity: bytes,
            bytes,
            adapted: Time::ZERO,
            until: Time::ZERO,
            interval: 1,
            flows: 0,
            flows_before: 0,
        }
    }

    /// False if nothing limits the queue.
    #[inline]
    pub(crate) const fn is_limited(&self) -> bool {
        self.capacity != u32::MAX
    }

    /// Returns the share in bytes of a flow over a path with this round-trip time.
    fn share(&self, rtt: Duration) -> u32 {
        let flows = self.flows.max(self.flows_before).max(1);
        (self.bytes / flows).min(flow_max(rtt)).max(SHARE_MIN)
    }

    /// Records that the queue has overflowed since the last such call. The kernel charges a packet with more
    /// than its bytes, depending on the network device, and so a queue may hold less than its capacity.
    pub(crate) fn on_drops(&mut self, now: Time) {
        if self.is_limited() && now >= self.adapted + INTERVAL {
            self.adapted = now;
            self.bytes = (self.bytes - self.bytes / LOWERED_BY).max(SHARE_MIN);
        }
    }

    fn begin_interval(&mut self, now: Time) {
        // After a pause nothing is known of the interval before.
        let in_a_row = now < self.until + INTERVAL;
        self.flows_before = if in_a_row { self.flows } else { 0 };
        self.flows = 0;
        self.until = now + INTERVAL;
        if self.bytes < self.capacity && now >= self.adapted + INTERVAL {
            self.bytes = self.bytes.saturating_add(self.capacity / RAISED_BY + 1).min(self.capacity);
        }
        self.interval = self.interval.checked_add(1).unwrap_or(1);
    }
}

/// Returns the maximum share of a flow in bytes over a path with this round-trip time.
fn flow_max(rtt: Duration) -> u32 {
    let bytes = u64::from(FLOW_MAX) * rtt.max(FLOW_RTT).as_micros() as u64 / FLOW_RTT.as_micros() as u64;
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// The share of an association.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// In units of `UNIT` bytes; `u16::MAX` if there is no limit.
    units: u16,
    /// The interval of the latest packets, 0 if there were none.
    interval: u8,
    /// Number of packets in that interval, saturating.
    packets: u8,
}

/// Unit of a share in bytes, which keeps it small.
const UNIT: u32 = 256;

impl Default for Share {
    fn default() -> Self {
        Self { units: u16::MAX, interval: 0, packets: 0 }
    }
}

impl Share {
    /// Counts `packets` that arrived, and updates the share, which is at least `least` bytes. There is no limit if the
    /// path, with a round-trip time of `rtt`, is not short, or if too few packets arrive.
    pub(crate) fn update(
        &mut self,
        now: Time,
        queue: &mut ReceiveQueue,
        rtt: Option<Duration>,
        packets: u8,
        least: u32,
    ) {
        let Some(rtt) = rtt.filter(|rtt| *rtt < SHORT_RTT) else {
            self.units = u16::MAX;
            return;
        };
        if now >= queue.until {
            queue.begin_interval(now);
        }
        if self.interval != queue.interval {
            if self.packets < FLOW_MIN {
                self.units = u16::MAX;
            }
            (self.interval, self.packets) = (queue.interval, 0);
        }
        let was_flow = self.packets >= FLOW_MIN;
        self.packets = self.packets.saturating_add(packets);
        if self.packets >= FLOW_MIN {
            queue.flows = queue.flows.saturating_add(u32::from(!was_flow));
            self.units = Self::of(queue.share(rtt).max(least)).units;
        }
    }

    /// Returns a share of at least this many bytes, before any packet. One that is too large for the unit has no limit.
    pub(crate) fn of(bytes: u32) -> Self {
        Self { units: u16::try_from(bytes.div_ceil(UNIT)).unwrap_or(u16::MAX), ..Self::default() }
    }

    /// True if there is no limit.
    #[inline]
    pub(crate) const fn is_whole(self) -> bool {
        self.units == u16::MAX
    }

    /// Returns the share in bytes; `u32::MAX` if there is no limit.
    #[inline]
    pub(crate) const fn bytes(self) -> u32 {
        if self.is_whole() { u32::MAX } else { self.units as u32 * UNIT }
    }
}

#[cfg(test)]
mod tests;
