//! The SCTP stacks of a gateway: one that listens, those for associations with its peers. The only place that
//! builds them.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use strandline::encryption::Encryption;
use strandline::{
    Address, AssociationConfig, Bind, DynamicStreams, EndpointConfig, ExtensionsConfig, Listener,
    MemoryAccount, Stack, StackBuilder, StackError, Status, StreamCredit, StreamScheduler, UdpGroup,
};
use tokio::runtime::Handle;

use crate::config::{Listen, Peer, Security, Settings};

/// Bytes that a stream may hold at its receiver before its reader was seen: a transfer of this size needs no
/// grant, which would take a round trip.
const CREDIT_INITIAL: u32 = 1 << 20;
/// Bytes that the stream of a fast reader may hold.
const CREDIT_MAX: u32 = 4 << 20;
/// Fraction of the receive buffer for what fast readers have beyond the initial credit: the rest is for the
/// initial credit of readers that stop.
const GROWTH_DIVISOR: u32 = 8;
/// A message of 64 KiB is handed on in parts of about this size as they arrive: over a slow link its end
/// comes much later than its beginning.
const PARTIAL_DELIVERY_POINT: u32 = 16 << 10;
const SEND_BUFFER_MAX: u32 = 16 << 20;
/// A peer that was restarted is noticed after about this time.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(1);
/// With these, one that is gone without a word is noticed after 20 s if there is data to send, and after a minute
/// otherwise.
const RTO_MIN: Duration = Duration::from_millis(200);
const RTO_MAX: Duration = Duration::from_secs(5);

/// Returns the parameters of all associations.
pub(crate) fn association(settings: &Settings) -> AssociationConfig {
    let receive_buffer_max = settings.limits.buffer_mib << 20;
    AssociationConfig {
        congestion: settings.congestion,
        stream_scheduler: StreamScheduler::WeightedFairQueueing,
        receive_buffer_max,
        partial_delivery_point: PARTIAL_DELIVERY_POINT,
        send_buffer_max: SEND_BUFFER_MAX.min(receive_buffer_max),
        heartbeat_interval: Some(HEARTBEAT_INTERVAL),
        rto_min: RTO_MIN,
        rto_max: RTO_MAX,
        extensions: ExtensionsConfig {
            interleaving: true,
            multipath: settings.multipath,
            stream_credit: Some(
                StreamCredit::new(CREDIT_INITIAL, CREDIT_MAX.min(receive_buffer_max / 4).max(CREDIT_INITIAL))
                    .growing_by(receive_buffer_max / GROWTH_DIVISOR),
            ),
            ..ExtensionsConfig::default()
        },
        ..AssociationConfig::default()
    }
}

/// Which streams are connections: all. Stream 0 is left out, for stacks that reserve it. Messages are parts
/// of byte streams.
pub(crate) fn dynamic_streams() -> DynamicStreams {
    DynamicStreams { joins_unread: true, ..DynamicStreams::default() }
}

/// Returns what a peer lacks, as an error: streams can't be opened, closed or reset without these extensions,
/// or hold up one another.
pub(crate) fn check_extensions(status: &Status) -> Result<(), &'static str> {
    let agreed = &status.extensions;
    if !agreed.stream_reconfiguration {
        Err("the peer is no gateway: it does not support the reconfiguration of streams (RFC 6525)")
    } else if !agreed.partial_reliability {
        Err("the peer is no gateway: it does not support partial reliability (RFC 3758)")
    } else if !agreed.interleaving || !agreed.stream_credit {
        Err("the peer is no gateway: it does not support interleaving (RFC 8260) with stream credit")
    } else {
        Ok(())
    }
}

/// What all stacks of a gateway share.
#[derive(Debug, Clone)]
pub(crate) struct Shared {
    pub(crate) settings: Arc<Settings>,
    /// What their associations hold together.
    pub(crate) memory: Arc<MemoryAccount>,
}

fn builder(shared: &Shared, runtimes: &[Handle], encryption: Option<&Encryption>) -> StackBuilder {
    let config = EndpointConfig {
        association: Arc::new(association(&shared.settings)),
        receive_bytes_max: shared.settings.limits.buffer_total_bytes(),
        account: Some(Arc::clone(&shared.memory)),
        ..EndpointConfig::default()
    };
    let builder = Stack::builder().config(config).shards(runtimes.len()).runtimes(runtimes.to_vec());
    match encryption {
        // Peers are gateways, which have connection IDs.
        Some(encryption) => builder.encryption(encryption.clone().accept_plain_dtls(false)),
        None => builder,
    }
}

