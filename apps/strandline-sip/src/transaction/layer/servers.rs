//! Server transactions.

use core::net::IpAddr;

use bytes::BytesMut;

use super::super::account::WHOLE_MAX;
use super::super::balance::Balance;
use super::super::derive::{OF_RESPONSE, own_index, pare, respond_alike};
use super::super::flow::Flow;
use super::super::id::ServerId;
use super::super::invite_server::InviteServer;
use super::super::non_invite_server::NonInviteServer;
use super::super::outbox::Outbox;
use super::super::server::{Arrival, ServerEnded};
use super::super::time::Time;
use super::{Arriving, BeginError, Event, Received, SERVER, Server, ServerMachine, Transactions};
use crate::codec::{Essentials, Message, Method, StatusCode, WriteError};

impl Server {
    fn is_provisional(&self) -> bool {
        match &self.machine {
            ServerMachine::Invite(machine) => *machine == InviteServer::Proceeding,
            ServerMachine::NonInvite(machine) => *machine != NonInviteServer::Completed,
        }
    }

    /// Returns true if `bytes` may be sent to the transaction's peer, and counts them.
    fn may_send(&self, now: Time, balance: &mut Balance, bytes: usize, provisional: bool) -> bool {
        let address = self.flow.peer.ip();
        !self.unvalidated
            || balance.is_proven(now, address)
            || balance.allows(now, address, bytes, provisional)
    }

    /// Retransmits the last response, unless the balance of its destination forbids it.
    fn send_again(&self, now: Time, balance: &mut Balance, out: &mut Outbox) {
        let bytes = self.response.len();
        if bytes > 0 && self.may_send(now, balance, bytes, self.is_provisional()) {
            out.push(self.flow, None, &self.response);
        }
    }
}

/// Returns true if there is room for another server transaction.
#[must_use]
pub(crate) fn has_room_for_server(transactions: &Transactions) -> bool {
    transactions.servers.has_room()
}

