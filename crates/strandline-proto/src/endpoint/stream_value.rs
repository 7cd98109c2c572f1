//! The parameter of a stream for the scheduler (RFC 8260 section 4.3.3).

use super::Endpoint;
use crate::error::{StreamValueError, UnknownAssociation};
use crate::event::AssociationId;
use crate::number::StreamId;
use crate::outbound::scheduling;

/// The priority or weight of an outgoing stream, as the association's
/// [`StreamScheduler`](crate::config::StreamScheduler) understands it. It is kept if another scheduler is
/// set, and if the peer restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StreamValue {
    /// The stream.
    pub stream: StreamId,
    /// Its value.
    pub value: u16,
}

impl StreamValue {
    /// Sets the value. It applies to what is queued, too: from the next message or fragment on.
    ///
    /// # Errors
    /// Fails if the association has ended or does not have the stream.
    pub fn set(self, endpoint: &mut Endpoint, id: AssociationId) -> Result<(), StreamValueError> {
        let (association, _) = endpoint.live(id)?;
        scheduling::set_value(&mut association.outbound, self.stream, self.value)
    }

    /// Returns the value of a stream: 0 if none was set.
    ///
    /// # Errors
    /// Fails if the association does not exist or does not have the stream.
    pub fn of(endpoint: &Endpoint, id: AssociationId, stream: StreamId) -> Result<Self, StreamValueError> {
        let association = endpoint.table.by_id(id).ok_or(UnknownAssociation)?;
        Ok(Self { stream, value: scheduling::value(&association.outbound, stream)? })
    }
}
