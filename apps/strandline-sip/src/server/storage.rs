//! The store of a server: it is opened and read, and then written and followed by threads.

use std::rc::Rc;
use std::sync::Arc;

use anyhow::{Context, Result};
use tokio::sync::mpsc::{Receiver, UnboundedReceiver, UnboundedSender, channel, unbounded_channel};
use tokio::task::JoinHandle;

use crate::bindings::Journal;
use crate::service::{NodeAddress, Peer, Service};
use crate::store::{
    Damage, Done, Feed, Found, News, PeerNode, Seeker, Shared, SharedStore, SqliteStore, Store, StoreStats,
    SubscriberTable, Writer,
};

use super::config::{self, Config};
use super::hub::Hub;
use super::seeds::NonceKey;

/// Maximum number of pending news from other nodes.
pub(super) const NEWS: usize = 16;
/// Number of users of other nodes that are applied before other tasks have their turn.
const TURN: usize = 500;
/// The name of the key of flow tokens in a store.
const TOKENS: &str = "flow tokens";

/// The name of the key of nonces, which is the same for all nodes.
const NONCES: &str = "nonces";

/// An open store.
pub(super) enum Storage {
    /// No store.
    Memory,
    Sqlite(Box<SqliteStore>),
    Shared(Box<SharedStore>, Arc<Shared>),
}

/// A store in use.
pub(super) struct Stored {
    pub(super) writer: Option<Writer>,
    pub(super) settled: UnboundedReceiver<Done>,
    pub(super) following: Option<Following>,
}

impl Storage {
    /// Opens the configured store, and takes the keys of flow tokens and nonces from it.
    pub(super) fn open(
        config: &Config,
        tokens: &mut [u8; 16],
        nonces: &mut NonceKey,
        epoch_unix_secs: u64,
    ) -> Result<Self> {
        match &config.store {
            None => Ok(Self::Memory),
            Some(config::Store::Sqlite(path)) => {
                let mut store = SqliteStore::open(path)?;
                *tokens = store.secret(TOKENS, *tokens)?;
                Ok(Self::Sqlite(Box::new(store)))
            }
            Some(config::Store::Shared(settings)) => {
                let settings = Arc::new((**settings).clone());
                // It must differ for each run: the time, and random bits in case two runs begin at once.
                let [a, b, ..] = *tokens;
                let incarnation = (epoch_unix_secs << 16) as i64 | i64::from(u16::from_le_bytes([a, b]));
                let kind = settings.kind.name();
                let mut store = SharedStore::open(&settings, incarnation).with_context(|| {
                    format!("opening the store ({kind}): is it running, and is store.url right?")
                })?;
                *tokens = store.secret(&format!("{TOKENS} of {}", settings.node.server), *tokens)?;
                nonces.key = store.secret(NONCES, nonces.key)?;
                Ok(Self::Shared(Box::new(store), settings))
            }
        }
    }

    /// Loads the stored bindings into the service, and starts the threads.
    pub(super) fn start(self, service: &mut Service) -> Result<Stored> {
        let stats = Arc::new(StoreStats::default());
        let (done, settled) = unbounded_channel();
        let write = |store, stats: &Arc<StoreStats>| write_with(store, stats, done);
        let (writer, following) = match self {
            Self::Memory => (None, None),
            Self::Sqlite(mut store) => {
                load(&mut *store, service, &stats)?;
                (Some(write(store, &stats)?), None)
            }
            Self::Shared(mut store, settings) => {
                let zone = settings.node.zone;
                let own = NodeAddress::read(&settings.node.address).map(|own| own.on_link(zone));
                service.join(&settings.node.name, own);
                load(&mut *store, service, &stats)?;
                let (sender, news) = channel(NEWS);
                let report = move |news| {
                    // Nothing receives it any more at the end.
                    let _ = sender.blocking_send(news);
                };
                let feed = store
                    .follow(Arc::clone(&stats), report)
                    .context("starting the thread that follows other nodes")?;
                (Some(write(store, &stats)?), Some(Following { news, zone, feed: Some(feed) }))
            }
        };
        Ok(Stored { writer, settled, following })
    }
}

impl Stored {
    /// The supervisor persists bindings and delivers the changes of other nodes. `damage` is what it found
    /// damaged.
    pub(super) fn relayed(store: Box<dyn Store>, news: Receiver<News>, damage: &Damage) -> Result<Self> {
        let (done, settled) = unbounded_channel();
        let stats = Arc::<StoreStats>::default();
        damage.sum_up();
        stats.on_damage(damage);
        let writer = write_with(store, &stats, done)?;
        Ok(Self { writer: Some(writer), settled, following: Some(Following { news, zone: 0, feed: None }) })
    }
}

