//! Counters of a link.

/// Counters of a link. Every packet offered is counted in exactly one of `delivered`, `dropped_cut`,
/// `dropped_size`, `dropped_loss` and `dropped_queue`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered.
    pub offered: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets that arrive, duplicates excluded.
    pub delivered: u64,
    /// Bytes of the packets that arrive, duplicates excluded.
    pub delivered_bytes: u64,
    /// Packets dropped because the link was cut.
    pub dropped_cut: u64,
    /// Packets dropped because they were too long for the link.
    pub dropped_size: u64,
    /// Packets that the loss model dropped.
    pub dropped_loss: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Packets that were duplicated.
    pub duplicated: u64,
    /// Packets that met congestion, whether their sender allows marks or not.
    pub marked: u64,
    /// Copies that were corrupted.
    pub corrupted: u64,
    /// Packets that a later one overtook.
    pub reordered: u64,
    /// Maximum number of bytes in the queue at once, the packet in transmission included.
    pub queue_bytes_max: u64,
    /// Maximum number of packets in the queue at once, the packet in transmission included.
    pub queue_packets_max: u64,
}

impl LinkStats {
    /// Returns the number of packets dropped for any reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_cut + self.dropped_size + self.dropped_loss + self.dropped_queue
    }
}
