//! Notifications: events of an association other than messages (RFC 9260 section 11.2).

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::Bytes;
use strandline_proto::authentication::AuthenticationEvent;
use strandline_proto::dynamic_addresses::{AddressOutcome, AddressRequest};
use strandline_proto::event::{AssociationId, Event, FailedMessage, PathChange};
use strandline_proto::number::{StreamId, Tsn};
use strandline_proto::reconfiguration::{Outcome, StreamDirection, Streams};
use strandline_proto::stats::AssociationStats;

use crate::cause::ErrorCause;
use crate::engine::Engine;
use crate::error::Ended;
use crate::wait::WaitQueue;

/// An event of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Notification {
    /// The association is established.
    #[non_exhaustive]
    Established {
        /// True if the peer set up the association.
        incoming: bool,
        /// Negotiated number of outgoing streams.
        outbound_streams: u16,
        /// Negotiated number of incoming streams.
        inbound_streams: u16,
        /// The peer's addresses, the primary one first: IP address and encapsulation port (0 on raw IP).
        addresses: Vec<SocketAddr>,
    },
    /// The peer lost its state (it crashed or was restarted) and set up the association anew. Messages that
    /// were not acknowledged are reported as failed; sequence numbers start again. A message of which only
    /// parts have arrived will not be completed. A shutdown that was asked for goes on with the new
    /// association.
    Restarted,
    /// The state of a path changed.
    #[non_exhaustive]
    PathChanged {
        /// The peer's address.
        address: SocketAddr,
        /// The change.
        change: PathChange,
    },
    /// A message that was accepted for sending was not delivered, or may not have been.
    SendFailed(FailedMessage),
    /// Sequence numbers of streams begin anew, because one side [asked for it](crate::Control::reset_streams), or what
    /// this side asked for was refused (RFC 6525 section 6.1.1). A [`RecvStream`](crate::RecvStream) of such a stream
    /// gets an error at the position of the reset.
    #[non_exhaustive]
    StreamsReset {
        /// The direction of the streams.
        direction: StreamDirection,
        /// The streams.
        streams: Streams,
        /// What became of the request.
        outcome: Outcome,
    },
    /// All sequence numbers begin anew, because one side [asked for it](crate::Control::reset_association), or what
    /// this side asked for was refused (RFC 6525 section 6.1.2).
    #[non_exhaustive]
    AssociationReset {
        /// What became of the request.
        outcome: Outcome,
        /// The next TSN that this side sends.
        local_tsn: Tsn,
        /// The next TSN that is expected of the peer.
        peer_tsn: Tsn,
    },
    /// The number of streams has changed, because one side [asked for it](crate::Control::add_streams), or what this
    /// side asked for was refused (RFC 6525 section 6.1.3).
    #[non_exhaustive]
    StreamsChanged {
        /// What became of the request.
        outcome: Outcome,
        /// Number of outgoing streams.
        outbound_streams: u16,
        /// Number of incoming streams.
        inbound_streams: u16,
    },
    /// The peer gave up a message of which a part was or will be received, so that its rest is lost (RFC
    /// 3758). The reader gets [`RecvError::Abandoned`](crate::RecvError::Abandoned) after the last part. RFC
    /// 6458 calls it SCTP_PARTIAL_DELIVERY_EVENT.
    #[non_exhaustive]
    PartialDeliveryAborted {
        /// The stream of the message.
        stream: StreamId,
    },
    /// A shared key came into use or went out of use, or the peer does not support authentication (RFC 4895). RFC 6458
    /// calls it SCTP_AUTHENTICATION_EVENT.
    Authentication(AuthenticationEvent),
    /// What became of a [request to change addresses](crate::Control::request_addresses) (RFC 5061). What the
    /// peer changes is reported as [`PathChanged`](Self::PathChanged), with [`PathChange::Added`],
    /// [`Removed`](PathChange::Removed) or [`Primary`](PathChange::Primary): RFC 6458 calls these
    /// SCTP_ADDR_ADDED, SCTP_ADDR_REMOVED and SCTP_ADDR_MADE_PRIM.
    #[non_exhaustive]
    AddressRequest {
        /// The request.
        request: AddressRequest,
        /// What became of it.
        outcome: AddressOutcome,
    },
    /// The peer's set-up named the protocol between SCTP and its application (RFC 5061 section 4.2.6); see
    /// [`ExtensionsConfig::adaptation_layer`](crate::ExtensionsConfig::adaptation_layer). Follows
    /// `Established` and `Restarted`; [`Status::extensions`](crate::Status::extensions) have it, too. RFC
    /// 6458 calls it SCTP_ADAPTATION_INDICATION.
    #[non_exhaustive]
    AdaptationLayer {
        /// The adaptation code point.
        code_point: u32,
    },
    /// The peer has acknowledged all data, and no message waits to be sent. Only if
    /// [`Control::report_dry`](crate::Control::report_dry) asked for it. RFC 6458 calls it SCTP_SENDER_DRY_EVENT.
    SenderDry,
    /// The peer is shutting down and takes no new messages. Messages that it sent before can still be received.
    PeerShutdown,
    /// The peer reported an error that does not end the association.
    #[non_exhaustive]
    PeerError {
        /// The error cause in the peer's ERROR chunk.
        cause: ErrorCause,
        /// Its content as the peer sent it (RFC 9260 section 3.3.10), such as the chunk that it doesn't know;
        /// the first 256 bytes.
        data: Bytes,
    },
    /// The association has ended.
    #[non_exhaustive]
    Closed {
        /// How it ended.
        how: Ended,
        /// The peer's addresses, the primary one first: IP address and encapsulation port (0 on raw IP).
        addresses: Vec<SocketAddr>,
        /// The association's final counters.
        stats: AssociationStats,
    },
    /// This many notifications were lost because the queue was full.
    Missed(u64),
}

