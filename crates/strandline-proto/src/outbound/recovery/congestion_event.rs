//! Congestion events of a path. An event begins when a loss is detected, when T3-rtx expires, or when the network
//! marks a packet. Everything sent before that and lost belongs to the event, even if the loss shows much later. The
//! loss of anything sent after it, for the first time or again, begins another event (RFC 9002 section 7.3.2; RFC
//! 5681 section 4.3: losses in two successive windows, and the loss of a retransmission, lower the window twice).
//! There is at most one event per round trip, because it takes a round trip to miss what was sent after its
//! beginning.

#[cfg(test)]
mod tests;

use crate::number::Tsn;

/// A transmission of a chunk, by its position among all of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transmission {
    /// The first one.
    First(Tsn),
    /// A later one, by its number in the log.
    Again(u64),
}

/// A point in the order of transmissions: what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    pub(crate) tsn: Tsn,
    pub(crate) again: u64,
}

impl Moment {
    /// True if the transmission was after this point.
    pub(crate) fn is_before(&self, sent: Transmission) -> bool {
        match sent {
            Transmission::First(tsn) => tsn.is_at_or_after(self.tsn),
            Transmission::Again(number) => number >= self.again,
        }
    }

    /// True if everything sent before is acknowledged.
    pub(crate) fn is_past(&self, cumulative: Tsn) -> bool {
        cumulative.next().is_at_or_after(self.tsn)
    }
}
