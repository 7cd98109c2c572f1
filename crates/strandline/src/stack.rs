//! A stack: a carrier, an engine, and the task that drives them.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::stats::EndpointStats;

use crate::carrier::Carrier;
use crate::clock::Clock;
use crate::engine::Engine;
use crate::error::StackError;
use crate::memory::{self, Network};
use crate::observe::PacketObserver;
use crate::shard::attempt::Attempt;
use crate::shard::core::Shard;
use crate::shard::driver::Driver;
use crate::shard::place::Place;
use crate::shard::state::State;

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
        // Numbers come from this stack only, so the first answer is always the one.
        found.or(self.shards.first()).unwrap_or_else(|| unreachable!("a stack has at least one shard"))
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
        let socket = network.attach(addresses).map_err(StackError::AddressInUse)?;
        self.remote_port.get_or_insert(memory::PORT);
        self.start(Carrier::Memory(socket))
    }

    fn start(self, carrier: Carrier) -> Result<Stack, StackError> {
        let runtime = tokio::runtime::Handle::try_current().map_err(|_| StackError::NoRuntime)?;
        let seed = match self.seed {
            Some(seed) => seed,
            None => random_seed()?,
        };
        let clock = Clock::start();
        let engine = Engine::new(self.config, seed, clock.now())?;
        let shard = Arc::new(Shard::new(clock, carrier, self.observer, State::new(engine)));
        runtime.spawn(Driver::new(Arc::clone(&shard)));
        let default_port = self.remote_port.unwrap_or(0);
        Ok(Stack { inner: Arc::new(StackInner { shards: vec![shard], default_port }) })
    }
}

#[allow(clippy::disallowed_methods, reason = "the socket layer is where randomness comes in: it seeds the engine")]
fn random_seed() -> Result<[u8; 32], StackError> {
    let mut seed = [0; 32];
    let filled = getrandom::fill(&mut seed);
    filled.map_err(|error| StackError::Io { doing: "asking the system for random bytes", source: error.into() })?;
    Ok(seed)
}
