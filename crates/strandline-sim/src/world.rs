//! The world: hosts, the network between them, and events, in virtual time.

use core::net::SocketAddr;
use core::time::Duration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use bytes::Bytes;
use strandline_netem::{Change, DropReason, LinkConfig, Loss, Reordering, Verdict};
use strandline_proto::config::AssociationConfig;
use strandline_proto::endpoint::Connect;
use strandline_proto::event::{AssociationId, Datagram, IcmpError, IcmpKind};
use strandline_proto::time::Time;

use crate::agreed::Agreed;
use crate::attacker::{Attack, Attacker, Blow};
use crate::authentic::{Authentic, has_null_key, wanted};
use crate::greedy::inflate;
use crate::host::{Directory, Host, Shared};
use crate::ledger::{Counts, End, Ledger};
use crate::network::{Carried, Network};
use crate::pair::SCTP_PORT;
use crate::random::Random;
use crate::scenario::{Fault, Scenario};
use crate::trace::Trace;
use crate::violation::{Violation, demand, violation};

/// Maximum number of steps of a run.
const STEPS_MAX: u64 = 3_000_000;

/// Maximum number of steps at one instant of virtual time: more is an endless loop.
const STEPS_AT_ONCE_MAX: u32 = 200_000;

/// Maximum number of expirations of one host's timers without time passing.
const TIMEOUTS_AT_ONCE_MAX: u32 = 200;

/// The links once the faults have ended: bits per second, bytes of the queue, and the delay in one direction.
const CALM_RATE_BPS: u64 = 20_000_000;
const CALM_QUEUE_BYTES: usize = 200_000;
const CALM_DELAY: Duration = Duration::from_millis(10);

/// A scheduled event other than the arrival of a datagram.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Happening {
    Timer { host: usize },
    Wake { host: usize, life: u32, id: AssociationId },
    Start { client: usize },
    Boot { host: usize },
    Fault { index: usize },
    Attack { index: usize },
    Icmp { host: usize, destination: SocketAddr, mtu: Option<u32>, quoted: Bytes },
    Calm,
    ShutDown,
}

/// The outcome of a run in which every rule held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Hash of everything that happened.
    pub hash: u64,
    /// Packets transmitted.
    pub packets: u64,
    /// Steps taken.
    pub steps: u64,
    /// When the last association ended.
    pub ended_at: Time,
    /// Counts of messages.
    pub counts: Counts,
    /// The extensions of its associations.
    pub agreed: Agreed,
}

/// A world and its time.
#[derive(Debug)]
pub(crate) struct World {
    now: Time,
    scenario: Scenario,
    hosts: Vec<Host>,
    directory: Directory,
    network: Network,
    happenings: BinaryHeap<Reverse<(Time, u64, Happening)>>,
    number: u64,
    attempts: Vec<u32>,
    ledger: Ledger,
    random: Random,
    attacker: Attacker,
    authentic: Authentic,
    trace: Trace,
    calm: bool,
    steps: u64,
    at_once: (Time, u32),
    timeouts_at_once: (Time, usize, u32),
}

impl World {
    pub(crate) fn new(scenario: Scenario, seed: u64, keep: usize) -> Self {
        let mut hosts: Vec<Host> =
            scenario.hosts.iter().enumerate().map(|(number, plan)| Host::new(number, plan.clone())).collect();
        let directory =
            hosts.iter().flat_map(|host| host.plan.all().map(|address| (address, host.number))).collect();
        let mut random = Random::stream(seed, 2);
        let mut network = Network::new(scenario.links.clone(), random.bits());
        for (from, to, config) in &scenario.special_links {
            network.link(*from, *to).change(Change::Config(config.clone()));
        }
        let mut ledger = Ledger::new(random.bits() as u32);
        let skips = |host: &Host, after: bool| {
            let reborn = host.plan.reborn.as_ref().filter(|_| after);
            reborn.unwrap_or(&host.plan.config.association).extensions.partial_reliability
        };
        let ever = hosts.iter().filter(|host| skips(host, false) || skips(host, true));
        ledger.set_may_skip(ever.map(|host| host.number));
        let changes = hosts.iter().filter(|host| skips(host, false) != skips(host, true));
        ledger.set_changing(changes.map(|host| host.number));
        let authenticates = |association: &AssociationConfig| association.extensions.authentication.is_some();
        let alternates = hosts.iter().filter(|host| {
            let first = authenticates(&host.plan.config.association);
            host.plan.reborn.as_ref().is_some_and(|reborn| authenticates(reborn) != first)
        });
        ledger.at_times_authenticated = alternates.map(|host| host.number).collect();
        ledger.set_greedy(hosts.iter().find(|host| host.plan.greedy).map(|host| host.number));
        if let Some((one, other)) = scenario.tampered {
            ledger.tamper(one, other);
            for host in [one, other] {
                hosts[host].watch.is_attacked = true;
                hosts[host].watch.requests_forged =
                    scenario.attacks.iter().any(|(_, attack)| *attack == Attack::Insider);
            }
        }
        Self {
            now: Time::ZERO,
            attempts: scenario.clients.iter().map(|client| client.attempts).collect(),
            hosts,
            directory,
            network,
            happenings: BinaryHeap::new(),
            number: 0,
            ledger,
            random,
            attacker: Attacker::new(Random::stream(seed, 3)),
            authentic: Authentic::default(),
            trace: Trace::new(keep),
            calm: false,
            steps: 0,
            at_once: (Time::ZERO, 0),
            timeouts_at_once: (Time::ZERO, 0, 0),
            scenario,
        }
    }

