//! The limit of the bytes that a peer's connections carry in a second, for each direction.
//!
//! Clients queue for turns, each of which passes a few bytes as soon as there is room for them at the rate of the
//! limit. The connections of a client queue for its turns, so that one with many connections gets no more than one with
//! a single one. A connection that ends while it waits has taken nothing. Datagrams do not wait: they get at most half
//! of the rate, so that neither they nor the connections shut the others out. Those of clients of the peer's sockets
//! here, which anybody may be, get at most a quarter, so that the peer's own find room, and clients that were never
//! answered at most an eighth, so that the others find room.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use strandline_ops::Network;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::clock::now;

/// Room that silence saves up, so that short transfers do not wait.
const SAVED_MAX: Duration = Duration::from_millis(100);
/// Bytes of a turn: those of this time, but not too few for the work that a turn takes.
const TURN: Duration = Duration::from_millis(5);
const TURN_MIN: usize = 1024;
/// What a datagram takes besides its bytes: its headers of IP and UDP. Empty datagrams count as well.
const HEADERS: usize = 28;
/// Clients from which on those without connections are forgotten.
const CLIENTS_MIN: usize = 64;

/// A limit in bytes per second, which a reload can change; 0: none.
pub(crate) type RateLimit = watch::Receiver<u64>;

/// The bytes of a peer's connections.
#[derive(Debug)]
pub(crate) struct PeerRate {
    limit: RateLimit,
    sent: Bucket,
    received: Bucket,
    clients: Mutex<Clients>,
}

/// The clients with connections; `None`: those without an address.
#[derive(Debug, Default)]
struct Clients {
    turns: HashMap<Option<Network>, Weak<ClientTurns>>,
    /// Number from which on those that are gone are forgotten.
    forget_at: usize,
}

/// The turns of a client: the connection that holds one queues for all of the client's.
#[derive(Debug, Default)]
pub(crate) struct ClientTurns {
    sent: tokio::sync::Mutex<()>,
    received: tokio::sync::Mutex<()>,
}

/// Whose flow a datagram is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FlowOf {
    /// The peer's own, or of its clients.
    Peer,
    /// A client of the peer's sockets here.
    Client,
    /// One that was never answered.
    Stranger,
}

/// The direction of bytes, as this side sees the association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Sent,
    Received,
}

#[derive(Debug, Default)]
struct Bucket {
    /// Held by the client whose turn it is. Others get it in the order in which they asked.
    turn: tokio::sync::Mutex<()>,
    room: Mutex<Room>,
    /// Room for datagrams, which `room` contains.
    datagrams: Mutex<Room>,
    /// Room for those of clients of the peer's sockets, which `datagrams` contains.
    clients: Mutex<Room>,
    /// Room for those of strangers, which `clients` contains.
    strangers: Mutex<Room>,
}

/// Room for bytes, which grows with time.
#[derive(Debug, Default)]
struct Room {
    /// Negative after a turn that began with room for less.
    bytes: f64,
    filled: Option<Instant>,
    /// The rate at which it was filled last, in bytes per second.
    rate: f64,
}

impl Room {
    /// Adds what has become free since the last time.
    fn fill(&mut self, rate: f64, now: Instant) {
        let saved_max = rate * SAVED_MAX.as_secs_f64();
        let passed = self.filled.map_or(SAVED_MAX, |filled| now.saturating_duration_since(filled));
        if rate != self.rate {
            // A debt at another rate would last for another time.
            self.bytes = self.bytes.max(-saved_max);
        }
        self.bytes = (self.bytes + passed.as_secs_f64() * rate).min(saved_max);
        (self.filled, self.rate) = (Some(now), rate);
    }

    /// Takes room for bytes if there is some.
    ///
    /// # Errors
    /// The time until there is.
    fn take(&mut self, bytes: usize) -> Result<(), Duration> {
        if self.bytes < 0.0 {
            return Err(Duration::from_secs_f64(-self.bytes / self.rate));
        }
        self.bytes -= bytes as f64;
        Ok(())
    }
}

