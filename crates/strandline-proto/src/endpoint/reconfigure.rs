//! Requests of the application to reconfigure streams (RFC 6525 section 6.3).

use super::Endpoint;
use crate::association::reconfig;
use crate::error::ReconfigureError;
use crate::event::AssociationId;
use crate::reconfiguration::{StreamDirection, Streams};
use crate::time::Time;

/// What an application asks the peer of an association for. One request is in progress at a time. An event reports the
/// outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reconfigure {
    /// A reset of streams: their sequence numbers begin at 0 again. For outgoing streams it takes place once the peer
    /// has acknowledged what was given to `send` before; what is given afterwards waits for the outcome, which
    /// `Event::StreamsReset` reports.
    ResetStreams(StreamDirection, Streams),
    /// A reset of the sequence numbers of all streams in both directions, and of the TSNs. It takes place once the peer
    /// has acknowledged what was given to `send` before; what is given afterwards waits for the outcome, which
    /// `Event::AssociationReset` reports. Messages must be received meanwhile: the peer answers once its own data is
    /// acknowledged.
    ResetAssociation,
    /// More streams, behind the existing ones. `Event::StreamsChanged` reports the outcome.
    AddStreams {
        /// Number of outgoing streams to add.
        outgoing: u16,
        /// Number of incoming streams to add.
        incoming: u16,
    },
}

impl Reconfigure {
    /// Begins the request.
    ///
    /// # Errors
    /// Fails if the peer does not support it, another request is in progress, the association is not established, for
    /// a stream that does not exist, if there would be too many streams, and for a reset of all numbers within 30
    /// seconds of an earlier one.
    pub fn ask(self, endpoint: &mut Endpoint, now: Time, id: AssociationId) -> Result<(), ReconfigureError> {
        let (association, cx) = endpoint.live(id)?;
        match self {
            Self::ResetStreams(direction, streams) => {
                reconfig::reset_streams(association, cx, now, direction, streams)?;
            }
            Self::ResetAssociation => reconfig::reset_association(association, cx, now)?,
            Self::AddStreams { outgoing, incoming } => {
                reconfig::add_streams(association, cx, now, outgoing, incoming)?;
            }
        }
        endpoint.update_after_change(now, id.slot);
        Ok(())
    }
}
