//! All transactions of a shard: matching, timers, and outgoing messages.

mod clients;
mod servers;
mod trying;

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::{HashMap, VecDeque};

use bytes::BytesMut;
use siphasher::sip128::{Hasher128, SipHasher13};

pub(crate) use self::servers::has_room_for_server;
use crate::codec::Index;

use super::account::Account;
use super::balance::Balance;
use super::derive::own_index;
use super::flow::Flow;
use super::id::{ClientId, Key, Keys, ServerId, WORKERS_MAX};
use super::invite_client::InviteClient;
use super::invite_server::InviteServer;
use super::non_invite_client::NonInviteClient;
use super::non_invite_server::NonInviteServer;
use super::outbox::Outbox;
use super::queues::DeadlineQueues;
use super::slots::Slots;
use super::step::{Timer, Timers};
use super::time::Time;
use super::timings::Timings;

/// Maximum number of slots of each kind: the keys of timers have 32 bits, two of which name the timer.
const SLOTS_MAX: usize = 1 << 30;

/// Limits on the number of transactions and on their memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Maximum number of server transactions.
    pub servers_max: usize,
    /// Maximum number of client transactions.
    pub clients_max: usize,
    /// Maximum number of bytes of stored messages, held by transactions or by requests that wait to become
    /// one.
    pub bytes_max: usize,
}

impl Default for TransactionLimits {
    /// Two million transactions of each kind, and 512 MiB.
    fn default() -> Self {
        Self { servers_max: 2_000_000, clients_max: 2_000_000, bytes_max: 512 << 20 }
    }
}

/// How the transaction layer classifies a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// The request starts a transaction: see [`Transactions::begin_server`].
    New(Arriving),
    /// The request was a retransmission and has been handled.
    Absorbed,
    /// The request was the ACK of this transaction's error response and has been handled.
    Acknowledged(ServerId),
    /// The ACK of a 2xx response. It has no transaction and is forwarded.
    Ack,
    /// A CANCEL of this INVITE, or of an unknown one (481).
    Cancel(Option<ServerId>),
}

/// The keys of a new request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arriving {
    key: Key,
    invite: bool,
}

/// Why a transaction could not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// There are too many transactions: 503.
    #[error("too many transactions")]
    Full,
    /// The request has already arrived by another path: 482 (RFC 3261 section 8.2.2.2).
    #[error("the request was merged with another on its way")]
    Merged,
}

/// Events caused by timers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A client transaction received no final response in time. It is over.
    TimedOut {
        /// The transaction.
        client: ClientId,
        /// The user data of the transaction.
        user: u64,
    },
    /// An INVITE has been ringing for longer than timer C. It should be cancelled.
    RingingTooLong {
        /// The transaction.
        client: ClientId,
        /// The user data of the transaction.
        user: u64,
    },
    /// A client transaction ended normally.
    Over {
        /// The user data of the transaction.
        user: u64,
    },
    /// No ACK was received for an error response to an INVITE. The transaction is over.
    NoAck {
        /// The user data of the transaction.
        user: u64,
    },
}

#[derive(Debug, Clone, Copy)]
enum ServerMachine {
    Invite(InviteServer),
    NonInvite(NonInviteServer),
}

#[derive(Debug)]
struct Server {
    machine: ServerMachine,
    generation: u32,
    key: Key,
    /// The key in the table that detects merged requests, if it is in there.
    merged: Option<Key>,
    flow: Flow,
    /// The last response, as long as it may have to be retransmitted.
    response: Vec<u8>,
    /// True while no response was sent and `response` holds the lines of the request from which 100 is built.
    trying_due: bool,
    /// True if the responses count against their destination's balance, because the source of the request may
    /// be forged.
    unvalidated: bool,
    user: u64,
}

#[derive(Debug, Clone, Copy)]
enum ClientMachine {
    Invite(InviteClient),
    NonInvite(NonInviteClient),
}

#[derive(Debug)]
struct Client {
    machine: ClientMachine,
    nonce: u64,
    flow: Flow,
    /// The request, kept for retransmission, CANCEL and ACK. A large one is reduced to what these need. Empty
    /// if the account has no room.
    request: Vec<u8>,
    /// True once an error response was acknowledged and `request` holds the ACK.
    acknowledged: bool,
    /// The slot of the CANCEL transaction.
    cancel: Option<u32>,
    user: u64,
    /// True for a CANCEL transaction, which causes no events.
    silent: bool,
}

/// A hasher for keys, which are hashes already.
#[derive(Debug, Default, Clone, Copy)]
struct Hashed(u64);

impl core::hash::Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for eight in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(eight).for_each(|(place, byte)| *place = *byte);
            self.0 ^= u64::from_le_bytes(word);
        }
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

type KeyMap = HashMap<Key, u32, BuildHasherDefault<Hashed>>;

