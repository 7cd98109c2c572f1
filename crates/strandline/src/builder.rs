//! How a stack is made.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;

use strandline_io::{PLACES_MAX, PortLock, RawCarrier, RawOptions, Steering, UdpCarrier, UdpOptions};
use strandline_proto::config::{AssociationConfig, EndpointConfig, Shard as ShardOfTags};
use strandline_proto::error::ConfigError;
use strandline_proto::memory::MemoryAccount;
use tokio::runtime::Handle;

use crate::carrier::{Carrier, Registered};
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::StackError;
use crate::memory::{self, Network};
use crate::observe::PacketObserver;
use crate::ports::ReservedPorts;
use crate::shard::core::Shard;
use crate::shard::driver::Driver;
use crate::shard::post::Post;
use crate::shard::state::State;
use crate::shard::steer::Steer;
use crate::stack::{Stack, StackInner};

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

impl Stack {
    /// A stack to be configured.
    #[must_use]
    pub fn builder() -> StackBuilder {
        StackBuilder::default()
    }
}

/// Configuration of a [`Stack`].
#[derive(Debug, Clone)]
pub struct StackBuilder {
    shards: usize,
    runtimes: Vec<Handle>,
    config: EndpointConfig,
    remote_port: Option<u16>,
    seed: Option<[u8; 32]>,
    observer: Option<Arc<dyn PacketObserver>>,
    mixed_trains: bool,
}

impl Default for StackBuilder {
    fn default() -> Self {
        Self {
            shards: 1,
            runtimes: Vec::new(),
            config: EndpointConfig::default(),
            remote_port: None,
            seed: None,
            observer: None,
            mixed_trains: false,
        }
    }
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

    /// How many shards the stack has, 1 to 64; best one for each core that is to work for it. Default: 1. Each has a
    /// socket, an engine, a lock and a task of its own; `associations_max` of [`EndpointConfig`] is divided
    /// among them, and its limits of bytes hold for all together. See [`Stack`].
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// The tokio runtimes that drive the shards, the first again after the last: shard `i` runs on number `i` modulo
    /// their number. With a current-thread runtime for each core, and tasks that stay with their shard
    /// ([`accept_on`](crate::Listener::accept_on), [`recv_on`](crate::Endpoint::recv_on),
    /// [`on_shard`](Stack::on_shard)), nothing is shared between cores. Default: the runtime where the stack is built,
    /// for all.
    #[must_use]
    pub fn runtimes(mut self, runtimes: impl IntoIterator<Item = Handle>) -> Self {
        self.runtimes = runtimes.into_iter().collect();
        self
    }

    /// Packets of several associations to one address, if they are equally long, leave as one train (GSO) and arrive as one
    /// (GRO). For one-to-many sockets whose peers have many associations from one address each, such as proxies: without it they
    /// leave with one system call, but are carried one by one. A peer whose stack has several shards shouldn't be sent any: a
    /// train goes as a whole to the shard that its first packet is for, which has to hand the others over. Default: false.
    #[must_use]
    pub fn mixed_trains(mut self, mixed: bool) -> Self {
        self.mixed_trains = mixed;
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
        let plan = self.plan()?;
        let sockets = network.attach(addresses.clone(), &plan.rule).map_err(StackError::AddressInUse)?;
        self.remote_port.get_or_insert(memory::PORT);
        self.config.own_addresses.extend(addresses.iter().copied());
        self.start(plan, sockets.into_iter().map(Carrier::Memory).collect(), None)
    }

    /// A stack on a UDP socket (RFC 6951): needs no privilege. Port 9899 is the registered one, 0 takes any; `[::]`
    /// carries IPv4 as well. With several shards there are as many sockets, at the same address and port.
    ///
    /// # Errors
    /// If a parameter is out of range, the socket can't be opened, or there is no tokio runtime.
    pub fn udp(self, address: SocketAddr) -> Result<Stack, StackError> {
        self.udp_with(address, &UdpOptions::default())
    }

    /// A stack on a UDP socket with options of its own. Several shards share their port among themselves, and with
    /// nobody else: `reuse_port` must be false.
    ///
    /// # Errors
    /// As [`udp`](Self::udp).
    pub fn udp_with(mut self, address: SocketAddr, options: &UdpOptions) -> Result<Stack, StackError> {
        let plan = self.plan()?;
        let sockets = match plan.rule.places() {
            1 => vec![UdpCarrier::bind(address, options)?],
            _ if options.reuse_port => {
                let wants = "false with several shards, which keep their port to themselves";
                return Err(ConfigError { name: "reuse_port", wants }.into());
            }
            _ => UdpCarrier::bind_group(address, options, &plan.rule)?,
        };
        self.config.encapsulation_overhead = 8;
        self.remote_port.get_or_insert(strandline_io::UDP_PORT);
        let carriers = plan.register(sockets)?.into_iter().map(Carrier::Udp).collect();
        self.start(plan, carriers, None)
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
        let plan = self.plan()?;
        let lock_address = (!address.is_unspecified()).then_some(address);
        let ephemeral = PortLock::any(outgoing.within, outgoing.count, lock_address)?;
        self.config.encapsulation_overhead = 0;
        self.config.owns_all_ports = false;
        self.config.ephemeral_ports = (*ephemeral.ports().start(), *ephemeral.ports().end());
        self.remote_port = Some(0);
        let reserved = ReservedPorts::new(address, ephemeral);
        options.ports = reserved.ranges();
        let sockets = match plan.rule.places() {
            1 => vec![RawCarrier::open(address, &options)?],
            places => {
                let open = |place| RawCarrier::open_place(address, &options, &plan.rule, place);
                (0..places).map(open).collect::<Result<_, _>>()?
            }
        };
        let carriers = plan.register(sockets)?.into_iter().map(Carrier::Raw).collect();
        self.start(plan, carriers, Some(reserved))
    }

