//! Where a future waits.

use strandline_proto::event::AssociationId;
use strandline_proto::number::StreamId;

/// Names a queue of waiting tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// For a message of an association.
    Read(AssociationId),
    /// For a message of a stream with a reader of its own.
    ReadStream(AssociationId, StreamId),
    /// For room in an association's send buffer.
    Write(AssociationId),
    /// For room in an association's send buffer, by a poll function: its caller may stop calling without a word.
    WritePolled(AssociationId),
    /// For an association to be established or to end.
    Change(AssociationId),
    /// For a notification of an association.
    Notification(AssociationId),
    /// For an association to accept.
    Accept(u32),
    /// For a message of any association of a one-to-many endpoint.
    ReadMany(u32),
    /// For a notification of any association of a one-to-many endpoint.
    NotificationMany(u32),
    /// For the last association of the shard to end.
    Idle,
}

impl Place {
    /// The association in whose send buffer it waits for room.
    pub(crate) fn written(self) -> Option<AssociationId> {
        match self {
            Self::Write(id) | Self::WritePolled(id) => Some(id),
            _ => None,
        }
    }

    /// Only one task is woken for each thing that happens here, so one that goes away passes its turn on.
    pub(crate) fn wakes_one(self) -> bool {
        matches!(self, Self::Accept(_) | Self::ReadMany(_))
    }
}
