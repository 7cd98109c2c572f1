//! Statistics and settings of one association, on either kind of socket.

use std::sync::Arc;

use bytes::Bytes;
use strandline_dtls::PeerIdentity;
use strandline_proto::config::{AssociationConfig, StreamScheduler};
use strandline_proto::congestion::Algorithm;
use strandline_proto::dynamic_addresses::AddressRequest;
use strandline_proto::endpoint::{DryReports, KeyChange, Reconfigure, StreamValue};
use strandline_proto::error::{
    AddressError, ConfigureError, KeyError, PathError, ReconfigureError, StreamValueError,
};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{StreamDirection, Streams};
use strandline_proto::stats::{AbandonedStats, MemoryReport, PathStatus, Status};

use crate::address::Address;
use crate::error::UnknownAssociation;
use crate::id::AssociationId;
use crate::shard::core::Shard;

/// A view of one association that reads its state and sets its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Control<'a> {
    shard: &'a Shard,
    id: AssociationId,
}

impl<'a> Control<'a> {
    pub(crate) fn new(shard: &'a Shard, id: AssociationId) -> Self {
        Self { shard, id }
    }

    /// Returns the association's identifier.
    #[must_use]
    pub fn id(&self) -> AssociationId {
        self.id
    }

    /// Returns the state, ports, streams, windows and counters; `None` once the association is gone.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        self.shard.look().engine.status(self.id.id)
    }

    /// Returns who the peer has proved to be, on a stack with [encryption](crate::encryption). `None` if the peer is an
    /// anonymous client, packets are not encrypted, or the association is gone.
    #[must_use]
    pub fn peer_identity(&self) -> Option<PeerIdentity> {
        let state = self.shard.look();
        state.secure.as_ref()?.peer_identity(&state.engine, self.id.id)
    }

    /// Returns the number of messages that were given up because of their limits (RFC 7496 section 4.4); `None`
    /// once the association is gone. Each one is also reported, as any message that was not delivered.
    ///
    /// ```
    /// use core::time::Duration;
    /// use strandline::{Reliability, SendInfo, StreamId};
    ///
    /// // A sample of a sensor: worth nothing after a second, and not worth its place in a full buffer.
    /// let sample = SendInfo::on(StreamId(1)).reliability(Reliability::lifetime(Duration::from_secs(1)));
    /// let log = SendInfo::on(StreamId(2)).reliability(Reliability::priority(7));
    /// # let _ = (sample, log);
    /// ```
    #[must_use]
    pub fn abandoned(&self) -> Option<AbandonedStats> {
        self.shard.look().engine.gaps(self.id.id).abandoned()
    }

    /// Returns the state, congestion window, round-trip time and MTU of the path to each of the peer's
    /// addresses. Empty once the association is gone.
    #[must_use]
    pub fn paths(&self) -> Vec<PathStatus> {
        self.shard.look().engine.paths(self.id.id).unwrap_or_default()
    }

    /// Returns the memory that the association takes on this side, itemised: in the engine, and in the socket
    /// layer excluding queued notifications and the handles of streams.
    #[must_use]
    pub fn memory(&self) -> Option<MemoryReport> {
        let state = self.shard.look();
        let mut report = state.engine.memory(self.id.id)?;
        let (entry, holder) = state.table.get(self.id.id)?.memory();
        let cell = state.table.get(self.id.id)?.cell.as_deref();
        let streams = cell.and_then(|cell| cell.routes.as_ref()).map_or(0, |routes| routes.memory());
        report.items.push(("socket: table of associations", entry));
        let restarts = cell.and_then(|cell| cell.restarts.as_ref()).map_or(0, |restarts| restarts.memory());
        report.items.push(("socket: who holds it or waits for it", holder + restarts));
        report.items.push(("socket: streams with readers of their own", streams));
        Some(report)
    }

    /// Returns how many dynamic streams are open, in a direction or both.
    #[must_use]
    pub fn dynamic_streams(&self) -> usize {
        let state = self.shard.look();
        let cell = state.table.get(self.id.id).and_then(|entry| entry.cell.as_deref());
        let dynamic = cell.and_then(|cell| cell.routes.as_ref()?.dynamic.as_deref());
        dynamic.map_or(0, |dynamic| dynamic.open_count())
    }

    /// Returns how many bytes can be sent now without waiting for room in the send buffer.
    #[must_use]
    pub fn send_space(&self) -> usize {
        self.shard.look().engine.send_space(self.id.id)
    }

    /// Sets the primary path: data is sent to this address of the peer from now on, as long as it is active.
    ///
    /// # Errors
    /// If the address is none of the peer's, or not confirmed yet.
    pub fn set_primary(&self, address: impl Into<Address>) -> Result<(), PathError> {
        self.shard.with(|state, now| state.engine.set_primary(now, self.id.id, address.into().key()))
    }

    /// Sets the congestion controller of the path to one of the peer's addresses. `None` restores the
    /// association's controller. A controller of another kind starts as on a new path.
    ///
    /// # Errors
    /// If the peer has no such address; for [`Algorithm::Dctcp`] also unless it is the association's
    /// controller.
    pub fn set_path_congestion(
        &self,
        address: impl Into<Address>,
        congestion: Option<Algorithm>,
    ) -> Result<(), PathError> {
        self.shard.with(|state, now| {
            state.engine.set_path_congestion(now, self.id.id, address.into().key(), congestion)
        })
    }

    /// Sends a HEARTBEAT to an address of the peer now. The result is visible in [`paths`](Self::paths) and as
    /// a notification.
    ///
    /// # Errors
    /// If the address is none of the peer's, or the association is not established.
    pub fn request_heartbeat(&self, address: impl Into<Address>) -> Result<(), PathError> {
        self.shard.with(|state, now| state.engine.request_heartbeat(now, self.id.id, address.into().key()))
    }

    /// Sets the association's parameters. Those negotiated during the set-up (streams, receive window) don't
    /// change.
    ///
    /// # Errors
    /// If a parameter is out of range, or the association has ended.
    pub fn configure(&self, config: AssociationConfig) -> Result<(), ConfigureError> {
        self.shard.with(|state, now| state.engine.configure(now, self.id.id, Arc::new(config)))
    }

    /// Sets the order in which messages of different streams are sent, in place of the configured one
    /// ([`AssociationConfig::stream_scheduler`]). What is queued follows it, too.
    pub fn set_stream_scheduler(&self, scheduler: StreamScheduler) {
        self.shard.with(|state, _| state.engine.set_stream_scheduler(self.id.id, scheduler));
    }

    /// Sets the parameter of an outgoing stream for the scheduler (RFC 8260 section 4.3.3), from 0, which each stream
    /// begins with, to 65,535. It applies to messages that are queued already, too, and is kept if the scheduler is
    /// changed or the peer restarts.
    ///
    /// - [`StreamScheduler::Priority`]: the higher the value, the lower the priority; 0 is the highest.
    /// - [`StreamScheduler::WeightedFairQueueing`]: the weight. A stream of weight 3 sends three times the bytes of
    ///   one of weight 1. 0 counts as 1.
    /// - The others ignore it.
    ///
    /// ```
    /// use strandline::{Association, Listener, Peer, SendInfo, Stack, StreamId, StreamScheduler};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// # let server = listener.accept().await?;
    /// let (urgent, bulk) = (StreamId(0), StreamId(1));
    /// let control = client.control();
    /// control.set_stream_scheduler(StreamScheduler::Priority);
    /// control.set_stream_value(bulk, 10)?;
    /// client.send(&[0; 10_000], SendInfo::on(bulk)).await?;
    /// client.send(b"now", SendInfo::on(urgent)).await?;
    /// assert_eq!((control.stream_value(urgent)?, control.stream_value(bulk)?), (0, 10));
    /// # for _ in 0..2 { server.recv().await?.ok_or("end")?; }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the association has ended or has no such outgoing stream.
    pub fn set_stream_value(&self, stream: StreamId, value: u16) -> Result<(), StreamValueError> {
        self.shard.with(|state, _| StreamValue { stream, value }.set(&mut state.engine, self.id.id))
    }

    /// Returns the parameter of an outgoing stream for the scheduler: 0 unless
    /// [`set_stream_value`](Self::set_stream_value) has set another one.
    ///
    /// # Errors
    /// If the association is gone or has no such outgoing stream.
    pub fn stream_value(&self, stream: StreamId) -> Result<u16, StreamValueError> {
        StreamValue::of(&self.shard.look().engine, self.id.id, stream).map(|found| found.value)
    }

    /// Asks for a reset of streams (RFC 6525): their sequence numbers begin at 0 again, so that they can serve another
    /// purpose. For outgoing streams it takes place once the peer has acknowledged what was sent before; what is sent
    /// afterwards waits for the outcome. [`StreamsReset`](crate::Notification::StreamsReset) reports it, on the peer's
    /// side, too, if [`PeerRequests::reset_streams`](crate::PeerRequests::reset_streams) allows it there.
    ///
    /// ```
    /// use strandline::{
    ///     Association, AssociationConfig, ExtensionsConfig, Listener, Notification, Outcome, Peer, PeerRequests,
    ///     SendInfo, Ssn, Stack, StreamDirection, StreamId,
    /// };
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// let extensions = ExtensionsConfig { peer_requests: PeerRequests::ALL, ..ExtensionsConfig::default() };
    /// let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// # let server = listener.accept().await?;
    /// let mut events = client.events();
    /// client.send(b"for one purpose", SendInfo::on(StreamId(3))).await?;
    /// client.control().reset_streams(StreamDirection::Outgoing, StreamId(3))?;
    /// client.send(b"for another", SendInfo::on(StreamId(3))).await?;
    ///
    /// for _ in 0..2 {
    ///     assert_eq!(server.recv().await?.ok_or("end")?.ssn, Ssn(0));
    /// }
    /// let outcome = events.next().await.ok_or("the association has ended")?;
    /// assert!(matches!(outcome, Notification::StreamsReset { outcome: Outcome::Performed, .. }));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the peer doesn't support it, a request of either side is in progress, the association isn't established, a
    /// stream doesn't exist, or more than 256 are listed.
    pub fn reset_streams(
        &self,
        direction: StreamDirection,
        streams: impl Into<Streams>,
    ) -> Result<(), ReconfigureError> {
        self.reconfigure(Reconfigure::ResetStreams(direction, streams.into()))
    }

    /// Asks for a reset of the sequence numbers of all streams in both directions, and of the TSNs (RFC 6525). It
    /// takes place once the peer has acknowledged what was sent before; what is sent afterwards waits for the outcome,
    /// which [`AssociationReset`](crate::Notification::AssociationReset) reports. Keep receiving meanwhile: the peer
    /// answers once its own data is acknowledged.
    ///
    /// ```
    /// use strandline::{
    ///     Association, AssociationConfig, ExtensionsConfig, Listener, Notification, Outcome, Peer, PeerRequests,
    ///     Stack,
    /// };
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// let extensions = ExtensionsConfig { peer_requests: PeerRequests::ALL, ..ExtensionsConfig::default() };
    /// let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// # let server = listener.accept().await?;
    /// let mut events = client.events();
    /// client.control().reset_association()?;
    /// let outcome = events.next().await.ok_or("the association has ended")?;
    /// assert!(matches!(outcome, Notification::AssociationReset { outcome: Outcome::Performed, .. }));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`reset_streams`](Self::reset_streams), and within 30 seconds of an earlier request.
    pub fn reset_association(&self) -> Result<(), ReconfigureError> {
        self.reconfigure(Reconfigure::ResetAssociation)
    }

    /// Asks for more streams behind the existing ones (RFC 6525).
    /// [`StreamsChanged`](crate::Notification::StreamsChanged) reports the outcome; [`status`](Self::status) returns
    /// the numbers of streams.
    ///
    /// ```
    /// use strandline::{
    ///     Association, AssociationConfig, ExtensionsConfig, Listener, Notification, Outcome, Peer, PeerRequests,
    ///     Stack,
    /// };
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// let extensions = ExtensionsConfig { peer_requests: PeerRequests::ALL, ..ExtensionsConfig::default() };
    /// let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// # let server = listener.accept().await?;
    /// # client.shutdown().await;
    /// # let few = AssociationConfig { outbound_streams: 10, ..AssociationConfig::default() };
    /// # let client = Association::connect_with(&here, Peer::new([10, 0, 0, 2], 7), 0, few).await?;
    /// let before = client.status().ok_or("ended")?.outbound_streams;
    /// let mut events = client.events();
    /// client.control().add_streams(5, 0)?;
    /// let outcome = events.next().await.ok_or("the association has ended")?;
    /// assert!(matches!(outcome, Notification::StreamsChanged { outcome: Outcome::Performed, .. }));
    /// assert_eq!(client.status().ok_or("ended")?.outbound_streams, before + 5);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Those of [`reset_streams`](Self::reset_streams), and if there would be too many streams.
    pub fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ReconfigureError> {
        self.reconfigure(Reconfigure::AddStreams { outgoing, incoming })
    }

    fn reconfigure(&self, request: Reconfigure) -> Result<(), ReconfigureError> {
        self.shard.with(|state, now| request.ask(&mut state.engine, now, self.id.id))
    }

    /// Asks the peer for changes of this side's addresses, in this order (RFC 5061): to add one, to delete
    /// one, or to send to one of them as long as it works.
    /// [`AddressRequest`](crate::Notification::AddressRequest) reports the outcome of each. Needs
    /// [`dynamic_addresses`](crate::ExtensionsConfig::dynamic_addresses) on both sides.
    ///
    /// Packets to an address must arrive at the stack from the moment that it asks to add it until the peer has
    /// deleted it: a UDP socket is bound to all addresses, or the stack is on raw IP. An association whose only
    /// address is replaced asks for both in one call; what it sends waits until the peer knows the new one.
    ///
    /// ```
    /// use strandline::{
    ///     AddressOutcome, AddressRequest, Association, AssociationConfig, ExtensionsConfig, Listener, Notification,
    ///     Peer, Stack,
    /// };
    /// # use std::net::IpAddr;
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// let extensions = ExtensionsConfig { dynamic_addresses: true, ..ExtensionsConfig::default() };
    /// let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    /// # let (first, second): (IpAddr, IpAddr) = ("10.0.0.1".parse()?, "10.0.1.1".parse()?);
    /// // A host with two addresses, of which peers are told one.
    /// let here = Stack::builder()
    ///     .association(config.clone())
    ///     .local_addresses([first])
    ///     .memory(&network, [first, second])?;
    /// # let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 7)?;
    /// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// # let server = listener.accept().await?;
    /// let mut events = client.events();
    /// let request = AddressRequest::Add(second);
    /// client.control().request_addresses(&[request])?;
    /// loop {
    ///     match events.next().await.ok_or("the association has ended")? {
    ///         Notification::AddressRequest { outcome, .. } => {
    ///             assert_eq!(outcome, AddressOutcome::Performed);
    ///             break;
    ///         }
    ///         _ => {}
    ///     }
    /// }
    /// assert_eq!(server.paths().len(), 2);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// Without a change if the association isn't established, dynamic addresses were not negotiated, too many requests
    /// wait, an address to add is a local one already or isn't unicast, or an address to delete or prefer is no local
    /// one, or the last one.
    pub fn request_addresses(&self, requests: &[AddressRequest]) -> Result<(), AddressError> {
        self.shard.with(|state, now| state.engine.addresses(self.id.id).request(now, requests))
    }

    /// Changes a shared key of the association (RFC 4895). The peer must make the same change, in this order:
    /// both sides set a key before either side activates it.
    /// [`Notification::Authentication`](crate::Notification::Authentication) reports when the peer uses it;
    /// then the earlier one can be deactivated and deleted.
    ///
    /// ```
    /// use strandline::{
    ///     Association, AssociationConfig, Authentication, AuthenticationEvent, ChunkTypes, ExtensionsConfig, KeyChange,
    ///     KeyId, Listener, Notification, Peer, SendInfo, SharedKey, Stack,
    /// };
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// // Both sides accept DATA (0) and ABORT (6) only with authentication.
    /// let authentication =
    ///     Some(Authentication { chunks: ChunkTypes::NONE.with(0).with(6), ..Authentication::default() });
    /// let extensions = ExtensionsConfig { authentication, ..ExtensionsConfig::default() };
    /// let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    /// let here = Stack::builder().association(config.clone()).memory(&network, ["10.0.0.1".parse()?])?;
    /// let there = Stack::builder().association(config).memory(&network, ["10.0.0.2".parse()?])?;
    /// for stack in [&here, &there] {
    ///     stack.change_key(&KeyChange::Set(KeyId(1), SharedKey::new(b"first secret")))?;
    ///     stack.change_key(&KeyChange::Activate(KeyId(1)))?;
    ///     // Nothing is accepted with the null key any more.
    ///     stack.change_key(&KeyChange::Deactivate(KeyId(0)))?;
    ///     stack.change_key(&KeyChange::Delete(KeyId(0)))?;
    /// }
    /// # let listener = Listener::bind(&there, 7)?;
    /// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
    /// # let server = listener.accept().await?;
    /// client.send(b"with the first key", SendInfo::default()).await?;
    /// server.recv().await?.ok_or("end")?;
    ///
    /// let mut events = server.events();
    /// for side in [&client, &server] {
    ///     side.control().change_key(KeyChange::Set(KeyId(2), SharedKey::new(b"second secret")))?;
    /// }
    /// client.control().change_key(KeyChange::Activate(KeyId(2)))?;
    /// client.send(b"with the second key", SendInfo::default()).await?;
    /// server.recv().await?.ok_or("end")?;
    /// let event = events.next().await.ok_or("the association has ended")?;
    /// assert_eq!(event, Notification::Authentication(AuthenticationEvent::NewKey(KeyId(2))));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the association has ended or was configured without
    /// [`authentication`](crate::ExtensionsConfig::authentication), the key does not exist, or is in use.
    pub fn change_key(&self, change: KeyChange) -> Result<(), KeyError> {
        self.shard.with(|state, _| change.apply(&mut state.engine, self.id.id))
    }

    /// Reports [`Notification::SenderDry`](crate::Notification::SenderDry) from now on, each time the peer
    /// has acknowledged all data and no message waits to be sent; at once if it is so now. At first it is not
    /// reported.
    ///
    /// ```
    /// use strandline::{Association, Listener, Notification, Peer, SendInfo, Stack};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// # let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
    /// # let listener = Listener::bind(&there, 5060)?;
    /// # let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 5060)).await?;
    /// # let _server = listener.accept().await?;
    /// client.send(&[0; 10_000], SendInfo::default()).await?;
    /// let mut events = client.events();
    /// client.control().report_dry(true)?;
    /// while events.next().await.ok_or("end")? != Notification::SenderDry {}
    /// assert_eq!(client.control().status().ok_or("end")?.send_buffered, 0);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the association has ended.
    pub fn report_dry(&self, on: bool) -> Result<(), UnknownAssociation> {
        let reports = if on { DryReports::On } else { DryReports::Off };
        self.shard.with(|state, _| reports.set(&mut state.engine, self.id.id)).map_err(|_| UnknownAssociation)
    }

    /// Begins a graceful shutdown: queued messages of both sides are delivered first; new ones are not
    /// accepted.
    pub fn start_shutdown(&self) {
        // The error only says that the association has already ended.
        self.shard.with(|state, now| {
            let _ = state.engine.shutdown(now, self.id.id);
            state.refuse_writers(self.id.id);
        });
    }

    /// Aborts the association at once. The ABORT carries up to 512 bytes of `reason`; undelivered messages are
    /// lost.
    pub fn abort(&self, reason: impl Into<Bytes>) {
        let reason = reason.into();
        self.shard.with(|state, now| {
            let _ = state.engine.abort(now, self.id.id, reason);
        });
    }
}
