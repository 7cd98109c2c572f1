//! What the application asks for (RFC 9260 section 11.1).

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use rand_core::RngCore;

use super::Endpoint;
use super::demux::PeerKey;
use super::table::Table;
use crate::association::buffers::Pressure;
use crate::association::context::is_unicast;
use crate::association::{Association, Opening};
use crate::config::{AssociationConfig, PATHS_MAX};
use crate::congestion::Algorithm;
use crate::error::{ConfigureError, ConnectError, ListenError, PathError, SendError, UnknownAssociation};
use crate::event::{AssociationId, Event, Message, PathChange, SendInfo};
use crate::number::Tsn;
use crate::path::{PathIndex, PathState};
use crate::stats::{MemoryReport, PathStatus, SentAgain, Status};
use crate::time::Time;

/// Whom to connect to.
#[derive(Debug, Clone)]
pub struct Connect {
    /// Local SCTP port; 0 picks one of the ephemeral range.
    pub local_port: u16,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The peer's addresses, the primary first: IP address and encapsulation port (0 for raw IP). At most 8 are used.
    pub remotes: Vec<SocketAddr>,
    /// Parameters; `None` takes the endpoint's.
    pub config: Option<Arc<AssociationConfig>>,
}

impl Connect {
    /// To one address, from an ephemeral port, with the endpoint's parameters.
    #[must_use]
    pub fn to(remote: SocketAddr, peer_port: u16) -> Self {
        Self { local_port: 0, peer_port, remotes: vec![remote], config: None }
    }
}

impl Endpoint {
    /// INITIALIZE: accepts associations on an SCTP port; 0 picks one.
    ///
    /// # Errors
    /// If somebody listens on the port already, or no port is left.
    pub fn listen(&mut self, port: u16) -> Result<u16, ListenError> {
        let port = if port == 0 {
            let random = self.shared.rng.next_u32();
            self.ports.pick(random, |port| !self.ports.knows(port)).ok_or(ListenError::NoPort)?
        } else {
            port
        };
        if self.ports.listen(port) { Ok(port) } else { Err(ListenError::PortInUse(port)) }
    }

    /// No new associations on the port; those that exist go on.
    pub fn close_listener(&mut self, port: u16) {
        self.ports.close(port);
    }

    /// ASSOCIATE: starts an association. Messages may be given at once: they go with the COOKIE ECHO.
    ///
    /// # Errors
    /// If the request makes no sense, the association exists, or a limit is reached.
    pub fn connect(&mut self, now: Time, request: Connect) -> Result<AssociationId, ConnectError> {
        self.connect_from(now, request, |_| true)
    }

    /// [`connect`](Self::connect) that picks only among ephemeral ports that `allowed` accepts: for carriers that are
    /// shared by several endpoints.
    ///
    /// # Errors
    /// As [`connect`](Self::connect).
    pub fn connect_from(
        &mut self,
        now: Time,
        request: Connect,
        allowed: impl Fn(u16) -> bool,
    ) -> Result<AssociationId, ConnectError> {
        let config = request.config.unwrap_or_else(|| Arc::clone(&self.shared.config.association));
        config.validate()?;
        if request.peer_port == 0 {
            return Err(ConnectError::InvalidPort);
        }
        let mut remotes = request.remotes;
        remotes.truncate(PATHS_MAX);
        if remotes.is_empty() {
            return Err(ConnectError::NoAddress);
        }
        if !remotes.iter().all(|remote| is_unicast(remote.ip())) {
            return Err(ConnectError::NotUnicast);
        }
        if self.table.len() >= self.shared.config.associations_max as usize {
            return Err(ConnectError::TooManyAssociations);
        }
        let random = self.shared.rng.next_u32();
        let free = |port: u16| {
            let taken = |remote: &SocketAddr| {
                let key = PeerKey { address: remote.ip(), peer_port: request.peer_port, local_port: port };
                self.find_by_peer(&key).is_some()
            };
            !remotes.iter().any(taken)
        };
        let local_port = if request.local_port == 0 {
            let port =
                self.ports.pick(random, |port| allowed(port) && !self.ports.listens(port) && free(port));
            port.ok_or(ConnectError::NoPort)?
        } else if free(request.local_port) {
            request.local_port
        } else {
            return Err(ConnectError::AlreadyExists);
        };
        let local_tag = self.free_tag();
        let id = self.table.next_id();
        let peer_port = request.peer_port;
        let opening = Opening { id, config, local_port, peer_port, local_tag, remotes };
        let association = Association::open(&mut self.shared, now, opening);
        self.table.insert(association);
        self.register(id.slot);
        self.settle(now, id.slot);
        Ok(id)
    }

