//! Commands of the application (RFC 9260 section 11.1).

use core::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use bytes::Bytes;
use rand_core::RngCore;

use super::Endpoint;
use super::demux::PeerKey;
use super::look_up::find_held;
use super::table::Table;
use crate::association::abandon::watch_lifetimes;
use crate::association::buffers::Pressure;
use crate::association::context::{EndpointContext, is_unicast};
use crate::association::expiry::make_room;
use crate::association::{Association, Opening};
use crate::config::{AssociationConfig, PATHS_MAX, StreamScheduler};
use crate::congestion::Algorithm;
use crate::error::{ConfigureError, ConnectError, ListenError, PathError, SendError, UnknownAssociation};
use crate::event::{AssociationId, Message, PathChange, SendInfo};
use crate::number::{StreamId, Tsn};
use crate::outbound::scheduling::set_scheduler;
use crate::path::PathState;
use crate::path_index::PathIndex;
use crate::stats::{MemoryReport, PathStatus, SentAgain, Status};
use crate::time::Time;
use crate::zone;

/// The destination and parameters of a new association.
#[derive(Debug, Clone)]
pub struct Connect {
    /// Local SCTP port; 0 selects an ephemeral one.
    pub local_port: u16,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The peer's addresses, the primary first: IP address and encapsulation port (0 for raw IP). At most 8 are used.
    pub remotes: Vec<SocketAddr>,
    /// Local addresses of the association: only these are listed in INIT, packets come from them, and packets to others
    /// are dropped. If empty, the association has those of the endpoint. At most 8.
    pub local: Vec<IpAddr>,
    /// Parameters of the association; `None` uses those of the endpoint.
    pub config: Option<Arc<AssociationConfig>>,
}

impl Connect {
    /// Connects to one address, from an ephemeral port, with the endpoint's parameters.
    #[must_use]
    pub fn to(remote: SocketAddr, peer_port: u16) -> Self {
        Self { local_port: 0, peer_port, remotes: vec![remote], local: Vec::new(), config: None }
    }
}

/// The port and addresses of a listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listen {
    /// SCTP port; 0 selects a free one.
    pub port: u16,
    /// Local addresses of its associations: only these are listed in INIT ACK, and packets to others are dropped. If
    /// empty, the associations have those of the endpoint. At most 8.
    pub addresses: Vec<IpAddr>,
}

impl From<u16> for Listen {
    /// Listens at all addresses of the endpoint.
    fn from(port: u16) -> Self {
        Self { port, addresses: Vec::new() }
    }
}

/// Returns the first of the addresses that the endpoint does not have.
fn foreign(cx: &EndpointContext, addresses: &[IpAddr]) -> Option<IpAddr> {
    let is_own = |address: IpAddr| is_unicast(address) && cx.host_addresses.may_be_bound(address);
    addresses.iter().copied().find(|address| !is_own(*address))
}

impl Endpoint {
    /// INITIALIZE: accepts associations on an SCTP port. 0 selects a free port. Returns the port.
    ///
    /// # Errors
    /// Fails if the port already has a listener, if no port is free, or for addresses that the endpoint does not have.
    pub fn listen(&mut self, listen: impl Into<Listen>) -> Result<u16, ListenError> {
        let Listen { port, addresses } = listen.into();
        if addresses.len() > PATHS_MAX {
            return Err(ListenError::TooManyAddresses(addresses.len()));
        }
        if let Some(other) = foreign(&self.context, &addresses) {
            return Err(ListenError::NotLocal(other));
        }
        let port = if port == 0 {
            let random = self.context.rng.next_u32();
            self.ports.pick(random, |port| !self.ports.knows(port)).ok_or(ListenError::NoPort)?
        } else {
            port
        };
        if self.ports.listen(port, addresses) { Ok(port) } else { Err(ListenError::PortInUse(port)) }
    }

    /// Stops accepting associations on the port. Existing ones continue.
    pub fn close_listener(&mut self, port: u16) {
        self.ports.close(port);
    }

