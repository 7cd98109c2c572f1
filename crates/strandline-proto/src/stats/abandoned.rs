//! Statistics of partial reliability (RFC 7496 sections 4.3 and 4.4).

use std::collections::BTreeMap;

use crate::event::{FailedMessage, FailureCause};
use crate::number::StreamId;

/// Number of messages that were abandoned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AbandonedCounts {
    /// Messages of which nothing was sent.
    pub unsent: u64,
    /// Messages of which at least a part was sent.
    pub sent: u64,
}

/// Messages abandoned by each policy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbandonedByPolicy {
    /// By [`Reliability::lifetime`](crate::reliability::Reliability::lifetime).
    pub lifetime: AbandonedCounts,
    /// By [`Reliability::retransmissions`](crate::reliability::Reliability::retransmissions).
    pub retransmissions: AbandonedCounts,
    /// By [`Reliability::priority`](crate::reliability::Reliability::priority).
    pub priority: AbandonedCounts,
}

/// What an association gave up since its set-up.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct AbandonedStats {
    /// Of all streams.
    pub all: AbandonedByPolicy,
    /// Of each stream on which a message was abandoned.
    pub streams: BTreeMap<StreamId, AbandonedByPolicy>,
    /// FORWARD TSN chunks sent.
    pub forward_tsns_sent: u64,
}

impl AbandonedByPolicy {
    fn count(&mut self, failed: &FailedMessage) {
        let counts = match failed.cause {
            FailureCause::Expired => &mut self.lifetime,
            FailureCause::RetransmissionsExhausted => &mut self.retransmissions,
            FailureCause::LowPriority => &mut self.priority,
            FailureCause::AssociationEnded
            | FailureCause::Restarted
            | FailureCause::InvalidStream
            | FailureCause::StreamReset => return,
        };
        let count = if failed.sent { &mut counts.sent } else { &mut counts.unsent };
        *count += 1;
    }
}

impl AbandonedStats {
    /// Counts a message that was abandoned.
    pub(crate) fn count(&mut self, failed: &FailedMessage) {
        if failed.cause == FailureCause::StreamReset {
            return; // No limit of its own ended it.
        }
        self.all.count(failed);
        self.streams.entry(failed.info.stream).or_default().count(failed);
    }
}
