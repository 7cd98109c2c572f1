//! All transactions: matching, timers, and what is to be sent.

mod clients;
mod servers;
mod trying;

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::{HashMap, VecDeque};

use bytes::BytesMut;
use siphasher::sip128::{Hasher128, SipHasher13};

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

/// How many transactions there may be, and what they may keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Server transactions.
    pub servers_max: usize,
    /// Client transactions.
    pub clients_max: usize,
    /// Bytes of messages that are kept, by transactions and by whatever waits for something before it is one.
    pub bytes_max: usize,
}

impl Default for TransactionLimits {
    /// Two millions of each, and 512 MiB.
    fn default() -> Self {
        Self { servers_max: 2_000_000, clients_max: 2_000_000, bytes_max: 512 << 20 }
    }
}

/// What a request is to the transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It begins a transaction: see [`Transactions::begin_server`].
    New(Arriving),
    /// It was dealt with: a retransmission.
    Absorbed,
    /// So was the ACK of this error.
    Acknowledged(ServerId),
    /// An ACK of a 2xx, which has no transaction: it is forwarded.
    Ack,
    /// A CANCEL of this INVITE, or of nothing that is known (481).
    Cancel(Option<ServerId>),
}

/// What a new request will be matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arriving {
    key: Key,
    invite: bool,
}

/// Why no transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// There are too many: 503.
    #[error("too many transactions")]
    Full,
    /// A request that came on another way already: 482 (RFC 3261 section 8.2.2.2).
    #[error("the request was merged with another on its way")]
    Merged,
}

/// What time brings about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A client transaction got no final response in time. It is over.
    TimedOut {
        /// Which.
        client: ClientId,
        /// What its owner named it.
        user: u64,
    },
    /// An INVITE has been ringing for longer than timer C: it should be cancelled.
    RingingTooLong {
        /// Which.
        client: ClientId,
        /// What its owner named it.
        user: u64,
    },
    /// A client transaction is over, after all that it had to do.
    Over {
        /// What its owner named it.
        user: u64,
    },
    /// No ACK came for an error response to an INVITE. The transaction is over.
    NoAck {
        /// What its owner named it.
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
    /// Also in the table of those that may be merged with others.
    merged: Option<Key>,
    flow: Flow,
    /// The last response, as long as it may have to be sent again.
    response: Vec<u8>,
    /// There was none: what stands there is of the request, for 100 to be made of.
    asked: bool,
    /// Where responses go nobody may have asked for them.
    weighed: bool,
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
    /// What may have to be sent again, or cancelled and acknowledged: of what is large only as much as that takes. Empty if there is
    /// no room.
    request: Vec<u8>,
    /// The ACK of an error was sent in place of the request.
    acknowledged: bool,
    /// The slot of its CANCEL.
    cancel: Option<u32>,
    user: u64,
    /// A CANCEL, of which its owner isn't told.
    silent: bool,
}

/// Keys are hashes already.
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
/// No I/O and no clock: messages and the time come in, and what is to be sent goes into an [`Outbox`].
///
/// - A request: [`receive_request`](Self::receive_request), and if it is new,
///   [`begin_server`](Self::begin_server); then [`respond`](Self::respond).
/// - A request to forward: [`reserve_client`](Self::reserve_client), whose name goes into the branch; then
///   [`start_client`](Self::start_client) once it is in the outbox.
/// - A response: [`receive_response`](Self::receive_response).
/// - Time: [`handle_timeout`](Self::handle_timeout) when [`next_deadline`](Self::next_deadline) has come, then
///   [`poll_event`](Self::poll_event) until `None`.
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
    /// Of server transactions; and mixed with `secret`, of client transactions.
    counter: u64,
    secret: u64,
    /// The worker of a server with several: it stands in every name.
    worker: Option<u8>,
    index: Index,
    scratch: BytesMut,
    balance: Balance,
    account: Account,
}

/// Another key, of which nobody learns anything from the first one's hashes.
fn balance_key(key: [u8; 16]) -> [u8; 16] {
    let mut hasher = SipHasher13::new_with_key(&key);
    hasher.write(b"balance");
    hasher.finish128().as_bytes()
}

const SERVER: u32 = 2;
const END: u32 = 1;

impl Transactions {
    /// None yet. `seed` must be random: it keeps others from guessing names.
    #[must_use]
    pub fn new(timings: Timings, limits: TransactionLimits, seed: [u8; 32]) -> Self {
        let (first, second) = seed.split_at(16);
        let half = |half: &[u8]| <[u8; 16]>::try_from(half).unwrap_or_default();
        let secret = u128::from_le_bytes(half(second)) as u64;
        Self {
            timings,
            keys: Keys::new(&half(first)),
            servers: Slots::new(limits.servers_max.min(1 << 30)),
            clients: Slots::new(limits.clients_max.min(1 << 30)),
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

    /// From now on names say that they are this worker's, one of up to [`WORKERS_MAX`].
    pub const fn set_worker(&mut self, worker: u8) {
        self.worker = Some(worker % WORKERS_MAX);
    }

    /// How many server and client transactions there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.servers.len(), self.clients.len())
    }

    /// Bytes of messages that are kept.
    #[must_use]
    pub fn kept_bytes(&self) -> usize {
        self.account.bytes()
    }

    /// What may be kept.
    pub(crate) const fn account(&self) -> &Account {
        &self.account
    }

    /// The values of timers.
    #[must_use]
    pub const fn timings(&self) -> &Timings {
        &self.timings
    }

    /// What addresses over UDP got beyond what came from them.
    pub(crate) const fn balance(&self) -> &Balance {
        &self.balance
    }

    /// What was received and sent by address, to be changed.
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

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    #[must_use]
    pub fn next_deadline(&mut self) -> Option<Time> {
        self.deadlines.next_deadline()
    }

    /// Does what is due at `now`: sends again, gives up, ends states.
    pub fn handle_timeout(&mut self, now: Time, out: &mut Outbox) {
        self.balance.set_now(now);
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

    /// The next thing that time brought about.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}
