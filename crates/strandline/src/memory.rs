//! An in-memory network. Stacks on it need no sockets and no privilege, and the program controls delay, loss
//! and duplication of packets. With tokio's paused time it runs in virtual time.
//!
//! ```
//! use std::time::Duration;
//! use strandline::memory::Network;
//! use strandline::{Association, Listener, Peer, SendInfo, Stack};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // 20 ms each way, and one packet in ten is lost.
//! let network = Network::builder().delay(Duration::from_millis(20)).loss(0.1).seed(7).build();
//! let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
//! let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
//!
//! let listener = Listener::bind(&there, 7)?;
//! let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 7)).await?;
//! let server = listener.accept().await?;
//! client.send(b"through thick and thin", SendInfo::default()).await?;
//! let message = server.recv().await?.ok_or("the peer shut down")?;
//! assert_eq!(message.data, "through thick and thin");
//! # Ok(()) }
//! ```

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use strandline_io::Steering;
use tokio::time::{Instant, Sleep};

/// The encapsulation port of every stack in an in-memory network.
pub(crate) const PORT: u16 = 9899;

/// Limit of datagrams waiting for one shard of a stack; further ones are dropped, as by a full socket buffer.
const INBOX_MAX: usize = 8192;

/// Limit of datagrams received at once.
const BATCH_MAX: usize = 64;

/// What the network does with a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// Delivers it after the network's delay.
    Deliver,
    /// Delivers it this much later than the network's delay.
    Late(Duration),
    /// Delivers it twice.
    Duplicate,
    /// Drops it.
    Drop,
}

/// A packet passing through the network.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Passing<'a> {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// The SCTP packet.
    pub bytes: &'a [u8],
}

impl<'a> Passing<'a> {
    /// Creates the description of a packet, as the network does: for tests of what judges packets.
    #[must_use]
    pub const fn new(source: IpAddr, destination: IpAddr, bytes: &'a [u8]) -> Self {
        Self { source, destination, bytes }
    }
}

type Judge = dyn Fn(&Passing<'_>) -> Fate + Send + Sync;

/// An in-memory network. Clones are handles to the same network.
#[derive(Clone)]
pub struct Network {
    shared: Arc<Shared>,
}

struct Shared {
    delay: Duration,
    loss: f64,
    misled: f64,
    judge: Option<Box<Judge>>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    hosts: HashMap<IpAddr, Arc<Host>>,
    random: u64,
}

/// Configuration of a [`Network`].
#[derive(Default)]
pub struct NetworkBuilder {
    delay: Duration,
    loss: f64,
    misled: f64,
    seed: u64,
    judge: Option<Box<Judge>>,
}

impl fmt::Debug for NetworkBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NetworkBuilder")
            .field("delay", &self.delay)
            .field("loss", &self.loss)
            .finish_non_exhaustive()
    }
}

impl NetworkBuilder {
    /// Sets the delay of every packet. Default: none.
    #[must_use]
    pub fn delay(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Sets the share of packets that are lost, 0 to 1. Default: 0.
    #[must_use]
    pub fn loss(mut self, share: f64) -> Self {
        self.loss = share;
        self
    }

    /// Sets the share of packets, 0 to 1, that arrive at a wrong shard of a stack with several, as datagrams of
    /// a GRO train do. Default: 0.
    #[must_use]
    pub fn misled(mut self, share: f64) -> Self {
        self.misled = share;
        self
    }

    /// Sets the seed of random losses.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Sets a function that decides about each packet. It is called on the sending thread and should be quick.
    #[must_use]
    pub fn judge(mut self, judge: impl Fn(&Passing<'_>) -> Fate + Send + Sync + 'static) -> Self {
        self.judge = Some(Box::new(judge));
        self
    }

    /// Builds the network.
    #[must_use]
    pub fn build(self) -> Network {
        let state = Mutex::new(State { hosts: HashMap::new(), random: self.seed });
        let Self { delay, loss, misled, judge, .. } = self;
        Network { shared: Arc::new(Shared { delay, loss, misled, judge, state }) }
    }
}

impl Default for Network {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts = lock(&self.shared.state).hosts.len();
        f.debug_struct("Network").field("addresses", &hosts).finish_non_exhaustive()
    }
}

impl Network {
    /// Creates a network that delivers every packet at once.
    #[must_use]
    pub fn new() -> Self {
        NetworkBuilder::default().build()
    }

    /// Returns the configuration of a network with delay or loss.
    #[must_use]
    pub fn builder() -> NetworkBuilder {
        NetworkBuilder::default()
    }

