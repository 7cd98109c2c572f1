//! What all connections of a gateway share.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use strandline::{Association, MemoryAccount, TakenBytes};
use strandline_tls::LogLimit;
use tokio::sync::watch;

use crate::config::{Access, Settings};
use crate::direct::DirectNetworks;
use crate::limits::PeerLimits;
use crate::peer_identity::PeerIdentity;
use crate::peer_listeners::PeerListeners;
use crate::program_sockets::Sockets;
use crate::questions::Questions;
use crate::registry::Registry;

/// A gateway that runs.
#[derive(Debug)]
pub(crate) struct Gateway {
    /// Replaced as a whole by a reload.
    settings: RwLock<Arc<Settings>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) limits: Arc<PeerLimits>,
    /// What all associations hold together.
    pub(crate) memory: Arc<MemoryAccount>,
    /// Of that, what connections have taken and their readers have not.
    unread: Arc<TakenBytes>,
    /// What direct connections have shown.
    pub(crate) direct: DirectNetworks,
    /// Sockets of `strandline run`, and the processes of before that may know others.
    pub(crate) sockets: Arc<Sockets>,
    pub(crate) questions: Questions,
    /// Associations that are established, so that the end can abort them.
    associations: Mutex<HashMap<u64, Association>>,
    /// Associations since the start of the program.
    count: AtomicU64,
    /// Associations that peers have set up.
    accepted: AtomicUsize,
    /// Whether another process takes what is new.
    moved: watch::Sender<bool>,
    /// Whether streams of peers are refused.
    refuses_streams: AtomicBool,
    stage: watch::Sender<Stage>,
    pub(crate) warnings: Warnings,
    /// Datagrams of new UDP clients that were lost at a limit.
    pub(crate) udp_lost: AtomicU64,
    /// Sockets at which this gateway listens for its peers.
    pub(crate) peer_listeners: Arc<PeerListeners>,
}

/// Reports what strangers and peers can bring about as often as they like: seldom, and then with the number of those in
/// between.
#[derive(Debug, Default)]
pub(crate) struct Warnings {
    not_redirected: Mutex<LogLimit>,
    refused: Mutex<LogLimit>,
}

impl Warnings {
    /// Reports a connection that came to a socket of redirected ones by itself.
    pub(crate) fn not_redirected(&self, client: SocketAddr) {
        if let Some(unlogged) = unlogged(&self.not_redirected) {
            let error = "no destination: the connection was not redirected by nftables";
            tracing::warn!(%client, error, unlogged, "a connection is reset");
        }
    }

    /// Reports an association that is refused.
    pub(crate) fn refused_association(&self, peer: &str, address: IpAddr, error: &dyn Display) {
        if let Some(unlogged) = unlogged(&self.refused) {
            tracing::warn!(peer, %address, %error, unlogged, "an association is refused");
        }
    }
}

/// Returns the number of events since the last line if another one is due.
fn unlogged(limit: &Mutex<LogLimit>) -> Option<u64> {
    limit.lock().unwrap_or_else(PoisonError::into_inner).log()
}

/// How far the end of a gateway is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    Running,
    /// No new connections.
    Draining,
    /// Connections are reset.
    Cut,
}

impl Gateway {
    pub(crate) fn new(settings: Settings, registry: Registry) -> Self {
        let limits = Arc::new(PeerLimits::new(&settings.limits));
        let memory: Arc<MemoryAccount> = Arc::default();
        let unread = TakenBytes::new(Arc::clone(&memory), settings.limits.buffer_total_bytes());
        Self {
            settings: RwLock::new(Arc::new(settings)),
            registry: Arc::new(registry),
            limits,
            memory,
            unread: Arc::new(unread),
            direct: DirectNetworks::default(),
            sockets: Arc::default(),
            questions: Questions::default(),
            associations: Mutex::default(),
            count: AtomicU64::new(0),
            accepted: AtomicUsize::new(0),
            moved: watch::Sender::new(false),
            refuses_streams: AtomicBool::new(false),
            stage: watch::Sender::new(Stage::Running),
            warnings: Warnings::default(),
            udp_lost: AtomicU64::new(0),
            peer_listeners: Arc::default(),
        }
    }

