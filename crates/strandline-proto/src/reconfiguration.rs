//! Requests to reconfigure the streams of an association (RFC 6525), and what becomes of them.

use strandline_wire::number::{Ssn, StreamId};

/// Maximum number of streams that a request to reset lists. [`Streams::All`] has no limit.
pub const STREAMS_LISTED_MAX: usize = 256;

/// The streams of one direction that a request concerns.
///
/// ```
/// use strandline_proto::number::StreamId;
/// use strandline_proto::reconfiguration::Streams;
///
/// let streams = Streams::from([StreamId(7), StreamId(1), StreamId(7)]);
/// assert!(streams.contains(StreamId(7)) && !streams.contains(StreamId(2)));
/// assert_eq!(streams, Streams::Listed(vec![StreamId(1), StreamId(7)]));
/// assert!(Streams::All.contains(StreamId(2)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Streams {
    /// All streams of the direction.
    All,
    /// These streams, in ascending order, each once, as `from` builds the list.
    Listed(Vec<StreamId>),
}

impl Streams {
    /// Returns whether a stream is among them.
    #[must_use]
    pub fn contains(&self, stream: StreamId) -> bool {
        match self {
            Self::All => true,
            Self::Listed(list) => list.binary_search(&stream).is_ok(),
        }
    }

    /// Returns whether each stream of `other` is among them.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::All, _) => true,
            (Self::Listed(_), Self::All) => false,
            (Self::Listed(_), Self::Listed(list)) => list.iter().all(|stream| self.contains(*stream)),
        }
    }

    /// Returns the highest stream that is listed.
    pub(crate) fn highest(&self) -> Option<StreamId> {
        match self {
            Self::All => None,
            Self::Listed(list) => list.last().copied(),
        }
    }

    /// Returns the list; empty for all streams.
    pub(crate) fn list(&self) -> &[StreamId] {
        match self {
            Self::All => &[],
            Self::Listed(list) => list,
        }
    }
}

impl FromIterator<StreamId> for Streams {
    fn from_iter<I: IntoIterator<Item = StreamId>>(streams: I) -> Self {
        let mut list: Vec<_> = streams.into_iter().collect();
        list.sort_unstable();
        list.dedup();
        Self::Listed(list)
    }
}

impl From<StreamId> for Streams {
    fn from(stream: StreamId) -> Self {
        Self::Listed(vec![stream])
    }
}

impl<const N: usize> From<[StreamId; N]> for Streams {
    fn from(streams: [StreamId; N]) -> Self {
        streams.into_iter().collect()
    }
}

impl From<&[StreamId]> for Streams {
    fn from(streams: &[StreamId]) -> Self {
        streams.iter().copied().collect()
    }
}

/// The direction of streams, as this side sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamDirection {
    /// Streams that the peer sends on.
    Incoming,
    /// Streams that this side sends on.
    Outgoing,
    /// Streams of both directions.
    Both,
}

impl StreamDirection {
    /// Returns whether outgoing streams are concerned.
    #[must_use]
    pub const fn is_outgoing(self) -> bool {
        matches!(self, Self::Outgoing | Self::Both)
    }

    /// Returns whether incoming streams are concerned.
    #[must_use]
    pub const fn is_incoming(self) -> bool {
        matches!(self, Self::Incoming | Self::Both)
    }
}

/// What became of a request. A request of the peer is reported only if it was performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// It was performed.
    Performed,
    /// The peer had nothing to do for a request to reset incoming streams: they are at 0, or it is resetting them
    /// anyway, which is reported for itself.
    NothingToDo,
    /// The peer does not want to perform it.
    Denied,
    /// The peer could not perform it: it has another request in progress, or streams do not exist.
    Failed,
}

/// What happened to [dynamic streams](crate::endpoint::DynamicStreams).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DynamicStreamsEvent {
    /// Streams can be opened though the association is not established yet: the INIT ACK has come, which settles the
    /// number of streams, the extensions and which side opens which streams. If the peer has both sides set up anew
    /// with other tags, [`Event::Established`](crate::event::Event::Established) may come with another answer to
    /// the last question.
    Agreed,
    /// The peer has closed its direction of streams.
    Ended {
        /// The streams. Each has the SSN that its next message would have had, with I-DATA the low 16 bits of
        /// the message identifier. If messages before it did not arrive, the peer gave them up.
        streams: Vec<(StreamId, Ssn)>,
        /// Number of messages that `recv` still returns from before the end.
        unread: usize,
    },
    /// The peer has everything of streams that this side has closed. If it refused, their numbers can't be used again.
    Closed {
        /// The streams.
        streams: Vec<StreamId>,
        /// What became of the request.
        outcome: Outcome,
    },
    /// The peer asks this side to stop sending on streams.
    Stopped {
        /// The streams.
        streams: Vec<StreamId>,
        /// Number of messages that `recv` still returns from before the request.
        unread: usize,
    },
}

/// Which side has opened a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenedBy {
    /// This side.
    Us,
    /// The peer.
    Peer,
}

/// Which requests of a peer are performed (RFC 6525 section 6.3.1). By default none: applications that rely on
/// sequence numbers, or on the number of streams, must know that these change.
///
/// ```
/// use strandline_proto::config::{AssociationConfig, ExtensionsConfig};
/// use strandline_proto::reconfiguration::PeerRequests;
///
/// let peer_requests = PeerRequests { reset_streams: true, ..PeerRequests::NONE };
/// let extensions = ExtensionsConfig { peer_requests, ..ExtensionsConfig::default() };
/// let config = AssociationConfig { extensions, ..AssociationConfig::default() };
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerRequests {
    /// Resets of streams in either direction.
    pub reset_streams: bool,
    /// Resets of all sequence numbers, TSNs included.
    pub reset_association: bool,
    /// More streams. The incoming ones are limited by
    /// [`inbound_streams_max`](crate::config::AssociationConfig::inbound_streams_max), and the outgoing ones by
    /// `outbound_streams_max`. A stream costs nothing until it is used.
    pub add_streams: bool,
    /// Maximum number of outgoing streams after the peer has asked for more. Default 65,535.
    pub outbound_streams_max: u16,
}

impl PeerRequests {
    /// No request is performed.
    pub const NONE: Self = Self {
        reset_streams: false,
        reset_association: false,
        add_streams: false,
        outbound_streams_max: u16::MAX,
    };

    /// Every request is performed.
    pub const ALL: Self = Self {
        reset_streams: true,
        reset_association: true,
        add_streams: true,
        outbound_streams_max: u16::MAX,
    };
}

impl Default for PeerRequests {
    fn default() -> Self {
        Self::NONE
    }
}
