//! The state that all tasks of a shard share: the service, its queue, its transports and its store. The tasks
//! run on one thread, one after the other.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use crate::resolution::{Ours, Question};
use crate::service::{Misdirected, Output, Service};
use crate::store::{Done, Seeker, Writer};
use crate::transaction::{Flow, Outbox, Protocol, Time};

use super::clock::Clock;
use super::dns::{Dns, NOBODY, Resolver};
use super::hep::{Hep, HepSettings};
use super::inbox::Inbox;
use super::intake::{Intake, Taking};
use super::live::Watch;
use super::socket::{Connections, Letter};
use super::store_gate::{StoreGate, Submitted, refused};
use super::transports::Transports;

/// One shard.
pub(super) struct Hub {
    pub(super) service: RefCell<Service>,
    /// Received messages.
    pub(super) intake: Intake,
    /// Sockets and connections.
    pub(super) transports: Transports,
    /// Responses that wait for the store.
    pub(super) store: StoreGate,
    pub(super) clock: Clock,
    /// Figures for the live page and the metrics.
    pub(super) watch: RefCell<Watch>,
    /// Looks for subscribers.
    seeker: RefCell<Option<Seeker>>,
    /// Copies messages for a collector.
    pub(super) hep: RefCell<Option<Rc<Hep>>>,
    /// Asks DNS; nobody does without it.
    pub(super) resolver: RefCell<Option<Rc<Resolver>>>,
    /// Messages that are being sent. It is swapped with the outbox of the service, so that both keep their
    /// memory.
    sending: RefCell<Outbox>,
}

