//! New data that tests whether a time-out was spurious (F-RTO, RFC 5682).

/// Packets of new data that may be sent beyond the window, to test a time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FrtoPackets(u8);

impl FrtoPackets {
    /// None.
    pub(crate) const NO: Self = Self(0);

    /// Allows `packets` packets (RFC 5682 step 2b).
    pub(crate) const fn packets(packets: u8) -> Self {
        Self(packets)
    }

    /// True if a packet may be sent.
    pub(crate) const fn is_some(self) -> bool {
        self.0 > 0
    }

    /// Records that a packet was sent.
    pub(super) const fn on_sent(&mut self, first_transmission: bool) {
        self.0 = self.0.saturating_sub(first_transmission as u8);
    }
}
