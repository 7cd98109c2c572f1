//! A stack: its shards, each a carrier, an engine, and the task that drives them.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use strandline_io::Steering;
use strandline_proto::endpoint::Connect;
use strandline_proto::error::ConnectError as Refusal;
use strandline_proto::event::AssociationId as EngineId;
use strandline_proto::stats::EndpointStats;

use crate::error::{BindError, ConnectError, Ended};
use crate::ports::ReservedPorts;
use crate::shard::attempt::Attempt;
use crate::shard::core::Shard;
use crate::shard::place::Place;
use crate::shard::steer;
use crate::shard::table::Owner;

/// How often a port is picked anew because the peer's other addresses have an association with it on another shard.
const PICKS_MAX: usize = 16;

/// An SCTP stack: one carrier (a UDP socket, raw IP, or a place in an in-memory network) with any number of SCTP ports
/// on it. Clones are the same stack.
///
/// A task on the tokio runtime where the stack was built drives it. Once the last handle (stack, listener, endpoint,
/// association) is dropped, the task finishes the associations that are still delivering, and ends. It ends at once,
/// and unkindly, if the runtime is shut down: await [`wait_idle`](Self::wait_idle) before that.
///
/// # Shards
///
/// A stack may have several [shards](crate::StackBuilder::shards), one for each core: each has a socket, a task and
/// associations of its own, and the kernel gives it its own packets. Seen from outside they are one endpoint. Where an
/// association is doesn't matter to its users, but a task on the runtime that drives its shard finds its memory in that
/// core's cache and never waits for a lock.
#[derive(Debug, Clone)]
pub struct Stack {
    pub(crate) inner: Arc<StackInner>,
    /// Where associations that this handle starts go, if they can.
    pub(crate) preferred: Option<u16>,
}

/// Counters of one shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardStats {
    /// Packets that the shard's engine took.
    pub packets_received: u64,
    /// Packets that it sent.
    pub packets_sent: u64,
    /// Associations that exist, those that are ending included.
    pub associations: usize,
    /// Packets and ICMP messages that came here and were given to other shards.
    pub handed_over: u64,
    /// Packets and ICMP messages that other shards gave to this one.
    pub taken_over: u64,
    /// Packets and ICMP messages for this shard that were lost because too many waited.
    pub handed_over_lost: u64,
    /// How often a task, the shard's own or one that uses its associations, found its lock taken.
    pub lock_waits: u64,
}

/// What all handles of a stack share.
#[derive(Debug)]
pub(crate) struct StackInner {
    first: Arc<Shard>,
    /// All shards by number, the first included.
    pub(crate) shards: Vec<Arc<Shard>>,
    pub(crate) default_port: u16,
    /// How packets are spread, where there are several shards.
    rule: Option<Arc<Steering>>,
    /// Which shard the next association goes to, unless something else says so.
    turn: AtomicU32,
    /// On raw IP: the ports that are ours.
    reserved: Mutex<Option<ReservedPorts>>,
}

impl Drop for StackInner {
    fn drop(&mut self) {
        for shard in &self.shards {
            shard.with(|state, _| {
                state.orphaned = true;
                state.wake_driver();
            });
        }
    }
}

impl StackInner {
    pub(crate) fn new(
        shards: Vec<Arc<Shard>>,
        first: Arc<Shard>,
        default_port: u16,
        rule: Option<Arc<Steering>>,
        reserved: Option<ReservedPorts>,
    ) -> Self {
        let reserved = Mutex::new(reserved);
        Self { first, shards, default_port, rule, turn: AtomicU32::new(0), reserved }
    }

    /// The shard with a number; there is always one.
    pub(crate) fn shard(&self, index: u16) -> &Arc<Shard> {
        let found = self.shards.get(usize::from(index));
        // Numbers come from this stack only, so it is always found.
        found.unwrap_or(&self.first)
    }