impl Hub {
    pub(super) fn new(
        service: Service,
        clock: Clock,
        connections: Connections,
        writer: Option<Writer>,
        inbox: Inbox,
    ) -> Rc<Self> {
        Rc::new(Self {
            service: RefCell::new(service),
            intake: Intake::new(inbox),
            transports: Transports::new(connections),
            store: StoreGate::new(writer),
            clock,
            watch: RefCell::new(Watch::new()),
            seeker: RefCell::new(None),
            hep: RefCell::new(None),
            resolver: RefCell::new(None),
            sending: RefCell::new(Outbox::new()),
        })
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Takes messages that have come, to be handled by [`work`](super::input::work).
    pub(super) fn take_in(&self, take: impl FnOnce(&mut Taking<'_>)) {
        let hep = self.hep.borrow().clone();
        self.intake.take_in(&self.service.borrow(), self.clock.elapsed(), hep, take);
    }

    /// The time, in seconds since 1970.
    pub(super) fn unix_secs(&self) -> u64 {
        self.clock.epoch_unix_secs + self.clock.elapsed().as_secs()
    }

    /// Ends connections and associations from where nobody may send any more.
    pub(super) fn end_denied(&self) {
        let mut flows = self.transports.flows();
        self.intake.inbox(|inbox| flows.retain(|flow| !inbox.allows(flow.peer.ip())));
        self.transports.close_all(&flows);
    }

    /// Looks at how many datagrams come, and lets the kernel drop some if they are far too many. To be called
    /// by whoever takes in what comes, too, and not by a timer alone: in a flood all others wait for those
    /// who read it, timers as well.
    pub(super) fn steer(&self) {
        self.intake.steer(&self.clock, self.transports.udp.borrow().as_deref());
    }

    /// Lets the service work, and sends what comes of it.
    pub(super) fn with(self: &Rc<Self>, work: impl FnOnce(&mut Service, Time)) {
        let now = self.now();
        let mut out = self.sending.borrow_mut();
        let replaced: Vec<Flow>;
        {
            let mut service = self.service.borrow_mut();
            work(&mut service, now);
            std::mem::swap(&mut *out, &mut service.output_mut().out);
            if let Some(seeker) = self.seeker.borrow().as_ref() {
                service.access_mut().take_wanted().into_iter().for_each(|who| seeker.seek(who));
            }
            for question in service.servers_mut().take_wanted() {
                self.locate(question);
            }
            for (connection, port) in service.output_mut().take_aliased() {
                self.transports.connections.alias(connection, port);
            }
            let output = service.output_mut();
            replaced = output.take_replaced();
            self.post(output);
            self.hand_over(output);
        }
        self.send(&mut out);
        drop(out);
        self.transports.close_all(&replaced);
    }

    /// Posts the messages for other workers.
    fn post(&self, output: &mut Output) {
        let mail = self.transports.mail.borrow();
        let Some(mail) = mail.as_ref() else { return };
        for Misdirected { worker, flow, first, bytes } in output.take_misdirected() {
            // If there is no room, it is lost as a datagram may be.
            let _ = mail.post(worker, &Letter::Misdirected { first, flow, bytes: &bytes });
        }
        output.take_closed().into_iter().for_each(|connection| mail.closed(connection));
        mail.flush();
    }

    /// Hands changes to the store, and the answers that wait for them.
    fn hand_over(&self, output: &mut Output) {
        let at = self.clock.elapsed();
        let submitted = self.store.submit(&mut output.journal, &mut output.held, at);
        if submitted == Submitted::Answers {
            self.watch.borrow_mut().on_handed_over(at);
        }
        if submitted != Submitted::Nothing {
            // A retransmission must not be answered before the change that it repeats is durable.
            output.unsettled = true;
        }
    }

    /// The store has written down what these answers acknowledge, or failed to.
    pub(super) fn settled(self: &Rc<Self>, done: Done) {
        match done {
            Done::Durable { held, through } => {
                self.on_settled(held.len());
                if self.store.set_durable(through) {
                    self.service.borrow_mut().output_mut().unsettled = false;
                }
                // All together: more of them go with one call.
                let mut all = self.sending.borrow_mut();
                held.iter().for_each(|held| all.append(held));
                self.send(&mut all);
            }
            Done::Failed { held } => self.refuse(held),
            Done::Lost(error) => self.store.lose(error),
        }
    }

    /// Answers with 503 who has waited for the store for longer than this.
    pub(super) fn refuse_overdue(self: &Rc<Self>, timeout: Duration) {
        if let Some(since) = self.clock.elapsed().checked_sub(timeout) {
            self.refuse(self.store.overdue(since));
        }
    }

    fn refuse(self: &Rc<Self>, held: Vec<Outbox>) {
        if held.is_empty() {
            return;
        }
        self.on_settled(held.len());
        held.iter().for_each(|held| self.send(&mut refused(held)));
    }

    fn on_settled(&self, batches: usize) {
        self.store.release(batches);
        self.watch.borrow_mut().on_settled(self.clock.elapsed(), batches);
    }

    /// Has a name looked up, and what waits for it go on.
    fn locate(self: &Rc<Self>, question: Arc<Question>) {
        let hub = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = loop {
                let Some(resolver) = hub.resolver.borrow().clone() else { break NOBODY };
                let answer = resolver.locate(&question).await;
                // If others are to be asked meanwhile, what these say doesn't count any more.
                if hub.resolver.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, &resolver)) {
                    break answer;
                }
            };
            tracing::debug!(name = %question.name, ?answer, "name resolved");
            hub.with(|service, now| service.located(now, &question, answer));
        });
    }

    /// Copies go there from now on.
    pub(super) fn copy_to(&self, settings: Option<HepSettings>, local: Vec<(Protocol, SocketAddr)>) {
        let last = self.hep.borrow().as_ref().map(|hep| hep.counters()).unwrap_or_default();
        self.hep.replace(settings.map(|settings| Rc::new(Hep::start(settings, local, last))));
    }

    /// Names are looked up so from now on.
    pub(super) fn look_up_names(&self, dns: Option<&Dns>, ours: Ours) {
        let resolver = dns.map(|dns| Resolver::new(dns, ours));
        let resolver = resolver.and_then(|made| {
            made.inspect_err(
                |error| tracing::warn!(%error, "names are not resolved: reading /etc/resolv.conf failed"),
            )
            .ok()
        });
        self.resolver.replace(resolver.map(Rc::new));
        self.service.borrow_mut().servers_mut().expire();
    }

    /// Subscribers are looked for by this from now on.
    pub(super) fn seek_with(&self, seeker: Seeker) {
        self.seeker.replace(Some(seeker));
    }

    /// Sends all messages, and clears the outbox. What can't be sent is reported to the service by a task.
    fn send(self: &Rc<Self>, out: &mut Outbox) {
        if out.is_empty() {
            return;
        }
        if let Some(hep) = self.hep.borrow().as_ref() {
            let at = Clock::unix();
            let messages = out.iter().filter(|(_, bytes)| bytes.len() > 4);
            messages.for_each(|(item, bytes)| hep.copy(&item.flow, bytes, false, at));
        }
        let domain = |flow: &Flow| self.service.borrow().servers().domain(flow).map(str::to_owned);
        let unsent = self.transports.send(out, domain);
        out.clear();
        if !unsent.is_empty() {
            let hub = Rc::clone(self);
            tokio::task::spawn_local(async move {
                hub.with(|service, now| {
                    unsent.requests.into_iter().for_each(|client| service.send_failed(now, client));
                    let responses = unsent.responses.iter();
                    responses.for_each(|(flow, bytes)| service.response_failed(now, *flow, bytes));
                });
            });
        }
    }
}
