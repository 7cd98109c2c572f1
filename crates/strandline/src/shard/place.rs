//! The queues that futures wait in.

use strandline_proto::event::AssociationId;
use strandline_proto::number::StreamId;

use super::dynamic_streams::Key;

/// Names a queue of waiting tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// Waits for a message of an association.
    Read(AssociationId),
    /// Waits for a message of a stream with its own reader.
    ReadStream(AssociationId, StreamId),
    /// Waits for a message of a stream that is opened and closed at run time.
    ReadDynamic(AssociationId, Key),
    /// Waits for the end of the outgoing direction of such a stream.
    Finish(AssociationId, Key),
    /// Waits for such a stream of the peer.
    AcceptStream(AssociationId),
    /// Waits for the number of such a stream.
    OpenStream(AssociationId),
    /// Waits for room in an association's send buffer for a message of a stream.
    Write(AssociationId, StreamId),
    /// Waits for room in an association's send buffer, or that of a stream, by a poll function whose caller
    /// may stop calling without notice.
    WritePolled(AssociationId, Option<StreamId>),
    /// Waits for an association to be established or to end.
    Change(AssociationId),
    /// Waits for a notification of an association.
    Notification(AssociationId),
    /// Waits for an association to accept.
    Accept(u32),
    /// Waits for a message of any association of a one-to-many endpoint.
    ReadMany(u32),
    /// Watches whether there is an association to accept, without taking it.
    WatchAccept(u32),
    /// Watches whether there is a message of any association of a one-to-many endpoint, without taking it.
    WatchMany(u32),
    /// Waits for a notification of any association of a one-to-many endpoint.
    NotificationMany(u32),
    /// Waits for the last association of the shard to end.
    Idle,
}

impl Place {
    /// Returns the association in whose send buffer the task waits for room.
    pub(crate) fn written(self) -> Option<AssociationId> {
        match self {
            Self::Write(id, _) | Self::WritePolled(id, _) => Some(id),
            _ => None,
        }
    }

    /// Returns the stream that the task sends on.
    pub(crate) fn stream(self) -> Option<StreamId> {
        match self {
            Self::Write(_, stream) => Some(stream),
            Self::WritePolled(_, stream) => stream,
            _ => None,
        }
    }

    /// Returns whether only one task is woken for each event in this queue, so that a task that stops waiting
    /// must pass its turn on.
    pub(crate) fn wakes_one(self) -> bool {
        matches!(self, Self::Accept(_) | Self::AcceptStream(_) | Self::ReadMany(_))
    }
}
