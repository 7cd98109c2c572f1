//! Responses, and what time brings (RFC 3261 section 16.7).

use crate::codec::{Edits, HeaderName, Index, Message, Method, StatusCode, Via};
use crate::transaction::{ClientId, Event, OF_RESPONSE, ServerId, Time, pare};

use super::Service;
use super::context::{Branch, Kept};
use super::forward::reason;
use super::reply;

impl Service {
    pub(super) fn on_response(&mut self, now: Time, message: &Message<'_>) {
        self.counters.responses += 1;
        let Ok(essentials) = message.essentials() else {
            self.counters.malformed += 1;
            return;
        };
        let found = self.transactions.receive_response(now, message, &essentials, &mut self.out);
        if let (Some((client, user)), Some(line)) = (found, message.status_line()) {
            self.listen(now, user, &essentials.via);
            // It was meant for nobody but us, and goes to nobody (section 16.7, step 3).
            if message.has_only(&essentials.via) {
                self.counters.malformed += 1;
                if !line.code.is_provisional() && !self.is_left(user, client) {
                    self.on_branch_unusable(now, user);
                }
                self.on_events(now);
                return;
            }
            if self.is_left(user, client) {
                self.on_left(now, client, user as u32, line.code, message, essentials.cseq.method);
            } else {
                self.on_branch(now, user, line.code, message, essentials.cseq.method);
            }
        }
        self.on_events(now);
    }

    /// A neighbour may have said how much it can take.
    fn listen(&mut self, now: Time, user: u64, via: &Via<'_>) {
        let branch =
            self.contexts.get(user as u32).and_then(|context| context.branches.get((user >> 32) as usize));
        let way = branch.filter(|branch| branch.neighbour).and_then(|branch| branch.way);
        if let Some((_, flow)) = way {
            self.throttle.heard(now, flow.peer, via);
        }
    }

    /// A response for a branch of a context.
    fn on_branch(
        &mut self,
        now: Time,
        user: u64,
        code: StatusCode,
        message: &Message<'_>,
        method: Method<'_>,
    ) {
        let (slot, number) = (user as u32, (user >> 32) as usize);
        let Some(context) = self.contexts.get_mut(slot) else { return };
        let server = context.server;
        let rings = code.is_provisional() && code != StatusCode::TRYING;
        context.heard = true;
        context.rang |= rings;
        if let Some(branch) = context.branches.get_mut(number) {
            branch.heard = true;
            branch.rang |= rings;
        }
        if code.is_provisional() {
            return self.on_provisional(now, (slot, number), code, message);
        }
        if code == StatusCode::SERVICE_UNAVAILABLE && self.is_elsewhere(now, slot, number, message) {
            return;
        }
        // A flow that leads nowhere, though something may have come back over it before.
        if matches!(code, StatusCode::FLOW_FAILED | StatusCode::REQUEST_TIMEOUT)
            && self.next_flow(now, slot, number)
        {
            return;
        }
        let Some(context) = self.contexts.get_mut(slot) else { return };
        let news = context.finish_branch(number);
        if code.is_success() {
            if method == Method::Invite && news {
                self.counters.calls += 1;
            }
            let context = self.contexts.get_mut(slot);
            let first = context.is_some_and(|context| !core::mem::replace(&mut context.answered, true));
            if first || method == Method::Invite {
                self.pass(now, slot, code, message);
            }
            self.stop(now, slot);
            self.is_registered(now, slot);
            return;
        }
        if !news || context.answered {
            return;
        }
        let only = context.branches.len() == 1 && context.later.is_empty() && context.best.is_none();
        let is_flow_failed = code == StatusCode::FLOW_FAILED && context.callee;
        if only && code != StatusCode::SERVICE_UNAVAILABLE && !is_flow_failed {
            context.answered = true;
            context.request = None;
            let asked = context.oc;
            self.respond_with(now, (server, asked), code, message);
            return;
        }
        self.collect(slot, code, message);
        if code.class() == 6 {
            self.stop(now, slot);
        }
        self.conclude(now, slot);
    }

