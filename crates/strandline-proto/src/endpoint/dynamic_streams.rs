//! Streams that are opened and closed at run time.

use super::Endpoint;
use crate::association::Association;
use crate::association::context::EndpointContext;
use crate::association::early_streams;
use crate::association::reconfig::closing;
use crate::error::UnknownAssociation;
use crate::event::AssociationId;
use crate::number::StreamId;
use crate::reconfiguration::OpenedBy;
use crate::time::Time;

/// The streams of an association that are opened and closed at run time (decision 142). Each has both
/// directions, which are closed independently, by resets of outgoing streams (RFC 6525) that many of them
/// share. A number may be used again once both directions are closed.
/// [`Event::DynamicStreams`](crate::event::Event::DynamicStreams) reports it.
///
/// Which streams are open is the caller's concern. A message is sent on one as on any other stream.
#[derive(Debug)]
pub struct DynamicStreams<'a> {
    endpoint: &'a mut Endpoint,
    id: AssociationId,
}

impl<'a> DynamicStreams<'a> {
    /// Returns the dynamic streams of an association.
    pub const fn of(endpoint: &'a mut Endpoint, id: AssociationId) -> Self {
        Self { endpoint, id }
    }

    /// Makes the streams from `first` on dynamic, for as long as the association exists, restarts included:
    /// the peer may close them, whatever the configuration permits. [`Reconfigure`](super::Reconfigure) can't
    /// reset them.
    ///
    /// # Errors
    /// Fails if the association has ended.
    pub fn begin(&mut self, first: StreamId) -> Result<(), UnknownAssociation> {
        let (association, _) = self.endpoint.live(self.id)?;
        closing::begin_dynamic(association, first);
        early_streams::note_parity(association);
        Ok(())
    }

    /// Returns whether this side opens the even streams, and the peer the odd ones, or the other way round.
    /// The side with the lower verification tag opens the even ones, so that both sides know it without a
    /// message, also if both have set up the association at once. It may change when the peer restarts.
    /// `None` before the INIT ACK, and once the association has ended.
    #[must_use]
    pub fn opens_even(&self) -> Option<bool> {
        early_streams::opens_even(self.endpoint.table.by_id(self.id)?)
    }

    /// Closes the outgoing direction of a stream once the peer has acknowledged all that was given to `send`.
    /// Nothing may be sent on it before it is used again.
    pub fn close(&mut self, now: Time, stream: StreamId) {
        self.run(now, |association, cx| closing::close(association, cx, now, stream));
    }

    /// Gives up what the peer has not acknowledged of an outgoing stream, and closes it. The peer is made to
    /// skip a message, so that it can tell this from [`close`](Self::close). If partial reliability was not
    /// negotiated, it can't be told: the stream stays open, and its number can't be used again.
    pub fn reset(&mut self, now: Time, stream: StreamId) {
        self.run(now, |association, cx| closing::reset(association, cx, now, stream));
    }

    /// Asks the peer to stop sending on an incoming stream. If this side has opened it, a message must have
    /// been given, and the peer is asked once it has acknowledged one, so that it knows which stream is
    /// meant.
    pub fn stop(&mut self, now: Time, stream: StreamId, opened_by: OpenedBy) {
        self.run(now, |association, cx| closing::stop(association, cx, now, stream, opened_by));
    }

    /// Asks for more streams as soon as no other request is in flight. `Event::StreamsChanged` reports the outcome.
    pub fn add(&mut self, now: Time, outgoing: u16, incoming: u16) {
        self.run(now, |association, cx| closing::add(association, cx, now, outgoing, incoming));
    }

    /// Sets whether the peer's requests to reset streams, or that this side resets some, are denied: while
    /// the application records no more of them. Without effect on a reset that this side has asked for.
    pub fn deny_resets(&mut self, denies: bool) {
        if let Ok((association, _)) = self.endpoint.live(self.id) {
            closing::deny_resets(association, denies);
        }
    }

    fn run(&mut self, now: Time, run: impl FnOnce(&mut Association, &mut EndpointContext)) {
        let Ok((association, cx)) = self.endpoint.live(self.id) else { return };
        run(association, cx);
        self.endpoint.update_after_change(now, self.id.slot);
    }
}