    /// A random tag that no association has.
    pub(super) fn free_tag(&mut self) -> strandline_wire::number::VerificationTag {
        loop {
            let tag = self.shared.random_tag();
            if self.demux.by_tag(tag).is_none() && !self.spent.contains(tag) {
                return tag;
            }
        }
    }

    /// SEND: takes a message. A small one is copied, a larger one kept as it is until it is acknowledged.
    ///
    /// # Errors
    /// [`SendError::WouldBlock`] if the send buffer is full; `Event::Writable` follows. Others say what is wrong.
    pub fn send(
        &mut self,
        now: Time,
        id: AssociationId,
        info: SendInfo,
        mut data: Bytes,
    ) -> Result<(), SendError> {
        self.send_from(now, id, info, &mut data)
    }

    /// [`send`](Self::send) for callers that try again if there is no room: the message is taken out of `data`, which
    /// is left as it is if there is an error.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_from(
        &mut self,
        now: Time,
        id: AssociationId,
        info: SendInfo,
        data: &mut Bytes,
    ) -> Result<(), SendError> {
        let len = data.len();
        self.send_with(now, id, len, |association, pressure| association.send(now, info, data, pressure))
    }

    /// [`send`](Self::send) for bytes that lie in the application's buffer: copies them. That costs no allocation for
    /// messages of up to 8 KiB, and less than sharing for small ones.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    pub fn send_slice(
        &mut self,
        now: Time,
        id: AssociationId,
        info: SendInfo,
        data: &[u8],
    ) -> Result<(), SendError> {
        self.send_with(now, id, data.len(), |association, pressure| {
            association.send_slice(now, info, data, pressure)
        })
    }

    #[inline]
    fn send_with(
        &mut self,
        now: Time,
        id: AssociationId,
        len: usize,
        give: impl FnOnce(&mut Association, Pressure) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        let association = self.table.by_id_mut(id).ok_or(SendError::Closed)?;
        let timed = association.idle_deadline() != Time::MAX;
        give(association, self.shared.send_pressure())?;
        self.shared.memory.on_given(len);
        if !association.flags().queued && association.wants_transmit(now) {
            self.queue(id.slot);
        }
        // Nothing is due earlier by it, unless no time to give buffers back was set.
        if !timed {
            self.reschedule(id.slot);
        }
        Ok(())
    }

    /// RECEIVE: the next message, or the next part of one that is too large to wait for. Goes on after the
    /// association has ended until all that had arrived was read.
    pub fn recv(&mut self, now: Time, id: AssociationId) -> Option<Message> {
        let association = self.table.by_id_mut(id)?;
        let timed = association.idle_deadline() != Time::MAX;
        let message = association.recv(&mut self.shared, now)?;
        // Reading may have reopened the window.
        if !association.flags().queued && association.wants_transmit(now) {
            self.queue(id.slot);
        }
        if !timed {
            self.reschedule(id.slot);
        }
        Some(message)
    }

    /// RECEIVE: appends to `messages` what [`recv`](Self::recv) would give, up to `max` messages, and returns how many
    /// that were. Costs less than as many calls. `Event::Readable` is given again only after this returned fewer than
    /// `max`, or `recv` `None`.
    pub fn recv_many(
        &mut self,
        now: Time,
        id: AssociationId,
        messages: &mut Vec<Message>,
        max: usize,
    ) -> usize {
        let Some(association) = self.table.by_id_mut(id) else { return 0 };
        let timed = association.idle_deadline() != Time::MAX;
        let count = association.recv_many(&mut self.shared, now, messages, max);
        if count > 0 {
            if !association.flags().queued && association.wants_transmit(now) {
                self.queue(id.slot);
            }
            if !timed {
                self.reschedule(id.slot);
            }
        }
        count
    }

    /// SHUTDOWN: no new messages are taken; those queued are delivered first, in both directions.
    ///
    /// # Errors
    /// If the association does not exist any more.
    pub fn shutdown(&mut self, now: Time, id: AssociationId) -> Result<(), UnknownAssociation> {
        let association = self.live(id)?;
        association.0.shutdown(association.1, now);
        self.settle(now, id.slot);
        Ok(())
    }

    /// ABORT: ends the association at once. Up to 512 bytes of `reason` are told to the peer.
    ///
    /// # Errors
    /// If the association does not exist any more.
    pub fn abort(&mut self, now: Time, id: AssociationId, reason: Bytes) -> Result<(), UnknownAssociation> {
        let association = self.live(id)?;
        association.0.abort(association.1, now, &reason);
        self.settle(now, id.slot);
        Ok(())
    }

    fn live(
        &mut self,
        id: AssociationId,
    ) -> Result<(&mut Association, &mut crate::association::context::Shared), UnknownAssociation> {
        let association = self.table.by_id_mut(id).ok_or(UnknownAssociation)?;
        if association.state.is_closed() {
            return Err(UnknownAssociation);
        }
        Ok((association, &mut self.shared))
    }

    /// The application gives up its handle: after the end, what it has not read is dropped. An association that
    /// still lives goes on by itself; shut it down or abort it first.
    pub fn release(&mut self, id: AssociationId) {
        let Some(association) = self.table.by_id_mut(id) else { return };
        association.flags_mut().released = true;
        if association.state.is_closed() {
            self.remove_finished(id.slot);
        }
    }

    /// SET PRIMARY: where data goes while that address is active.
    ///
    /// # Errors
    /// If the address is none of the peer's, or not confirmed yet.
    pub fn set_primary(&mut self, now: Time, id: AssociationId, address: IpAddr) -> Result<(), PathError> {
        let index = self.path_of(id, address)?;
        let association = self.table.by_id_mut(id).ok_or(PathError::UnknownAssociation)?;
        if association.paths.get(index).state == PathState::Unconfirmed
            || !association.paths.set_primary(index)
        {
            return Err(PathError::Unconfirmed);
        }
        let address = association.paths.get(index).remote;
        self.shared.event(id, Event::PathChanged { address, change: PathChange::Primary });
        self.settle(now, id.slot);
        Ok(())
    }

    /// The congestion controller of one path from now on, whatever the association's is; `None`: that one again. A controller
    /// of another kind begins as on a new path.
    ///
    /// # Errors
    /// If the address is none of the peer's; for [`Algorithm::Dctcp`] unless that is the association's.
    pub fn set_path_congestion(
        &mut self,
        now: Time,
        id: AssociationId,
        address: IpAddr,
        congestion: Option<Algorithm>,
    ) -> Result<(), PathError> {
        let index = self.path_of(id, address)?;
        let association = self.table.by_id_mut(id).ok_or(PathError::UnknownAssociation)?;
        let config = Arc::clone(&association.config);
        if congestion == Some(Algorithm::Dctcp) && config.congestion != Algorithm::Dctcp {
            return Err(PathError::Dctcp);
        }
        association.paths.get_mut(index).set_congestion(congestion, &config);
        // Its window may be larger than the one before.
        association.flags_mut().burst_open = true;
        self.settle(now, id.slot);
        Ok(())
    }

    /// The congestion controller of associations to come, unless they bring parameters of their own, instead of the one in
    /// [`EndpointConfig::association`](crate::config::EndpointConfig::association). Those that exist keep theirs.
    pub fn set_congestion(&mut self, congestion: Algorithm) {
        if self.congestion() != congestion {
            Arc::make_mut(&mut self.shared.config.association).congestion = congestion;
        }
    }

    /// The congestion controller of associations to come.
    #[must_use]
    pub fn congestion(&self) -> Algorithm {
        self.shared.config.association.congestion
    }

    /// REQUEST HEARTBEAT: probes an address now. The outcome shows in `paths` and as `Event::PathChanged`.
    ///
    /// # Errors
    /// If the address is none of the peer's or the association is not established.
    pub fn request_heartbeat(
        &mut self,
        now: Time,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), PathError> {
        let index = self.path_of(id, address)?;
        let association = self.table.by_id_mut(id).ok_or(PathError::UnknownAssociation)?;
        association.request_heartbeat(&mut self.shared, now, index)?;
        self.settle(now, id.slot);
        Ok(())
    }

    fn path_of(&self, id: AssociationId, address: IpAddr) -> Result<PathIndex, PathError> {
        let association = self.table.by_id(id).ok_or(PathError::UnknownAssociation)?;
        if association.state.is_closed() {
            return Err(PathError::UnknownAssociation);
        }
        association.paths.by_address(address).ok_or(PathError::UnknownAddress)
    }

    /// SET PROTOCOL PARAMETERS: from now on the association has these. What was agreed at set-up (the numbers of
    /// streams) stays.
    ///
    /// # Errors
    /// If a parameter is out of range or the association does not exist any more; for [`Algorithm::Dctcp`] if that is new and no
    /// explicit congestion notification was agreed on. Nothing has changed then.
    pub fn configure(
        &mut self,
        now: Time,
        id: AssociationId,
        config: Arc<AssociationConfig>,
    ) -> Result<(), ConfigureError> {
        config.validate()?;
        let (association, shared) = self.live(id)?;
        if !association.may_have(config.congestion) {
            return Err(ConfigureError::Dctcp);
        }
        association.reconfigure(shared, now, config);
        self.settle(now, id.slot);
        Ok(())
    }

    /// The association with a peer, by one of its addresses and both ports.
    #[must_use]
    pub fn find(&self, local_port: u16, address: IpAddr, peer_port: u16) -> Option<AssociationId> {
        let slot = self.find_by_peer(&PeerKey { address, peer_port, local_port })?;
        self.table.at(slot).map(|association| association.id)
    }

    /// Where [`owns_all_ports`](crate::config::EndpointConfig::owns_all_ports) is false: the ports that no other process of the
    /// host has, instead of those named before. Packets to them are answered as section 8.4 says.
    pub fn set_reserved_ports(&mut self, reserved: Vec<core::ops::RangeInclusive<u16>>) {
        self.ports.set_reserved(reserved);
    }

    /// True if somebody listens on the port or an association has it.
    #[must_use]
    pub fn uses_port(&self, port: u16) -> bool {
        self.ports.knows(port)
    }

    /// Associations whose peer has more than one address, as far as is known.
    #[must_use]
    pub fn multihomed_count(&self) -> u32 {
        self.multihomed
    }

    /// STATUS; `None` once the association was released.
    #[must_use]
    pub fn status(&self, id: AssociationId) -> Option<Status> {
        let pressure = self.shared.send_pressure();
        self.table.by_id(id).map(|association| association.status(pressure))
    }

    /// The association's paths.
    #[must_use]
    pub fn paths(&self, id: AssociationId) -> Option<Vec<PathStatus>> {
        self.table.by_id(id).map(Association::path_status)
    }

    /// Why a chunk was sent again, the last time that it was: for those who watch packets, right after one has gone. `None`
    /// if it is not outstanding or was sent only once. (With `Recovery::Rfc9260`, which doesn't keep that, a chunk that
    /// was sent only once is taken for one that was sent again.)
    #[must_use]
    pub fn sent_again(&self, id: AssociationId, tsn: Tsn) -> Option<SentAgain> {
        self.table.by_id(id)?.sent_again(tsn)
    }

    /// Bytes that `send` would take now.
    #[must_use]
    pub fn send_space(&self, id: AssociationId) -> usize {
        let pressure = self.shared.send_pressure();
        self.table.by_id(id).map_or(0, |association| association.send_space(pressure))
    }

    /// Memory of one association on this side, look-up entries and timer included, itemised.
    #[must_use]
    pub fn memory(&self, id: AssociationId) -> Option<MemoryReport> {
        let mut report = self.table.by_id(id)?.memory();
        let count = self.table.len();
        report.items.push(("endpoint: look-up by tag and address", self.demux.bytes_per_association(count)));
        report.items.push(("endpoint: table of associations", Table::SLOT_BYTES));
        report.items.push(("endpoint: timer", self.wheel.heap_bytes().div_ceil(count.max(1))));
        Some(report)
    }
}