/// All transactions of one shard (RFC 3261 section 17).
///
/// There is no I/O and no clock: messages and the time are inputs, and outgoing messages go into an
/// [`Outbox`].
///
/// - A request: call [`receive_request`](Self::receive_request); if it is new, call
///   [`begin_server`](Self::begin_server), then [`respond`](Self::respond).
/// - A request to forward: call [`reserve_client`](Self::reserve_client), whose result goes into the branch,
///   then [`start_client`](Self::start_client) once the request is in the outbox.
/// - A response: call [`receive_response`](Self::receive_response).
/// - Time: call [`handle_timeout`](Self::handle_timeout) when [`next_deadline`](Self::next_deadline) is
///   reached, then [`poll_event`](Self::poll_event) until it returns `None`.
#[derive(Debug)]
pub struct Transactions {
    timings: Timings,
    keys: Keys,
    servers: Slots<Server>,
    clients: Slots<Client>,
    by_key: KeyMap,
    merged: KeyMap,
    deadlines: DeadlineQueues,
    events: VecDeque<Event>,
    /// The source of generations of server transactions and, mixed with `secret`, of nonces of client
    /// transactions.
    counter: u64,
    secret: u64,
    /// The number of this worker, if the server has several. It is part of every identifier.
    worker: Option<u8>,
    index: Index,
    scratch: BytesMut,
    balance: Balance,
    account: Account,
}

/// Derives an independent key; hashes under one key reveal nothing about the other.
fn balance_key(key: [u8; 16]) -> [u8; 16] {
    let mut hasher = SipHasher13::new_with_key(&key);
    hasher.write(b"balance");
    hasher.finish128().as_bytes()
}

const SERVER: u32 = 2;
const END: u32 = 1;

impl Transactions {
    /// Creates an empty layer. `seed` must be random, so that identifiers can't be guessed.
    #[must_use]
    pub fn new(timings: Timings, limits: TransactionLimits, seed: [u8; 32]) -> Self {
        let (first, second) = seed.split_at(16);
        let half = |half: &[u8]| <[u8; 16]>::try_from(half).unwrap_or_default();
        let secret = u128::from_le_bytes(half(second)) as u64;
        Self {
            timings,
            keys: Keys::new(&half(first)),
            servers: Slots::new(limits.servers_max.min(SLOTS_MAX)),
            clients: Slots::new(limits.clients_max.min(SLOTS_MAX)),
            by_key: KeyMap::default(),
            merged: KeyMap::default(),
            deadlines: DeadlineQueues::default(),
            events: VecDeque::new(),
            counter: 0,
            secret,
            worker: None,
            index: own_index(),
            scratch: BytesMut::new(),
            balance: Balance::new(balance_key(half(first))),
            account: Account::new(limits.bytes_max),
        }
    }

    /// Marks new identifiers as belonging to this worker, one of up to [`WORKERS_MAX`].
    pub const fn set_worker(&mut self, worker: u8) {
        self.worker = Some(worker % WORKERS_MAX);
    }

    /// The numbers of server and client transactions.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.servers.len(), self.clients.len())
    }

    /// The number of bytes of stored messages.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.account.bytes()
    }

    /// The account of stored messages.
    pub(crate) const fn account(&self) -> &Account {
        &self.account
    }

    /// The timer values.
    #[must_use]
    pub const fn timings(&self) -> &Timings {
        &self.timings
    }

    /// The balance of bytes sent to and received from UDP addresses.
    pub(crate) const fn balance(&self) -> &Balance {
        &self.balance
    }

    /// The balance of bytes sent to and received from UDP addresses, for updates.
    pub(crate) const fn balance_mut(&mut self) -> &mut Balance {
        &mut self.balance
    }

    fn set_timers(&mut self, now: Time, key: u32, timers: Timers) {
        for (key, timer) in [(key, timers.resend), (key | END, timers.end)] {
            match timer {
                Timer::Keep => {}
                Timer::Stop => self.deadlines.cancel(key),
                Timer::Start(delay) => self.deadlines.schedule(now, key, delay),
            }
        }
    }

    fn cancel_timers(&mut self, key: u32) {
        self.deadlines.cancel(key);
        self.deadlines.cancel(key | END);
    }

    /// The time at which [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<Time> {
        self.deadlines.next_deadline()
    }

    /// Handles all timers that are due at `now`: retransmits, gives up, and ends states.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        while let Some(key) = self.deadlines.pop_expired(now) {
            let slot = key >> 2;
            match (key & SERVER != 0, key & END != 0) {
                (true, false) => self.resend_response(now, slot, out),
                (true, true) => self.end_server(slot),
                (false, false) => self.resend_request(now, slot, out),
                (false, true) => self.end_client(slot),
            }
        }
    }

    /// The next event caused by timers.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
