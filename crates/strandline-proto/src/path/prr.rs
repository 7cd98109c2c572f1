//! Proportional rate reduction (RFC 9937): in recovery, what is sent is paced by what arrives, so that the flight comes
//! down to the slow start threshold by the end of the recovery, neither at once nor with pauses and bursts.

#[cfg(test)]
mod tests;

/// What one SACK may add while less is in flight than the threshold, in packets: as in slow start.
const GROWTH_MAX: u32 = 64;

/// The state of one recovery; `Prr::default()` outside of any. Bytes of DATA chunks, headers and padding included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Prr {
    /// RecoverFS: in flight when the recovery began. 0: there is none.
    flight_at_start: u32,
    /// Arrived since then.
    delivered: u32,
    /// Sent since then.
    sent: u32,
    /// May be in flight.
    window: u32,
}

/// What a SACK during recovery did.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    /// Newly acknowledged.
    pub(super) acked: u32,
    /// In flight now.
    pub(super) flight: u32,
    /// The slow start threshold, which is where the window goes.
    pub(super) threshold: u32,
    /// The cumulative ack point moved and nothing more was found lost.
    pub(super) safe: bool,
    /// The largest DATA chunk.
    pub(super) pmdcs: u32,
}

impl Prr {
    /// A recovery begins with so much in flight before its first loss was known.
    pub(super) fn begin(flight: u32) -> Self {
        Self { flight_at_start: flight.max(1), ..Self::default() }
    }

    pub(super) const fn is_active(&self) -> bool {
        self.flight_at_start != 0
    }

    /// What may be in flight.
    pub(super) const fn window(&self) -> u32 {
        self.window
    }

    pub(super) fn on_sent(&mut self, bytes: u32) {
        self.sent = self.sent.saturating_add(bytes);
    }

    pub(super) fn on_sack(&mut self, step: Step) {
        self.delivered = self.delivered.saturating_add(step.acked);
        let allowed = if step.flight > step.threshold {
            let share = u64::from(self.delivered) * u64::from(step.threshold);
            let share = share.div_ceil(u64::from(self.flight_at_start));
            u32::try_from(share).unwrap_or(u32::MAX).saturating_sub(self.sent)
        } else {
            let replaced = self.delivered.saturating_sub(self.sent).max(step.acked);
            // As slow start: twice what arrived. RFC 9937 adds a packet for each acknowledgement, of which TCP gets one for
            // each packet or two; a SACK may stand for many, and a packet more for each would take minutes.
            let grown = step.acked.clamp(step.pmdcs, step.pmdcs.saturating_mul(GROWTH_MAX));
            // What moved the cumulative ack point may have gone by another path.
            let grows = step.safe && step.acked > 0;
            let limit = if grows { replaced.saturating_add(grown) } else { replaced };
            limit.min(step.threshold - step.flight)
        };
        // The first retransmission goes whatever the arithmetic, and so does one when nothing is in flight: no
        // acknowledgement would come to let any go.
        let least = if self.sent == 0 || step.flight == 0 { step.pmdcs } else { 0 };
        self.window = step.flight.saturating_add(allowed.max(least));
    }
}
