//! What a link has done so far.

/// Counters of a link. Every packet offered is counted in exactly one of `delivered`, `dropped_cut`, `dropped_size`,
/// `dropped_loss` and `dropped_queue`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LinkStats {
    /// Packets offered.
    pub offered: u64,
    /// Bytes offered.
    pub offered_bytes: u64,
    /// Packets that arrive; a duplicate is not counted here.
    pub delivered: u64,
    /// Their bytes.
    pub delivered_bytes: u64,
    /// Packets dropped because the link was cut.
    pub dropped_cut: u64,
    /// Packets dropped because they were too long for the link.
    pub dropped_size: u64,
    /// Packets that the loss model took.
    pub dropped_loss: u64,
    /// Packets dropped because the queue was full.
    pub dropped_queue: u64,
    /// Second copies made.
    pub duplicated: u64,
    /// Packets that met congestion, whether they may be marked or not.
    pub marked: u64,
    /// Copies damaged.
    pub corrupted: u64,
    /// Packets that a later one overtook.
    pub reordered: u64,
    /// Most bytes that were in the queue at once, the packet being sent included.
    pub queue_bytes_max: u64,
    /// Most packets that were in the queue at once, the one being sent included.
    pub queue_packets_max: u64,
}

impl LinkStats {
    /// Packets dropped, whatever the reason.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_cut + self.dropped_size + self.dropped_loss + self.dropped_queue
    }
}
