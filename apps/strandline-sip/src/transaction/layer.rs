//! All transactions: matching, timers, and what is to be sent.

use core::hash::BuildHasherDefault;
use std::collections::{HashMap, VecDeque};

use bytes::BytesMut;

use crate::codec::{Essentials, Index, Message, Method, StatusCode, WriteError};

use super::client::Ended;
use super::derive::{derive, respond_alike};
use super::flow::Flow;
use super::id::{Branch, ClientId, Key, Keys, ServerId};
use super::invite_client::InviteClient;
use super::invite_server::InviteServer;
use super::non_invite_client::NonInviteClient;
use super::non_invite_server::NonInviteServer;
use super::outbox::Outbox;
use super::queues::DeadlineQueues;
use super::server::{Arrival, ServerEnded};
use super::slots::Slots;
use super::step::{Timer, Timers};
use super::time::Time;
use super::timings::Timings;

/// How many transactions there may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransactionLimits {
    /// Server transactions.
    pub servers_max: usize,
    /// Client transactions.
    pub clients_max: usize,
}

impl Default for TransactionLimits {
    /// Two millions of each.
    fn default() -> Self {
        Self { servers_max: 2_000_000, clients_max: 2_000_000 }
    }
}

/// What a request is to the transactions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Received {
    /// It begins a transaction: see [`Transactions::begin_server`].
    New(Arriving),
    /// It was dealt with: a retransmission, or the ACK of an error.
    Absorbed,
    /// An ACK of a 2xx, which has no transaction: it is forwarded.
    Ack,
    /// A CANCEL of this INVITE, or of nothing that is known (481).
    Cancel(Option<ServerId>),
}

/// What a new request will be matched by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arriving {
    key: Key,
    merged: Key,
    invite: bool,
}

