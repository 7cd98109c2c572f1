//! The store of a server: opened, read, and then written and followed by threads of their own.

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

/// News of other nodes that may wait.
pub(super) const NEWS: usize = 16;
/// Users taken from other nodes before others have their turn.
const TURN: usize = 500;
/// What the key of flow tokens is called in a store.
const TOKENS: &str = "flow tokens";

/// What the key of nonces is called: all nodes have the same.
const NONCES: &str = "nonces";

/// A store that is open.
pub(super) enum Storage {
    /// Nothing is kept.
    Memory,
    Sqlite(Box<SqliteStore>),
    Shared(Box<SharedStore>, Arc<Shared>),
}

/// A store that is in use.
pub(super) struct Stored {
    pub(super) writer: Option<Writer>,
    pub(super) settled: UnboundedReceiver<Done>,
    pub(super) following: Option<Following>,
}

impl Storage {
    /// Opens what is configured, and takes the keys of flow tokens and nonces from there.
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
                // Another one each time: the time, and in case that two begin at once, chance.
                let [a, b, ..] = *tokens;
                let incarnation = (epoch_unix_secs << 16) as i64 | i64::from(u16::from_le_bytes([a, b]));
                let kind = settings.kind.name();
                let mut store = SharedStore::open(&settings, incarnation)
                    .with_context(|| format!("the store ({kind}): is it there, and is store.url right?"))?;
                *tokens = store.secret(&format!("{TOKENS} of {}", settings.node.server), *tokens)?;
                nonces.key = store.secret(NONCES, nonces.key)?;
                Ok(Self::Shared(Box::new(store), settings))
            }
        }
    }

    /// Gives the service what is kept, and starts the threads.
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
                service.join(&settings.node.name, NodeAddress::read(&settings.node.address));
                load(&mut *store, service, &stats)?;
                let (sender, news) = channel(NEWS);
                let tell = move |news| {
                    // At the end nobody waits for it any more.
                    let _ = sender.blocking_send(news);
                };
                let feed = store
                    .follow(Arc::clone(&stats), tell)
                    .context("starting the thread that follows other nodes")?;
                (Some(write(store, &stats)?), Some(Following { news, feed: Some(feed) }))
            }
        };
        Ok(Stored { writer, settled, following })
    }
}

impl Stored {
    /// Bindings are written down by the supervisor, and what others change comes from there.
    /// `damage` is what could not be read of what was there.
    pub(super) fn relayed(store: Box<dyn Store>, news: Receiver<News>, damage: &Damage) -> Result<Self> {
        let (done, settled) = unbounded_channel();
        let stats = Arc::<StoreStats>::default();
        damage.sum_up();
        stats.on_damage(damage);
        let writer = write_with(store, &stats, done)?;
        Ok(Self { writer: Some(writer), settled, following: Some(Following { news, feed: None }) })
    }
}

/// Gives the service what is kept, and logs and counts what can't be read of it.
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
    let tell = move |told| {
        // At the end nobody waits for it any more.
        let _ = done.send(told);
    };
    let started = Writer::start(store, Arc::clone(stats), tell);
    started.context("starting the thread that writes bindings down")
}

/// Other nodes are followed.
pub(super) struct Following {
    /// Goes first: the thread must not wait for somebody to read it when it is to end.
    news: Receiver<News>,
    feed: Option<Feed>,
}

/// A store that is followed, and the service that hears of it.
pub(super) struct Followed {
    feed: Option<Feed>,
    task: JoinHandle<()>,
}

impl Following {
    pub(super) fn serve(self, hub: &Rc<Hub>) -> Followed {
        Followed { feed: self.feed, task: tokio::task::spawn_local(hear(Rc::clone(hub), self.news)) }
    }
}

impl Followed {
    /// Tells the other nodes that this one leaves.
    pub(super) async fn end(self) {
        // Nobody listens any more, so that the thread can't wait for that.
        self.task.abort();
        let _ = self.task.await;
        drop(self.feed);
    }
}

/// Subscribers in a table, and the thread that looks for them.
pub(super) struct Sought {
    seeker: Seeker,
    found: UnboundedReceiver<Found>,
}

impl Sought {
    /// The table must be there.
    pub(super) fn start(table: SubscriberTable) -> Result<Self> {
        table.check().context("auth.subscribers: is the table there, with all of its columns?")?;
        let (sender, found) = unbounded_channel::<Found>();
        let tell = move |told| {
            // At the end nobody waits for it any more.
            let _ = sender.send(told);
        };
        let started = Seeker::start(table, tell);
        Ok(Self { seeker: started.context("starting the thread that looks for subscribers")?, found })
    }

    pub(super) fn serve(mut self, hub: &Rc<Hub>) {
        hub.seek_with(self.seeker);
        let hub = Rc::clone(hub);
        tokio::task::spawn_local(async move {
            while let Some((who, found)) = self.found.recv().await {
                hub.with(|service, now| service.looked_up(now, who, found));
            }
        });
    }
}

/// Hands on what the writer gives back, until the task is ended.
pub(super) async fn settle(hub: Rc<Hub>, mut settled: UnboundedReceiver<Done>) {
    while let Some(done) = settled.recv().await {
        hub.settled(done);
    }
}

async fn hear(hub: Rc<Hub>, mut news: Receiver<News>) {
    while let Some(news) = news.recv().await {
        match news {
            News::Nodes(nodes) => {
                for node in &nodes {
                    let (name, is_alive) = (&node.name, node.is_alive);
                    tracing::info!(%name, is_alive, address = %node.address, "a node");
                }
                let peer = |node: PeerNode| Peer {
                    address: NodeAddress::read(&node.address),
                    name: node.name,
                    is_alive: node.is_alive,
                };
                hub.service.borrow_mut().set_nodes(nodes.into_iter().map(peer).collect());
            }
            News::Again { node } => hub.service.borrow_mut().forget_node(&node),
            News::Changes { node, changes } => take(&hub, &node, &changes).await,
            // Whoever asked may be gone.
            News::Known(known) => drop(known.send(())),
            News::Lost(error) => hub.lose(error),
        }
    }
}

async fn take(hub: &Rc<Hub>, node: &str, changes: &[u8]) {
    let mut changes = Journal::read(changes);
    loop {
        let (mut count, mut damage) = (0, Damage::default());
        hub.with(|service, _| {
            for (aor, state) in changes.by_ref().take(TURN) {
                damage.on_user(node, aor, service.merge(node, aor, state));
                count += 1;
            }
        });
        hub.on_damage(&damage);
        if count < TURN {
            return;
        }
        tokio::task::yield_now().await;
    }
}
