//! A host of the world: addresses, an endpoint, and the applications on it.

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use strandline_proto::endpoint::{Connect, Endpoint};
use strandline_proto::error::ConnectError;
use strandline_proto::event::{AssociationId, Event, Transmit};
use strandline_proto::time::Time;
use strandline_wire::Packet;

use crate::app::{App, Context, Plan};
use crate::ledger::{End, Ledger};
use crate::network::{Carried, DATAGRAM_BUFFER_LEN, ECN_CAPABLE};
use crate::pair::{CARRIER_PORT, SCTP_PORT};
use crate::random::Random;
use crate::scenario::HostPlan;
use crate::trace::Trace;
use crate::violation::{Violation, demand, violation};
use crate::watch::Watch;

/// Maximum rounds of events and transmissions after one input: more is an endless loop.
const ROUNDS_MAX: u32 = 100_000;

/// Hosts by address.
pub(crate) type Directory = BTreeMap<IpAddr, usize>;

/// State that hosts share.
pub(crate) struct Shared<'a> {
    pub(crate) now: Time,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) random: &'a mut Random,
    pub(crate) trace: &'a mut Trace,
    pub(crate) directory: &'a Directory,
    /// Datagrams to hand to the network.
    pub(crate) out: &'a mut Vec<Carried>,
    /// When applications want to act.
    pub(crate) wakes: &'a mut Vec<(Time, AssociationId)>,
    /// How long after the last fault an association may still end because of it.
    pub(crate) last_expiry: Duration,
    /// See [`Context::keys_last`].
    pub(crate) keys_last: Duration,
    /// Clients of the scenario whose association has ended.
    pub(crate) ended: &'a mut Vec<usize>,
}

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) number: usize,
    pub(crate) plan: HostPlan,
    /// `None` while the host is down.
    pub(crate) endpoint: Option<Endpoint>,
    pub(crate) life: u32,
    /// Whether each address works.
    pub(crate) working: Vec<bool>,
    /// The source UDP port of its packets, as others see it.
    pub(crate) port: u16,
    /// When the world's timer for it is set.
    pub(crate) timer: Option<Time>,
    apps: BTreeMap<AssociationId, App>,
    /// Events that the applications have not seen yet.
    events: VecDeque<(AssociationId, Event)>,
    /// Those that applications have caused and that the watch does not know yet.
    caused: VecDeque<(AssociationId, Event)>,
    pub(crate) watch: Watch,
    calm: Option<Time>,
    buffer: Vec<u8>,
}

impl Host {
    pub(crate) fn new(number: usize, plan: HostPlan) -> Self {
        Self {
            number,
            working: vec![true; plan.all().count()],
            plan,
            endpoint: None,
            life: 0,
            port: CARRIER_PORT,
            timer: None,
            apps: BTreeMap::new(),
            events: VecDeque::new(),
            caused: VecDeque::new(),
            watch: Watch::default(),
            calm: None,
            buffer: vec![0; DATAGRAM_BUFFER_LEN],
        }
    }

    /// Boots the host with an empty state.
    pub(crate) fn boot(&mut self, now: Time, random: &mut Random) -> Result<(), Violation> {
        let endpoint = Endpoint::new(self.plan.config.clone(), random.seed(), now);
        let mut endpoint = endpoint.map_err(|error| Violation(format!("configuration: {error}")))?;
        endpoint.listen(SCTP_PORT).map_err(|error| Violation(format!("listen: {error}")))?;
        if let Some(keys) = self.plan.keys {
            keys.give(&mut endpoint).map_err(|error| Violation(format!("keys: {error}")))?;
        }
        self.endpoint = Some(endpoint);
        Ok(())
    }

    /// Crashes the host. Returns the clients whose associations are lost.
    pub(crate) fn crash(&mut self) -> Vec<usize> {
        self.endpoint = None;
        self.life += 1;
        if let Some(reborn) = &mut self.plan.reborn {
            core::mem::swap(reborn, &mut self.plan.config.association);
        }
        self.timer = None;
        self.watch = self.watch.anew();
        self.events.clear();
        self.caused.clear();
        core::mem::take(&mut self.apps).into_values().filter_map(|app| app.client).collect()
    }

    /// Starts an association.
    pub(crate) fn connect(
        &mut self,
        shared: &mut Shared<'_>,
        client: usize,
        to: usize,
        plan: Plan,
        request: Connect,
    ) -> Result<(), Violation> {
        let Some(endpoint) = &mut self.endpoint else { return Ok(()) };
        match endpoint.connect(shared.now, request) {
            Ok(id) => {
                self.watch.touch(id);
                shared
                    .trace
                    .note(shared.now, (self.number, id), || format!("host {} connects: {id:?}", self.number));
                let end = End { host: self.number, life: self.life, id };
                let mut app = App::new(shared.now, end, to, Some(client), plan);
                if let Some(since) = self.calm {
                    app.calm_down(since);
                }
                demand(self.apps.insert(id, app).is_none(), || format!("{id:?} names two associations"))
            }
            // The previous association with these ports still exists.
            Err(ConnectError::AlreadyExists) => {
                shared.ended.push(client);
                Ok(())
            }
            Err(error) => violation(format!("connect: {error}")),
        }
    }