    /// On raw IP: reserves a port and lets its packets in.
    pub(crate) fn reserve(&self, port: u16) -> Result<(), BindError> {
        match &mut *self.reserved.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(reserved) => {
                let carriers = self.shards.iter().filter_map(|shard| shard.carrier.raw());
                reserved.reserve(carriers, port)
            }
            None => Ok(()),
        }
    }

    /// The home of an association from a certain local port, and whether other shards may know the peer, too.
    pub(crate) fn homes(&self, request: &Connect) -> (u16, bool) {
        match &self.rule {
            None => (0, false),
            Some(rule) => {
                let home = home(rule, request, request.local_port);
                (home, self.others_may_know(home, request))
            }
        }
    }

    /// An association is on its home by any of its addresses unless its peer has several.
    fn others_may_know(&self, shard: u16, request: &Connect) -> bool {
        let elsewhere = |shard: &Arc<Shard>| {
            shard.steer.as_ref().is_some_and(|steer| steer.post().multihomed_elsewhere(steer.index()))
        };
        request.remotes.len() > 1 || elsewhere(self.shard(shard))
    }

    /// Starts an association for a holder: with a local port of its own on its home, else on the shard that is asked
    /// for, or on each in turn, from a port that makes this its home.
    pub(crate) fn connect(
        &self,
        preferred: Option<u16>,
        request: Connect,
    ) -> Result<(u16, EngineId), ConnectError> {
        let Some(rule) = &self.rule else {
            return Ok((0, self.start(0, request, |_| true)?));
        };
        if request.local_port != 0 {
            let (home, others) = self.homes(&request);
            if others && self.known_elsewhere(home, &request, request.local_port) {
                return Err(Refusal::AlreadyExists.into());
            }
            return Ok((home, self.start(home, request, |_| true)?));
        }
        let places = rule.places();
        let first = preferred
            .unwrap_or_else(|| (self.turn.fetch_add(1, Ordering::Relaxed) % u32::from(places)) as u16);
        let tries = if preferred.is_some() { 1 } else { places };
        for step in 0..tries {
            let shard = (first + step) % places;
            match self.start_on(rule, shard, &request) {
                Err(ConnectError::Request(Refusal::NoPort)) => {}
                started => return Ok((shard, started?)),
            }
        }
        Err(Refusal::NoPort.into())
    }

    /// Starts an association on a shard, from a port that makes the shard its home and that no other shard uses with
    /// the same peer.
    fn start_on(&self, rule: &Steering, shard: u16, request: &Connect) -> Result<EngineId, ConnectError> {
        for _ in 0..PICKS_MAX {
            let id = self.start(shard, request.clone(), |port| home(rule, request, port) == shard)?;
            if !self.others_may_know(shard, request) {
                return Ok(id);
            }
            let port = self.shard(shard).lock().engine.status(id).map_or(0, |status| status.local_port);
            if !self.known_elsewhere(shard, request, port) {
                return Ok(id);
            }
            self.shard(shard).with(|state, now| state.orphan(now, id));
        }
        Err(Refusal::NoPort.into())
    }

    fn start(
        &self,
        shard: u16,
        request: Connect,
        allowed: impl Fn(u16) -> bool,
    ) -> Result<EngineId, ConnectError> {
        let shard = self.shard(shard);
        shard.with(|state, now| {
            if state.gone {
                return Err(Ended::StackClosed.into());
            }
            let started = state.connect(now, Owner::Held, request, allowed);
            if let Some(steer) = &shard.steer {
                steer.note_multihomed(&state.engine);
            }
            started.map_err(ConnectError::from)
        })
    }

    /// True if a shard other than this one has an association with one of the peer's addresses.
    fn known_elsewhere(&self, here: u16, request: &Connect, local_port: u16) -> bool {
        let others = (0..).zip(&self.shards).filter(|(index, _)| *index != here);
        others.map(|(_, shard)| shard.lock()).any(|state| {
            let known =
                |remote: &SocketAddr| state.engine.find(local_port, remote.ip(), request.peer_port).is_some();
            request.remotes.iter().any(known)
        })
    }
}

