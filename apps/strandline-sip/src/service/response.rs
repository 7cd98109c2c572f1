//! Responses to forwarded requests, and the choice of the best one (RFC 3261 section 16.7).

use crate::codec::{HeaderName, Message, Method, StatusCode};
use crate::transaction::{ClientId, Event, Flow};

use super::context::{Branch, BranchId};
use super::identity::edit_identity;
use super::proxy::Proxy;

impl Proxy<'_> {
    /// Handles a response. Returns the flow of a phone that a registrar elsewhere has registered with it.
    pub(super) fn on_response(&mut self, message: &Message<'_>) -> Option<Flow> {
        self.counters.responses += 1;
        let Ok(essentials) = message.essentials() else {
            self.counters.malformed += 1;
            return None;
        };
        let found = self.transactions.receive_response(self.now, message, &essentials, self.out);
        let mut registered = None;
        if let (Some((client, user)), Some(line)) = (found, message.status_line()) {
            let id = BranchId::of(user);
            let is_superseded = self.contexts.is_superseded(id, client);
            let neighbour = self.contexts.branch(id).filter(|branch| branch.neighbour);
            if let Some((_, flow)) = neighbour.and_then(|branch| branch.sent) {
                self.overload.throttle.on_response(self.now, flow.peer, &essentials.via);
            }
            if message.has_only(&essentials.via) {
                // It is for this proxy only and isn't forwarded (section 16.7, step 3).
                self.counters.malformed += 1;
                if !line.code.is_provisional() && !is_superseded {
                    self.on_branch_unusable(id);
                }
            } else if is_superseded {
                self.on_late_response(client, id.slot, line.code, message, essentials.cseq.method);
            } else {
                registered = self.on_branch(id, line.code, message, essentials.cseq.method);
            }
        }
        self.on_events();
        registered
    }

    /// Handles a response for a branch. Returns the flow of a phone that has registered elsewhere.
    fn on_branch(
        &mut self,
        id: BranchId,
        code: StatusCode,
        message: &Message<'_>,
        method: Method<'_>,
    ) -> Option<Flow> {
        let slot = id.slot;
        let context = self.contexts.get_mut(slot)?;
        let rings = code.is_provisional() && code != StatusCode::TRYING;
        context.responded = true;
        context.rang |= rings;
        if let Some(branch) = context.branches.get_mut(id.number) {
            branch.responded = true;
            branch.rang |= rings;
        }
        if code.is_provisional() {
            self.on_provisional(id, code, message);
        } else if code.is_success() {
            return self.on_success(id, code, message, method);
        } else {
            self.on_failure(id, code, message);
        }
        None
    }

    /// Forwards a 2xx and cancels the other branches.
    fn on_success(
        &mut self,
        id: BranchId,
        code: StatusCode,
        message: &Message<'_>,
        method: Method<'_>,
    ) -> Option<Flow> {
        let context = self.contexts.get_mut(id.slot)?;
        let is_new = context.finish_branch(id.number);
        let first = !core::mem::replace(&mut context.answered, true);
        let registered = context.registers;
        if method == Method::Invite && is_new {
            self.counters.calls += 1;
        }
        if first || method == Method::Invite {
            self.forward(id.slot, code, message);
        }
        self.stop(id.slot);
        registered
    }

    /// Tries an alternative for a branch that has failed, or adds its response to the choice of the best.
    fn on_failure(&mut self, id: BranchId, code: StatusCode, message: &Message<'_>) {
        let slot = id.slot;
        if code == StatusCode::SERVICE_UNAVAILABLE && self.tries_next_server(id, message) {
            return;
        }
        // The flow has failed, although a response may have arrived over it before.
        if matches!(code, StatusCode::FLOW_FAILED | StatusCode::REQUEST_TIMEOUT) && self.next_flow(id) {
            return;
        }
        let Some(context) = self.contexts.get_mut(slot) else { return };
        let is_new = context.finish_branch(id.number);
        if !is_new || context.answered {
            return;
        }
        let only = context.branches.len() == 1 && context.later.is_empty() && context.best.is_none();
        let is_flow_failed = code == StatusCode::FLOW_FAILED && context.callee;
        if only && code != StatusCode::SERVICE_UNAVAILABLE && !is_flow_failed {
            context.answered = true;
            context.request = None;
            let (server, asked) = (context.server, context.oc);
            self.responder().forward_response((server, asked), code, message);
            return;
        }
        let (setup, trusted) = (self.setup, self.trusted);
        context.collect(code, message, self.transactions.account(), setup.settings.message, |edits| {
            edit_identity(setup, edits, message, trusted, None);
        });
        if code.class() == 6 {
            self.stop(slot);
        }
        self.conclude(slot);
    }

    /// Forwards a provisional response, unless its branch is to be cancelled: then it sends the CANCEL.
    fn on_provisional(&mut self, id: BranchId, code: StatusCode, message: &Message<'_>) {
        let Some(context) = self.contexts.get(id.slot) else { return };
        let client = context.branches.get(id.number).and_then(Branch::client);
        if let Some(client) = client.filter(|_| context.stopped) {
            self.transactions.cancel(self.now, client, self.out);
        }
        if code != StatusCode::TRYING && !context.answered {
            self.forward(id.slot, code, message);
        }
        self.contexts.drop_request(id.slot);
    }

    /// Handles a late response of a hop after the next one was tried: a provisional response is cancelled, a
    /// 2xx is forwarded.
    fn on_late_response(
        &mut self,
        client: ClientId,
        slot: u32,
        code: StatusCode,
        message: &Message<'_>,
        method: Method<'_>,
    ) {
        if code.is_provisional() {
            self.transactions.cancel(self.now, client, self.out);
        } else if code.is_success() {
            let Some(context) = self.contexts.get_mut(slot) else { return };
            let first = !core::mem::replace(&mut context.answered, true);
            self.counters.calls += u64::from(first && method == Method::Invite);
            if first || method == Method::Invite {
                self.forward(slot, code, message);
            }
            self.stop(slot);
        }
    }

    /// Sends the request to the next server of its target, as this one is busy. Returns false if there is
    /// none.
    fn tries_next_server(&mut self, id: BranchId, message: &Message<'_>) -> bool {
        let branch = self.contexts.branch(id).filter(|branch| branch.has_more() && !branch.done);
        let Some((_, flow)) = branch.and_then(|branch| branch.sent) else { return false };
        let retry_after = message.retry_after().ok().flatten().map(|after| after.seconds);
        self.deprioritize(&flow, retry_after);
        self.next_server(id)
    }

    /// Forwards a response unchanged except for our Via.
    fn forward(&mut self, slot: u32, code: StatusCode, message: &Message<'_>) {
        let Some(context) = self.contexts.get(slot) else { return };
        let (server, asked) = (context.server, context.oc);
        if code != StatusCode::TRYING && belongs_to_dialog(message) {
            let flow = self.transactions.server_flow(server).map(|(flow, _)| flow);
            flow.into_iter().for_each(|flow| self.connections.identify(flow.connection));
        }
        self.responder().forward_response((server, asked), code, message);
    }

    /// Once all branches are done, tries later targets or forwards the best response.
    pub(super) fn conclude(&mut self, slot: u32) {
        let Some(context) = self.contexts.get(slot) else { return };
        if context.answered || !context.is_done() {
            return;
        }
        let stopped = context.stopped
            || context.is_refused()
            || context.best.as_ref().is_some_and(|best| best.code.class() == 6);
        if !stopped && self.send_later(slot) {
            return;
        }
        let Some(context) = self.contexts.get_mut(slot) else { return };
        context.answered = true;
        let (server, invite, callee) = (context.server, context.invite, context.callee);
        if invite {
            *self.invite_answered_at = Some(self.now);
        }
        let Some(best) = context.best.take() else {
            // RFC 4320 section 4.2: no 408 to requests other than INVITE.
            self.transactions.forget_server(server);
            return self.contexts.tidy(slot);
        };
        let challenges = core::mem::take(&mut context.challenges);
        let stored = context.request.take();
        let code = forwarded(best.code, callee);
        match best.response.is_empty() {
            true => self.responder().respond_alone(server, code, invite, stored.as_deref()),
            false => self.responder().forward_best(server, code, &best, &challenges),
        }
        self.contexts.tidy(slot);
    }

    /// Cancels all branches: the caller has sent CANCEL, or a final response was forwarded.
    pub(super) fn stop(&mut self, slot: u32) {
        let Some(context) = self.contexts.get_mut(slot) else { return };
        context.stopped = true;
        context.later.clear();
        context.request = None;
        if context.invite {
            for client in context.branches.iter().filter(|branch| !branch.done).filter_map(Branch::client) {
                self.transactions.cancel(self.now, client, self.out);
            }
        }
        // Branches that wait for DNS end.
        let waits =
            |(number, branch): (usize, &Branch)| (!branch.done && branch.sent.is_none()).then_some(number);
        let waiting: Vec<usize> = context.branches.iter().enumerate().filter_map(waits).collect();
        for number in waiting {
            self.on_branch_lost(BranchId { slot, number }, StatusCode::REQUEST_TERMINATED);
        }
    }

    /// Handles the events of transactions.
    pub(super) fn on_events(&mut self) {
        while let Some(event) = self.transactions.poll_event() {
            match event {
                Event::Over { user } => self.contexts.on_client_over(BranchId::of(user).slot),
                Event::TimedOut { client, user } => {
                    let id = BranchId::of(user);
                    if !self.contexts.is_superseded(id, client) {
                        self.on_branch_lost(id, StatusCode::REQUEST_TIMEOUT);
                    }
                    self.contexts.on_client_over(id.slot);
                }
                Event::RingingTooLong { client, .. } => {
                    self.transactions.cancel(self.now, client, self.out);
                }
                Event::NoAck { .. } => {}
            }
        }
    }

    /// Handles a request of a client transaction that could not be sent.
    pub(super) fn on_send_failed(&mut self, client: ClientId) {
        let Some(id) = self.transactions.client_user(client).map(BranchId::of) else { return };
        let branch = self.contexts.branch(id);
        // A phone that rings has the request, and its responses may come another way.
        if branch.is_some_and(|branch| branch.rang && branch.client() == Some(client)) {
            return;
        }
        // If a node can't be reached, the flows of its phones are gone too; and a flow that has ended may
        // have been the only one.
        let flow_failed = |branch: &Branch| {
            let over_flow = branch.sent.is_some_and(|(_, flow)| flow.connection != 0);
            branch.over_node || (over_flow && branch.fallback.is_none())
        };
        let callee = self.contexts.get(id.slot).is_some_and(|context| context.callee);
        let code = match branch {
            Some(branch) if flow_failed(branch) => StatusCode::FLOW_FAILED,
            _ if callee => StatusCode::TEMPORARILY_UNAVAILABLE,
            _ => StatusCode::SERVER_INTERNAL_ERROR,
        };
        let is_superseded = self.contexts.is_superseded(id, client);
        self.transactions.forget_client(client);
        if !is_superseded {
            self.on_branch_lost(id, code);
        }
        self.contexts.on_client_over(id.slot);
    }

    /// Tries the next hop in place of one that has not responded in time. A late response is still handled,
    /// because the hop may ring.
    pub(super) fn leave_hop(&mut self, id: BranchId) {
        self.lose(id, StatusCode::SERVER_INTERNAL_ERROR, true);
        if let Some(branch) = self.contexts.branch_mut(id).filter(|branch| branch.done) {
            branch.superseded = true;
        }
        self.contexts.tidy(id.slot);
    }

    /// Handles the end of a branch that will get no response, unless from another server.
    pub(super) fn on_branch_lost(&mut self, id: BranchId, code: StatusCode) {
        self.lose(id, code, false);
    }

    /// Handles the end of a branch whose response can't be forwarded.
    fn on_branch_unusable(&mut self, id: BranchId) {
        if let Some(branch) = self.contexts.branch_mut(id) {
            // A server has responded: others of the same name need not be tried.
            (branch.responded, branch.rang) = (true, true);
        }
        self.on_branch_lost(id, StatusCode::SERVER_INTERNAL_ERROR);
    }

    /// Handles the end of a branch. `sent` if the request may have arrived.
    fn lose(&mut self, id: BranchId, code: StatusCode, sent: bool) {
        let silent = self.contexts.branch(id).filter(|branch| !branch.responded && !branch.done);
        let silent =
            silent.and_then(|branch| Some((branch.sent?.1, branch.neighbour, branch.named.is_some())));
        if let Some((flow, neighbour, named)) = silent {
            if neighbour {
                self.overload.throttle.failed(self.now, flow.peer);
            }
            if named {
                self.deprioritize(&flow, None);
            }
            let failed = [StatusCode::SERVER_INTERNAL_ERROR, StatusCode::TEMPORARILY_UNAVAILABLE];
            let not_sent = !sent && failed.contains(&code);
            if (not_sent && self.fall_back(id)) || self.next_server(id) {
                return;
            }
        }
        if self.next_flow(id) {
            return;
        }
        let Some(context) = self.contexts.get_mut(id.slot) else { return };
        if !context.finish_branch(id.number) || context.answered {
            return;
        }
        let code = if context.stopped { StatusCode::REQUEST_TERMINATED } else { code };
        if context.invite || code != StatusCode::REQUEST_TIMEOUT {
            context.offer(code, &[]);
        }
        self.conclude(id.slot);
    }
}

/// The status of the forwarded best response. A caller would avoid this server after 503 (section 16.7, step
/// 6), and 430 is not for endpoints (RFC 5626 section 11.5): for a user it means that no phone was reached.
fn forwarded(best: StatusCode, callee: bool) -> StatusCode {
    match best {
        StatusCode::SERVICE_UNAVAILABLE => StatusCode::SERVER_INTERNAL_ERROR,
        StatusCode::FLOW_FAILED if callee => StatusCode::TEMPORARILY_UNAVAILABLE,
        other => other,
    }
}

/// Whether a response to a request that was not refused shows that the two sides have a dialog, or set one
/// up. A phone answers OPTIONS, MESSAGE and PUBLISH to anybody.
fn belongs_to_dialog(message: &Message<'_>) -> bool {
    const DIALOG_METHODS: [&[u8]; 7] =
        [b"INVITE", b"SUBSCRIBE", b"UPDATE", b"INFO", b"NOTIFY", b"REFER", b"PRACK"];
    let method =
        message.first_value(HeaderName::CSeq).trim_ascii_end().rsplit(u8::is_ascii_whitespace).next();
    method.is_some_and(|method| DIALOG_METHODS.contains(&method))
}
