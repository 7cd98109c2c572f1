//! A stack: a carrier, an engine, and the task that drives them.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use strandline_io::{PortLock, RawCarrier, RawOptions, UdpCarrier, UdpOptions};
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::stats::EndpointStats;

use crate::carrier::{Carrier, Registered};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::StackError;
use crate::memory::{self, Network};
use crate::observe::PacketObserver;
use crate::ports::ReservedPorts;
use crate::shard::attempt::Attempt;
use crate::shard::core::Shard;
use crate::shard::driver::Driver;
use crate::shard::place::Place;
use crate::shard::state::State;

/// Local ports that a stack on raw IP reserves for outgoing associations: how many in a row, and within which range.
/// They limit how many associations there can be with one port of a peer. Default: 1,024 of the dynamic ports (49,152
/// to 65,535).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingPorts {
    /// How many.
    pub count: u16,
    /// Where to look for them; the row begins at a multiple of `count`.
    pub within: RangeInclusive<u16>,
}

impl Default for OutgoingPorts {
    fn default() -> Self {
        Self { count: 1024, within: strandline_io::EPHEMERAL_PORTS }
    }
}

/// An SCTP stack: one carrier (a UDP socket, raw IP, or a place in an in-memory network) with any number of SCTP ports
/// on it. Clones are the same stack.
///
/// A task on the tokio runtime where the stack was built drives it. Once the last handle (stack, listener, endpoint,
/// association) is dropped, the task finishes the associations that are still delivering, and ends. It ends at once,
/// and unkindly, if the runtime is shut down: await [`wait_idle`](Self::wait_idle) before that.
#[derive(Debug, Clone)]
pub struct Stack {
    pub(crate) inner: Arc<StackInner>,
}

/// What all handles of a stack share.
#[derive(Debug)]
pub(crate) struct StackInner {
    first: Arc<Shard>,
    /// All shards by number, the first included.
    pub(crate) shards: Vec<Arc<Shard>>,
    pub(crate) default_port: u16,
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
    /// The shard with a number; there is always one.
    pub(crate) fn shard(&self, index: u16) -> &Arc<Shard> {
        let found = self.shards.get(usize::from(index));
        // Numbers come from this stack only, so it is always found.
        found.unwrap_or(&self.first)
    }
}

impl Stack {
    /// A stack to be configured.
    #[must_use]
    pub fn builder() -> StackBuilder {
        StackBuilder::default()
    }

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

    /// Counters of all the stack's packets and associations.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        self.inner.shard(0).lock().engine.stats()
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
        for shard in &self.inner.shards {
            Attempt::new(shard, Place::Idle, |state, _| {
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