fn home(rule: &Steering, request: &Connect, local_port: u16) -> u16 {
    let addresses = request.remotes.iter().map(SocketAddr::ip);
    steer::home(rule, addresses, request.peer_port, local_port)
}

impl Stack {
    /// The carrier's address: IP address and encapsulation port (0 for raw IP).
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.inner.shard(0).carrier.local_address()
    }

    /// The encapsulation port that peers are assumed to have unless a [`Peer`](crate::Peer) says otherwise.
    #[must_use]
    pub fn default_encapsulation_port(&self) -> u16 {
        self.inner.default_port
    }

    /// How many shards the stack has.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.inner.shards.len()
    }

    /// A handle to the same stack that starts associations on one shard, numbered from 0 (beyond the last it counts on
    /// from the first), instead of on each in turn: for tasks on the runtime that drives it. Associations that ask for a
    /// certain local port go where that port and the peer's address and port lead, from whatever handle.
    #[must_use]
    pub fn on_shard(&self, shard: usize) -> Self {
        let shard = (shard % self.shards().max(1)) as u16;
        Self { inner: Arc::clone(&self.inner), preferred: Some(shard) }
    }

    /// Counters of all the stack's packets and associations.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        let mut sum = EndpointStats::default();
        for shard in &self.inner.shards {
            sum += shard.lock().engine.stats();
        }
        sum
    }

    /// Counters of each shard, by its number. What went between shards, and how often one waited for another, shows
    /// here.
    #[must_use]
    pub fn shard_stats(&self) -> Vec<ShardStats> {
        let stats = |shard: &Arc<Shard>| {
            let lock_waits = shard.lock_waits();
            let (engine, associations) = {
                let state = shard.lock();
                (state.engine.stats(), state.engine.association_count())
            };
            let traffic = shard.steer.as_ref().map(|steer| steer.post().traffic(steer.index()));
            let traffic = traffic.unwrap_or_default();
            ShardStats {
                packets_received: engine.packets_received,
                packets_sent: engine.packets_sent,
                associations,
                handed_over: traffic.sent,
                taken_over: traffic.received,
                handed_over_lost: traffic.lost,
                lock_waits,
            }
        };
        self.inner.shards.iter().map(stats).collect()
    }

    /// Associations that exist, those that are ending included.
    #[must_use]
    pub fn association_count(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.lock().engine.association_count()).sum()
    }

    /// Waits until no association is left: what dropped handles had queued has been delivered or given up.
    ///
    /// # Cancel safety
    /// It only waits; it can be dropped at any time.
    pub async fn wait_idle(&self) {
        let idle = |shard: &Arc<Shard>| {
            let state = shard.lock();
            state.table.len() == 0 || state.gone
        };
        // While one ends, others may begin.
        while let Some(busy) = self.inner.shards.iter().find(|shard| !idle(shard)) {
            Attempt::new(busy, Place::Idle, |state, _| {
                if state.table.len() == 0 || state.gone {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
        }
    }
}
<<<<<<< HEAD

/// Configuration of a [`Stack`].
#[derive(Debug, Clone, Default)]
pub struct StackBuilder {
    config: EndpointConfig,
    remote_port: Option<u16>,
    seed: Option<[u8; 32]>,
    observer: Option<Arc<dyn PacketObserver>>,
}

impl StackBuilder {
    /// Everything about the engine. What depends on the carrier (overhead, whether ports are shared with other
    /// processes) is set when the stack is made.
    #[must_use]
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.config = config;
        self
    }

    /// Parameters of associations that don't bring their own.
    ///
    /// `zero_checksum` among them is not for UDP encapsulation or raw IP by themselves: SCTP's checksum is then the only
    /// one that covers the packet well, and middleboxes may look at it. Set it where something below vouches for the
    /// packets, such as a network in memory, or a tunnel with authentication on all paths; see [`ErrorDetectionMethod`].
    ///
    /// [`ErrorDetectionMethod`]: crate::ErrorDetectionMethod
    #[must_use]
    pub fn association(mut self, config: AssociationConfig) -> Self {
        self.config.association = Arc::new(config);
        self
    }

    /// Addresses of this host that peers are told (multi-homing). None: peers use the one that packets come from.
    #[must_use]
    pub fn local_addresses(mut self, addresses: impl IntoIterator<Item = IpAddr>) -> Self {
        self.config.local_addresses = addresses.into_iter().collect();
        self
    }

    /// The UDP port that peers are assumed to have (default 9899, RFC 6951).
    #[must_use]
    pub fn remote_encapsulation_port(mut self, port: u16) -> Self {
        self.remote_port = Some(port);
        self
    }

    /// Sees every packet.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn PacketObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Fixes what is random otherwise (tags, keys, nonces), for tests that must repeat exactly. Never use it where a
    /// stranger can send packets.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// A stack in an in-memory network, with one or several addresses.
    ///
    /// # Errors
    /// If a parameter is out of range, an address is taken, none is given, or there is no tokio runtime.
    pub fn memory(
        mut self,
        network: &Network,
        addresses: impl IntoIterator<Item = IpAddr>,
    ) -> Result<Stack, StackError> {
        let addresses: Vec<IpAddr> = addresses.into_iter().collect();
        if addresses.is_empty() {
            return Err(StackError::NoAddress);
        }
        if addresses.len() > 1 && self.config.local_addresses.is_empty() {
            self.config.local_addresses.clone_from(&addresses);
        }
        self.enter()?;
        let socket = network.attach(addresses).map_err(StackError::AddressInUse)?;
        self.remote_port.get_or_insert(memory::PORT);
        self.start(Carrier::Memory(socket), None)
    }

    /// A stack on a UDP socket (RFC 6951): needs no privilege. Port 9899 is the registered one, 0 takes any; `[::]`
    /// carries IPv4 as well.
    ///
    /// # Errors
    /// If a parameter is out of range, the socket can't be opened, or there is no tokio runtime.
    pub fn udp(self, address: SocketAddr) -> Result<Stack, StackError> {
        self.udp_with(address, &UdpOptions::default())
    }

    /// A stack on a UDP socket with options of its own.
    ///
    /// # Errors
    /// As [`udp`](Self::udp).
    pub fn udp_with(mut self, address: SocketAddr, options: &UdpOptions) -> Result<Stack, StackError> {
        self.enter()?;
        self.config.encapsulation_overhead = 8;
        self.remote_port.get_or_insert(strandline_io::UDP_PORT);
        let socket = Registered::new(UdpCarrier::bind(address, options)?).map_err(registering)?;
        self.start(Carrier::Udp(socket), None)
    }

    /// A stack on raw IP (protocol 132), at one local address or all of a family (`0.0.0.0` or `::`). Needs
    /// CAP_NET_RAW. Ports are reserved among the processes of the host that use raw IP.
    ///
    /// # Errors
    /// If a parameter is out of range, the privilege is missing, the kernel's own SCTP would interfere, or there is no
    /// tokio runtime.
    pub fn raw(self, address: IpAddr) -> Result<Stack, StackError> {
        self.raw_with(address, RawOptions::default(), OutgoingPorts::default())
    }

    /// A stack on raw IP with options of its own.
    ///
    /// # Errors
    /// As [`raw`](Self::raw).
    pub fn raw_with(
        mut self,
        address: IpAddr,
        mut options: RawOptions,
        outgoing: OutgoingPorts,
    ) -> Result<Stack, StackError> {
        self.enter()?;
        let lock_address = (!address.is_unspecified()).then_some(address);
        let ephemeral = PortLock::any(outgoing.within, outgoing.count, lock_address)?;
        self.config.encapsulation_overhead = 0;
        self.config.owns_all_ports = false;
        self.config.ephemeral_ports = (*ephemeral.ports().start(), *ephemeral.ports().end());
        self.remote_port = Some(0);
        let reserved = ReservedPorts::new(address, ephemeral);
        options.ports = reserved.ranges();
        let socket = Registered::new(RawCarrier::open(address, &options)?).map_err(registering)?;
        self.start(Carrier::Raw(socket), Some(reserved))
    }

    /// Sockets are registered with the runtime that this is called on.
    fn enter(&self) -> Result<(), StackError> {
        self.config.validate()?;
        tokio::runtime::Handle::try_current().map(|_| ()).map_err(|_| StackError::NoRuntime)
    }

    fn start(self, carrier: Carrier, reserved: Option<ReservedPorts>) -> Result<Stack, StackError> {
        let seed = match self.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let clock = Clock::start();
        let engine = Engine::new(self.config, seed, clock.now())?;
        let shard = Arc::new(Shard::new(clock, carrier, self.observer, State::new(engine, reserved)));
        tokio::spawn(Driver::new(Arc::clone(&shard)));
        let default_port = self.remote_port.unwrap_or(0);
        Ok(Stack {
            inner: Arc::new(StackInner { first: Arc::clone(&shard), shards: vec![shard], default_port }),
        })
    }
}

fn registering(source: std::io::Error) -> StackError {
    StackError::Io { doing: "registering a socket with the tokio runtime", source }
}

#[allow(
    clippy::disallowed_methods,
    reason = "the socket layer is where randomness comes in: it seeds the engine"
)]
fn random_seed() -> Result<[u8; 32], StackError> {
    let mut seed = [0; 32];
    let filled = getrandom::fill(&mut seed);
    filled.map_err(|error| StackError::Io {
        doing: "asking the system for random bytes",
        source: std::io::Error::other(error),
    })?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::association::Association;
    use crate::carrier::narrow::Narrow;
    use crate::listener::Listener;
    use strandline_proto::event::SendInfo;

    #[tokio::test(start_paused = true)]
    async fn what_a_full_carrier_could_not_take_goes_later_once_and_in_order() {
        let network = Network::new();
        let socket = network.attach(vec![[10, 0, 0, 1].into()]).unwrap();
        let narrow = Arc::new(Narrow::new(socket, usize::MAX));
        let mut builder = Stack::builder();
        builder.remote_port = Some(memory::PORT);
        let here = builder.start(Carrier::Narrow(Arc::clone(&narrow)), None).unwrap();
        let there = Stack::builder().memory(&network, [[10, 0, 0, 2].into()]).unwrap();
        let listener = Listener::bind(&there, 7).unwrap();
        let peer: (IpAddr, u16) = ([10, 0, 0, 2].into(), 7);
        let client = Association::connect(&here, peer).await.unwrap();
        let server = listener.accept().await.unwrap();

        narrow.set_room(0);
        for number in 0..40_u32 {
            client.send(&[number as u8; 1000], SendInfo::default()).await.unwrap();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let receiving = tokio::spawn(async move {
            for number in 0..40_u32 {
                assert_eq!(server.recv().await.unwrap().unwrap().data, vec![number as u8; 1000]);
            }
        });
        // One packet at a time: bursts are sent in part.
        while !receiving.is_finished() {
            narrow.set_room(1);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        receiving.await.unwrap();
        assert_eq!(client.status().unwrap().stats.retransmissions, 0);
    }

    #[test]
    fn outside_of_a_runtime_there_is_a_hint() {
        let error = Stack::builder().memory(&Network::new(), [[10, 0, 0, 1].into()]).unwrap_err();
        assert!(matches!(error, StackError::NoRuntime), "{error}");
    }
}
=======
>>>>>>> shards
