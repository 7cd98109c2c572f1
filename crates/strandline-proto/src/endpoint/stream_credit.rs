//! Credit of streams (docs/stream-credit.md).

use super::Endpoint;
use crate::error::UnknownAssociation;
use crate::event::AssociationId;
use crate::inbound::stream_credit as incoming;
use crate::number::StreamId;
use crate::outbound::stream_credit as outgoing;
use crate::time::Time;

/// The credit of an association's streams, if [`ExtensionsConfig::stream_credit`](crate::config::ExtensionsConfig) was
/// agreed on.
#[derive(Debug)]
pub struct StreamCredits<'a> {
    endpoint: &'a mut Endpoint,
    id: AssociationId,
}

impl<'a> StreamCredits<'a> {
    /// Returns the credit of an association's streams.
    pub const fn of(endpoint: &'a mut Endpoint, id: AssociationId) -> Self {
        Self { endpoint, id }
    }

    /// Lets [`read`](Self::read) say what the application has read, instead of [`recv`](Endpoint::recv): for
    /// a caller that takes messages from the endpoint before they are read. Call it once the association is
    /// established. It holds until the association ends, restarts included.
    pub fn report_reads(&mut self) {
        if let Ok((association, _)) = self.endpoint.live(self.id) {
            incoming::set_by_report(&mut association.inbound, true);
        }
    }

    /// Returns the bytes that may be held unread, of all streams together: the largest receive buffer.
    #[must_use]
    pub fn unread_max(&self) -> usize {
        let association = self.endpoint.table.by_id(self.id);
        association.map_or(0, |association| association.config.receive_buffer_limit() as usize)
    }

    /// Reports that the application has read `len` bytes of messages of an incoming stream, so that its peer
    /// may send more. Without effect before [`report_reads`](Self::report_reads), and beyond what was
    /// received. Call `poll_transmit` afterwards.
    pub fn read(&mut self, now: Time, stream: StreamId, len: usize) {
        let Ok((association, _)) = self.endpoint.live(self.id) else { return };
        incoming::on_reported(&mut association.inbound, stream, len);
        if !association.flags().queued && association.wants_transmit(now) {
            self.endpoint.queue(self.id.slot);
        }
    }

    /// Counts everything as read that the application has not read, and from now on what
    /// [`recv`](Endpoint::recv) returns, because the application discards it. Call `poll_transmit`
    /// afterwards.
    pub fn discard(&mut self) {
        if let Ok((association, _)) = self.endpoint.live(self.id) {
            incoming::discard(&mut association.inbound);
        }
    }

    /// Returns the bytes that an outgoing stream may send before it needs more credit; `None` if credit was
    /// not agreed on.
    ///
    /// # Errors
    /// Fails if the association has ended.
    pub fn room(&mut self, stream: StreamId) -> Result<Option<u32>, UnknownAssociation> {
        let (association, _) = self.endpoint.live(self.id)?;
        Ok(outgoing::room(&association.outbound, stream))
    }

    /// Returns whether data of an outgoing stream waits for credit.
    ///
    /// # Errors
    /// Fails if the association has ended.
    pub fn is_awaited(&mut self, stream: StreamId) -> Result<bool, UnknownAssociation> {
        let (association, _) = self.endpoint.live(self.id)?;
        Ok(outgoing::is_parked(&association.outbound, stream))
    }
}
