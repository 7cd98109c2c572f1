//! Client transactions.

use super::super::client::Ended;
use bytes::BytesMut;

use super::super::account::WHOLE_MAX;
use super::super::derive::{OF_REQUEST, derive, pare};
use super::super::flow::Flow;
use super::super::id::{ClientId, ViaBranch, WORKERS_MAX};
use super::super::invite_client::InviteClient;
use super::super::non_invite_client::NonInviteClient;
use super::super::outbox::Outbox;
use super::super::step::{Timer, Timers};
use super::super::time::Time;
use super::{BeginError, Client, ClientMachine, Event, Transactions};
use crate::codec::{Essentials, Index, Message, Method, StatusCode};

impl Transactions {
    fn client(&mut self, id: ClientId) -> Option<&mut Client> {
        self.clients.get_mut(id.slot).filter(|client| client.nonce == id.nonce)
    }

    /// Reserves a client transaction, whose identifier goes into the branch of its request.
    ///
    /// # Errors
    /// Returns an error if there are too many transactions.
    pub fn reserve_client(&mut self, invite: bool, flow: Flow, user: u64) -> Result<ClientId, BeginError> {
        let reliable = flow.protocol.is_reliable();
        let machine = if invite {
            ClientMachine::Invite(InviteClient::start(reliable, &self.timings).0)
        } else {
            ClientMachine::NonInvite(NonInviteClient::start(reliable, &self.timings).0)
        };
        self.counter += 1;
        // A secret bijection of the counter: it never repeats and can't be guessed.
        let nonce = splitmix(self.counter.wrapping_add(self.secret)) ^ self.secret.rotate_left(29);
        let nonce = match self.worker {
            // The remaining bits and the slot are no easier to guess.
            Some(worker) => nonce - nonce % u64::from(WORKERS_MAX) + u64::from(worker),
            None => nonce,
        };
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

    /// Starts the timers of a transaction whose request is being sent.
    pub fn start_client(&mut self, now: Time, id: ClientId, request: &[u8]) {
        let timings = self.timings;
        let Some(client) = self.clients.get_mut(id.slot).filter(|client| client.nonce == id.nonce) else {
            return;
        };
        let reliable = client.flow.protocol.is_reliable();
        let invite = matches!(client.machine, ClientMachine::Invite(_));
        if invite && reliable {
            self.account.put(&mut client.request, pared(request, &mut self.index, &mut self.scratch));
        } else if !reliable {
            self.account.put(&mut client.request, request);
        }
        self.set_timers(now, id.slot << 2, Timers::attempt(reliable, &timings));
    }

    /// Handles an INVITE that will not be retransmitted: of a large one, keeps only what its ACK and CANCEL
    /// need.
    fn pare_request(&mut self, slot: u32) {
        let Some(client) = self.clients.get_mut(slot).filter(|client| client.request.len() > WHOLE_MAX)
        else {
            return;
        };
        let whole = core::mem::take(&mut client.request);
        let before = whole.capacity();
        client.request = pared(&whole, &mut self.index, &mut self.scratch).to_vec();
        self.account.changed(before, client.request.capacity());
    }

    /// Drops a client transaction that was reserved and not started, or whose request can't be sent. There is
    /// no event, because the caller knows. Returns the user data.
    pub fn forget_client(&mut self, id: ClientId) -> Option<u64> {
        self.client(id)?;
        self.remove_client(id.slot).map(|client| client.user)
    }

    /// The user data of a client transaction; `None` if it is over.
    #[must_use]
    pub fn client_user(&self, id: ClientId) -> Option<u64> {
        self.clients.get(id.slot).filter(|client| client.nonce == id.nonce).map(|client| client.user)
    }

    fn remove_client(&mut self, slot: u32) -> Option<Client> {
        self.cancel_timers(slot << 2);
        let client = self.clients.remove(slot)?;
        self.account.changed(client.request.capacity(), 0);
        Some(client)
    }

    /// Matches a response to its transaction, and decides whether to pass it on (section 17.1.3). Returns
    /// `None` for a stray or repeated response, which is dropped (RFC 6026 section 8.9).
    pub fn receive_response(
        &mut self,
        now: Time,
        message: &Message<'_>,
        essentials: &Essentials<'_>,
        out: &mut Outbox,
    ) -> Option<(ClientId, u64)> {
        let code = message.status_line()?.code;
        let branch = ViaBranch::read(essentials.via.branch_id()?)?;
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

    fn after_response(&mut self, now: Time, id: ClientId, code: StatusCode, mut timers: Timers) {
        // Further provisional responses don't extend the deadline of a cancelled INVITE, which ends within 64
        // T1 of its CANCEL.
        if code.is_provisional() && self.client(id).is_some_and(|client| client.cancel.is_some()) {
            timers.end = Timer::Keep;
        }
        self.set_timers(now, id.slot << 2, timers);
        let Some(client) = self.clients.get_mut(id.slot).filter(|client| client.nonce == id.nonce) else {
            return;
        };
        if !code.is_provisional() && !client.acknowledged {
            self.account.free(&mut client.request);
        } else if matches!(client.machine, ClientMachine::Invite(InviteClient::Proceeding)) {
            self.pare_request(id.slot);
        }
    }

    /// Sends the ACK of an error response. The first time it is built, and then it is kept in place of the
    /// INVITE.
    fn acknowledge(&mut self, id: ClientId, response: &Message<'_>, out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(id.slot) else { return };
        if !client.acknowledged {
            self.scratch.clear();
            let request = Message::parse(&client.request, &mut self.index);
            let Ok(request) = request else { return };
            if derive(&request, Method::Ack, Some(response), &mut self.scratch).is_err() {
                return;
            }
            client.acknowledged = true;
            out.push(client.flow, None, &self.scratch);
            // Store it in place of the INVITE.
            match self.scratch.len() <= client.request.len() || self.account.has_room(self.scratch.len()) {
                true => self.account.put(&mut client.request, &self.scratch),
                false => self.account.free(&mut client.request),
            }
        } else if !client.request.is_empty() {
            out.push(client.flow, None, &client.request);
        }
    }

    /// Sends the CANCEL of an INVITE that has received a provisional response and no final one (section 9.1).
    /// Returns whether it was sent.
    pub fn cancel(&mut self, now: Time, id: ClientId, out: &mut Outbox) -> bool {
        let Some(client) = self.client(id) else { return false };
        let rings = matches!(client.machine, ClientMachine::Invite(InviteClient::Proceeding));
        if !rings || client.cancel.is_some() {
            return false;
        }
        let (flow, user) = (client.flow, client.user);
        // Without a final response within 64 T1 of the CANCEL, the transaction ends as if 487 had come
        // (section 9.1).
        let timeout = self.timings.transaction_timeout();
        self.set_timers(now, id.slot << 2, Timers { resend: Timer::Keep, end: Timer::Start(timeout) });
        self.scratch.clear();
        let Some(client) = self.clients.get(id.slot) else { return false };
        let Ok(request) = Message::parse(&client.request, &mut self.index) else { return false };
        if derive(&request, Method::Cancel, None, &mut self.scratch).is_err() {
            return false;
        }
        let reliable = flow.protocol.is_reliable();
        let is_kept = !reliable && self.account.has_room(self.scratch.len());
        let kept = if is_kept { self.scratch.len() } else { 0 };
        let (machine, timers) = NonInviteClient::start(reliable, &self.timings);
        let cancel = Client {
            machine: ClientMachine::NonInvite(machine),
            nonce: id.nonce,
            flow,
            request: if is_kept { self.scratch.to_vec() } else { Vec::new() },
            acknowledged: false,
            cancel: None,
            user,
            silent: true,
        };
        out.push(flow, None, &self.scratch);
        let Some(slot) = self.clients.insert(cancel) else { return true };
        self.account.changed(0, kept);
        if let Some(client) = self.clients.get_mut(id.slot) {
            client.cancel = Some(slot);
        }
        self.set_timers(now, slot << 2, timers);
        true
    }

    pub(super) fn resend_request(&mut self, now: Time, slot: u32, out: &mut Outbox) {
        let Some(client) = self.clients.get_mut(slot) else { return };
        let timers = match &mut client.machine {
            ClientMachine::Invite(machine) => machine.on_resend(),
            ClientMachine::NonInvite(machine) => machine.on_resend(&self.timings),
        };
        let id = ClientId { slot, nonce: client.nonce };
        if !client.request.is_empty() {
            out.push(client.flow, Some(id).filter(|_| !client.silent), &client.request);
        }
        self.set_timers(now, slot << 2, timers);
    }

    /// Handles an end timer, or ends a transaction that has none.
    pub(super) fn end_client(&mut self, slot: u32) {
        let Some(client) = self.clients.get(slot) else { return };
        let id = ClientId { slot, nonce: client.nonce };
        let (user, silent) = (client.user, client.silent);
        let ended = match &client.machine {
            ClientMachine::Invite(machine) => machine.on_end(),
            ClientMachine::NonInvite(machine) => machine.on_end(),
        };
        let event = match ended {
            // A cancelled INVITE that got no final response will not get one.
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
}

/// Reduces a large INVITE to what its ACK and CANCEL need.
fn pared<'a>(invite: &'a [u8], index: &mut Index, scratch: &'a mut BytesMut) -> &'a [u8] {
    if invite.len() <= WHOLE_MAX {
        return invite;
    }
    let Ok(message) = Message::parse(invite, index) else { return invite };
    scratch.clear();
    pare(&message, &OF_REQUEST, scratch);
    scratch
}

/// A bijection that mixes all bits (the finaliser of SplitMix64).
const fn splitmix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}