/// Listens for associations at the address of a group.
pub(crate) fn listen(
    at: &Listen,
    group: &mut UdpGroup,
    shared: &Shared,
    runtimes: &[Handle],
) -> Result<(Stack, Listener)> {
    let settings = &shared.settings;
    let encryption = settings.encryption.as_ref().map(|encrypted| &encrypted.shared);
    let stack = builder(shared, runtimes, encryption).udp_group(group);
    let stack = stack.with_context(|| format!("listening on UDP {}", at.socket))?;
    let addresses = at.addresses.iter().map(|address| Address::from(*address));
    let listener = Listener::bind(&stack, addresses.fold(Bind::port(settings.sctp_port), Bind::at))?;
    Ok((stack, listener))
}

/// Opens a stack on any port of all addresses.
fn open(shared: &Shared, encryption: Option<&Encryption>, runtimes: &[Handle]) -> Result<Stack, StackError> {
    let any_port = |address: SocketAddr| builder(shared, runtimes, encryption).udp(address);
    any_port(([0_u16; 8], 0).into()).or_else(|_| any_port(([0, 0, 0, 0], 0).into()))
}

/// Opens further stacks for a peer: an association with its next process has a port of its own, so that it is
/// set up, and encrypted, as with a stranger.
#[derive(Debug)]
pub(crate) struct StackFactory {
    shared: Shared,
    runtimes: Vec<Handle>,
}

impl StackFactory {
    /// # Errors
    /// If it can't be opened.
    pub(crate) fn open(&self, encryption: Option<&Encryption>) -> Result<Stack, StackError> {
        open(&self.shared, encryption, &self.runtimes)
    }
}

/// Returns how associations with a peer are encrypted.
pub(crate) fn encryption_of<'a>(peer: &'a Peer, settings: &'a Settings) -> Option<&'a Encryption> {
    match &peer.security {
        Security::Own(encryption) => Some(&**encryption),
        Security::Shared => settings.encryption.as_ref().map(|encrypted| &encrypted.shared),
        Security::Plain => None,
    }
}

/// The stacks for associations with peers, each on any port of all addresses. They are opened when a peer
/// needs them: those with the same encryption share one. A clone has those that are open by then.
#[derive(Debug, Clone)]
pub(crate) struct ClientStacks {
    shared: Shared,
    runtimes: Vec<Handle>,
    plain: Option<Stack>,
    /// The stack with the key of `[encryption]`.
    encrypted: Option<Stack>,
}

impl ClientStacks {
    pub(crate) const fn new(shared: Shared, runtimes: Vec<Handle>) -> Self {
        Self { shared, runtimes, plain: None, encrypted: None }
    }

    /// Returns the stack for a peer, whose association is driven by the runtime of this number.
    ///
    /// # Errors
    /// If it can't be opened.
    pub(crate) fn stack_for(
        &mut self,
        peer: &Peer,
        encryption: Option<&Encryption>,
        runtime: usize,
    ) -> Result<Stack, StackError> {
        let stack = match &peer.security {
            Security::Own(_) => {
                let own = self.runtimes.get(runtime..=runtime).unwrap_or(&self.runtimes);
                return open(&self.shared, encryption, own);
            }
            Security::Shared => &mut self.encrypted,
            Security::Plain => &mut self.plain,
        };
        if stack.is_none() {
            *stack = Some(open(&self.shared, encryption, &self.runtimes)?);
        }
        stack.as_ref().map(|stack| stack.on_shard(runtime)).ok_or(StackError::NoAddress)
    }

    /// Returns what opens further stacks for a peer whose association is driven by the runtime of this number.
    pub(crate) fn reopen(&self, runtime: usize) -> StackFactory {
        let runtimes = self.runtimes.get(runtime..=runtime).unwrap_or(&self.runtimes).to_vec();
        StackFactory { shared: self.shared.clone(), runtimes }
    }

    /// Returns that of the peers without a list of their own.
    pub(crate) fn shared(&self) -> Option<&Stack> {
        self.encrypted.as_ref()
    }

    /// Returns those that peers share.
    pub(crate) fn stacks(&self) -> impl Iterator<Item = &Stack> {
        self.plain.iter().chain(&self.encrypted)
    }
}