impl Transactions {
    /// Matches a request to a transaction (section 17.2.3). If it belongs to one, it is handled completely.
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
                self.on_again(now, slot, out);
                Received::Absorbed
            }
            (method, None) => Received::New(Arriving { key, invite: method == Method::Invite }),
        }
    }

    fn server_id(&self, slot: u32) -> Option<ServerId> {
        self.servers.get(slot).map(|server| ServerId { slot, generation: server.generation })
    }

    fn server(&mut self, id: ServerId) -> Option<&mut Server> {
        self.servers.get_mut(id.slot).filter(|server| server.generation == id.generation)
    }

    fn on_ack(&mut self, now: Time, slot: u32) -> Received {
        let Some(server) = self.servers.get_mut(slot) else { return Received::Absorbed };
        let ServerMachine::Invite(machine) = &mut server.machine else { return Received::Absorbed };
        let id = ServerId { slot, generation: server.generation };
        let waited = matches!(machine, InviteServer::Completed(_));
        let step = machine.on_ack(server.flow.protocol.is_reliable(), &self.timings);
        // An ACK before any final response has no effect. There will be a response, perhaps built from the
        // last one.
        if *machine == InviteServer::Confirmed {
            self.account.free(&mut server.response);
        }
        self.set_timers(now, slot << 2 | SERVER, step.timers);
        if step.ended {
            self.remove_server(slot);
        }
        match (step.send, waited) {
            (true, _) => Received::Ack,
            (false, true) => Received::Acknowledged(id),
            (false, false) => Received::Absorbed,
        }
    }

    fn on_again(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        self.make_trying(slot);
        let Some(server) = self.servers.get(slot) else { return };
        let arrival = match &server.machine {
            ServerMachine::Invite(machine) => machine.on_request(),
            ServerMachine::NonInvite(machine) => machine.on_request(),
        };
        if arrival == Arrival::Again {
            server.send_again(now, &mut self.balance, out);
        }
    }

    /// Begins a server transaction whose responses go to `flow`. A server that is the destination of the
    /// request passes its essentials in `ending`; a request that has already arrived by another path is then
    /// rejected (section 8.2.2.2). A proxy must not reject it.
    ///
    /// # Errors
    /// Returns an error if there are too many transactions or the request was merged.
    pub fn begin_server(
        &mut self,
        arriving: Arriving,
        flow: Flow,
        ending: Option<&Essentials<'_>>,
        user: u64,
    ) -> Result<ServerId, BeginError> {
        let merged = ending.map(|essentials| self.keys.of_merged(essentials));
        if merged.is_some_and(|merged| self.merged.contains_key(&merged)) {
            return Err(BeginError::Merged);
        }
        let machine = if arriving.invite {
            ServerMachine::Invite(InviteServer::Proceeding)
        } else {
            ServerMachine::NonInvite(NonInviteServer::Trying)
        };
        self.counter += 1;
        let generation = self.counter as u32;
        let server = Server {
            machine,
            generation,
            key: arriving.key,
            merged,
            flow,
            response: Vec::new(),
            trying_due: false,
            unvalidated: false,
            user,
        };
        let slot = self.servers.insert(server).ok_or(BeginError::Full)?;
        self.by_key.insert(arriving.key, slot);
        if let Some(merged) = merged {
            self.merged.insert(merged, slot);
        }
        Ok(ServerId { slot, generation })
    }

    /// Marks a transaction whose responses may not go to the sender of its request. Responses count against
    /// the balance of their destination from now on, and those beyond it are not sent; retransmitted requests
    /// count in its favour.
    pub(crate) fn take(&mut self, id: ServerId) {
        if let Some(server) = self.server(id) {
            server.unvalidated = true;
        }
    }

    /// The address to which the transaction's responses go, if they count against its balance.
    pub(crate) fn is_unvalidated(&self, now: Time, id: ServerId) -> Option<IpAddr> {
        let server = self.servers.get(id.slot).filter(|server| server.generation == id.generation)?;
        let address = server.flow.peer.ip();
        (server.unvalidated && !self.balance.is_proven(now, address)).then_some(address)
    }

    /// Sends a response that `write` appends to a buffer. Returns whether it was sent, or only the balance
    /// prevented it. Returns false after a final response and once the transaction is over.
    ///
    /// # Errors
    /// Returns the error of `write`; nothing is sent then.
    pub fn respond(
        &mut self,
        now: Time,
        id: ServerId,
        code: StatusCode,
        out: &mut Outbox,
        write: impl FnOnce(&mut BytesMut) -> Result<(), WriteError>,
    ) -> Result<bool, WriteError> {
        let timings = self.timings;
        let server = self.servers.get_mut(id.slot).filter(|server| server.generation == id.generation);
        let Some(server) = server else { return Ok(false) };
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
        let is_too_much = !server.may_send(now, &mut self.balance, sent.len(), code.is_provisional());
        server.machine = machine;
        server.trying_due = false;
        if matches!(machine, ServerMachine::Invite(InviteServer::Accepted)) {
            self.account.free(&mut server.response);
        } else if !step.ended {
            // Reliable transports need it too: further responses are built from it, and it answers a repeated
            // INVITE.
            let mut kept = sent;
            if reliable && sent.len() > WHOLE_MAX {
                // Nothing is retransmitted over a reliable transport, so a large response is reduced to the
                // parts for further responses.
                self.scratch.clear();
                if let Ok(message) = Message::parse(sent, &mut self.index) {
                    pare(&message, &OF_RESPONSE, &mut self.scratch);
                    kept = &self.scratch;
                }
            }
            match self.account.has_room(kept.len()) {
                true => self.account.put(&mut server.response, kept),
                false => self.account.free(&mut server.response),
            }
        }
        if is_too_much {
            out.take_back();
        }
        self.set_timers(now, id.slot << 2 | SERVER, step.timers);
        if step.ended {
            self.remove_server(id.slot);
        }
        Ok(true)
    }

    /// Sends a response built from the last one, for use when the request is no longer available. A
    /// provisional response must have been sent, or a 100 prepared.
    ///
    /// # Errors
    /// Returns an error if there is no such response.
    pub fn respond_alike(
        &mut self,
        now: Time,
        id: ServerId,
        code: StatusCode,
        to_tag: &[u8],
        out: &mut Outbox,
    ) -> Result<bool, WriteError> {
        if self.server(id).is_some() {
            self.make_trying(id.slot);
        }
        let Some(server) = self.server(id) else { return Ok(false) };
        let last = core::mem::take(&mut server.response);
        self.account.changed(last.capacity(), 0);
        let mut index = core::mem::replace(&mut self.index, own_index());
        let result = match Message::parse(&last, &mut index) {
            Ok(last) => self.respond(now, id, code, out, |out| respond_alike(&last, code, to_tag, out)),
            Err(_) => Err(WriteError::Target),
        };
        self.index = index;
        result
    }

    /// The flow of the responses, and the user data of the transaction.
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

    pub(super) fn remove_server(&mut self, slot: u32) {
        let Some(server) = self.servers.remove(slot) else { return };
        self.account.changed(server.response.capacity(), 0);
        self.by_key.remove(&server.key);
        if let Some(merged) = server.merged {
            self.merged.remove(&merged);
        }
        self.cancel_timers(slot << 2 | SERVER);
    }

    pub(super) fn resend_response(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        self.make_trying(slot);
        let Some(server) = self.servers.get_mut(slot) else { return };
        let ServerMachine::Invite(machine) = &mut server.machine else { return };
        let timers = machine.on_resend(&self.timings);
        server.send_again(now, &mut self.balance, out);
        self.set_timers(now, slot << 2 | SERVER, timers);
    }

    pub(super) fn end_server(&mut self, slot: u32) {
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
}
