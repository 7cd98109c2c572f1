//! What all tasks of a shard share: the service, and the ways out. They run on one thread, one after the other.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Notify;

use crate::codec::{HeaderName, Index, Message, MessageWriter, StatusCode};
use crate::resolution::{Ours, Question};
use crate::service::{Astray, Output, Service};
use crate::store::{Damage, Done, Seeker, StoreError, StoreFigures, Writer};
use crate::transaction::{ClientId, Flow, Outbox, Protocol, Time};

use super::clock::Clock;
use super::dns::{Dns, NOBODY, Resolver};
use super::hep::{Hep, HepSettings};
use super::inbox::{Inbox, Phone};
use super::live::Watch;
use super::message_pool::Kept;
use super::socket::{Carriers, Connections, Letter, Mail, Room, TlsSides, Udp};
use super::steering::Steering;

/// How connections of browsers are taken (RFC 7118).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WebSockets {
    /// Pages from here may connect; pages from everywhere if there is none. Who is no browser names no page.
    pub(super) origins: Vec<String>,
    /// How long one may be silent until it is asked whether it is there.
    pub(super) ping: Option<Duration>,
}

/// Takes in messages.
pub(super) struct Taking<'a> {
    inbox: &'a mut Inbox,
    kept: &'a mut Kept,
    service: &'a Service,
    now: Duration,
    hep: Option<Rc<Hep>>,
}

impl Taking<'_> {
    /// A message has come, of which `keep` makes a copy that lasts.
    pub(super) fn push(&mut self, flow: Flow, bytes: &[u8], keep: impl FnOnce() -> Bytes) {
        self.copy(&flow, bytes);
        let knows = |flow: &Flow| {
            if self.service.registrations().is_registered(flow) { Phone::Known } else { Phone::Unknown }
        };
        self.inbox.push(self.now, flow, bytes, keep, knows);
    }

    /// A message has come whose bytes are used for others afterwards.
    pub(super) fn push_copy(&mut self, flow: Flow, bytes: &[u8]) {
        self.copy(&flow, bytes);
        let knows = |flow: &Flow| {
            if self.service.registrations().is_registered(flow) { Phone::Known } else { Phone::Unknown }
        };
        self.inbox.push(self.now, flow, bytes, || self.kept.keep(bytes), knows);
    }

    /// One that is among the first on a connection. It may wait for long, and not keep a block with others so long.
    pub(super) fn push_first(&mut self, flow: Flow, bytes: &[u8]) {
        self.copy(&flow, bytes);
        self.inbox.push(self.now, flow, bytes, || Bytes::copy_from_slice(bytes), |_| Phone::Arriving);
    }

    /// May who is there send?
    pub(super) fn allows(&self, peer: std::net::IpAddr) -> bool {
        self.inbox.allows(peer)
    }

    /// Whether the peer may send what is no message and is answered at once; a refused peer is counted.
    pub(super) fn admits(&mut self, peer: std::net::IpAddr) -> bool {
        let may = self.inbox.allows(peer);
        self.inbox.counters.denied += u64::from(!may);
        may
    }

    /// For the collector, if there is one; not of those who may send nothing.
    fn copy(&self, flow: &Flow, bytes: &[u8]) {
        if let Some(hep) = self.hep.as_ref().filter(|_| self.inbox.allows(flow.peer.ip())) {
            hep.copy(flow, bytes, true, Clock::unix());
        }
    }
}