    /// ASSOCIATE: starts an association. Messages can be sent at once; they go with the COOKIE ECHO.
    ///
    /// # Errors
    /// Fails if the request is invalid, the association already exists, or a limit is reached.
    pub fn connect(&mut self, now: Time, request: Connect) -> Result<AssociationId, ConnectError> {
        self.connect_from(now, request, |_| true)
    }

    /// As [`connect`](Self::connect), but only from ephemeral ports that `allowed` accepts: for carriers that several
    /// endpoints share.
    ///
    /// # Errors
    /// Fails as [`connect`](Self::connect) does.
    pub fn connect_from(
        &mut self,
        now: Time,
        request: Connect,
        allowed: impl Fn(u16) -> bool,
    ) -> Result<AssociationId, ConnectError> {
        let config = request.config.unwrap_or_else(|| Arc::clone(&self.context.config.association));
        config.validate()?;
        if request.peer_port == 0 {
            return Err(ConnectError::InvalidPort);
        }
        let mut remotes: Vec<_> = request.remotes.into_iter().map(zone::inward).collect();
        remotes.truncate(PATHS_MAX);
        if remotes.is_empty() {
            return Err(ConnectError::NoAddress);
        }
        if !remotes.iter().all(|remote| is_unicast(remote.ip())) {
            return Err(ConnectError::NotUnicast);
        }
        let local = request.local;
        if local.len() > PATHS_MAX {
            return Err(ConnectError::TooManyAddresses(local.len()));
        }
        if let Some(other) = foreign(&self.context, &local) {
            return Err(ConnectError::NotLocal(other));
        }
        if self.table.len() >= self.context.config.associations_max as usize {
            return Err(ConnectError::TooManyAssociations);
        }
        let random = self.context.rng.next_u32();
        let free = |port: u16| {
            let taken = |remote: &SocketAddr| {
                let key = PeerKey { address: remote.ip(), peer_port: request.peer_port, local_port: port };
                find_held(self, &key).is_some()
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
        let opening = Opening { id, config, local_port, peer_port, local_tag, remotes, local };
        let association = Association::open(&mut self.context, now, opening);
        self.table.insert(association);
        self.register(id.slot);
        self.update_after_change(now, id.slot);
        Ok(id)
    }

    /// Returns a random tag that no association uses.
    pub(super) fn free_tag(&mut self) -> strandline_wire::number::VerificationTag {
        loop {
            let tag = self.context.random_tag();
            if self.demux.by_tag(tag).is_none() && !self.used_cookies.has_tag(tag) {
                return tag;
            }
        }
    }

    /// SEND: queues a message. A small message is copied; the buffer of a larger one is kept until it is
    /// acknowledged.
    ///
    /// # Errors
    /// Returns [`SendError::WouldBlock`] if the send buffer is full; `Event::Writable` follows when it has room. The
    /// other errors describe what is wrong.
    pub fn send(
        &mut self,
        now: Time,
        id: AssociationId,
        info: SendInfo,
        mut data: Bytes,
    ) -> Result<(), SendError> {
        self.send_from(now, id, info, &mut data)
    }

    /// As [`send`](Self::send), for callers that retry when the buffer is full: the message is taken out of `data`,
    /// which stays unchanged on an error.
    ///
    /// # Errors
    /// Fails as [`send`](Self::send) does.
    pub fn send_from(
        &mut self,
        now: Time,
        id: AssociationId,
        info: SendInfo,
        data: &mut Bytes,
    ) -> Result<(), SendError> {
        let len = data.len();
        match send_bytes(self, now, id, info, data) {
            Err(SendError::WouldBlock) if has_made_room(self, now, id, &info, len) => {
                send_bytes(self, now, id, info, data)
            }
            given => given,
        }
    }

    /// As [`send`](Self::send), but copies the bytes of a slice. Messages of up to 8 KiB need no allocation, and
    /// copying small ones is cheaper than sharing them.
    ///
    /// # Errors
    /// Fails as [`send`](Self::send) does.
    pub fn send_slice(
        &mut self,
        now: Time,
        id: AssociationId,
        info: SendInfo,
        data: &[u8],
    ) -> Result<(), SendError> {
        let len = data.len();
        let give =
            |association: &mut Association, info, pressure| association.send_slice(now, info, data, pressure);
        match self.send_with(now, id, (info, len), give) {
            Err(SendError::WouldBlock) if has_made_room(self, now, id, &info, len) => {
                // As bytes: with a second caller the compiler would no longer inline `Association::send_slice`.
                send_bytes(self, now, id, info, &mut Bytes::copy_from_slice(data))
            }
            given => given,
        }
    }

    #[inline]
    fn send_with(
        &mut self,
        now: Time,
        id: AssociationId,
        (mut info, len): (SendInfo, usize),
        give: impl FnOnce(&mut Association, SendInfo, Pressure) -> Result<(), SendError>,
    ) -> Result<(), SendError> {
        let association = self.table.by_id_mut(id).ok_or(SendError::Closed)?;
        let mut timed = association.idle_deadline() != Time::MAX;
        info.reliability = info.reliability.or(association.config.extensions.default_reliability);
        give(association, info, self.context.send_pressure())?;
        self.context.memory.on_given(len);
        if !info.reliability.is_full() {
            watch_lifetimes(association);
            timed = false;
        }
        if !association.flags().queued && association.wants_transmit(now) {
            self.queue(id.slot);
        }
        // A message makes nothing due earlier, unless its lifetime is limited or the time to release idle
        // buffers was not set.
        if !timed {
            self.reschedule(id.slot);
        }
        Ok(())
    }

    /// RECEIVE: returns the next message, or the next part of one that is too large to wait for. Works after the end
    /// of the association until everything that arrived was read.
    ///
    /// Take all events before: those that say how many messages are not read count them when they happen.
    pub fn recv(&mut self, now: Time, id: AssociationId) -> Option<Message> {
        let association = self.table.by_id_mut(id)?;
        let timed = association.idle_deadline() != Time::MAX;
        let message = association.recv(&mut self.context, now)?;
        // Reading may have reopened the window.
        if !association.flags().queued && association.wants_transmit(now) {
            self.queue(id.slot);
        }
        if !timed {
            self.reschedule(id.slot);
        }
        Some(message)
    }

    /// RECEIVE: appends up to `max` messages to `messages`, as [`recv`](Self::recv) would return them, and returns
    /// their number. Costs less than calling `recv` for each. `Event::Readable` is repeated only after this returned
    /// fewer than `max`, or `recv` returned `None`.
    pub fn recv_many(
        &mut self,
        now: Time,
        id: AssociationId,
        messages: &mut Vec<Message>,
        max: usize,
    ) -> usize {
        let Some(association) = self.table.by_id_mut(id) else { return 0 };
        let timed = association.idle_deadline() != Time::MAX;
        let count = association.recv_many(&mut self.context, now, messages, max);
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

    /// SHUTDOWN: accepts no new messages and ends the association after the queued ones are delivered in both
    /// directions.
    ///
    /// # Errors
    /// Fails if the association no longer exists.
    pub fn shutdown(&mut self, now: Time, id: AssociationId) -> Result<(), UnknownAssociation> {
        let association = self.live(id)?;
        association.0.shutdown(association.1, now);
        self.update_after_change(now, id.slot);
        Ok(())
    }

    /// ABORT: ends the association at once. Up to 512 bytes of `reason` are sent to the peer.
    ///
    /// # Errors
    /// Fails if the association no longer exists.
    pub fn abort(&mut self, now: Time, id: AssociationId, reason: Bytes) -> Result<(), UnknownAssociation> {
        let association = self.live(id)?;
        association.0.abort(association.1, now, &reason);
        self.update_after_change(now, id.slot);
        Ok(())
    }

    pub(super) fn live(
        &mut self,
        id: AssociationId,
    ) -> Result<(&mut Association, &mut crate::association::context::EndpointContext), UnknownAssociation>
    {
        let association = self.table.by_id_mut(id).ok_or(UnknownAssociation)?;
        if association.state.is_closed() {
            return Err(UnknownAssociation);
        }
        Ok((association, &mut self.context))
    }

    /// Releases the application's handle. Unread messages are dropped once the association has ended. A live
    /// association continues by itself, so shut it down or abort it first.
    pub fn release(&mut self, id: AssociationId) {
        let Some(association) = self.table.by_id_mut(id) else { return };
        association.flags_mut().released = true;
        if association.state.is_closed() {
            self.remove_finished(id.slot);
        }
    }

    /// SET PRIMARY: selects the path for data while that address is active.
    ///
    /// # Errors
    /// Fails if the address is not one of the peer's, or is not confirmed yet.
    pub fn set_primary(&mut self, now: Time, id: AssociationId, address: IpAddr) -> Result<(), PathError> {
        let index = self.path_of(id, address)?;
        let association = self.table.by_id_mut(id).ok_or(PathError::UnknownAssociation)?;
        if association.paths.get(index).state == PathState::Unconfirmed
            || !association.paths.set_primary(index)
        {
            return Err(PathError::Unconfirmed);
        }
        association.on_path_change(&mut self.context, index, PathChange::Primary);
        self.update_after_change(now, id.slot);
        Ok(())
    }

    /// Sets the congestion controller of one path. `None` restores that of the association. A controller of another
    /// kind starts as on a new path.
    ///
    /// # Errors
    /// Fails if the address is not one of the peer's, and for [`Algorithm::Dctcp`] unless the association uses it.
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
        // The window of the new controller may be larger.
        association.flags_mut().burst_open = true;
        self.update_after_change(now, id.slot);
        Ok(())
    }

    /// Sets the congestion controller of future associations that have no parameters of their own. It replaces the
    /// one in [`EndpointConfig::association`](crate::config::EndpointConfig::association). Existing associations keep
    /// theirs.
    pub fn set_congestion(&mut self, congestion: Algorithm) {
        if self.congestion() != congestion {
            Arc::make_mut(&mut self.context.config.association).congestion = congestion;
        }
    }

    /// Returns the congestion controller of future associations.
    #[must_use]
    pub fn congestion(&self) -> Algorithm {
        self.context.config.association.congestion
    }

    /// REQUEST HEARTBEAT: probes an address now. `paths` and `Event::PathChanged` report the outcome.
    ///
    /// # Errors
    /// Fails if the address is not one of the peer's or the association is not established.
    pub fn request_heartbeat(
        &mut self,
        now: Time,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), PathError> {
        let index = self.path_of(id, address)?;
        let association = self.table.by_id_mut(id).ok_or(PathError::UnknownAssociation)?;
        association.request_heartbeat(&mut self.context, now, index)?;
        self.update_after_change(now, id.slot);
        Ok(())
    }

    pub(super) fn path_of(&self, id: AssociationId, address: IpAddr) -> Result<PathIndex, PathError> {
        let association = self.table.by_id(id).ok_or(PathError::UnknownAssociation)?;
        if association.state.is_closed() {
            return Err(PathError::UnknownAssociation);
        }
        let found = association.paths.by_address(address);
        found.or_else(|| association.paths.in_any_zone(address)).ok_or(PathError::UnknownAddress)
    }

    /// SET PROTOCOL PARAMETERS: replaces the parameters of an association. What was negotiated at the set-up (the
    /// number of streams) stays.
    ///
    /// # Errors
    /// Fails without a change if a parameter is out of range, if the association no longer exists, or if
    /// [`Algorithm::Dctcp`] is new and ECN was not negotiated.
    pub fn configure(
        &mut self,
        now: Time,
        id: AssociationId,
        config: Arc<AssociationConfig>,
    ) -> Result<(), ConfigureError> {
        config.validate()?;
        let (association, cx) = self.live(id)?;
        if !association.may_have(config.congestion) {
            return Err(ConfigureError::Dctcp);
        }
        association.reconfigure(cx, now, config);
        self.update_after_change(now, id.slot);
        Ok(())
    }

    /// Sets the order in which messages of different streams are sent, until [`configure`](Self::configure)
    /// is called. An association that has ended is ignored.
    pub fn set_stream_scheduler(&mut self, id: AssociationId, scheduler: StreamScheduler) {
        if let Ok((association, _)) = self.live(id) {
            let configured = association.config.stream_scheduler;
            set_scheduler(&mut association.outbound, scheduler, configured);
        }
    }

    /// Returns the association with a peer, given one of its addresses, as [`zone::key`] returns it, and both ports.
    /// Addresses that were given up before they were confirmed are not the peer's.
    #[must_use]
    pub fn find(&self, local_port: u16, address: IpAddr, peer_port: u16) -> Option<AssociationId> {
        let slot = find_held(self, &PeerKey { address, peer_port, local_port })?;
        self.table.at(slot).map(|association| association.id)
    }

    /// Sets the ports that no other process of the host can use, in place of earlier ones. Packets to them are
    /// answered as in section 8.4. Only for endpoints with
    /// [`owns_all_ports`](crate::config::EndpointConfig::owns_all_ports) set to false.
    pub fn set_reserved_ports(&mut self, reserved: Vec<core::ops::RangeInclusive<u16>>) {
        self.ports.set_reserved(reserved);
    }

    /// True if the port has a listener or an association.
    #[must_use]
    pub fn uses_port(&self, port: u16) -> bool {
        self.ports.knows(port)
    }

    /// Returns the number of associations whose peer has more than one address, or had others: its next
    /// INIT may come from an address that another engine is responsible for.
    #[must_use]
    pub fn multihomed_count(&self) -> u32 {
        self.multihomed
    }

    /// STATUS: returns the state of an association, or `None` once it is released.
    #[must_use]
    pub fn status(&self, id: AssociationId) -> Option<Status> {
        let pressure = self.context.send_pressure();
        self.table.by_id(id).map(|association| association.status(pressure))
    }

    /// Returns the state of the association's paths.
    #[must_use]
    pub fn paths(&self, id: AssociationId) -> Option<Vec<PathStatus>> {
        self.table.by_id(id).map(Association::path_status)
    }

    /// Returns why a chunk was last retransmitted. Intended for packet observers, to be called right after a packet
    /// was sent. Returns `None` if the chunk is not outstanding or was sent only once. (`Recovery::Rfc9260` does not
    /// record this, and a chunk that was sent only once then counts as retransmitted.)
    #[must_use]
    pub fn sent_again(&self, id: AssociationId, tsn: Tsn) -> Option<SentAgain> {
        self.table.by_id(id)?.sent_again(tsn)
    }

    /// Returns the number of bytes that `send` would accept now.
    #[must_use]
    pub fn send_space(&self, id: AssociationId) -> usize {
        let pressure = self.context.send_pressure();
        self.table.by_id(id).map_or(0, |association| association.send_space(pressure))
    }

    /// Returns true if the send buffer is full, and `send` accepts a message of `len` bytes on this stream
    /// all the same: see [`StreamScheduler::RoundRobin`].
    #[must_use]
    pub fn fits_reserve(&self, id: AssociationId, stream: StreamId, len: usize) -> bool {
        self.table.by_id(id).is_some_and(|association| association.outbound.fits_reserve(stream, len))
    }

    /// Returns the memory of one association on this side, itemised, including look-up entries and its timer.
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

fn send_bytes(
    endpoint: &mut Endpoint,
    now: Time,
    id: AssociationId,
    info: SendInfo,
    data: &mut Bytes,
) -> Result<(), SendError> {
    let len = data.len();
    let give = |association: &mut Association, info, pressure| association.send(now, info, data, pressure);
    endpoint.send_with(now, id, (info, len), give)
}

/// Gives up messages of a lower priority for one that the send buffer has no room for. Returns true if there
/// is room now.
#[cold]
#[inline(never)]
fn has_made_room(endpoint: &mut Endpoint, now: Time, id: AssociationId, info: &SendInfo, len: usize) -> bool {
    let Some(association) = endpoint.table.by_id_mut(id) else { return false };
    let info = SendInfo {
        reliability: info.reliability.or(association.config.extensions.default_reliability),
        ..*info
    };
    make_room(association, &mut endpoint.context, now, &info, len)
}