/// Why no transaction begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BeginError {
    /// There are too many: 503.
    #[error("too many transactions")]
    Full,
    /// The same request came on another way already: 482 (RFC 3261 section 8.2.2.2).
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
    /// What may have to be sent again, or cancelled and acknowledged.
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
    index: Index,
    scratch: BytesMut,
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
            index: Index::new(),
            scratch: BytesMut::new(),
        }
    }

    /// How many server and client transactions there are.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        (self.servers.len(), self.clients.len())
    }

    /// The values of timers.
    #[must_use]
    pub const fn timings(&self) -> &Timings {
        &self.timings
    }

    /// A request came: does it belong to a transaction (section 17.2.3)? If so, it is dealt with.
    pub fn receive_request(
        &mut self,
        now: Time,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        out: &mut Outbox,
    ) -> Received {
        let method = essentials.cseq.method;
        let uri = message.request_line().map_or(&[][..], |line| line.uri);
        let key = self.keys.of_request(essentials, uri);
        let slot = self.by_key.get(&key).copied();
        match (method, slot) {
            (Method::Ack, Some(slot)) => self.on_ack(now, slot),
            (Method::Ack, None) => Received::Ack,
            (Method::Cancel, slot) => Received::Cancel(slot.and_then(|slot| self.server_id(slot))),
            (_, Some(slot)) => {
                self.on_again(slot, out);
                Received::Absorbed
            }
            (method, None) => {
                let invite = method == Method::Invite;
                Received::New(Arriving { key, merged: self.keys.of_merged(essentials), invite })
            }
        }
    }

    fn server_id(&self, slot: u32) -> Option<ServerId> {
        self.servers.get(slot).map(|server| ServerId { slot, generation: server.generation })
    }

    fn server(&mut self, id: ServerId) -> Option<&mut Server> {
        self.servers.get_mut(id.slot).filter(|server| server.generation == id.generation)
    }

    fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.slot).filter(|client| client.nonce == id.nonce)
    }

    fn on_ack(&mut self, now: Time, slot: u32) -> Received {
        let Some(server) = self.servers.get_mut(slot) else { return Received::Absorbed };
        let ServerMachine::Invite(machine) = &mut server.machine else { return Received::Absorbed };
        let step = machine.on_ack(server.flow.protocol.is_reliable(), &self.timings);
        if !step.send {
            server.response = Vec::new();
        }
        self.set_timers(now, slot << 2 | SERVER, step.timers);
        if step.ended {
            self.remove_server(slot);
        }
        if step.send { Received::Ack } else { Received::Absorbed }
    }

    fn on_again(&self, slot: u32, out: &mut Outbox) {
        let Some(server) = self.servers.get(slot) else { return };
        let arrival = match &server.machine {
            ServerMachine::Invite(machine) => machine.on_request(),
            ServerMachine::NonInvite(machine) => machine.on_request(),
        };
        if arrival == Arrival::Again && !server.response.is_empty() {
            out.push(server.flow, None, &server.response);
        }
    }

    /// Begins a server transaction. Responses go to `flow`. With `merging`, a request that came already on another way is
    /// refused; a proxy must let it pass.
    ///
    /// # Errors
    /// If there are too many, or it is one that came already.
    pub fn begin_server(
        &mut self,
        arriving: Arriving,
        flow: Flow,
        merging: bool,
        user: u64,
    ) -> Result<ServerId, BeginError> {
        if merging && self.merged.contains_key(&arriving.merged) {
            return Err(BeginError::Merged);
        }
        let machine = if arriving.invite {
            ServerMachine::Invite(InviteServer::Proceeding)
        } else {
            ServerMachine::NonInvite(NonInviteServer::Trying)
        };
        self.counter += 1;
        let generation = self.counter as u32;
        let merged = merging.then_some(arriving.merged);
        let server =
            Server { machine, generation, key: arriving.key, merged, flow, response: Vec::new(), user };
        let slot = self.servers.insert(server).ok_or(BeginError::Full)?;
        self.by_key.insert(arriving.key, slot);
        if let Some(merged) = merged {
            self.merged.insert(merged, slot);
        }
        Ok(ServerId { slot, generation })
    }

    /// Sends a response, which `write` appends to a buffer. Returns whether it was sent: not after a final one, nor once
    /// the transaction is over.
    ///
    /// # Errors
    /// What `write` says; nothing is sent then.
    pub fn respond(
        &mut self,
        now: Time,
        id: ServerId,
        code: StatusCode,
        out: &mut Outbox,
        write: impl FnOnce(&mut BytesMut) -> Result<(), WriteError>,
    ) -> Result<bool, WriteError> {
        let timings = self.timings;
        let Some(server) = self.server(id) else { return Ok(false) };
        let reliable = server.flow.protocol.is_reliable();
        let mut machine = server.machine;
        let step = match &mut machine {
            ServerMachine::Invite(machine) => machine.on_respond(code, reliable, &timings),
            ServerMachine::NonInvite(machine) => machine.on_respond(code, reliable, &timings),
        };
        if !step.send {
            return Ok(false);
        }
        let sent = out.write(server.flow, None, write)?;
        server.machine = machine;
        if matches!(machine, ServerMachine::Invite(InviteServer::Accepted)) {
            server.response = Vec::new();
        } else if !reliable || code.is_provisional() {
            // Over reliable transports it is kept for what may have to be made of it.
            server.response.clear();
            server.response.extend_from_slice(sent);
        }
        self.set_timers(now, id.slot << 2 | SERVER, step.timers);
        if step.ended {
            self.remove_server(id.slot);
        }
        Ok(true)
    }

    /// Sends a response that is made from the last one, when the request isn't at hand any more: a provisional one must have
    /// been sent.
    ///
    /// # Errors
    /// If none was.
    pub fn respond_alike(
        &mut self,
        now: Time,
        id: ServerId,
        code: StatusCode,
        to_tag: &[u8],
        out: &mut Outbox,
    ) -> Result<bool, WriteError> {
        let Some(server) = self.server(id) else { return Ok(false) };
        let last = core::mem::take(&mut server.response);
        let mut index = core::mem::take(&mut self.index);
        let result = match Message::parse(&last, &mut index) {
            Ok(last) => self.respond(now, id, code, out, |out| respond_alike(&last, code, to_tag, out)),
            Err(_) => Err(WriteError::Target),
        };
        self.index = index;
        result
    }

    /// The flow that responses go to, and what the owner named the transaction.
    #[must_use]
    pub fn server_flow(&self, id: ServerId) -> Option<(Flow, u64)> {
        let server = self.servers.get(id.slot).filter(|server| server.generation == id.generation)?;
        Some((server.flow, server.user))
    }

    /// Ends a server transaction that will not be answered.
    pub fn forget_server(&mut self, id: ServerId) {
        if self.server(id).is_some() {
            self.remove_server(id.slot);
        }
    }

    fn remove_server(&mut self, slot: u32) {
        let Some(server) = self.servers.remove(slot) else { return };
        self.by_key.remove(&server.key);
        if let Some(merged) = server.merged {
            self.merged.remove(&merged);
        }
        self.cancel_timers(slot << 2 | SERVER);
    }

    /// Makes a place for a client transaction, whose name is to stand in the branch of its request.
    ///
    /// # Errors
    /// If there are too many.
    pub fn reserve_client(&mut self, invite: bool, flow: Flow, user: u64) -> Result<ClientId, BeginError> {
        let reliable = flow.protocol.is_reliable();
        let machine = if invite {
            ClientMachine::Invite(InviteClient::start(reliable, &self.timings).0)
        } else {
            ClientMachine::NonInvite(NonInviteClient::start(reliable, &self.timings).0)
        };
        self.counter += 1;
        // A bijection of the counter that nobody knows: never the same, and not to be guessed.
        let nonce = splitmix(self.counter.wrapping_add(self.secret)) ^ self.secret.rotate_left(29);
        let client = Client {
            machine,
            nonce,
            flow,
            request: Vec::new(),
            acknowledged: false,
            cancel: None,
            user,
            silent: false,
        };
        let slot = self.clients.insert(client).ok_or(BeginError::Full)?;
        Ok(ClientId { slot, nonce })
    }

    /// The request is on its way: its timers start.
    pub fn start_client(&mut self, now: Time, id: ClientId, request: &[u8]) {
        let timings = self.timings;
        let Some(client) = self.client(id) else { return };
        let reliable = client.flow.protocol.is_reliable();
        let invite = matches!(client.machine, ClientMachine::Invite(_));
        if invite || !reliable {
            client.request.extend_from_slice(request);
        }
        self.set_timers(now, id.slot << 2, Timers::attempt(reliable, &timings));
    }

    /// Gives up a client transaction that was reserved and not started, or whose request can't be sent. Its owner knows,
    /// so there is no event.
    pub fn forget_client(&mut self, id: ClientId) -> Option<u64> {
        self.client(id)?;
        self.remove_client(id.slot).map(|client| client.user)
    }

    fn remove_client(&mut self, slot: u32) -> Option<Client> {
        self.cancel_timers(slot << 2);
        self.clients.remove(slot)
    }

    /// A response came: whose is it, and is it to be passed on (section 17.1.3)? `None` for one that belongs to nothing or
    /// came again; it goes nowhere (RFC 6026 section 8.9).
    pub fn receive_response(
        &mut self,
        now: Time,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        out: &mut Outbox,
    ) -> Option<(ClientId, u64)> {
        let code = message.status_line()?.code;
        let branch = Branch::read(essentials.via.branch_id()?)?;
        let mut id = branch.client?;
        let client = self.client(id)?;
        if essentials.cseq.method == Method::Cancel
            && let Some(slot) = client.cancel
        {
            id = ClientId { slot, nonce: client.nonce };
        }
        let timings = self.timings;
        let client = self.client(id)?;
        let reliable = client.flow.protocol.is_reliable();
        let invite = essentials.cseq.method == Method::Invite;
        let step = match &mut client.machine {
            ClientMachine::Invite(machine) if invite => machine.on_response(code, reliable, &timings),
            ClientMachine::NonInvite(machine) if !invite => machine.on_response(code, reliable, &timings),
            _ => return None,
        };
        let (user, deliver) = (client.user, step.deliver && !client.silent);
        if step.ack {
            self.acknowledge(id, message, out);
        }
        self.after_response(now, id, code, step.timers);
        if step.ended {
            self.end_client(id.slot);
        }
        deliver.then_some((id, user))
    }

    fn after_response(&mut self, now: Time, id: ClientId, code: StatusCode, timers: Timers) {
        self.set_timers(now, id.slot << 2, timers);
        let Some(client) = self.client(id) else { return };
        if !code.is_provisional() && !client.acknowledged {
            client.request = Vec::new();
        }
    }

    /// Sends ACK for an error: made the first time, and kept in place of the INVITE.
    fn acknowledge(&mut self, id: ClientId, response: &Message<'_>, out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(id.slot) else { return };
        if !client.acknowledged {
            self.scratch.clear();
            let request = Message::parse(&client.request, &mut self.index);
            let Ok(request) = request else { return };
            if derive(&request, Method::Ack, Some(response), &mut self.scratch).is_err() {
                return;
            }
            client.request.clear();
            client.request.extend_from_slice(&self.scratch);
            client.acknowledged = true;
        }
        out.push(client.flow, None, &client.request);
    }

    /// Sends the CANCEL of an INVITE that has got a provisional response and no final one (section 9.1). Returns whether
    /// it did.
    pub fn cancel(&mut self, now: Time, id: ClientId, out: &mut Outbox) -> bool {
        let Some(client) = self.client(id) else { return false };
        let rings = matches!(client.machine, ClientMachine::Invite(InviteClient::Proceeding));
        if !rings || client.cancel.is_some() {
            return false;
        }
        let (flow, user) = (client.flow, client.user);
        // A final response must come within 64 T1 of the CANCEL, or it is taken for 487 (section 9.1).
        let patience = self.timings.patience();
        self.set_timers(now, id.slot << 2, Timers { resend: Timer::Keep, end: Timer::Start(patience) });
        self.scratch.clear();
        let Some(client) = self.clients.get(id.slot) else { return false };
        let Ok(request) = Message::parse(&client.request, &mut self.index) else { return false };
        if derive(&request, Method::Cancel, None, &mut self.scratch).is_err() {
            return false;
        }
        let reliable = flow.protocol.is_reliable();
        let (machine, timers) = NonInviteClient::start(reliable, &self.timings);
        let cancel = Client {
            machine: ClientMachine::NonInvite(machine),
            nonce: id.nonce,
            flow,
            request: if reliable { Vec::new() } else { self.scratch.to_vec() },
            acknowledged: false,
            cancel: None,
            user,
            silent: true,
        };
        out.push(flow, None, &self.scratch);
        let Some(slot) = self.clients.insert(cancel) else { return true };
        if let Some(client) = self.clients.get_mut(id.slot) {
            client.cancel = Some(slot);
        }
        self.set_timers(now, slot << 2, timers);
        true
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

    fn resend_response(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(server) = self.servers.get_mut(slot) else { return };
        let ServerMachine::Invite(machine) = &mut server.machine else { return };
        let timers = machine.on_resend(&self.timings);
        out.push(server.flow, None, &server.response);
        self.set_timers(now, slot << 2 | SERVER, timers);
    }

    fn resend_request(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        let timers = match &mut client.machine {
            ClientMachine::Invite(machine) => machine.on_resend(),
            ClientMachine::NonInvite(machine) => machine.on_resend(&self.timings),
        };
        let id = ClientId { slot, nonce: client.nonce };
        out.push(client.flow, Some(id).filter(|_| !client.silent), &client.request);
        self.set_timers(now, slot << 2, timers);
    }

    fn end_server(&mut self, slot: u32) {
        let Some(server) = self.servers.get(slot) else { return };
        let ended = match &server.machine {
            ServerMachine::Invite(machine) => machine.on_end(),
            ServerMachine::NonInvite(_) => ServerEnded::Over,
        };
        if ended == ServerEnded::NoAck {
            self.events.push_back(Event::NoAck { user: server.user });
        }
        self.remove_server(slot);
    }

    /// An end timer, or the end without one.
    fn end_client(&mut self, slot: u32) {
        let Some(client) = self.clients.get(slot) else { return };
        let id = ClientId { slot, nonce: client.nonce };
        let (user, silent) = (client.user, client.silent);
        let ended = match &client.machine {
            ClientMachine::Invite(machine) => machine.on_end(),
            ClientMachine::NonInvite(machine) => machine.on_end(),
        };
        let event = match ended {
            // One that was cancelled and still has no final response never will have.
            Ended::RingingTooLong if client.cancel.is_none() => {
                self.events.push_back(Event::RingingTooLong { client: id, user });
                return;
            }
            Ended::RingingTooLong | Ended::TimedOut => Event::TimedOut { client: id, user },
            Ended::Over => Event::Over { user },
        };
        self.remove_client(slot);
        if !silent {
            self.events.push_back(event);
        }
    }

    /// The next thing that time brought about.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }
}

/// A bijection that mixes all bits (the finaliser of SplitMix64).
const fn splitmix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