    /// Lets events and applications proceed and transmits, until nothing is left to do. Called after any input.
    pub(crate) fn pump(&mut self, shared: &mut Shared<'_>) -> Result<(), Violation> {
        for _ in 0..ROUNDS_MAX {
            self.applications(shared)?;
            if !self.transmit(shared)? {
                return Ok(());
            }
        }
        violation(format!("host {} never has enough", self.number))
    }

    /// Takes all events, then lets the applications act that they concern.
    fn applications(&mut self, shared: &mut Shared<'_>) -> Result<(), Violation> {
        loop {
            let mut concerned = BTreeSet::new();
            self.take_events(shared.now);
            while let Some((id, event)) = self.events.pop_front() {
                shared.trace.note(shared.now, (self.number, id, core::mem::discriminant(&event)), || {
                    format!("host {} {id:?} {}", self.number, brief(&event))
                });
                if !self.apps.contains_key(&id) {
                    self.accept(shared, id, &event)?;
                }
                self.with_app(shared, id, |app, cx| app.on_event(cx, &event))?;
                concerned.insert(id);
            }
            if concerned.is_empty() {
                return Ok(());
            }
            for id in concerned {
                self.with_app(shared, id, |app, cx| app.act(cx))?;
            }
        }
    }

    /// Takes the endpoint's events. What is given up while packets are built is reported before they are examined.
    fn take_events(&mut self, now: Time) {
        let poll = |endpoint: &mut Option<Endpoint>| endpoint.as_mut().and_then(Endpoint::poll_event);
        while let Some((id, event)) = self.caused.pop_front().or_else(|| poll(&mut self.endpoint)) {
            self.watch.on_event(now, id, &event);
            self.events.push_back((id, event));
        }
    }

    /// Accepts an association that a peer set up.
    fn accept(&mut self, shared: &mut Shared<'_>, id: AssociationId, event: &Event) -> Result<(), Violation> {
        let Event::Established { incoming: true, .. } = event else {
            return violation(format!("host {}: {event:?} of {id:?}, which is not there", self.number));
        };
        let status = self.endpoint.as_ref().and_then(|endpoint| endpoint.status(id));
        let Some(status) = status else {
            return violation(format!("host {}: {id:?} is established and has no status", self.number));
        };
        let Some(peer) = shared.directory.get(&status.primary.ip()) else {
            return violation(format!("host {}: an association with nobody: {status:?}", self.number));
        };
        let end = End { host: self.number, life: self.life, id };
        let mut app = App::new(shared.now, end, *peer, None, self.plan.server.clone());
        if let Some(since) = self.calm {
            app.calm_down(since);
        }
        self.apps.insert(id, app);
        Ok(())
    }

