//! What a gateway reports of its direction of an association.

/// A report, in 16 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Report {
    /// Packets lost of a million sent lately; `None` if too few were sent.
    pub(crate) lost_per_million: Option<u32>,
    /// Congestion window in bytes.
    pub(crate) window: u32,
    /// Bytes in flight, and those that wait to be sent.
    pub(crate) queued: u32,
    /// Size of a packet in bytes.
    pub(crate) packet: u16,
}

impl Report {
    pub(crate) const LEN: usize = 16;

    pub(crate) fn encode(&self) -> [u8; Self::LEN] {
        let mut bytes = [0; Self::LEN];
        let numbers =
            [self.lost_per_million.unwrap_or(u32::MAX), self.window, self.queued, self.packet.into()];
        for (place, number) in bytes.chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_be_bytes());
        }
        bytes
    }

    /// Parses a report, behind which later versions may add something; `None` if it is too short.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut numbers = bytes.get(..Self::LEN)?.chunks_exact(4).filter_map(|part| part.try_into().ok());
        let mut next = || numbers.next().map(u32::from_be_bytes);
        let lost = next()?;
        Some(Self {
            lost_per_million: (lost <= 1_000_000).then_some(lost),
            window: next()?,
            queued: next()?,
            packet: u16::try_from(next()?).unwrap_or(u16::MAX),
        })
    }
}