    /// Checks what can be checked before any socket is opened.
    fn plan(&self) -> Result<Plan, StackError> {
        self.config.validate()?;
        let shards = u16::try_from(self.shards).unwrap_or(u16::MAX);
        if !(1..=PLACES_MAX).contains(&shards) {
            return Err(ConfigError { name: "shards", wants: "1 to 64" }.into());
        }
        let mut runtimes = self.runtimes.clone();
        if runtimes.is_empty() {
            runtimes.push(Handle::try_current().map_err(|_| StackError::NoRuntime)?);
        }
        let seed = match self.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let key = match self.seed {
            Some([a, b, c, d, e, f, g, h, ..]) => u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            None => {
                let [a, b, c, d, e, f, g, h, ..] = random_seed()?;
                u64::from_be_bytes([a, b, c, d, e, f, g, h])
            }
        };
        Ok(Plan { rule: Arc::new(Steering::new(shards, key)), runtimes, seed, account: Arc::default() })
    }

    fn start(
        mut self,
        plan: Plan,
        carriers: Vec<Carrier>,
        reserved: Option<ReservedPorts>,
    ) -> Result<Stack, StackError> {
        let clock = Clock::start();
        if let Some(first) = carriers.first().filter(|first| first.is_of_the_kernel()) {
            note_own_addresses(&mut self.config, first);
        }
        let several = (carriers.len() > 1).then(|| Arc::new(Post::new(plan.rule.places())));
        let mut shards = Vec::with_capacity(carriers.len());
        for (index, carrier) in (0..).zip(carriers) {
            let (seed, mut config) = (plan.seed_of(index), self.config.clone());
            if several.is_some() {
                plan.divide(&mut config, index);
            }
            let mut engine = Engine::new(config, seed, clock.now())?;
            if let Some(reserved) = &reserved {
                engine.set_reserved_ports(reserved.ranges());
            }
            let steer = several
                .as_ref()
                .map(|post| Arc::new(Steer::new(index, Arc::clone(&plan.rule), Arc::clone(post))));
            let state = State::new(engine, self.mixed_trains);
            shards.push(Arc::new(Shard::new(clock, carrier, self.observer.clone(), steer, state)));
        }
        let Some(first) = shards.first().cloned() else { return Err(StackError::NoAddress) };
        for (index, shard) in (0..).zip(&shards) {
            let _inside = plan.runtime(index).map(Handle::enter);
            tokio::spawn(Driver::new(Arc::clone(shard)));
        }
        let rule = several.map(|_| plan.rule);
        let default_port = self.remote_port.unwrap_or(0);
        let inner = StackInner::new(shards, first, default_port, rule, reserved);
        Ok(Stack { inner: Arc::new(inner), preferred: None })
    }
}

/// What a stack's shards are made by.
struct Plan {
    rule: Arc<Steering>,
    runtimes: Vec<Handle>,
    seed: [u8; 32],
    /// What the shards hold together.
    account: Arc<MemoryAccount>,
}

impl Plan {
    fn runtime(&self, shard: u16) -> Option<&Handle> {
        self.runtimes.get(usize::from(shard) % self.runtimes.len().max(1))
    }

    /// Registers each shard's socket with the shard's runtime.
    fn register<C: strandline_io::Carrier>(&self, sockets: Vec<C>) -> Result<Vec<Registered<C>>, StackError> {
        let register = |(index, socket)| {
            let _inside = self.runtime(index).map(Handle::enter);
            Registered::new(socket).map_err(registering)
        };
        (0..).zip(sockets).map(register).collect()
    }

    /// Every shard's seed is another.
    fn seed_of(&self, shard: u16) -> [u8; 32] {
        let mut seed = self.seed;
        for (byte, of_shard) in seed.iter_mut().zip(shard.to_le_bytes()) {
            *byte ^= of_shard;
        }
        seed
    }

    /// A shard's part of the associations, the account of memory that it shares, and its number in its tags.
    fn divide(&self, config: &mut EndpointConfig, shard: u16) {
        let shards = self.rule.places();
        config.shard = ShardOfTags { index: shard.into(), bits: self.rule.tag_bits() };
        config.associations_max = config.associations_max.div_ceil(shards.into());
        config.account.get_or_insert_with(|| Arc::clone(&self.account));
    }
}

/// Tells the engine which addresses are this host's, as they are now, so that a peer that lists one of them isn't sent anything
/// there. What it isn't told it finds out by its own packets that come back.
fn note_own_addresses(config: &mut EndpointConfig, carrier: &Carrier) {
    let all = strandline_io::local_addresses().unwrap_or_else(|error| {
        tracing::debug!(%error, "listing the addresses of this host");
        Vec::new()
    });
    let all = all.into_iter().map(|local| local.address);
    match carrier.local_address().map(|address| address.ip()) {
        Some(any) if any.is_unspecified() => config.own_addresses.extend(all),
        bound => {
            config.own_addresses.extend(bound);
            config.host_addresses.extend(all);
        }
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
mod tests;