/// Loads the stored bindings into the service, and logs and counts the damage found.
fn load(store: &mut dyn Store, service: &mut Service, stats: &StoreStats) -> Result<()> {
    let mut unreadable = Damage::default();
    let mut damage = store.load(&mut |node, aor, state| {
        unreadable.on_user(node, aor, service.load(node, aor, state));
    })?;
    damage.add(unreadable);
    damage.sum_up();
    stats.on_damage(&damage);
    Ok(())
}

fn write_with(store: Box<dyn Store>, stats: &Arc<StoreStats>, done: UnboundedSender<Done>) -> Result<Writer> {
    let report = move |result| {
        // Nothing receives it any more at the end.
        let _ = done.send(result);
    };
    let started = Writer::start(store, Arc::clone(stats), report);
    started.context("starting the thread that writes bindings")
}

/// The thread that follows other nodes, and its news.
pub(super) struct Following {
    /// Dropped first, so that the thread doesn't block on a full channel when it must end.
    news: Receiver<News>,
    /// The link to the others.
    zone: u32,
    feed: Option<Feed>,
}

/// A followed store, and the task that applies its news to the service.
pub(super) struct Followed {
    feed: Option<Feed>,
    task: JoinHandle<()>,
}

impl Following {
    pub(super) fn serve(self, hub: &Rc<Hub>) -> Followed {
        Followed {
            feed: self.feed,
            task: tokio::task::spawn_local(handle_news(Rc::clone(hub), self.news, self.zone)),
        }
    }
}

impl Followed {
    /// Signals to the other nodes that this one has left.
    pub(super) async fn end(self) {
        // Close the channel first, so that the thread doesn't block on it.
        self.task.abort();
        let _ = self.task.await;
        drop(self.feed);
    }
}

/// Subscribers in a table, and the thread that looks them up.
pub(super) struct Sought {
    seeker: Seeker,
    found: UnboundedReceiver<Found>,
}

impl Sought {
    /// Starts the thread. The table must exist.
    pub(super) fn start(table: SubscriberTable) -> Result<Self> {
        table.check().context("auth.subscribers: does the table exist with all of its columns?")?;
        let (sender, found) = unbounded_channel::<Found>();
        let report = move |result| {
            // Nothing receives it any more at the end.
            let _ = sender.send(result);
        };
        let started = Seeker::start(table, report);
        Ok(Self { seeker: started.context("starting the thread that looks up subscribers")?, found })
    }

    pub(super) fn serve(mut self, hub: &Rc<Hub>) {
        hub.set_subscriber_lookup(self.seeker);
        let hub = Rc::clone(hub);
        tokio::task::spawn_local(async move {
            while let Some((who, found)) = self.found.recv().await {
                hub.with(|service, now| service.handle_subscriber(now, who, found));
            }
        });
    }
}

/// Passes the results of the writer to the hub, until the task is ended.
pub(super) async fn settle(hub: Rc<Hub>, mut settled: UnboundedReceiver<Done>) {
    while let Some(done) = settled.recv().await {
        hub.settled(done);
    }
}

async fn handle_news(hub: Rc<Hub>, mut news: Receiver<News>, zone: u32) {
    while let Some(news) = news.recv().await {
        match news {
            News::Nodes(nodes) => {
                for node in &nodes {
                    let (name, is_alive) = (&node.name, node.is_alive);
                    tracing::info!(%name, is_alive, address = %node.address, "node state changed");
                }
                let peer = |node: PeerNode| Peer {
                    address: NodeAddress::read(&node.address).map(|address| address.on_link(zone)),
                    name: node.name,
                    is_alive: node.is_alive,
                };
                hub.service.borrow_mut().set_nodes(nodes.into_iter().map(peer).collect());
            }
            News::Again { node } => hub.service.borrow_mut().forget_node(&node),
            News::Changes { node, changes } => take(&hub, &node, &changes).await,
            // The receiver may be gone.
            News::Known(known) => drop(known.send(())),
            News::Lost(error) => hub.store.lose(error),
        }
    }
}

async fn take(hub: &Rc<Hub>, node: &str, changes: &[u8]) {
    let mut changes = Journal::read(changes);
    loop {
        let (mut count, mut damage) = (0, Damage::default());
        hub.with(|service, _| {
            for (aor, state) in changes.by_ref().take(TURN) {
                damage.on_user(node, aor, service.load(node, aor, state));
                count += 1;
            }
        });
        hub.store.on_damage(&damage);
        if count < TURN {
            return;
        }
        tokio::task::yield_now().await;
    }
}