    fn with_app(
        &mut self,
        shared: &mut Shared<'_>,
        id: AssociationId,
        act: impl FnOnce(&mut App, &mut Context<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        self.watch.touch(id);
        let (Some(endpoint), Some(app)) = (&mut self.endpoint, self.apps.get_mut(&id)) else { return Ok(()) };
        let Shared { now, ledger, random, wakes, last_expiry, keys_last, .. } = shared;
        let (now, last_expiry, keys_last) = (*now, *last_expiry, *keys_last);
        let mut notes = Vec::new();
        act(
            app,
            &mut Context {
                now,
                endpoint,
                ledger,
                random,
                wakes,
                notes: &mut notes,
                caused: &mut self.caused,
                last_expiry,
                keys_last,
            },
        )?;
        for (id, note) in notes {
            self.watch.on_note(now, id, note);
        }
        if app.is_done() {
            let client = app.client;
            endpoint.release(id);
            demand(endpoint.status(id).is_none(), || format!("{id:?} is still there after its release"))?;
            self.apps.remove(&id);
            self.watch.forget(id);
            shared.ended.extend(client);
        }
        Ok(())
    }

    /// Lets one application act.
    pub(crate) fn wake(&mut self, shared: &mut Shared<'_>, id: AssociationId) -> Result<(), Violation> {
        self.with_app(shared, id, |app, cx| app.act(cx))
    }

    /// Tells the applications that the faults are over.
    pub(crate) fn calm(&mut self, shared: &mut Shared<'_>) -> Result<(), Violation> {
        self.calm = Some(shared.now);
        let ids: Vec<AssociationId> = self.apps.keys().copied().collect();
        for id in ids {
            self.with_app(shared, id, |app, cx| {
                app.calm_down(cx.now);
                app.act(cx)
            })?;
        }
        Ok(())
    }

    /// Requests a graceful shutdown of every application.
    pub(crate) fn shut_down(&mut self, shared: &mut Shared<'_>) -> Result<(), Violation> {
        let ids: Vec<AssociationId> = self.apps.keys().copied().collect();
        for id in ids {
            self.with_app(shared, id, |app, cx| app.shut_down(cx))?;
        }
        Ok(())
    }

    /// Lets an application request another primary path, or a heartbeat.
    pub(crate) fn poke(&mut self, now: Time, random: &mut Random) {
        let (Some(endpoint), false) = (&mut self.endpoint, self.apps.is_empty()) else { return };
        let at = random.below(self.apps.len() as u64) as usize;
        let Some(id) = self.apps.keys().nth(at).copied() else { return };
        let Some(paths) = endpoint.paths(id).filter(|paths| !paths.is_empty()) else { return };
        let address = paths[random.below(paths.len() as u64) as usize].address.ip();
        self.watch.touch(id);
        // Both may be refused if the address is not confirmed or the association not established.
        let _ = if random.chance(0.5) {
            endpoint.set_primary(now, id, address)
        } else {
            endpoint.request_heartbeat(now, id, address)
        };
    }

    /// Transmits everything. Returns true if there was anything.
    fn transmit(&mut self, shared: &mut Shared<'_>) -> Result<bool, Violation> {
        let config = Arc::clone(&self.plan.config.association);
        let Some(endpoint) = &self.endpoint else { return Ok(false) };
        self.watch.before(endpoint, shared.now, self.apps.keys().copied(), config.recovery)?;
        let mut any = false;
        for _ in 0..ROUNDS_MAX {
            let Some(endpoint) = &mut self.endpoint else { return Ok(false) };
            let transmit = endpoint.poll_transmit(shared.now, &mut self.buffer, self.plan.segments_max);
            self.take_events(shared.now);
            let Some(transmit) = transmit else {
                if let Some(endpoint) = self.endpoint.as_ref().filter(|_| any) {
                    self.watch.after(endpoint, shared.now, &config)?;
                }
                return Ok(any || !self.events.is_empty());
            };
            any = true;
            self.depart(shared, &transmit)?;
        }
        violation(format!("host {} transmits without end", self.number))
    }

    /// Examines the packets of a burst and hands them to the network.
    fn depart(&mut self, shared: &mut Shared<'_>, transmit: &Transmit) -> Result<(), Violation> {
        demand(transmit.len > 0 && transmit.len <= self.buffer.len(), || format!("{transmit:?}"))?;
        let v4 = transmit.destination.is_ipv4();
        let default = self.plan.addresses.iter().find(|address| address.is_ipv4() == v4).copied();
        // The host has no address of that family, so the packet is lost.
        let Some(source) = transmit.source.or(default) else { return Ok(()) };
        demand(self.plan.all().any(|own| own == source), || {
            format!("a source that is not the host's: {transmit:?}")
        })?;
        let source = SocketAddr::new(source, self.port);
        let (destination, fragment) = (transmit.destination, transmit.fragment);
        let ecn = if transmit.ecn_capable { ECN_CAPABLE } else { 0 };
        for bytes in self.buffer[..transmit.len].chunks(transmit.segment_size.max(1)) {
            let bytes = Bytes::copy_from_slice(bytes);
            let datagram = Carried { source, destination, bytes, fragment, ecn };
            self.watch.packet(shared.now, &datagram, self.plan.config.association.recovery)?;
            let sender = (self.number, self.association_of(&datagram));
            shared.ledger.departs(shared.now, sender, &datagram.bytes)?;
            shared.out.push(datagram);
        }
        Ok(())
    }

    /// Returns the association that a packet of this host belongs to.
    fn association_of(&self, datagram: &Carried) -> Option<AssociationId> {
        let packet = Packet::parse(&datagram.bytes).ok()?;
        let (local, peer) = (packet.source_port(), packet.destination_port());
        self.endpoint.as_ref()?.find(local, datagram.destination.ip(), peer)
    }

    /// Returns the number of associations that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.apps.len().max(self.endpoint.as_ref().map_or(0, Endpoint::association_count))
    }

    /// Describes what is left, for a reader.
    pub(crate) fn describe(&self) -> String {
        let status = |id: &AssociationId| self.endpoint.as_ref().and_then(|endpoint| endpoint.status(*id));
        let apps: Vec<String> =
            self.apps.iter().map(|(id, app)| format!("{app:?}\n  {:?}", status(id))).collect();
        format!("host {}: {}", self.number, apps.join("\n"))
    }
}

/// Formats an event without the content of messages.
fn brief(event: &Event) -> String {
    match event {
        Event::SendFailed(failed) => {
            format!("SendFailed({:?}, {} bytes, sent {})", failed.info, failed.data.len(), failed.sent)
        }
        other => format!("{other:?}"),
    }
}
