//! Configuration and construction of a stack.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use strandline_dtls::{Layer, UnixTime};
use strandline_io::{
    AddressChanges, LocalAddress, PLACES_MAX, PortLock, RawCarrier, RawOptions, Steering, UdpCarrier,
    UdpGroup, UdpOptions,
};
use strandline_proto::config::{
    AssociationConfig, EndpointConfig, ErrorDetectionMethod, LinkMtu, Shard as ShardOfTags,
};
use strandline_proto::endpoint::LocalAddresses;
use strandline_proto::error::ConfigError;
use strandline_proto::memory::{MemoryAccount, TakenBytes};
use strandline_proto::time::Time;
use tokio::runtime::Handle;

use crate::address::Address;
use crate::carrier::{Carrier, Registered};
use crate::clock::Clock;
use crate::encryption::Encryption;
use crate::engine::Engine;
use crate::error::StackError;
use crate::host;
use crate::memory::{self, Network};
use crate::observe::PacketObserver;
use crate::ports::ReservedPorts;
use crate::shard::core::Shard;
use crate::shard::driver::Driver;
use crate::shard::follow::Following;
use crate::shard::post::Post;
use crate::shard::secure::Secure;
use crate::shard::state::State;
use crate::shard::steer::Steer;
use crate::stack::{Stack, StackInner};

/// Largest MTU that encrypted packets use: a record holds 16,384 bytes (RFC 9147 section 4).
const RECORD_MTU_MAX: u16 = 16_384;

/// Default and largest values of [`StackBuilder::busy_poll`].
const BUSY_POLL: Duration = Duration::from_micros(50);
const BUSY_POLL_MAX: Duration = Duration::from_millis(1);

/// The local ports that a stack on raw IP reserves for outgoing associations: a number of consecutive ports
/// within a range. The number limits how many associations can exist with one port of a peer. Default: 1,024 of
/// the dynamic ports (49,152 to 65,535).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutgoingPorts {
    /// Number of consecutive ports.
    pub count: u16,
    /// The range to reserve them in; the first port is a multiple of `count`.
    pub within: RangeInclusive<u16>,
}

impl Default for OutgoingPorts {
    fn default() -> Self {
        Self { count: 1024, within: strandline_io::EPHEMERAL_PORTS }
    }
}

impl Stack {
    /// Returns the configuration of a new stack, with defaults.
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
    follows_addresses: bool,
    encryption: Option<Encryption>,
    busy_poll: Duration,
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
            follows_addresses: false,
            encryption: None,
            busy_poll: BUSY_POLL,
        }
    }
}

