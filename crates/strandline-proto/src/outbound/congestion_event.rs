//! Congestion events of a path. One begins when a loss is found, when T3-rtx expires, or when the network marks what was
//! sent. Whatever was sent before that moment and turns out to be lost belongs to it, also if that shows much later; the loss
//! of what was sent after it, for the first time or again, begins another one (RFC 9002 section 7.3.2; RFC 5681 section
//! 4.3: losses in two successive windows, and the loss of a retransmission, lower the window twice). So there is one in each
//! round trip at most: what was sent after its beginning takes that long to be missed.

#[cfg(test)]
mod tests;

use crate::number::Tsn;

/// A transmission of a chunk, by its place among all of its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// The first one.
    Once(Tsn),
    /// A later one, by its number in the log.
    Again(u64),
}

/// A moment in the order of transmissions: what comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) tsn: Tsn,
    pub(super) again: u64,
}

impl Moment {
    /// It was sent after this moment.
    pub(super) fn is_before(&self, sent: Sent) -> bool {
        match sent {
            Sent::Once(tsn) => tsn.is_at_or_after(self.tsn),
            Sent::Again(number) => number >= self.again,
        }
    }

    /// All that had been sent is acknowledged.
    pub(super) fn is_past(&self, cumulative: Tsn) -> bool {
        cumulative.next().is_at_or_after(self.tsn)
    }
}