    /// Joins the network, with one socket for each shard of the steering rule.
    pub(crate) fn attach(&self, addresses: Vec<IpAddr>, rule: &Arc<Steering>) -> Result<Vec<Socket>, IpAddr> {
        let mut state = lock(&self.shared.state);
        if let Some(taken) = addresses.iter().find(|address| state.hosts.contains_key(address)) {
            return Err(*taken);
        }
        let inboxes: Vec<_> = (0..rule.places()).map(|_| Arc::new(Inbox::default())).collect();
        let host = Arc::new(Host { rule: Arc::clone(rule), inboxes: inboxes.clone() });
        for address in &addresses {
            state.hosts.insert(*address, Arc::clone(&host));
        }
        drop(state);
        let membership = Arc::new(Membership { network: self.clone(), addresses });
        Ok(inboxes.into_iter().map(|inbox| Socket { of: Arc::clone(&membership), inbox }).collect())
    }

    /// Returns the inbox that a packet goes to and up to two times of arrival; `None` if it is lost.
    fn route(&self, passing: &Passing<'_>) -> Option<(Arc<Inbox>, [Option<Instant>; 2])> {
        let fate = self.shared.judge.as_ref().map_or(Fate::Deliver, |judge| judge(passing));
        let mut state = lock(&self.shared.state);
        let host = Arc::clone(state.hosts.get(&passing.destination)?);
        let lost = self.shared.loss > 0.0 && state.draw() < self.shared.loss;
        let misled = self.shared.misled > 0.0 && state.draw() < self.shared.misled;
        drop(state);
        if lost {
            return None;
        }
        let place = usize::from(host.rule.place_of(passing.source, passing.bytes)) + usize::from(misled);
        let inbox = host.inboxes.get(place % host.inboxes.len().max(1))?;
        let due = Instant::now() + self.shared.delay;
        let arrivals = match fate {
            Fate::Deliver => [Some(due), None],
            Fate::Late(by) => [Some(due + by), None],
            Fate::Duplicate => [Some(due), Some(due)],
            Fate::Drop => return None,
        };
        Some((Arc::clone(inbox), arrivals))
    }
}

impl State {
    /// Returns a random number from 0 up to but excluding 1 (SplitMix64).
    fn draw(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A received datagram.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    pub(crate) source: SocketAddr,
    pub(crate) destination: IpAddr,
    pub(crate) bytes: Vec<u8>,
}

#[derive(Default)]
struct Inbox {
    state: Mutex<InboxState>,
}

#[derive(Default)]
struct InboxState {
    /// Ordered by due time, then by sequence.
    queue: BTreeMap<(Instant, u64), Arrival>,
    count: u64,
    waker: Option<Waker>,
    sleep: Option<Pin<Box<Sleep>>>,
}

/// A stack in the network, with an inbox for each of its shards.
struct Host {
    rule: Arc<Steering>,
    inboxes: Vec<Arc<Inbox>>,
}

/// State shared by the sockets of a stack; when the last is dropped, the stack leaves the network.
struct Membership {
    network: Network,
    addresses: Vec<IpAddr>,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let mut state = lock(&self.network.shared.state);
        for address in &self.addresses {
            state.hosts.remove(address);
        }
    }
}

/// The socket of one shard in the network.
pub(crate) struct Socket {
    of: Arc<Membership>,
    inbox: Arc<Inbox>,
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("memory::Socket").field("addresses", &self.of.addresses).finish_non_exhaustive()
    }
}

impl Socket {
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.of.addresses.first().map(|address| SocketAddr::new(*address, PORT))
    }

    /// Receives the datagrams that are due by now.
    pub(crate) fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut Vec<Arrival>) -> Poll<io::Result<()>> {
        batch.clear();
        let mut state = lock(&self.inbox.state);
        let now = Instant::now();
        while let Some(entry) = state.queue.first_entry()
            && entry.key().0 <= now
            && batch.len() < BATCH_MAX
        {
            batch.push(entry.remove());
        }
        if !batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            state.waker = Some(cx.waker().clone());
        }
        if let Some((due, _)) = state.queue.first_key_value().map(|(key, _)| *key) {
            let sleep = state.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(due)));
            sleep.as_mut().reset(due);
            if sleep.as_mut().poll(cx).is_ready() {
                // More became due in the meantime: poll again.
                cx.waker().wake_by_ref();
            }
        }
        Poll::Pending
    }

    /// Sends one packet.
    pub(crate) fn send(&self, destination: SocketAddr, source: Option<IpAddr>, bytes: &[u8]) {
        let fits = |address: &&IpAddr| address.is_ipv4() == destination.is_ipv4();
        let Some(source) = source.or_else(|| self.of.addresses.iter().find(fits).copied()) else { return };
        let destination = destination.ip();
        let Some((inbox, arrivals)) = self.of.network.route(&Passing::new(source, destination, bytes)) else {
            return;
        };
        let source = SocketAddr::new(source, PORT);
        let mut state = lock(&inbox.state);
        for due in arrivals.into_iter().flatten() {
            if state.queue.len() >= INBOX_MAX {
                break;
            }
            state.count += 1;
            let key = (due, state.count);
            state.queue.insert(key, Arrival { source, destination, bytes: bytes.to_vec() });
        }
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
