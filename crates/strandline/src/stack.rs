//! A stack: its shards, each a carrier, an engine, and the task that drives them.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use strandline_io::Steering;
use strandline_proto::congestion::Algorithm;
use strandline_proto::endpoint::Connect;
use strandline_proto::error::ConnectError as Refusal;
use strandline_proto::event::AssociationId as EngineId;
use strandline_proto::stats::{Buffers, EndpointStats};

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
    /// How often a task, the shard's own or one that uses its associations, found its lock taken by another such task: none
    /// where all of them run on one thread.
    pub lock_waits: u64,
    /// How often the lock was taken because somebody looked at the state of an association or at counters (status, paths,
    /// statistics), or the other way round.
    pub look_waits: u64,
    /// INITs that the shard's engine answered, or refused for what they say.
    pub inits: u64,
    /// INITs that it dropped unread because there were too many ([`EndpointStats::inits_shed`]).
    pub inits_shed: u64,
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
                reserved.reserve(carriers, port)?;
                self.answer_for(&reserved.ranges());
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// On raw IP: packets to these ports are answered, because nobody else has them.
    pub(crate) fn answer_for(&self, ports: &[RangeInclusive<u16>]) {
        for shard in &self.shards {
            shard.with(|state, _| state.engine.set_reserved_ports(ports.to_vec()));
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

    /// The congestion controller of associations to come, whoever sets them up and whatever socket they belong to, unless they
    /// bring [parameters of their own](crate::Association::connect_with), instead of the one that
    /// [`StackBuilder::association`](crate::StackBuilder::association) gave. Those that exist keep theirs:
    /// [`Control::configure`](crate::Control::configure) changes one.
    ///
    /// ```
    /// use strandline::{Algorithm, Stack};
    /// # use strandline::memory::Network;
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let network = Network::new();
    /// let stack = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
    /// assert_eq!(stack.congestion(), Algorithm::Cubic);
    /// stack.set_congestion(Algorithm::Bbr);
    /// assert_eq!(stack.congestion(), Algorithm::Bbr);
    /// # Ok(()) }
    /// ```
    pub fn set_congestion(&self, congestion: Algorithm) {
        for shard in &self.inner.shards {
            shard.with(|state, _| state.engine.set_congestion(congestion));
        }
    }

    /// The congestion controller of associations to come.
    #[must_use]
    pub fn congestion(&self) -> Algorithm {
        self.inner.shard(0).look().engine.congestion()
    }

    /// Counters of all the stack's packets and associations.
    #[must_use]
    pub fn stats(&self) -> EndpointStats {
        let mut sum = EndpointStats::default();
        for shard in &self.inner.shards {
            sum += shard.look().engine.stats();
        }
        sum
    }

    /// What the buffers of all associations hold, and may hold.
    #[must_use]
    pub fn buffers(&self) -> Buffers {
        let mut sum = Buffers::default();
        for shard in &self.inner.shards {
            sum += shard.look().engine.buffers();
        }
        sum
    }

    /// Counters of each shard, by its number. What went between shards shows here: nothing but what is handed over takes a
    /// lock that two of them have, and the set-up of an association that asks for a port of its own or has peers with several
    /// addresses, which must not be twice.
    #[must_use]
    pub fn shard_stats(&self) -> Vec<ShardStats> {
        let stats = |shard: &Arc<Shard>| {
            let (lock_waits, look_waits) = shard.lock_waits();
            let (engine, associations) = {
                let state = shard.look();
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
                look_waits,
                inits: engine.inits,
                inits_shed: engine.inits_shed,
            }
        };
        self.inner.shards.iter().map(stats).collect()
    }

    /// Associations that exist, those that are ending included.
    #[must_use]
    pub fn association_count(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.look().engine.association_count()).sum()
    }

    /// Waits until no association is left: what dropped handles had queued has been delivered or given up.
    ///
    /// # Cancel safety
    /// It only waits; it can be dropped at any time.
    pub async fn wait_idle(&self) {
        let idle = |shard: &Arc<Shard>| {
            let state = shard.look();
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
