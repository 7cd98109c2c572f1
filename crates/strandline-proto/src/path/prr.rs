//! Proportional rate reduction (RFC 9937). In recovery, arriving data clocks what is sent, so that the flight falls
//! to the slow start threshold by the end of the recovery instead of at once or with pauses and bursts.

#[cfg(test)]
mod tests;

/// Maximum growth for one SACK while the flight is below the threshold, in packets, as in slow start.
const GROWTH_MAX: u32 = 64;

/// The state of one recovery; `Prr::default()` outside of recovery. Bytes are those of DATA chunks, including headers
/// and padding.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Prr {
    /// RecoverFS: bytes in flight when the recovery began; 0 outside of recovery.
    flight_at_start: u32,
    /// Bytes delivered since then.
    delivered: u32,
    /// Bytes sent since then.
    sent: u32,
    /// Bytes that may be in flight.
    window: u32,
}

/// The effect of a SACK during recovery. Amounts are in bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Newly acknowledged.
    pub(super) acked: u32,
    /// In flight now.
    pub(super) flight: u32,
    /// The slow start threshold, which the window approaches.
    pub(super) threshold: u32,
    /// True if the cumulative ack point advanced and nothing more was declared lost.
    pub(super) safe: bool,
    /// The size of the largest DATA chunk.
    pub(super) pmdcs: u32,
}

impl Prr {
    /// Begins a recovery. `flight` is the number of bytes in flight before its first loss was known.
    pub(super) fn begin(flight: u32) -> Self {
        Self { flight_at_start: flight.max(1), ..Self::default() }
    }

    pub(super) const fn is_active(&self) -> bool {
        self.flight_at_start != 0
    }

    /// Returns the number of bytes that may be in flight.
    pub(super) const fn window(&self) -> u32 {
        self.window
    }

    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.sent = self.sent.saturating_add(bytes);
    }

    /// Records that `bytes` were abandoned, so that `flight` is left. They leave no room for other data: only
    /// what arrives does. But a packet of `pmdcs` bytes may be sent when nothing is in flight, as after a
    /// SACK.
    pub(super) fn on_abandoned(&mut self, bytes: u32, flight: u32, pmdcs: u32) {
        let least = if flight == 0 { pmdcs } else { flight };
        self.window = self.window.saturating_sub(bytes).max(least);
    }

    pub(super) fn on_sack(&mut self, step: Step) {
        self.delivered = self.delivered.saturating_add(step.acked);
        let allowed = if step.flight > step.threshold {
            let share = u64::from(self.delivered) * u64::from(step.threshold);
            let share = share.div_ceil(u64::from(self.flight_at_start));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_sub(self.sent)
        } else {
            let replaced = self.delivered.saturating_sub(self.sent).max(step.acked);
            // Double what arrived, as in slow start. RFC 9937 adds one packet per acknowledgement, because TCP gets
            // one for each packet or two. A SACK may cover many packets, and one packet per SACK would take minutes.
            let grown = step.acked.clamp(step.pmdcs, step.pmdcs.saturating_mul(GROWTH_MAX));
            // Chunks of another path may have advanced the cumulative ack point.
            let grows = step.safe && step.acked > 0;
            let limit = if grows { replaced.saturating_add(grown) } else { replaced };
            limit.min(step.threshold - step.flight)
        };
        // The first retransmission is always sent, and so is one when nothing is in flight: no acknowledgement would
        // arrive to release it.
        let least = if self.sent == 0 || step.flight == 0 { step.pmdcs } else { 0 };
        self.window = step.flight.saturating_add(allowed.max(least));
    }
}