impl StackBuilder {
    /// Sets the engine's configuration. Values that depend on the carrier (overhead, whether ports are shared
    /// with other processes) are set when the stack is built.
    #[must_use]
    pub fn config(mut self, config: EndpointConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the parameters of associations that don't have their own.
    ///
    /// With [`zero_checksum`](crate::ExtensionsConfig::zero_checksum), packets over UDP encapsulation or raw
    /// IP are not sufficiently protected: SCTP's checksum is the only one that covers the packet well, and
    /// middleboxes may verify it. Enable it only where a lower layer protects the packets, such as an
    /// in-memory network or an authenticated tunnel on all paths; see [`ErrorDetectionMethod`].
    ///
    /// [`ErrorDetectionMethod`]: crate::ErrorDetectionMethod
    #[must_use]
    pub fn association(mut self, config: AssociationConfig) -> Self {
        self.config.association = Arc::new(config);
        self
    }

    /// Addresses of this host that peers are told (multi-homing), at most 8. None: peers use the one that
    /// packets come from. A link-local IPv6 address is named only to link-local peers in its zone, or in any
    /// if it has none. [`Stack::add_local_address`] and [`Stack::remove_local_address`] change them later.
    #[must_use]
    pub fn local_addresses(mut self, addresses: impl IntoIterator<Item = impl Into<Address>>) -> Self {
        self.config.local_addresses = addresses.into_iter().map(|address| address.into().key()).collect();
        self
    }

    /// Sets whether associations follow the addresses of this host's interfaces (RFC 5061). An address that
    /// an interface gains is added to each association whose peer agreed on [dynamic
    /// addresses](crate::ExtensionsConfig::dynamic_addresses), if the peer can reach it: it has the family of
    /// the peer's address, and is not of a narrower scope. An address that is lost is deleted; the last one
    /// stays until another one takes its place. [`AddressRequest`](crate::Notification::AddressRequest)
    /// reports each outcome. Link-local addresses are left alone. Needs a socket that is bound to all
    /// addresses. Default false.
    ///
    /// Changes are gathered for 200 ms, and about 25,000 associations of a shard are visited per second. The
    /// [local addresses](Self::local_addresses) of the stack follow, too, if there are some: new associations
    /// list the ones of now. Those that [sockets are bound to](crate::Bind) stay; associations adapt as soon
    /// as they are established.
    #[must_use]
    pub fn follow_addresses(mut self, follow: bool) -> Self {
        self.follows_addresses = follow;
        self
    }

    /// Sets the UDP port assumed for peers (default 9899, RFC 6951).
    #[must_use]
    pub fn remote_encapsulation_port(mut self, port: u16) -> Self {
        self.remote_port = Some(port);
        self
    }

    /// Sets an observer that is called with every packet sent or received.
    #[must_use]
    pub fn observer(mut self, observer: Arc<dyn PacketObserver>) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Fixes the seed of otherwise random values (tags, keys, nonces) for tests that must be reproducible.
    /// Never use it where strangers can send packets.
    #[must_use]
    pub fn seed(mut self, seed: [u8; 32]) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the number of shards, 1 to 64; ideally one for each core that is to work for the stack. Default: 1.
    /// Each shard has its own socket, engine, lock and task. `associations_max` of [`EndpointConfig`] is
    /// divided among the shards; its limits in bytes apply to all shards together. See [`Stack`].
    #[must_use]
    pub fn shards(mut self, shards: usize) -> Self {
        self.shards = shards;
        self
    }

    /// Sets the tokio runtimes that drive the shards: shard `i` runs on runtime `i` modulo their number. With a
    /// current-thread runtime for each core, and tasks that stay on their shard
    /// ([`accept_on`](crate::Listener::accept_on), [`recv_on`](crate::Endpoint::recv_on),
    /// [`on_shard`](Stack::on_shard)), cores share nothing. Default: the runtime where the stack is built
    /// drives all shards.
    #[must_use]
    pub fn runtimes(mut self, runtimes: impl IntoIterator<Item = Handle>) -> Self {
        self.runtimes = runtimes.into_iter().collect();
        self
    }

    /// Sends equally long packets of several associations to one address as one train (GSO), which arrives as
    /// one (GRO). Meant for one-to-many sockets whose peers have many associations from the same address, such
    /// as proxies: otherwise such packets share a system call but travel one by one. Avoid it if the peer's
    /// stack has several shards: a train is delivered as a whole to the shard of its first packet, which has to
    /// hand the other packets over. Default: false.
    #[must_use]
    pub fn mixed_trains(mut self, mixed: bool) -> Self {
        self.mixed_trains = mixed;
        self
    }

    /// Sets how long a shard polls its socket before it sleeps, within 250 us of the last step of a set-up:
    /// packets of a set-up on a fast network arrive sooner than a sleeping core wakes. Polling in vain makes
    /// the next ones rarer, so distant peers cost next to nothing, and idle associations cost nothing.
    /// Default 50 us, at most 1 ms; zero: never.
    #[must_use]
    pub fn busy_poll(mut self, limit: Duration) -> Self {
        self.busy_poll = limit;
        self
    }

    /// Encrypts all packets and authenticates all peers: SCTP over DTLS 1.3 (RFC 8261). See
    /// [`encryption`](crate::encryption). Not on raw IP.
    ///
    /// Associations that don't have their own parameters use packets without a checksum with peers that allow
    /// it (RFC 9653), since DTLS protects them better.
    #[must_use]
    pub fn encryption(mut self, encryption: Encryption) -> Self {
        self.encryption = Some(encryption);
        self
    }

    /// Builds a stack in an in-memory network, with one or several addresses.
    ///
    /// # Errors
    /// If a parameter is out of range, an address is taken, no address is given, or there is no tokio runtime.
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

    /// Builds a stack on a UDP socket (RFC 6951), which needs no privilege. Port 9899 is the registered one, 0
    /// picks any; `[::]` carries IPv4 as well. Each shard opens its own socket on the same address and port.
    ///
    /// # Errors
    /// If a parameter is out of range, the socket can't be opened, or there is no tokio runtime.
    pub fn udp(self, address: SocketAddr) -> Result<Stack, StackError> {
        self.udp_with(address, &UdpOptions::default())
    }

    /// Builds a stack on a UDP socket with the given options. Several shards share their port only among
    /// themselves, so `reuse_port` must be false.
    ///
    /// # Errors
    /// See [`udp`](Self::udp).
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

    /// Builds a stack on a UDP address that other processes have had before, or will have: it joins the group. Call
    /// [`UdpGroup::lead`] once new associations are to come here. See [`UdpGroup`].
    ///
    /// # Errors
    /// As [`udp`](Self::udp), and if too many processes share the address.
    pub fn udp_group(mut self, group: &mut UdpGroup) -> Result<Stack, StackError> {
        let mut plan = self.plan()?;
        let (sockets, rule) = group.join((*plan.rule).clone())?;
        plan.rule = Arc::new(rule);
        self.config.encapsulation_overhead = 8;
        self.remote_port.get_or_insert(strandline_io::UDP_PORT);
        let carriers = plan.register(sockets)?.into_iter().map(Carrier::Udp).collect();
        self.start(plan, carriers, None)
    }

    /// A stack on raw IP (protocol 132), at one local address or all of a family (`0.0.0.0` or `::`). A
    /// link-local IPv6 address needs its zone. Needs CAP_NET_RAW. Ports are reserved among the processes of
    /// the host that use raw IP.
    ///
    /// # Errors
    /// If a parameter is out of range, the privilege is missing, the kernel's own SCTP would interfere, or there is no
    /// tokio runtime.
    pub fn raw(self, address: impl Into<Address>) -> Result<Stack, StackError> {
        self.raw_with(address, RawOptions::default(), OutgoingPorts::default())
    }

    /// A stack on raw IP with options of its own. The zone is that of the address.
    ///
    /// # Errors
    /// See [`raw`](Self::raw).
    pub fn raw_with(
        mut self,
        address: impl Into<Address>,
        mut options: RawOptions,
        outgoing: OutgoingPorts,
    ) -> Result<Stack, StackError> {
        let plan = self.plan()?;
        if self.encryption.is_some() {
            return Err(ConfigError { name: "encryption", wants: "a stack on UDP" }.into());
        }
        let address = address.into();
        options.zone = address.zone();
        let address = address.ip();
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

    /// Checks everything that can be checked before a socket is opened.
    fn plan(&self) -> Result<Plan, StackError> {
        self.config.validate()?;
        let shards = u16::try_from(self.shards).unwrap_or(u16::MAX);
        if self.busy_poll > BUSY_POLL_MAX {
            return Err(ConfigError { name: "busy_poll", wants: "at most 1 ms" }.into());
        }
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
        let rule = Steering::new(shards, key);
        let rule = if self.encryption.is_some() { rule.by_connection() } else { rule };
        Ok(Plan { rule: Arc::new(rule), runtimes, seed, account: Arc::default() })
    }

    /// Returns the addresses of this host if the stack is to follow them.
    fn followed(&self, carrier: Option<&Carrier>) -> Result<Option<Vec<LocalAddress>>, StackError> {
        if !self.follows_addresses {
            return Ok(None);
        }
        let of_all = |carrier: &&Carrier| {
            carrier.is_of_the_kernel() && carrier.local_address().is_some_and(|own| own.ip().is_unspecified())
        };
        if carrier.filter(of_all).is_none() {
            return Err(
                ConfigError { name: "follow_addresses", wants: "a socket bound to all addresses" }.into()
            );
        }
        let listed = strandline_io::local_addresses();
        let doing = "listing this host's addresses";
        listed.map(Some).map_err(|cause| StackError::Io { doing, cause })
    }

    /// Begins to listen for changes of this host's addresses, for each shard. Without, the stack knows those that the
    /// host has when it is built.
    fn changes(&self, carriers: &[Carrier]) -> Result<Vec<AddressChanges>, StackError> {
        match host::changes(carriers) {
            Err(cause) if self.follows_addresses => {
                Err(StackError::Io { doing: "listening for changes of this host's addresses", cause })
            }
            changes => Ok(changes.unwrap_or_default()),
        }
    }

    fn start(
        mut self,
        plan: Plan,
        carriers: Vec<Carrier>,
        reserved: Option<ReservedPorts>,
    ) -> Result<Stack, StackError> {
        let clock = Clock::start();
        if carriers.first().is_some_and(Carrier::is_of_the_kernel) {
            self.config.link_mtu = host::link_mtu();
        }
        self.prepare_encryption();
        // They are listed after that, so that no change is missed.
        let mut changes = self.changes(&carriers)?.into_iter();
        let known = host::Addresses::now(carriers.first());
        let followed = self.followed(carriers.first())?;
        let is_shared = plan.rule.generation().is_some();
        let several = (carriers.len() > 1 || is_shared).then(|| Arc::new(Post::new(plan.rule.places())));
        let mut shards = Vec::with_capacity(carriers.len());
        for (index, carrier) in (0..).zip(carriers) {
            let (seed, mut config) = (plan.seed_of(index), self.config.clone());
            if several.is_some() {
                plan.divide(&mut config, index);
            }
            if let Some(bytes) = carrier.receive_queue_bytes() {
                config.receive_queue_bytes = bytes;
            }
            let account = Arc::clone(config.account.get_or_insert_with(|| Arc::clone(&plan.account)));
            let taken = Arc::new(TakenBytes::new(account, config.receive_bytes_max));
            let mut engine = Engine::new(config, seed, clock.now())?;
            LocalAddresses::set_of_host(&mut engine, &known.own, &known.others);
            if let Some(reserved) = &reserved {
                engine.set_reserved_ports(reserved.ranges());
            }
            let steer = several
                .as_ref()
                .map(|post| Arc::new(Steer::new(index, Arc::clone(&plan.rule), Arc::clone(post))));
            let mut state = State::new(engine, taken, self.mixed_trains);
            state.following = followed.clone().map(Following::of);
            state.secure = self.secure(&plan, index, clock)?.map(Box::new);
            shards.push(Arc::new(Shard::new(clock, carrier, self.observer.clone(), steer, state)));
        }
        let Some(first) = shards.first().cloned() else { return Err(StackError::NoAddress) };
        for (index, shard) in (0..).zip(&shards) {
            let _inside = plan.runtime(index).map(Handle::enter);
            let changes = changes.next().map(host::registered).transpose().map_err(registering)?;
            tokio::spawn(Driver::new(Arc::clone(shard), changes, self.busy_poll));
        }
        let rule = several.map(|_| plan.rule);
        let default_port = self.remote_port.unwrap_or(0);
        let inner = StackInner::new(shards, first, default_port, rule, reserved);
        Ok(Stack { inner: Arc::new(inner), preferred: None })
    }
}

impl StackBuilder {
    /// Accounts for the bytes that encryption takes, and leaves checksums out where peers allow it.
    fn prepare_encryption(&mut self) {
        if self.encryption.is_none() {
            return;
        }
        self.config.encapsulation_overhead += Layer::overhead();
        let LinkMtu { within_host, to_others } = &mut self.config.link_mtu;
        *within_host = RECORD_MTU_MAX.min(*within_host);
        *to_others = RECORD_MTU_MAX.min(*to_others);
        if self.config.association.extensions.zero_checksum.is_none() {
            let association = Arc::make_mut(&mut self.config.association);
            association.extensions.zero_checksum = Some(ErrorDetectionMethod::SctpOverDtls);
        }
    }

    /// Returns the layer of encryption of a shard, if packets are encrypted.
    fn secure(&self, plan: &Plan, index: u16, clock: Clock) -> Result<Option<Secure>, StackError> {
        let Some(Encryption { config, on_learned }) = &self.encryption else { return Ok(None) };
        let mut seed = match self.seed {
            Some(_) => plan.seed_of(index),
            None => random_seed()?,
        };
        // With a given seed, the engine has the same one.
        if let Some(first) = seed.first_mut() {
            *first ^= 0xd7;
        }
        let shard =
            strandline_dtls::Shard { index: plan.rule.tag_of_place(index), bits: plan.rule.tag_bits() };
        #[allow(
            clippy::disallowed_methods,
            reason = "certificates are valid for some time of the day and year"
        )]
        let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let wall = UnixTime::since_unix_epoch(wall);
        let origin = clock.instant(Time::ZERO).into_std();
        let layer = Layer::new(Arc::new(config.clone()), shard, seed, origin, wall);
        let layer = layer.map_err(|error| StackError::Encryption(error.to_string()))?;
        Ok(Some(Secure::new(layer, origin, on_learned.clone())))
    }
}

