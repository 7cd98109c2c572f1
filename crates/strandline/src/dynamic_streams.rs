//! Which streams are opened and closed at run time.

use strandline_proto::number::StreamId;

/// Which streams of an association are dynamic: opened and closed at run time. Both sides must set the same
/// `first`, and parities that don't collide.
///
/// ```
/// use strandline::{DynamicStreams, StreamId};
///
/// // Streams 0 to 9 are for `send` and `recv`.
/// let streams = DynamicStreams { first: StreamId(10), ..DynamicStreams::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DynamicStreams {
    /// The first one. All streams from there on are dynamic, and those before are not. Default 1.
    pub first: StreamId,
    /// Which of them this side opens. Default [`Parity::ByTags`].
    pub parity: Parity,
    /// Maximum number of streams that the peer has opened and that were not accepted. Further ones are
    /// refused: their writers get [`SendError::Stopped`](crate::SendError::Stopped), and their readers
    /// [`RecvError::Unfinished`](crate::RecvError::Unfinished). Each takes about 500 bytes besides its
    /// messages. Default 16,384.
    pub backlog: usize,
    /// Whether small messages that wait for their reader may be joined, since they are parts of a byte
    /// stream: of a stream of which more than 64 wait, whole ordered ones with the same payload protocol
    /// identifier. Memory of unread data is then close to its length, whatever its sender writes at a time.
    /// Default false.
    pub joins_unread: bool,
}

impl Default for DynamicStreams {
    fn default() -> Self {
        Self { first: StreamId(1), parity: Parity::default(), backlog: 16_384, joins_unread: false }
    }
}

/// Which numbers one side uses for streams that it opens: both may open streams at once, without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parity {
    /// The side with the lower verification tag uses the even ones, the other side the odd ones.
    #[default]
    ByTags,
    /// Even ones. The peer must use odd ones: for protocols that say so, with peers of other stacks.
    Even,
    /// Odd ones. The peer must use even ones.
    Odd,
}