impl Notification {
    /// Converts an event of the engine to a notification; `None` for events that only wake readers and writers.
    pub(crate) fn of(event: Event, engine: &Engine, id: AssociationId) -> Option<Self> {
        Some(match event {
            Event::Established { incoming, outbound_streams, inbound_streams } => {
                let addresses = addresses(engine, id);
                Self::Established { incoming, outbound_streams, inbound_streams, addresses }
            }
            Event::Restarted { .. } => Self::Restarted,
            Event::StreamsReset { direction, streams, outcome, .. } => {
                Self::StreamsReset { direction, streams, outcome }
            }
            Event::AssociationReset { outcome, local_tsn, peer_tsn, .. } => {
                Self::AssociationReset { outcome, local_tsn, peer_tsn }
            }
            Event::StreamsChanged { outcome, outbound_streams, inbound_streams } => {
                Self::StreamsChanged { outcome, outbound_streams, inbound_streams }
            }
            Event::PartialDeliveryAborted { stream, .. } => Self::PartialDeliveryAborted { stream },
            Event::Authentication(event) => Self::Authentication(event),
            Event::AddressRequest { request, outcome } => Self::AddressRequest { request, outcome },
            Event::PathChanged { address, change } => Self::PathChanged { address, change },
            Event::SendFailed(message) => Self::SendFailed(message),
            Event::AdaptationLayer { code_point } => Self::AdaptationLayer { code_point },
            Event::SenderDry => Self::SenderDry,
            Event::PeerShutdown => Self::PeerShutdown,
            Event::PeerError { code, data } => Self::PeerError { cause: ErrorCause::from_code(code), data },
            Event::Closed(reason) => Self::Closed {
                how: Ended::of(&reason),
                addresses: addresses(engine, id),
                stats: engine.status(id).map(|status| status.stats).unwrap_or_default(),
            },
            _ => return None,
        })
    }
}

/// Returns the peer's addresses, the primary one first.
fn addresses(engine: &Engine, id: AssociationId) -> Vec<SocketAddr> {
    let mut paths = engine.paths(id).unwrap_or_default();
    paths.sort_by_key(|path| !path.primary);
    paths.into_iter().map(|path| path.address).collect()
}

/// A bounded queue of notifications.
#[derive(Debug)]
pub(crate) struct NotificationQueue<T> {
    items: VecDeque<T>,
    missed: u64,
    limit: usize,
    pub(crate) waiters: WaitQueue,
}

impl<T> NotificationQueue<T> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { items: VecDeque::new(), missed: 0, limit, waiters: WaitQueue::default() }
    }

    /// Appends a notification; counts it as lost if the queue is full.
    pub(crate) fn push(&mut self, item: T) {
        if self.items.len() < self.limit { self.items.push_back(item) } else { self.missed += 1 }
    }

    /// Returns whether there is nothing to [`pop`](Self::pop).
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty() && self.missed == 0
    }

    /// Removes the next notification, or returns how many were lost once the queue is empty.
    pub(crate) fn pop(&mut self) -> Option<Result<T, u64>> {
        match self.items.pop_front() {
            Some(item) => Some(Ok(item)),
            None if self.missed > 0 => Some(Err(std::mem::take(&mut self.missed))),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests;
