//! Gaps in an association's streams: messages that either side gave up (RFC 3758).

use super::Endpoint;
use crate::event::AssociationId;
use crate::inbound::forward;
use crate::number::{Ssn, StreamId};
use crate::stats::AbandonedStats;

/// The gaps in the streams of an association.
#[derive(Debug, Clone, Copy)]
pub struct Gaps<'a> {
    endpoint: &'a Endpoint,
    id: AssociationId,
}

impl Endpoint {
    /// Returns the gaps in the streams of an association.
    #[must_use]
    pub fn gaps(&self, id: AssociationId) -> Gaps<'_> {
        Gaps { endpoint: self, id }
    }
}

impl Gaps<'_> {
    /// Returns the number of messages that this side gave up because of their limits; `None` if the association does
    /// not exist.
    #[must_use]
    pub fn abandoned(self) -> Option<AbandonedStats> {
        let association = self.endpoint.table.by_id(self.id)?;
        Some(association.extras.as_ref().map(|extras| extras.abandoned.clone()).unwrap_or_default())
    }

    /// Returns the SSN of the next ordered message of an incoming stream that becomes readable; `None` if the
    /// association does not exist. Those that `recv` returns until then have earlier ones. With I-DATA (RFC
    /// 8260), it has the low 16 bits of the message identifier.
    #[must_use]
    pub fn next_ssn(self, stream: StreamId) -> Option<Ssn> {
        let association = self.endpoint.table.by_id(self.id)?;
        Some(forward::next_ssn(&association.inbound, stream))
    }
}