    /// Passes a provisional response on, unless the branch is to be cancelled: then CANCEL may go now.
    fn on_provisional(
        &mut self,
        now: Time,
        (slot, number): (u32, usize),
        code: StatusCode,
        message: &Message<'_>,
    ) {
        let Some(context) = self.contexts.get(slot) else { return };
        let client = context.branches.get(number).and_then(Branch::client);
        if let Some(client) = client.filter(|_| context.stopped) {
            self.transactions.cancel(now, client, &mut self.out);
        }
        let Some(context) = self.contexts.get(slot) else { return };
        if code != StatusCode::TRYING && !context.answered {
            self.pass(now, slot, code, message);
        }
        self.forget_request(slot);
    }

    /// Who rings keeps the request for long: here it is kept no longer than it may go elsewhere.
    fn forget_request(&mut self, slot: u32) {
        let context = self.contexts.get_mut(slot).filter(|context| context.request.is_some());
        if let Some(context) = context.filter(|context| !context.needs_request()) {
            context.request = None;
        }
    }

    /// Has the request of this transaction been given to another hop meanwhile, because this one said nothing?
    fn is_left(&self, user: u64, client: ClientId) -> bool {
        let branch =
            self.contexts.get(user as u32).and_then(|context| context.branches.get((user >> 32) as usize));
        branch.is_some_and(|branch| branch.left || branch.client() != Some(client))
    }

    /// A hop says something after all. If it has begun to ring it is called off, for another one was asked; if somebody has
    /// answered there, that is what counts.
    fn on_left(
        &mut self,
        now: Time,
        client: ClientId,
        slot: u32,
        code: StatusCode,
        message: &Message<'_>,
        method: Method<'_>,
    ) {
        if code.is_provisional() {
            self.transactions.cancel(now, client, &mut self.out);
        } else if code.is_success() {
            let Some(context) = self.contexts.get_mut(slot) else { return };
            let first = !core::mem::replace(&mut context.answered, true);
            self.counters.calls += u64::from(first && method == Method::Invite);
            if first || method == Method::Invite {
                self.pass(now, slot, code, message);
            }
            self.stop(now, slot);
        }
    }

    /// One of several servers has too much to do: the request is sent to the next one, if there is one.
    fn is_elsewhere(&mut self, now: Time, slot: u32, number: usize, message: &Message<'_>) -> bool {
        let branch = self.contexts.get(slot).and_then(|context| context.branches.get(number));
        let branch = branch.filter(|branch| branch.has_more() && !branch.done);
        let Some((_, flow)) = branch.and_then(|branch| branch.way) else {
            return false;
        };
        let retry_after = message.retry_after().ok().flatten().map(|after| after.seconds);
        self.shun(now, &flow, retry_after);
        self.next_server(now, slot, number)
    }

    /// Forwards a response as it is, without our Via.
    fn pass(&mut self, now: Time, slot: u32, code: StatusCode, message: &Message<'_>) {
        let Some(context) = self.contexts.get(slot) else { return };
        self.respond_with(now, (context.server, context.oc), code, message);
    }

    /// `asked` if the one who sent the request asked what it may send.
    fn respond_with(
        &mut self,
        now: Time,
        (server, asked): (ServerId, bool),
        code: StatusCode,
        message: &Message<'_>,
    ) {
        let method =
            message.first_value(HeaderName::CSeq).trim_ascii_end().rsplit(u8::is_ascii_whitespace).next();
        if !code.is_provisional() && method == Some(&b"INVITE"[..]) {
            self.told_end = Some(now);
        }
        let proof = self.proof_param(now, server, code);
        let rewritten = self.rewritten_routes(message);
        let mut edits = Edits::new(*message);
        edits.pop_via();
        for (uri, with) in &rewritten {
            edits.replace_uri(uri, with);
        }
        if let Some((proof, uri)) = proof.as_ref().zip(self.own_record_route(message)) {
            edits.add_uri_param(uri, proof);
        }
        // What a neighbour says is for us alone: what it says to who comes before us is taken away (RFC 7339 section 5.4).
        let meddles = |via: Via<'_>| via.oc && via.params.value(b"oc").is_some();
        let is_meddled_with =
            || message.may_have_oc_below() && message.vias().nth(1).is_some_and(|via| via.is_ok_and(meddles));
        let flow = match self.transactions.server_flow(server) {
            Some((flow, _)) if asked || !self.feedback.is_empty() || is_meddled_with() => Some(flow),
            _ => None,
        };
        let feedback = &self.feedback;
        let written = self.transactions.respond(now, server, code, &mut self.out, |out| match flow {
            Some(flow) => {
                let start = out.len();
                edits.write(out)?;
                feedback.note(flow.peer.ip(), asked, out, start);
                Ok(())
            }
            None => edits.write(out),
        });
        // One that can't be written again can't be forwarded, but an end there must be.
        if written.is_err() && !code.is_provisional() {
            let invite = method == Some(&b"INVITE"[..]);
            self.answer_kept(now, server, StatusCode::SERVER_INTERNAL_ERROR, invite, None);
        }
    }

