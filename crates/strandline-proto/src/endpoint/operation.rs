//! Whether an operation with an association's messages would have to wait, for sockets that report readiness.

use super::Endpoint;
use crate::association::check_writable;
use crate::error::SendError;
use crate::event::AssociationId;
use crate::number::StreamId;
use crate::outbound::stream_credit::parked_room;

/// What an application does with the messages of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// [`Endpoint::recv`].
    Recv,
    /// [`Endpoint::send`].
    Send,
    /// [`Endpoint::send`] on a stream, which may wait for credit while others don't.
    SendOn(StreamId),
}

impl Operation {
    /// Returns whether the operation would have to wait. After true, `Event::Readable`, `Event::Writable` or
    /// `Event::StreamWritable` follows once it would not. To receive waits if there is no message; to send
    /// waits if the send buffer has no room for a short message, or for the one that it refused last.
    pub fn would_block(self, endpoint: &mut Endpoint, id: AssociationId) -> bool {
        let pressure = endpoint.context.send_pressure();
        let Some(association) = endpoint.table.by_id_mut(id) else { return self == Self::Recv };
        if let Self::SendOn(stream) = self
            && let Some(has_room) = parked_room(&mut association.outbound, stream, &association.config)
        {
            return !has_room;
        }
        match self {
            Self::Send | Self::SendOn(_) => {
                matches!(check_writable(association, pressure), Err(SendError::WouldBlock))
            }
            Self::Recv => {
                let empty = !association.inbound.readable();
                if empty {
                    association.flags_mut().readable_given = false;
                }
                empty
            }
        }
    }
}
