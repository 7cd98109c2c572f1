//! A link's parameters.

use core::time::Duration;

use crate::loss::Loss;

/// Parameters of a link. The default is a perfect one: no delay, no limit, no fault.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkConfig {
    /// Time from the end of sending to arrival.
    pub delay: Duration,
    /// Added to the delay of each packet: uniform from zero to this. It does not change the order: a packet arrives no
    /// earlier than the one before it.
    pub jitter: Duration,
    /// Bits a second; 0 means no limit.
    pub rate_bps: u64,
    /// Bytes that may wait, the packet being sent included. Counts only where `rate_bps` is a limit. A packet is always
    /// taken into an empty queue.
    pub queue_bytes_max: usize,
    /// A packet that finds more bytes than this in the queue is marked, if it may be (explicit congestion notification):
    /// what switches do for DCTCP (RFC 8257 section 3.1). `usize::MAX`: none is.
    pub mark_bytes: usize,
    /// Longest packet in bytes; longer ones are dropped.
    pub size_max: usize,
    /// What is too long and may be fragmented is cut at this link, as a router does. A link's own decisions leave that to the
    /// caller, who knows what may be fragmented.
    pub cuts: bool,
    /// Which packets are lost. They are lost before the queue and take no sending time.
    pub loss: Loss,
    /// Which packets are held back so that others overtake them.
    pub reordering: Reordering,
    /// Probability that a packet arrives twice.
    pub duplication: f64,
    /// Probability, for each copy, that bits are flipped.
    pub corruption: f64,
}

/// Reordering: packets held back at random.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Reordering {
    /// Probability that a packet is held back.
    pub probability: f64,
    /// It is held back by a time uniform from zero to this.
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
    /// A link with a delay and nothing else.
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