    /// Keeps a response for the choice of the best, and the challenges of all (section 16.7, step 7).
    fn collect(&mut self, slot: u32, code: StatusCode, message: &Message<'_>) {
        let Some(context) = self.contexts.get_mut(slot) else { return };
        let mut popped = bytes::BytesMut::new();
        let mut edits = Edits::new(*message);
        edits.pop_via();
        if edits.write(&mut popped).is_err() {
            return;
        }
        let account = self.transactions.account();
        if !account.has_room(popped.len()) {
            // What tells why is worth more than what it says besides, and nothing more than that others have room.
            let mut index = Index::with_limits(self.settings.message);
            let pared = Message::parse(&popped, &mut index).map(|whole| {
                let mut out = bytes::BytesMut::new();
                pare(&whole, &OF_RESPONSE, &mut out);
                out
            });
            popped = pared.ok().filter(|pared| account.has_room(pared.len())).unwrap_or_default();
        }
        let challenges =
            |code| matches!(code, StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED);
        // Those of the best stand in it. It isn't replaced by another one with challenges.
        let kept = context.best.as_ref().is_some_and(|best| challenges(best.code));
        if challenges(code) && kept {
            for name in [HeaderName::WwwAuthenticate, HeaderName::ProxyAuthenticate] {
                for line in
                    message.lines(name).map(|line| line.line()).filter(|line| account.has_room(line.len()))
                {
                    context
                        .challenges_charge
                        .get_or_insert_with(|| account.holder().charge(0))
                        .add(line.len());
                    context.challenges.extend_from_slice(line);
                }
            }
        }
        if context.offer(code, &popped)
            && let Some(best) = &mut context.best
        {
            best.charge = Some(account.holder().charge(best.response.capacity()));
        }
    }

    /// If all branches are done: tries later targets, or forwards the best response.
    pub(super) fn conclude(&mut self, now: Time, slot: u32) {
        let Some(context) = self.contexts.get(slot) else { return };
        if context.answered || !context.is_done() {
            return;
        }
        let stopped = context.stopped
            || context.is_refused()
            || context.best.as_ref().is_some_and(|best| best.code.class() == 6);
        if !stopped && self.send_later(now, slot) {
            return;
        }
        let Some(context) = self.contexts.get_mut(slot) else { return };
        context.answered = true;
        let (server, invite, callee) = (context.server, context.invite, context.callee);
        if invite {
            self.told_end = Some(now);
        }
        let Some(best) = context.best.take() else {
            // RFC 4320 section 4.2: no 408 for what isn't an INVITE.
            self.transactions.forget_server(server);
            return self.tidy(slot);
        };
        let mut challenges = core::mem::take(&mut context.challenges);
        if !matches!(best.code, StatusCode::UNAUTHORIZED | StatusCode::PROXY_AUTHENTICATION_REQUIRED) {
            challenges.clear();
        }
        let kept = context.request.take();
        if best.response.is_empty() {
            self.answer_kept(now, server, forwarded(best.code, callee), invite, kept.as_deref());
        } else {
            let code = forwarded(best.code, callee);
            let _ = self.transactions.respond(now, server, code, &mut self.out, |out| {
                let end = best.response.windows(2).position(|pair| pair == b"\r\n").unwrap_or(0);
                let (line, rest) = best.response.split_at(end);
                match code == best.code {
                    true => out.extend_from_slice(line),
                    false => write_status(code, out),
                }
                out.extend_from_slice(b"\r\n");
                out.extend_from_slice(&challenges);
                out.extend_from_slice(rest.get(2..).unwrap_or(&[]));
                Ok(())
            });
        }
        self.tidy(slot);
    }