/// Everything that a stack's shards are built from.
struct Plan {
    rule: Arc<Steering>,
    runtimes: Vec<Handle>,
    seed: [u8; 32],
    /// The memory account shared by the shards.
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

    /// Returns the seed of a shard; each shard has a different one.
    fn seed_of(&self, shard: u16) -> [u8; 32] {
        let mut seed = self.seed;
        for (byte, of_shard) in seed.iter_mut().zip(shard.to_le_bytes()) {
            *byte ^= of_shard;
        }
        seed
    }

    /// Sets a shard's share of the limits of associations and of unanswered HEARTBEATs, and the shard's index in
    /// verification tags.
    fn divide(&self, config: &mut EndpointConfig, shard: u16) {
        let shards = self.rule.places();
        config.shard = ShardOfTags { index: self.rule.tag_of_place(shard), bits: self.rule.tag_bits() };
        config.associations_max = config.associations_max.div_ceil(shards.into());
        config.verification_rate_max = config.verification_rate_max.div_ceil(shards.into());
    }
}

fn registering(cause: std::io::Error) -> StackError {
    StackError::Io { doing: "registering a socket with the tokio runtime", cause }
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
        cause: std::io::Error::other(error),
    })?;
    Ok(seed)
}

#[cfg(test)]
mod tests;
