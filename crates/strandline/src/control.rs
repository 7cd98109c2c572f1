//! What can be seen and set of an association, whichever kind of socket it belongs to.

use std::sync::Arc;

use bytes::Bytes;
use strandline_proto::config::AssociationConfig;
use strandline_proto::congestion::Algorithm;
use strandline_proto::error::{ConfigureError, PathError};
use strandline_proto::stats::{MemoryReport, PathStatus, Status};

use crate::address::Address;
use crate::id::AssociationId;
use crate::shard::core::Shard;

/// A view of one association, for looking at it and for setting its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Control<'a> {
    shard: &'a Shard,
    id: AssociationId,
}

impl<'a> Control<'a> {
    pub(crate) fn new(shard: &'a Shard, id: AssociationId) -> Self {
        Self { shard, id }
    }

    /// The association's name.
    #[must_use]
    pub fn id(&self) -> AssociationId {
        self.id
    }

    /// State, ports, streams, windows and counters; `None` once the association is gone.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.shard.look().engine.status(self.id.id)
    }

    /// Each of the peer's addresses with its state, window, round trip time and MTU. Empty once the association is
    /// gone.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatus> {
        self.shard.look().engine.paths(self.id.id).unwrap_or_default()
    }

    /// What the association takes of this side's memory, itemised: in the engine, and in the socket layer without
    /// notifications that wait and streams' own handles.
    #[must_use]
    pub fn memory(&self) -> Option<MemoryReport> {
        let state = self.shard.look();
        let mut report = state.engine.memory(self.id.id)?;
        let (entry, holder) = state.table.get(self.id.id)?.memory();
        report.items.push(("socket: table of associations", entry));
        report.items.push(("socket: who holds it or waits for it", holder));
        Some(report)
    }

    /// Bytes that could be sent now without waiting for room.
    #[must_use]
    pub fn send_space(&self) -> usize {
        self.shard.look().engine.send_space(self.id.id)
    }

    /// Sends data to this address of the peer from now on, as long as it is active.
    ///
    /// # Errors
    /// If the address is none of the peer's, or not confirmed yet.
    pub fn set_primary(&self, address: impl Into<Address>) -> Result<(), PathError> {
        self.shard.with(|state, now| state.engine.set_primary(now, self.id.id, address.into().key()))
    }

    /// The congestion controller of the path to one of the peer's addresses from now on, whatever the association's is; `None`:
    /// that one again. A controller of another kind begins as on a new path.
    ///
    /// # Errors
    /// If the address is none of the peer's; for [`Algorithm::Dctcp`] unless that is the association's.
    pub fn set_path_congestion(
        &self,
        address: impl Into<Address>,
        congestion: Option<Algorithm>,
    ) -> Result<(), PathError> {
        self.shard.with(|state, now| {
            state.engine.set_path_congestion(now, self.id.id, address.into().key(), congestion)
        })
    }

    /// Probes an address of the peer now. What comes of it shows in [`paths`](Self::paths) and as a notification.
    ///
    /// # Errors
    /// If the address is none of the peer's, or the association is not established.
    pub fn request_heartbeat(&self, address: impl Into<Address>) -> Result<(), PathError> {
        self.shard.with(|state, now| state.engine.request_heartbeat(now, self.id.id, address.into().key()))
    }

    /// Sets the association's parameters. What was agreed at set-up (streams, receive window) stays.
    ///
    /// # Errors
    /// If a parameter is out of range, or the association has ended.
    pub fn configure(&self, config: AssociationConfig) -> Result<(), ConfigureError> {
        self.shard.with(|state, now| state.engine.configure(now, self.id.id, Arc::new(config)))
    }

    /// Begins the graceful end: what is queued on both sides is delivered first; nothing new is taken.
    pub fn start_shutdown(&self) {
        // If it has ended already, it has ended.
        self.shard.with(|state, now| {
            let _ = state.engine.shutdown(now, self.id.id);
            state.refuse_writers(self.id.id);
        });
    }

    /// Ends the association at once. The peer is told up to 512 bytes of `reason`; what was not delivered is lost.
    pub fn abort(&self, reason: impl Into<Bytes>) {
        let reason = reason.into();
        self.shard.with(|state, now| {
            let _ = state.engine.abort(now, self.id.id, reason);
        });
    }
}