    /// Answers with a status of our own: from what the caller got before, or from the request if that was kept.
    fn answer_kept(
        &mut self,
        now: Time,
        server: ServerId,
        code: StatusCode,
        invite: bool,
        kept: Option<&Kept>,
    ) {
        if invite {
            let tag = self.tag_of(server);
            if self.transactions.respond_alike(now, server, code, &tag, &mut self.out).is_err() {
                self.transactions.forget_server(server);
            }
            return;
        }
        let mut index = Index::with_limits(self.settings.message);
        let request = kept.and_then(|kept| Some((Message::parse(&kept.bytes, &mut index).ok()?, kept.flow)));
        // RFC 4320 section 4.2: no 408 for what isn't an INVITE.
        match request.filter(|_| code != StatusCode::REQUEST_TIMEOUT) {
            Some((request, flow)) => {
                let tag = self.tag(&request, &flow);
                let written = self.transactions.respond(now, server, code, &mut self.out, |out| {
                    reply::write(&request, flow, code, reason(code), None, &tag, out)
                });
                if written.is_err() {
                    self.transactions.forget_server(server);
                }
            }
            None => self.transactions.forget_server(server),
        }
    }

    /// Cancels what is still on its way: the caller has hung up, or somebody has answered.
    pub(super) fn stop(&mut self, now: Time, slot: u32) {
        let Some(context) = self.contexts.get_mut(slot) else { return };
        context.stopped = true;
        context.later.clear();
        context.request = None;
        if context.invite {
            for client in context.branches.iter().filter(|branch| !branch.done).filter_map(Branch::client) {
                self.transactions.cancel(now, client, &mut self.out);
            }
        }
        // What waits for DNS waits no more.
        let waits =
            |(number, branch): (usize, &Branch)| (!branch.done && branch.way.is_none()).then_some(number);
        let waiting: Vec<usize> = context.branches.iter().enumerate().filter_map(waits).collect();
        for number in waiting {
            self.on_branch_lost(now, u64::from(slot) | (number as u64) << 32, StatusCode::REQUEST_TERMINATED);
        }
    }