    pub(crate) fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Runs to the end.
    pub(crate) fn run(&mut self) -> Result<Summary, Violation> {
        for host in 0..self.hosts.len() {
            self.hosts[host].boot(self.now, &mut self.random)?;
        }
        for client in 0..self.scenario.clients.len() {
            self.plan(self.scenario.clients[client].start, Happening::Start { client });
        }
        for index in 0..self.scenario.faults.len() {
            self.plan(self.scenario.faults[index].0, Happening::Fault { index });
        }
        for index in 0..self.scenario.attacks.len() {
            self.plan(self.scenario.attacks[index].0, Happening::Attack { index });
        }
        let calm_at = self.scenario.calm_at;
        self.plan(calm_at, Happening::Calm);
        self.plan(calm_at + Duration::from_secs(60), Happening::ShutDown);
        let deadline = calm_at + self.scenario.settle_max;
        while !self.is_over() {
            let Some(next) = self.next_time() else {
                return violation(format!("nothing will happen any more, but:\n{}", self.describe()));
            };
            demand(next <= deadline, || {
                format!("not finished {:?} after:\n{}", self.scenario.settle_max, self.describe())
            })?;
            self.now = self.now.max(next);
            self.step()?;
        }
        self.finish()
    }

    fn describe(&self) -> String {
        let open = self.hosts.iter().filter(|host| host.open() > 0);
        open.map(Host::describe).collect::<Vec<_>>().join("\n")
    }

    /// True if all applications have ended after the calm began, and nothing is in flight.
    fn is_over(&self) -> bool {
        let starts = |Reverse((_, _, happening)): &Reverse<(Time, u64, Happening)>| {
            matches!(happening, Happening::Start { .. } | Happening::Boot { .. })
        };
        self.calm
            && self.network.on_their_way() == 0
            && self.hosts.iter().all(|host| host.open() == 0)
            && !self.happenings.iter().any(starts)
    }

    fn finish(&mut self) -> Result<Summary, Violation> {
        let counts = self.ledger.finish()?;
        if self.scenario.clean {
            demand(counts.failed == 0, || format!("messages failed though nothing was wrong: {counts:?}"))?;
        }
        let mut agreed = Agreed::default();
        self.hosts.iter().for_each(|host| agreed.add(host.watch.agreed));
        Ok(Summary {
            hash: self.trace.hash(),
            packets: self.trace.packets(),
            steps: self.steps,
            ended_at: self.now,
            counts,
            agreed,
        })
    }

    fn plan(&mut self, at: Time, happening: Happening) {
        self.happenings.push(Reverse((at.max(self.now), self.number, happening)));
        self.number += 1;
    }

    fn next_time(&self) -> Option<Time> {
        let happening = self.happenings.peek().map(|Reverse((at, ..))| *at);
        [happening, self.network.next_arrival()].into_iter().flatten().min()
    }