    /// Counts what connections have taken from their streams, and their readers have not.
    pub(crate) fn unread(&self) -> Arc<TakenBytes> {
        Arc::clone(&self.unread)
    }

    /// Returns the configuration as of now.
    pub(crate) fn settings(&self) -> Arc<Settings> {
        Arc::clone(&self.settings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the configuration. Rules and limits count for new connections.
    pub(crate) fn replace_settings(&self, settings: Settings) {
        self.limits.set(&settings.limits);
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Returns what a peer may do: the first entry for its address and key; `None` if there is none.
    pub(crate) fn access(&self, peer: PeerIdentity) -> Option<Arc<Access>> {
        self.settings().access.iter().find(|access| access.is_for(peer)).cloned()
    }

    /// Returns the name of a peer for logs: that of its key if it is known, or its address.
    pub(crate) fn name_of(&self, peer: PeerIdentity) -> Arc<str> {
        let settings = self.settings();
        let known = settings.encryption.as_ref().map(|encryption| &encryption.known);
        let is_named = |key| known.and_then(|known| known.hosts().find(|host| host.fingerprint == key));
        peer.key
            .and_then(is_named)
            .map_or_else(|| peer.address.to_string().into(), |host| host.name.as_str().into())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Association>> {
        self.associations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an association until the returned value is dropped.
    pub(crate) fn add(self: &Arc<Self>, association: &Association) -> AssociationGuard {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, association.clone());
        AssociationGuard { gateway: Arc::clone(self), number }
    }

    /// Returns the established associations.
    pub(crate) fn associations(&self) -> Vec<Association> {
        self.lock().values().cloned().collect()
    }

    /// Returns how many associations were established since the start.
    pub(crate) fn associations_total(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// Counts an association that a peer has set up, until the returned value is dropped.
    pub(crate) fn count_accepted(self: &Arc<Self>) -> Accepted {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        Accepted(Arc::clone(self))
    }

    /// Returns the number of associations that peers have set up, and that have not ended.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Lets the peers set up associations with the process that has taken over.
    pub(crate) fn set_moved(&self) {
        self.moved.send_replace(true);
    }

    /// Refuses streams that peers open from now on: another process takes them, or none does.
    pub(crate) fn refuse_streams(&self) {
        self.refuses_streams.store(true, Ordering::Relaxed);
    }

    /// Returns whether streams that peers open are refused.
    pub(crate) fn refuses_streams(&self) -> bool {
        self.refuses_streams.load(Ordering::Relaxed)
    }

    /// Waits until another process has taken over.
    pub(crate) async fn moved(&self) {
        // The sender lives as long as this value.
        let _ = self.moved.subscribe().wait_for(|moved| *moved).await;
    }

    pub(crate) fn set_stage(&self, stage: Stage) {
        self.stage.send_replace(stage);
    }

    /// Returns whether nothing new is taken any more.
    pub(crate) fn is_ending(&self) -> bool {
        *self.stage.borrow() >= Stage::Draining
    }

    /// Waits until the end of the gateway is this far.
    pub(crate) async fn reached(&self, stage: Stage) {
        // The sender lives as long as this value.
        let _ = self.stage.subscribe().wait_for(|now| *now >= stage).await;
    }
}

/// An association that a peer has set up.
#[derive(Debug)]
pub(crate) struct Accepted(Arc<Gateway>);

impl Drop for Accepted {
    fn drop(&mut self) {
        self.0.accepted.fetch_sub(1, Ordering::Relaxed);
    }
}

/// An established association in the list.
#[derive(Debug)]
pub(crate) struct AssociationGuard {
    gateway: Arc<Gateway>,
    number: u64,
}

impl Drop for AssociationGuard {
    fn drop(&mut self) {
        self.gateway.lock().remove(&self.number);
    }
}