    /// What time has brought about.
    pub(super) fn on_events(&mut self, now: Time) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                Event::Over { user } => self.on_branch_over(user as u32),
                Event::TimedOut { client, user } => {
                    if !self.is_left(user, client) {
                        self.on_branch_lost(now, user, StatusCode::REQUEST_TIMEOUT);
                    }
                    self.on_branch_over(user as u32);
                }
                Event::RingingTooLong { client, .. } => {
                    self.transactions.cancel(now, client, &mut self.out);
                }
                Event::NoAck { .. } => {}
            }
        }
    }

    pub(super) fn on_send_failed(&mut self, now: Time, client: ClientId) {
        let Some(user) = self.transactions.client_user(client) else { return };
        let branch = self.contexts.get(user as u32).and_then(|one| one.branches.get((user >> 32) as usize));
        // Who rings has the request, and its answers may come another way.
        if branch.is_some_and(|branch| branch.rang && branch.client() == Some(client)) {
            return;
        }
        // A node that can't be reached takes the flows of its phones with it; and a flow that has ended may be all that there was.
        let flow_failed = |branch: &Branch| {
            let over_flow = branch.way.is_some_and(|(_, flow)| flow.connection != 0);
            branch.over_node || (over_flow && branch.fallback.is_none())
        };
        let callee = self.contexts.get(user as u32).is_some_and(|context| context.callee);
        let code = match branch {
            Some(branch) if flow_failed(branch) => StatusCode::FLOW_FAILED,
            _ if callee => StatusCode::TEMPORARILY_UNAVAILABLE,
            _ => StatusCode::SERVER_INTERNAL_ERROR,
        };
        let left = self.is_left(user, client);
        self.transactions.forget_client(client);
        if !left {
            self.on_branch_lost(now, user, code);
        }
        self.on_branch_over(user as u32);
    }

    /// A hop has said nothing for too long. What it says later is still heard: it may have been slow, and ring.
    pub(super) fn leave_hop(&mut self, now: Time, user: u64) {
        let (slot, number) = (user as u32, (user >> 32) as usize);
        self.lose(now, user, StatusCode::SERVER_INTERNAL_ERROR, true);
        let branch = self.contexts.get_mut(slot).and_then(|context| context.branches.get_mut(number));
        if let Some(branch) = branch.filter(|branch| branch.done) {
            branch.left = true;
        }
        self.tidy(slot);
    }

    /// No response will come on a branch, unless from another server.
    pub(super) fn on_branch_lost(&mut self, now: Time, user: u64, code: StatusCode) {
        self.lose(now, user, code, false);
    }

    /// A branch has ended with what can't be forwarded.
    fn on_branch_unusable(&mut self, now: Time, user: u64) {
        let context = self.contexts.get_mut(user as u32);
        if let Some(branch) = context.and_then(|context| context.branches.get_mut((user >> 32) as usize)) {
            // Somebody is there: others of the same name need not be asked.
            (branch.heard, branch.rang) = (true, true);
        }
        self.on_branch_lost(now, user, StatusCode::SERVER_INTERNAL_ERROR);
    }

    /// `sent` if the request may have arrived.
    fn lose(&mut self, now: Time, user: u64, code: StatusCode, sent: bool) {
        let (slot, number) = (user as u32, (user >> 32) as usize);
        let branch = self.contexts.get(slot).and_then(|context| context.branches.get(number));
        let silent = branch.filter(|branch| !branch.heard && !branch.done);
        let silent =
            silent.and_then(|branch| Some((branch.way?.1, branch.neighbour, branch.named.is_some())));
        if let Some((flow, neighbour, named)) = silent {
            if neighbour {
                self.throttle.failed(now, flow.peer);
            }
            if named {
                self.shun(now, &flow, None);
            }
            let failed = [StatusCode::SERVER_INTERNAL_ERROR, StatusCode::TEMPORARILY_UNAVAILABLE];
            let not_sent = !sent && failed.contains(&code);
            if (not_sent && self.fall_back(now, slot, number)) || self.next_server(now, slot, number) {
                return;
            }
        }
        if self.next_flow(now, slot, number) {
            return;
        }
        let Some(context) = self.contexts.get_mut(slot) else { return };
        if !context.finish_branch(number) || context.answered {
            return;
        }
        let code = if context.stopped { StatusCode::REQUEST_TERMINATED } else { code };
        if context.invite || code != StatusCode::REQUEST_TIMEOUT {
            context.offer(code, &[]);
        }
        self.conclude(now, slot);
    }

    fn on_branch_over(&mut self, slot: u32) {
        if let Some(context) = self.contexts.get_mut(slot) {
            context.live = context.live.saturating_sub(1);
        }
        self.tidy(slot);
    }

    /// Forgets a context that has nothing more to do.
    pub(super) fn tidy(&mut self, slot: u32) {
        if self.contexts.get(slot).is_some_and(|context| context.live == 0 && context.answered) {
            self.contexts.remove(slot);
        }
    }
}

/// The status that a caller hears of the best response. 503 would keep the caller from all of us (section 16.7, step 6), and 430 is not
/// for endpoints (RFC 5626 section 11.5): of a user it means that no phone is reached.
fn forwarded(best: StatusCode, callee: bool) -> StatusCode {
    match best {
        StatusCode::SERVICE_UNAVAILABLE => StatusCode::SERVER_INTERNAL_ERROR,
        StatusCode::FLOW_FAILED if callee => StatusCode::TEMPORARILY_UNAVAILABLE,
        other => other,
    }
}

fn write_status(code: StatusCode, out: &mut bytes::BytesMut) {
    out.extend_from_slice(format!("SIP/2.0 {} {}", code.code(), code.reason()).as_bytes());
}