    fn step(&mut self) -> Result<(), Violation> {
        self.steps += 1;
        demand(self.steps < STEPS_MAX, || "far too many steps".to_owned())?;
        self.at_once =
            if self.at_once.0 == self.now { (self.now, self.at_once.1 + 1) } else { (self.now, 0) };
        demand(self.at_once.1 < STEPS_AT_ONCE_MAX, || "time stands still".to_owned())?;
        if let Some(datagram) = self.network.poll(self.now) {
            return self.arrive(&datagram);
        }
        match self.happenings.pop() {
            Some(Reverse((_, _, happening))) => self.happen(happening),
            None => Ok(()),
        }
    }

    fn arrive(&mut self, datagram: &Carried) -> Result<(), Violation> {
        let Some(number) = self.directory.get(&datagram.destination.ip()).copied() else { return Ok(()) };
        let host = &mut self.hosts[number];
        let address = host.plan.all().position(|address| address == datagram.destination.ip());
        let working = address.is_some_and(|index| host.working[index]);
        if !working || datagram.destination.port() != host.port {
            return Ok(());
        }
        let Some(endpoint) = &mut host.endpoint else { return Ok(()) };
        let inflated = host.plan.greedy.then(|| inflate(datagram)).flatten();
        let datagram = inflated.as_ref().unwrap_or(datagram);
        let destination = Some(datagram.destination.ip());
        let wanted = wanted(&host.plan.config.association.extensions);
        let verifies = wanted.is_some() && self.authentic.verifies(datagram);
        let skips = host.watch.arrival(endpoint, self.now, datagram, (wanted, verifies));
        let skips = skips.map(|(id, up_to)| (End { host: number, life: host.life, id }, up_to));
        self.ledger.arrives(number, &datagram.bytes, skips);
        let forged = wanted.and_then(|_| self.authentic.forged(datagram));
        endpoint.handle_datagram(
            self.now,
            Datagram { source: datagram.source, destination, bytes: &datagram.bytes, ecn: datagram.ecn },
        );
        if let Some(tag) = forged {
            self.hosts.iter_mut().for_each(|host| host.watch.distrust(tag));
        }
        self.pump(number)
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Violation> {
        match happening {
            Happening::Timer { host } => self.timer(host),
            Happening::Wake { host, life, id } => {
                if self.hosts[host].life != life {
                    return Ok(());
                }
                self.with_host(host, |host, shared| host.wake(shared, id))
            }
            Happening::Start { client } => self.start(client),
            Happening::Boot { host } => {
                if self.hosts[host].endpoint.is_none() {
                    self.hosts[host].boot(self.now, &mut self.random)?;
                }
                Ok(())
            }
            Happening::Fault { index } => self.fault(index),
            Happening::Attack { index } => self.attack(index),
            Happening::Icmp { host, destination, mtu, quoted } => {
                let kind = mtu.map_or(IcmpKind::HostUnreachable, |mtu| IcmpKind::PacketTooBig { mtu });
                self.icmp(host, destination, kind, &quoted)
            }
            Happening::Calm => self.calm(),
            Happening::ShutDown => {
                (0..self.hosts.len()).try_for_each(|host| self.with_host(host, Host::shut_down))
            }
        }
    }

    fn timer(&mut self, number: usize) -> Result<(), Violation> {
        let host = &mut self.hosts[number];
        if host.timer.is_none_or(|at| at > self.now) {
            return Ok(());
        }
        host.timer = None;
        let (at, of, times) = self.timeouts_at_once;
        let times = if (at, of) == (self.now, number) { times + 1 } else { 0 };
        self.timeouts_at_once = (self.now, number, times);
        demand(times < TIMEOUTS_AT_ONCE_MAX, || format!("host {number}: timers expire again and again"))?;
        if let Some(endpoint) = &mut host.endpoint
            && endpoint.poll_timeout().is_some_and(|at| at <= self.now)
        {
            host.watch.touch_any();
            endpoint.handle_timeout(self.now);
        }
        self.pump(number)
    }

    /// Acts on a host, then lets it proceed.
    fn with_host(
        &mut self,
        number: usize,
        act: impl FnOnce(&mut Host, &mut Shared<'_>) -> Result<(), Violation>,
    ) -> Result<(), Violation> {
        let (mut out, mut wakes, mut ended) = (Vec::new(), Vec::new(), Vec::new());
        let host = &mut self.hosts[number];
        let mut shared = Shared {
            now: self.now,
            ledger: &mut self.ledger,
            random: &mut self.random,
            trace: &mut self.trace,
            directory: &self.directory,
            out: &mut out,
            wakes: &mut wakes,
            ended: &mut ended,
            last_expiry: self.scenario.last_expiry,
            keys_last: self.scenario.keys_last,
        };
        let outcome = act(host, &mut shared).and_then(|()| host.pump(&mut shared));
        if outcome.is_err() {
            // The packets that led to it belong to the record.
            out.iter().for_each(|datagram| self.trace.packet(self.now, datagram, "last"));
            return outcome;
        }
        let (life, due) = (host.life, host.endpoint.as_ref().and_then(|endpoint| endpoint.poll_timeout()));
        for datagram in out {
            self.send(number, datagram);
        }
        for (at, id) in wakes {
            self.plan(at, Happening::Wake { host: number, life, id });
        }
        for client in ended {
            self.again(client);
        }
        if let Some(due) = due.map(|due| due.max(self.now))
            && self.hosts[number].timer.is_none_or(|at| due < at)
        {
            self.hosts[number].timer = Some(due);
            self.plan(due, Happening::Timer { host: number });
        }
        Ok(())
    }

    fn pump(&mut self, number: usize) -> Result<(), Violation> {
        self.with_host(number, |_, _| Ok(()))
    }

    /// Sets a client's association up again, if it may.
    fn again(&mut self, client: usize) {
        if self.attempts[client] > 0 && !self.calm {
            self.attempts[client] -= 1;
            let at = self.now + self.random.millis(0, 2_000);
            if at < self.scenario.calm_at {
                self.plan(at, Happening::Start { client });
            }
        }
    }

    fn start(&mut self, client: usize) -> Result<(), Violation> {
        let plan = self.scenario.clients[client].clone();
        if self.hosts[plan.from].endpoint.is_none() {
            self.again(client);
            return Ok(());
        }
        let peer = &self.hosts[plan.to];
        let families = |address: &&core::net::IpAddr| {
            self.hosts[plan.from].plan.addresses.iter().any(|own| own.is_ipv4() == address.is_ipv4())
        };
        let remotes =
            peer.plan.addresses.iter().filter(families).map(|address| SocketAddr::new(*address, peer.port));
        let remotes: Vec<SocketAddr> =
            if plan.all_remotes { remotes.collect() } else { remotes.take(1).collect() };
        let request = Connect {
            local_port: plan.local_port,
            peer_port: SCTP_PORT,
            remotes,
            local: Vec::new(),
            config: None,
        };
        self.with_host(plan.from, |host, shared| host.connect(shared, client, plan.to, plan.plan, request))
    }

    /// Hands a datagram to the network.
    fn send(&mut self, from: usize, datagram: Carried) {
        let host = &self.hosts[from];
        let address = host.plan.all().position(|address| address == datagram.source.ip());
        if !address.is_some_and(|index| host.working[index]) {
            self.trace.packet(self.now, &datagram, "lost: the address is gone");
            return;
        }
        self.authentic.record(&datagram);
        let to = self.directory.get(&datagram.destination.ip()).copied();
        let alterable = to.is_some_and(|to| self.ledger.is_tampered(from, to));
        if !self.scenario.attacks.is_empty() {
            self.attacker.record(&datagram, alterable);
        }
        let verdict = self.network.send(self.now, datagram.clone());
        self.trace.packet(self.now, &datagram, fate(&verdict));
        let mtu = match verdict {
            Verdict::Dropped(DropReason::Size) => {
                let link = self.network.link(datagram.source.ip(), datagram.destination.ip());
                Some(link.config().size_max as u32)
            }
            Verdict::Dropped(DropReason::Cut) => None,
            _ => return,
        };
        if self.scenario.icmp {
            let at = self.now + self.random.millis(1, 50);
            let quoted = datagram.bytes.slice(..datagram.bytes.len().min(self.random.pick(&[8, 20, 500])));
            self.plan(at, Happening::Icmp { host: from, destination: datagram.destination, mtu, quoted });
        }
    }

    fn fault(&mut self, index: usize) -> Result<(), Violation> {
        if self.calm {
            return Ok(());
        }
        let fault = self.scenario.faults[index].1.clone();
        self.trace.note(self.now, index, || format!("{fault:?}"));
        match fault {
            Fault::Crash { host, down } => {
                self.ledger.crashed(self.now, host);
                for client in self.hosts[host].crash() {
                    self.again(client);
                }
                self.plan(self.now + down, Happening::Boot { host });
            }
            Fault::AddressLost { host, address } => self.hosts[host].working[address] = false,
            Fault::AddressBack { host, address } => self.hosts[host].working[address] = true,
            Fault::Cut { from, to } => self.network.link(from, to).cut(),
            Fault::Heal { from, to } => self.network.link(from, to).heal(),
            Fault::Change { from, to, config } => self.network.link(from, to).change(Change::Config(config)),
            Fault::Rebind { host, port } => {
                self.ledger.rebound(host);
                self.hosts[host].port = port;
            }
            Fault::PokePath { host } => {
                self.hosts[host].poke(self.now, &mut self.random);
                return self.pump(host);
            }
        }
        Ok(())
    }

    fn attack(&mut self, index: usize) -> Result<(), Violation> {
        let attack = self.scenario.attacks[index].1;
        let addresses = |host: &Host| -> Vec<SocketAddr> {
            host.plan.addresses.iter().map(|address| SocketAddr::new(*address, host.port)).collect()
        };
        let hosts: Vec<SocketAddr> = self.hosts.iter().flat_map(addresses).collect();
        let blows = self.attacker.act(attack, &hosts);
        self.trace.note(self.now, index, || format!("attack: {attack:?}, {} times", blows.len()));
        for blow in blows {
            match blow {
                Blow::Datagram(delay, datagram) => {
                    self.trace.packet(self.now, &datagram, attack.name());
                    if attack == Attack::Insider && has_null_key(&datagram) {
                        self.authentic.record(&datagram);
                    }
                    self.network.put(self.now + delay, datagram);
                }
                Blow::Icmp { to, destination, kind, quoted } => {
                    if let Some(host) = self.directory.get(&to).copied() {
                        self.icmp(host, destination, kind, &quoted)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn icmp(
        &mut self,
        host: usize,
        destination: SocketAddr,
        kind: IcmpKind,
        quoted: &[u8],
    ) -> Result<(), Violation> {
        self.hosts[host].watch.touch_any();
        if let Some(endpoint) = &mut self.hosts[host].endpoint {
            endpoint.handle_icmp(self.now, IcmpError { destination, kind, quoted });
        }
        self.pump(host)
    }

    /// Ends the faults: links are good, hosts are up, nobody pauses.
    fn calm(&mut self) -> Result<(), Violation> {
        self.calm = true;
        self.trace.note(self.now, 0, || "calm".to_owned());
        let good = [
            Change::Heal,
            Change::Loss(Loss::None),
            Change::Reordering(Reordering::default()),
            Change::Duplication(0.0),
            Change::Corruption(0.0),
            Change::Rate(CALM_RATE_BPS),
            Change::Queue(CALM_QUEUE_BYTES),
            Change::Delay(CALM_DELAY),
        ];
        for change in good {
            self.network.change_all(&change);
        }
        let LinkConfig { size_max, cuts, .. } = self.scenario.links;
        self.network.set_default(LinkConfig { size_max, cuts, ..LinkConfig::with_delay(CALM_DELAY) });
        for host in 0..self.hosts.len() {
            self.hosts[host].working.fill(true);
            if self.hosts[host].endpoint.is_none() {
                self.hosts[host].boot(self.now, &mut self.random)?;
            }
            self.with_host(host, Host::calm)?;
        }
        Ok(())
    }
}

fn fate(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Delivered(copies) if copies.first.corruption.is_some() => "damaged",
        Verdict::Delivered(copies) if copies.duplicate.is_some() => "duplicated",
        Verdict::Delivered(_) => "",
        Verdict::Dropped(DropReason::Cut) => "lost: the link is cut",
        Verdict::Dropped(DropReason::Size) => "lost: too big",
        Verdict::Dropped(DropReason::Loss) => "lost",
        Verdict::Dropped(DropReason::Queue) => "lost: the queue is full",
    }
}

impl Attack {
    fn name(self) -> &'static str {
        match self {
            Self::Replay => "replayed",
            Self::SpoofedInit => "spoofed",
            Self::ForgedCookie => "forged",
            Self::Soup | Self::SoupWithTag => "soup",
            Self::Truncated => "truncated",
            Self::Icmp => "icmp",
            Self::Altered => "altered",
            Self::Violation => "violation",
            Self::Insider => "insider",
            Self::Unchecked => "unchecked",
        }
    }
}
