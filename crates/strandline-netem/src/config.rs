//! Parameters of a link.

use core::time::Duration;

use crate::loss::Loss;

/// Parameters of a link. The default link is perfect: no delay, no limits, no faults.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Time from the end of transmission to arrival.
    pub delay: Duration,
    /// Upper bound of a random extra delay for each packet, uniform from zero. Jitter never reorders: a
    /// packet arrives no earlier than the one before it.
    pub jitter: Duration,
    /// Rate in bits per second; 0 means no limit.
    pub rate_bps: u64,
    /// Maximum number of bytes in the queue, the packet in transmission included. Applies only if `rate_bps`
    /// sets a limit. An empty queue accepts any packet.
    pub queue_bytes_max: usize,
    /// Queue length in bytes beyond which an arriving packet is marked (explicit congestion notification) if
    /// its sender allows it, as switches do for DCTCP (RFC 8257 section 3.1). `usize::MAX` marks none.
    pub mark_bytes: usize,
    /// Maximum packet length in bytes; longer packets are dropped.
    pub size_max: usize,
    /// Whether packets longer than `size_max` that may be fragmented are fragmented at this link, as by a
    /// router. A link's own decisions leave that to the caller, who knows which packets may be fragmented.
    pub cuts: bool,
    /// Model of packet loss. Packets are lost before the queue and take no transmission time.
    pub loss: Loss,
    /// Model of reordering: packets held back so that later ones overtake them.
    pub reordering: Reordering,
    /// Probability that a packet arrives twice.
    pub duplication: f64,
    /// Probability, for each copy, that bits are flipped.
    pub corruption: f64,
}

/// Reordering model: packets are held back at random.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reordering {
    /// Probability that a packet is held back.
    pub probability: f64,
    /// Upper bound of the time for which a packet is held back, uniform from zero.
    pub extra_delay_max: Duration,
}

impl Default for LinkConfig {
    fn default() -> Self {
        Self {
            delay: Duration::ZERO,
            jitter: Duration::ZERO,
            rate_bps: 0,
            queue_bytes_max: usize::MAX,
            mark_bytes: usize::MAX,
            size_max: usize::MAX,
            cuts: false,
            loss: Loss::None,
            reordering: Reordering::default(),
            duplication: 0.0,
            corruption: 0.0,
        }
    }
}

impl LinkConfig {
    /// Returns a link with a delay and no other limit or fault.
    #[must_use]
    pub fn with_delay(delay: Duration) -> Self {
        Self { delay, ..Self::default() }
    }

    /// The configuration with other losses.
    #[must_use]
    pub fn loss(self, loss: Loss) -> Self {
        Self { loss, ..self }
    }
}
