//! The state that all tasks of a shard share: the service, its queue, its transports and its store. The tasks
//! run on one thread, one after the other.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
use tokio::sync::mpsc::UnboundedReceiver;

use crate::resolution::{Ours, Question};
use crate::service::{Misdirected, Output, Service, is_identified};
#[cfg(test)]
use crate::service::{Seeds, Settings};
use crate::store::{Done, Seeker, Writer};
use crate::transaction::{Outbox, Protocol, Time};

use super::clock::Clock;
use super::dns::{Dns, NOBODY, Resolver};
use super::hep::{Hep, HepSettings};
use super::inbox::Inbox;
#[cfg(test)]
use super::inbox::InboxSettings;
use super::intake::{Intake, Taking};
use super::live::Watch;
#[cfg(test)]
use super::socket::Connection;
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
    /// Looks up subscribers in the database.
    seeker: RefCell<Option<Seeker>>,
    /// Copies messages to a HEP collector.
    pub(super) hep: RefCell<Option<Rc<Hep>>>,
    /// Queries DNS; `None` if no names are resolved.
    pub(super) resolver: RefCell<Option<Rc<Resolver>>>,
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
        })
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Queues received messages, to be handled by [`work`](super::input::work).
    pub(super) fn take_in(&self, take: impl FnOnce(&mut Taking<'_>)) {
        let hep = self.hep.borrow().clone();
        self.intake.take_in(&self.service.borrow(), self.clock.elapsed(), hep, take);
    }

    /// Closes connections of strangers to free their descriptors, and returns how many.
    pub(super) fn shed_strangers(&self) -> usize {
        let service = self.service.borrow();
        let is_served = |connection| is_identified(&service, connection);
        self.transports.connections.shed_strangers(self.clock.elapsed(), is_served)
    }

    /// The time, in seconds since 1970.
    pub(super) fn unix_secs(&self) -> u64 {
        self.clock.epoch_unix_secs + self.clock.elapsed().as_secs()
    }

    /// Closes connections and associations of peers that the access lists no longer allow.
    pub(super) fn end_denied(&self) {
        let mut flows = self.transports.flows();
        self.intake.inbox(|inbox| flows.retain(|flow| !inbox.allows(flow.peer.ip())));
        self.transports.close_all(&flows);
    }

    /// Measures the rate of datagrams, and lets the kernel drop some in a flood. Tasks that read datagrams call
    /// this too, because a flood delays the timer: all tasks wait for those that read.
    pub(super) fn steer(&self) {
        self.intake.steer(&self.clock, self.transports.udp.borrow().as_deref());
    }

    /// Calls the service, and carries out what it asks for: messages to send, look-ups, changes to store,
    /// connections to close.
    pub(super) fn with(self: &Rc<Self>, work: impl FnOnce(&mut Service, Time)) {
        let now = self.now();
        let mut service = self.service.borrow_mut();
        work(&mut service, now);
        if let Some(seeker) = self.seeker.borrow().as_ref() {
            service.access_mut().take_wanted().into_iter().for_each(|subscriber| seeker.seek(subscriber));
        }
        for question in service.servers_mut().take_wanted() {
            self.resolve(question);
        }
        for (connection, port) in service.output_mut().take_aliased() {
            self.transports.connections.alias(connection, port);
        }
        let output = service.output_mut();
        let replaced = output.take_replaced();
        self.post(output);
        self.hand_over(output);
        self.send(&mut service);
        self.transports.close_all(&replaced);
    }

    /// Posts the messages for other workers.
    fn post(&self, output: &mut Output) {
        let mail = self.transports.mail.borrow();
        let Some(mail) = mail.as_ref() else { return };
        for Misdirected { worker, flow, first, bytes } in output.take_misdirected() {
            // Without room in the mailbox the message is lost, as a datagram may be.
            let _ = mail.post(worker, &Letter::Misdirected { first, flow, bytes: &bytes });
        }
        output.take_closed().into_iter().for_each(|connection| mail.closed(connection));
        mail.flush();
    }

    /// Submits changes to the store, with the responses that wait for them.
    fn hand_over(&self, output: &mut Output) {
        let at = self.clock.elapsed();
        let submitted = self.store.submit(&mut output.journal, &mut output.held, at);
        if submitted == Submitted::Answers {
            self.watch.borrow_mut().on_handed_over(at);
        }
        if submitted != Submitted::Nothing {
            // A retransmitted REGISTER must not be answered before the change of the first one is durable.
            output.unsettled = true;
        }
    }

    /// Handles the result of a commit: sends the responses that waited for it, or refuses their requests.
    pub(super) fn settled(self: &Rc<Self>, done: Done) {
        match done {
            Done::Durable { held, through } => {
                self.on_settled(held.len());
                let mut service = self.service.borrow_mut();
                let output = service.output_mut();
                if self.store.set_durable(through) {
                    output.unsettled = false;
                }
                held.iter().for_each(|held| output.out.append(held));
                self.send(&mut service);
            }
            Done::Failed { held } => self.refuse(&held),
            Done::Lost(error) => self.store.lose(error),
        }
    }

    /// Answers requests with 503 that have waited for the store for longer than `timeout`.
    pub(super) fn refuse_overdue(self: &Rc<Self>, timeout: Duration) {
        if let Some(since) = self.clock.elapsed().checked_sub(timeout) {
            self.refuse(&self.store.overdue(since));
        }
    }

    /// Sends 503 in place of responses that waited for the store.
    fn refuse(self: &Rc<Self>, held: &[Outbox]) {
        if held.is_empty() {
            return;
        }
        self.on_settled(held.len());
        let mut service = self.service.borrow_mut();
        held.iter().for_each(|held| service.output_mut().out.append(&refused(held)));
        self.send(&mut service);
    }

    fn on_settled(&self, batches: usize) {
        self.store.release(batches);
        self.watch.borrow_mut().on_settled(self.clock.elapsed(), batches);
    }

    /// Queries DNS in a task, which passes the answer to the service.
    fn resolve(self: &Rc<Self>, question: Arc<Question>) {
        let hub = Rc::clone(self);
        tokio::task::spawn_local(async move {
            let answer = loop {
                let Some(resolver) = hub.resolver.borrow().clone() else { break NOBODY };
                let answer = resolver.locate_servers(&question).await;
                // If the name servers were replaced meanwhile, the new ones are asked.
                if hub.resolver.borrow().as_ref().is_some_and(|now| Rc::ptr_eq(now, &resolver)) {
                    break answer;
                }
            };
            tracing::debug!(name = %question.name, ?answer, "name resolved");
            hub.with(|service, now| service.handle_dns_answer(now, &question, answer));
        });
    }

    /// Starts or stops copying messages to a collector. The counters continue.
    pub(super) fn set_hep(&self, settings: Option<HepSettings>, local: Vec<(Protocol, SocketAddr)>) {
        let last = self.hep.borrow().as_ref().map(|hep| hep.counters()).unwrap_or_default();
        self.hep.replace(settings.map(|settings| Rc::new(Hep::start(settings, local, last))));
    }

    /// Replaces the name servers; without any, no names are resolved.
    pub(super) fn set_name_servers(&self, dns: Option<&Dns>, ours: Ours) {
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

    /// Sets what looks up subscribers.
    pub(super) fn set_subscriber_lookup(&self, seeker: Seeker) {
        self.seeker.replace(Some(seeker));
    }

    /// A shard without tasks and sockets, for tests, and the connections that it wants to have opened.
    #[cfg(test)]
    pub(super) fn alone(settings: Settings) -> (Rc<Self>, UnboundedReceiver<Rc<Connection>>) {
        let clock = Clock::start();
        let seeds = Seeds { tokens: [2; 16], ..Seeds::repeated(1) };
        let service = Service::new(settings, &seeds, clock.epoch_unix_secs);
        let (connections, wanted) = Connections::new(clock.epoch_unix_secs);
        let inbox = Inbox::new(InboxSettings::default(), None, [3; 16]);
        (Self::new(service, clock, connections, None, inbox), wanted)
    }

    /// Sends the messages of the service's outbox, and clears it. A task reports to the service what could not be
    /// sent.
    fn send(self: &Rc<Self>, service: &mut Service) {
        let out = &service.output().out;
        if out.is_empty() {
            return;
        }
        if let Some(hep) = self.hep.borrow().as_ref() {
            let at = Clock::unix();
            // Shorter ones are keep-alives.
            let messages = out.iter().filter(|(_, bytes)| bytes.len() > 4);
            messages.for_each(|(item, bytes)| hep.copy(&item.flow, bytes, false, at));
        }
        let unsent = self.transports.send(out, |flow| service.servers().domain(flow).map(str::to_owned));
        service.output_mut().out.clear();
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