/// One shard.
pub(super) struct Hub {
    pub(super) service: RefCell<Service>,
    pub(super) connections: Connections,
    pub(super) clock: Clock,
    pub(super) udp: RefCell<Option<Rc<Udp>>>,
    pub(super) sctp: RefCell<Carriers>,
    /// What is used for connections that come, and that are opened, from now on.
    pub(super) tls: RefCell<TlsSides>,
    pub(super) room: Cell<Room>,
    /// Who is refused may be told so, so often.
    pub(super) refusals_per_sec: Cell<u32>,
    /// How often it is looked for datagrams while that pays; none if never.
    pub(super) gather: Cell<Option<Duration>>,
    pub(super) websocket: RefCell<Rc<WebSockets>>,
    writer: Option<Writer>,
    /// Looks for subscribers.
    seeker: RefCell<Option<Seeker>>,
    /// Batches of answers that wait for the writer.
    /// Copies messages for a collector.
    pub(super) hep: RefCell<Option<Rc<Hep>>>,
    /// Asks DNS; nobody does without it.
    pub(super) resolver: RefCell<Option<Rc<Resolver>>>,
    unsettled: Cell<usize>,
    /// The number of the last batch of changes that the writer has.
    submitted: Cell<u64>,
    /// The number of the last batch that is durable.
    durable: Cell<u64>,
    /// More is durable.
    became_durable: Notify,
    /// Why the server has to end.
    lost: RefCell<Option<StoreError>>,
    /// It has to.
    pub(super) is_lost: Notify,
    spare: RefCell<Outbox>,
    inbox: RefCell<Inbox>,
    /// What waits there.
    kept: RefCell<Kept>,
    /// Somebody waits for messages.
    pub(super) came: Notify,
    /// When what waited was last handled until nothing was left, or for as long as others could wait.
    pub(super) worked: Cell<Duration>,
    /// The share of datagrams that the kernel lets through, of those that begin something.
    pub(super) let_through: Cell<f64>,
    pub(super) steering: RefCell<Steering>,
    pub(super) watch: RefCell<Watch>,
    /// To the other workers of this server, if there are any.
    pub(super) mail: RefCell<Option<Rc<Mail>>>,
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
            connections,
            clock,
            udp: RefCell::new(None),
            sctp: RefCell::default(),
            tls: RefCell::default(),
            room: Cell::default(),
            refusals_per_sec: Cell::default(),
            gather: Cell::default(),
            websocket: RefCell::default(),
            writer,
            seeker: RefCell::new(None),
            hep: RefCell::new(None),
            resolver: RefCell::new(None),
            unsettled: Cell::new(0),
            submitted: Cell::new(0),
            durable: Cell::new(0),
            became_durable: Notify::new(),
            lost: RefCell::new(None),
            is_lost: Notify::new(),
            spare: RefCell::new(Outbox::new()),
            inbox: RefCell::new(inbox),
            kept: RefCell::default(),
            came: Notify::new(),
            worked: Cell::default(),
            let_through: Cell::new(1.0),
            steering: RefCell::new(Steering::new()),
            watch: RefCell::new(Watch::new()),
            mail: RefCell::default(),
        })
    }

    pub(super) fn now(&self) -> Time {
        self.clock.now()
    }

    /// Takes messages that have come, to be handled by [`work`](super::input::work).
    pub(super) fn take_in(&self, take: impl FnOnce(&mut Taking<'_>)) {
        let (inbox, service) = (&mut *self.inbox.borrow_mut(), &*self.service.borrow());
        let hep = self.hep.borrow().clone();
        let kept = &mut *self.kept.borrow_mut();
        kept.begin();
        take(&mut Taking { inbox, kept, service, now: self.clock.elapsed(), hep });
        if !inbox.is_empty() {
            self.came.notify_one();
        }
    }

    /// Lets messages that wait be handled.
    pub(super) fn inbox<T>(&self, look: impl FnOnce(&mut Inbox) -> T) -> T {
        look(&mut self.inbox.borrow_mut())
    }

    /// The time, in seconds since 1970.
    pub(super) fn unix_secs(&self) -> u64 {
        self.clock.epoch_unix_secs + self.clock.elapsed().as_secs()
    }

    /// Ends a connection or an association. False if it is gone already.
    pub(super) fn close(&self, flow: &Flow) -> bool {
        if let Some(mail) = self.mail.borrow().as_ref()
            && let Some(worker) = mail.other(flow)
        {
            let posted = mail.post(worker, &Letter::Close { flow: *flow });
            mail.flush();
            return posted;
        }
        match flow.protocol {
            Protocol::Udp => false,
            Protocol::Sctp => self.sctp.borrow().close(flow),
            _ => self.connections.close(flow),
        }
    }

    /// Ends connections and associations from where nobody may send any more.
    pub(super) fn end_denied(&self) {
        let mut flows = self.connections.flows();
        flows.extend(self.sctp.borrow().flows());
        self.inbox(|inbox| flows.retain(|flow| !inbox.allows(flow.peer.ip())));
        for flow in &flows {
            // Some may have ended by themselves.
            self.close(flow);
        }
    }

    /// How many associations there are.
    pub(super) fn associations(&self) -> usize {
        self.sctp.borrow().len()
    }

    /// There are more associations than connections.
    pub(super) fn is_mostly_sctp(&self) -> bool {
        self.associations() > self.connections.len()
    }

    /// Looks at how many datagrams come, and lets the kernel drop some if they are far too many. To be called by whoever takes in what
    /// comes, too, and not by a timer alone: in a flood all others wait for those who read it, timers as well.
    pub(super) fn steer(&self) {
        let now = self.clock.elapsed();
        let mut steering = self.steering.borrow_mut();
        if !steering.is_due(now) {
            return;
        }
        let udp = self.udp.borrow();
        let (stopped, idle) = (udp.as_ref().map_or(0, |udp| udp.stopped()), self.clock.idle());
        let (counts, overloaded) = self.inbox(|inbox| {
            inbox.look(now);
            (inbox.counters.counts(stopped, idle), inbox.admission.is_overloaded())
        });
        let Some(steered) = steering.look(now, counts, overloaded) else { return };
        self.inbox(|inbox| inbox.admit(steered.admitted));
        let (Some(share), Some(udp)) = (steered.share, udp.as_ref()) else { return };
        self.let_through.set(share);
        if let Err(error) = udp.let_through(share) {
            tracing::warn!(%error, share, "attaching the overload filter failed");
        }
    }

    /// Waits until all that has come so far is done.
    pub(super) async fn is_done(&self) {
        let after = self.inbox(|inbox| inbox.after_all());
        if let Some(after) = after {
            // If it isn't told any more, nobody works any more.
            let _ = after.await;
        }
    }

    /// Lets the service work, and sends what comes of it.
    pub(super) fn with(self: &Rc<Self>, work: impl FnOnce(&mut Service, Time)) {
        let now = self.now();
        let mut out = self.spare.take();
        let replaced: Vec<Flow>;
        {
            let mut service = self.service.borrow_mut();
            work(&mut service, now);
            std::mem::swap(&mut out, &mut service.output_mut().out);
            if let Some(seeker) = self.seeker.borrow().as_ref() {
                service.access_mut().take_wanted().into_iter().for_each(|who| seeker.seek(who));
            }
            for question in service.servers_mut().take_wanted() {
                self.locate(question);
            }
            for (connection, port) in service.output_mut().take_aliased() {
                self.connections.alias(connection, port);
            }
            replaced = service.output_mut().take_replaced();
            if let Some(mail) = self.mail.borrow().as_ref() {
                for Astray { worker, flow, first, bytes } in service.output_mut().take_astray() {
                    // If there is no room, it is lost as a datagram may be.
                    let _ = mail.post(worker, &Letter::Astray { first, flow, bytes: &bytes });
                }
                service.output_mut().take_closed().into_iter().for_each(|connection| mail.closed(connection));
                mail.flush();
            }
            self.hand_over(service.output_mut());
        }
        self.send(&mut out);
        for flow in &replaced {
            // Some may have ended by themselves.
            self.close(flow);
        }
        self.spare.replace(out);
    }

    /// The way of a request to a neighbour that has opened a connection for that (RFC 5923).
    fn aliased(&self, flow: Flow) -> Flow {
        let aliases = self.connections.aliases.borrow();
        if flow.connection != 0 || flow.protocol != Protocol::Tls || aliases.is_empty() {
            return flow;
        }
        let service = self.service.borrow();
        let found = service.servers().domain(&flow).and_then(|domain| aliases.find(flow.peer, domain));
        found.map_or(flow, |connection| Flow { connection, ..flow })
    }

    fn hand_over(&self, output: &mut Output) {
        let Some(writer) = &self.writer else {
            output.journal.clear();
            return;
        };
        if output.journal.is_empty() && output.held.is_empty() {
            return;
        }
        let waits = !output.held.is_empty();
        let at = self.clock.elapsed();
        self.submitted.set(writer.submit(&mut output.journal, &mut output.held, at));
        // A retransmission must not be answered before the change that it repeats is durable.
        output.unsettled = true;
        if waits {
            self.unsettled.set(self.unsettled.get() + 1);
            self.watch.borrow_mut().on_handed_over(at);
        }
    }

    /// The store has written down what these answers acknowledge, or failed to.
    pub(super) fn settled(self: &Rc<Self>, done: Done) {
        match done {
            Done::Durable { held, through } => {
                self.on_settled(held.len());
                self.durable.set(through);
                self.became_durable.notify_waiters();
                if through == self.submitted.get() {
                    self.service.borrow_mut().output_mut().unsettled = false;
                }
                // All together: more of them go with one call.
                let mut all = self.spare.take();
                held.iter().for_each(|held| all.append(held));
                self.send(&mut all);
                self.spare.replace(all);
            }
            Done::Failed { held } => self.refuse(held),
            Done::Lost(error) => self.lose(error),
        }
    }

    /// Waits until all that was changed so far is durable.
    pub(super) async fn all_is_durable(&self) {
        let wanted = self.submitted.get();
        loop {
            // It is heard of from here on, so that nothing is missed in between.
            let more = self.became_durable.notified();
            if self.durable.get() >= wanted {
                return;
            }
            more.await;
        }
    }

    /// Answers with 503 who has waited for the store for longer than this.
    pub(super) fn refuse_overdue(self: &Rc<Self>, patience: Duration) {
        let since = self.clock.elapsed().checked_sub(patience);
        if let (Some(writer), Some(since)) = (&self.writer, since) {
            self.refuse(writer.overdue(since));
        }
    }

    fn refuse(self: &Rc<Self>, held: Vec<Outbox>) {
        if held.is_empty() {
            return;
        }
        self.on_settled(held.len());
        held.iter().for_each(|held| self.send(&mut refused(held)));
    }

    fn on_settled(&self, count: usize) {
        self.unsettled.set(self.unsettled.get().saturating_sub(count));
        self.watch.borrow_mut().on_settled(self.clock.elapsed(), count);
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

    /// What was counted of the store, if there is one.
    pub(super) fn store_figures(&self) -> Option<StoreFigures> {
        self.writer.as_ref().map(|writer| writer.stats().figures())
    }

    /// Something of what another node has written can't be read.
    pub(super) fn on_damage(&self, damage: &Damage) {
        if let Some(writer) = &self.writer {
            writer.stats().on_damage(damage);
        }
    }

    /// The store will never work again: the server has to end.
    pub(super) fn lose(&self, error: StoreError) {
        self.lost.replace(Some(error));
        self.is_lost.notify_one();
    }

    /// Why the server has to end, if it has.
    pub(super) fn why_lost(&self) -> Option<StoreError> {
        self.lost.take()
    }

    /// Nothing waits for the store.
    pub(super) fn is_settled(&self) -> bool {
        self.unsettled.get() == 0
    }

    /// Sends over a connection of this worker what another one has for it.
    pub(super) fn send_for(&self, mail: &Mail, from: u8, flow: Flow, client: Option<ClientId>, bytes: &[u8]) {
        let sent = flow.connection != 0
            && match flow.protocol {
                Protocol::Udp => false,
                Protocol::Sctp => self.sctp.borrow().send(flow, None, bytes),
                _ => self.connections.queue(flow, None, bytes),
            };
        match client {
            Some(_) if sent => mail.uses(flow.connection, from),
            Some(client) => {
                mail.post(from, &Letter::Failed { client });
            }
            None if !sent && bytes.starts_with(b"SIP/2.0 ") => {
                mail.post(from, &Letter::Unsent { flow, bytes });
            }
            None => {}
        }
    }

    /// Sends all, and clears it.
    fn send(self: &Rc<Self>, out: &mut Outbox) {
        if out.is_empty() {
            return;
        }
        if let Some(hep) = self.hep.borrow().as_ref() {
            let at = Clock::unix();
            let messages = out.iter().filter(|(_, bytes)| bytes.len() > 4);
            messages.for_each(|(item, bytes)| hep.copy(&item.flow, bytes, false, at));
        }
        let datagrams = out.iter().any(|(item, _)| item.flow.protocol == Protocol::Udp);
        if let (true, Some(udp)) = (datagrams, self.udp.borrow().as_ref()) {
            udp.send(out);
        }
        let (mut failed, mut unsent) = (Vec::new(), Vec::new());
        let mail = self.mail.borrow().clone();
        for (item, bytes) in out.iter() {
            let other = mail.as_ref().and_then(|mail| Some((mail, mail.other(&item.flow)?)));
            let sent = match item.flow.protocol {
                _ if other.is_some() => other.is_some_and(|(mail, worker)| {
                    let (from, flow, client) = (mail.own(), item.flow, item.client);
                    mail.post(worker, &Letter::Send { from, flow, client, bytes })
                }),
                Protocol::Udp => true,
                Protocol::Tcp | Protocol::Tls | Protocol::Ws | Protocol::Wss => {
                    self.connections.queue(self.aliased(item.flow), item.client, bytes)
                }
                Protocol::Sctp => self.sctp.borrow().send(item.flow, item.client, bytes),
            };
            if !sent {
                match item.client {
                    Some(client) => failed.push(client),
                    None if bytes.starts_with(b"SIP/2.0 ") => unsent.push((item.flow, bytes.to_vec())),
                    None => {}
                }
            }
        }
        self.connections.flush();
        if let Some(mail) = mail {
            mail.flush();
        }
        out.clear();
        if !failed.is_empty() || !unsent.is_empty() {
            let hub = Rc::clone(self);
            tokio::task::spawn_local(async move {
                hub.with(|service, now| {
                    failed.into_iter().for_each(|client| service.send_failed(now, client));
                    unsent.iter().for_each(|(flow, bytes)| service.response_failed(now, *flow, bytes));
                });
            });
        }
    }
}

/// 503 in place of each 200 whose binding can't be made durable.
fn refused(held: &Outbox) -> Outbox {
    let mut out = Outbox::new();
    let mut index = Index::new();
    for (item, bytes) in held.iter() {
        let Ok(message) = Message::parse(bytes, &mut index) else { continue };
        let code = StatusCode::SERVICE_UNAVAILABLE;
        let written = out.write(item.flow, None, |out| {
            let mut writer = MessageWriter::response(out, code, code.reason().as_bytes());
            for name in
                [HeaderName::Via, HeaderName::From, HeaderName::To, HeaderName::CallId, HeaderName::CSeq]
            {
                message.lines(name).for_each(|line| {
                    writer.copy(&line);
                });
            }
            writer.number(HeaderName::RetryAfter, 30);
            writer.finish(b"")
        });
        if let Err(error) = written {
            tracing::debug!(%error, "writing a response failed");
        }
    }
    out
}