fn lock(room: &Mutex<Room>) -> MutexGuard<'_, Room> {
    room.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PeerRate {
    pub(crate) fn new(limit: RateLimit) -> Self {
        Self { limit, sent: Bucket::default(), received: Bucket::default(), clients: Mutex::default() }
    }

    /// Returns the turns of a client, of which each of its connections has this.
    pub(crate) fn turns_of(&self, client: Option<IpAddr>) -> Arc<ClientTurns> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        let client = client.map(Network::of);
        if let Some(known) = clients.turns.get(&client).and_then(Weak::upgrade) {
            return known;
        }
        if clients.turns.len() >= clients.forget_at.max(CLIENTS_MIN) {
            clients.turns.retain(|_, turns| turns.strong_count() > 0);
            clients.forget_at = clients.turns.len() * 2;
        }
        let turns = Arc::default();
        clients.turns.insert(client, Arc::downgrade(&turns));
        turns
    }

    /// Returns whether there is a limit now.
    pub(crate) fn is_limited(&self) -> bool {
        *self.limit.borrow() != 0
    }

    /// Waits until a connection of a client may carry bytes.
    pub(crate) async fn wait(&self, client: &ClientTurns, direction: Direction, bytes: usize) {
        if !self.is_limited() {
            return;
        }
        let (bucket, mut limit) = (self.bucket(direction), self.limit.clone());
        let own = match direction {
            Direction::Sent => &client.sent,
            Direction::Received => &client.received,
        };
        let mut left = bytes;
        while left > 0 {
            let _own = own.lock().await;
            let _turn = bucket.turn.lock().await;
            loop {
                let rate = *limit.borrow_and_update();
                if rate == 0 {
                    return;
                }
                let turn = left.min(turn_bytes(rate));
                let pause = {
                    let mut room = lock(&bucket.room);
                    room.fill(rate as f64, now());
                    match room.take(turn) {
                        Ok(()) => {
                            left -= turn;
                            break;
                        }
                        Err(pause) => pause,
                    }
                };
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    // An error means that the gateway ends.
                    changed = limit.changed() => if changed.is_err() { return },
                }
            }
        }
    }

    /// Takes room for a datagram of a flow, and for its headers. Returns false if it is beyond the limit.
    pub(crate) fn admits(&self, direction: Direction, bytes: usize, flow: FlowOf) -> bool {
        let bytes = bytes.saturating_add(HEADERS);
        let rate = *self.limit.borrow() as f64;
        if rate == 0.0 {
            return true;
        }
        let (bucket, now) = (self.bucket(direction), now());
        let mut datagrams = lock(&bucket.datagrams);
        datagrams.fill(rate / 2.0, now);
        let shares = [(&bucket.clients, 4.0, FlowOf::Client), (&bucket.strangers, 8.0, FlowOf::Stranger)];
        let mut shares = shares.map(|(room, part, of)| {
            let mut room = lock(room);
            room.fill(rate / part, now);
            (room, flow >= of)
        });
        let is_beyond = shares.iter().any(|(room, counts)| *counts && room.bytes < 0.0);
        if is_beyond || datagrams.take(bytes).is_err() {
            return false;
        }
        for (room, _) in shares.iter_mut().filter(|(_, counts)| *counts) {
            room.bytes -= bytes as f64;
        }
        let mut room = lock(&bucket.room);
        room.fill(rate, now);
        room.bytes -= bytes as f64;
        true
    }

    fn bucket(&self, direction: Direction) -> &Bucket {
        match direction {
            Direction::Sent => &self.sent,
            Direction::Received => &self.received,
        }
    }
}

/// Returns the most bytes of a turn at a rate in bytes per second.
fn turn_bytes(rate: u64) -> usize {
    TURN_MIN.max((rate as f64 * TURN.as_secs_f64()) as usize)
}

#[cfg(test)]
mod tests;
