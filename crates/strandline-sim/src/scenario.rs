//! What is to happen in a run, all of it from the run's seed. Each seed switches on a random part of what can go
//! wrong, so that faults meet in many combinations and none drowns the others.

mod config;
mod faults;
mod plans;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;

use strandline_netem::LinkConfig;
use strandline_proto::config::EndpointConfig;
use strandline_proto::time::Time;

use crate::app::Plan;
use crate::attacker::Attack;
use crate::random::Random;

/// A host.
#[derive(Debug, Clone)]
pub(crate) struct HostPlan {
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) config: EndpointConfig,
    /// Most packets in one transmission.
    pub(crate) segments_max: usize,
    /// What its application does with associations that others set up.
    pub(crate) server: Plan,
}

/// An association that is to be set up.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) start: Time,
    /// A port of its own, so that setting up again after a crash is a restart for the peer; 0 takes any.
    pub(crate) local_port: u16,
    /// How often it is set up again after it ended, while faults go on.
    pub(crate) attempts: u32,
    /// Gives all addresses of the peer, or only the first.
    pub(crate) all_remotes: bool,
    pub(crate) plan: Plan,
}

/// Something that goes wrong, or right again.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// The host loses its state and is back after a while.
    Crash { host: usize, down: Duration },
    /// The address is gone.
    AddressLost { host: usize, address: usize },
    /// The address is back.
    AddressBack { host: usize, address: usize },
    /// Nothing passes from one address to the other.
    Cut { from: IpAddr, to: IpAddr },
    /// It does again.
    Heal { from: IpAddr, to: IpAddr },
    /// The link changes.
    Change { from: IpAddr, to: IpAddr, config: LinkConfig },
    /// The host's packets come from another UDP port from now on.
    Rebind { host: usize, port: u16 },
    /// An application asks for another primary path or for a heartbeat.
    PokePath { host: usize },
}

/// A run's plan.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) hosts: Vec<HostPlan>,
    pub(crate) clients: Vec<ClientPlan>,
    pub(crate) links: LinkConfig,
    /// Links between particular addresses.
    pub(crate) special_links: Vec<(IpAddr, IpAddr, LinkConfig)>,
    pub(crate) faults: Vec<(Time, Fault)>,
    pub(crate) attacks: Vec<(Time, Attack)>,
    /// Routers report packets that are too big, and cut links.
    pub(crate) icmp: bool,
    /// When the faults are over.
    pub(crate) calm_at: Time,
    /// By when everything must have ended after that.
    pub(crate) patience: Duration,
    /// How long after that an association may still end because of a fault.
    pub(crate) last_expiry: Duration,
    /// Hosts between which an attacker alters packets under the right tags.
    pub(crate) tampered: Option<(usize, usize)>,
    /// Nothing is lost or late, nobody crashes or aborts: then every message must arrive.
    pub(crate) clean: bool,
    /// What was switched on, to read.
    pub(crate) features: Vec<&'static str>,
}

/// Which kinds of trouble a run has.
#[derive(Debug, Clone, Copy, Default)]
struct Features {
    slow: bool,
    loss: bool,
    reordering: bool,
    duplication: bool,
    corruption: bool,
    multihomed: bool,
    crashes: bool,
    addresses: bool,
    cuts: bool,
    changes: bool,
    rebinding: bool,
    aborts: bool,
    early_shutdown: bool,
    slow_readers: bool,
    large: bool,
    small_buffers: bool,
    small_mtu: bool,
    collision: bool,
    crowd: bool,
    replay: bool,
    blind: bool,
    tampering: bool,
    poking: bool,
    icmp: bool,
    odd_timers: bool,
    v6: bool,
    both_families: bool,
    /// Small buffers that are too small for many tiny messages: each costs a receiver more than its bytes, and a
    /// sender can't know that.
    tight: bool,
}

impl Features {
    fn list(&mut self) -> [(&'static str, &mut bool, f64); 27] {
        [
            ("slow", &mut self.slow, 0.5),
            ("loss", &mut self.loss, 0.5),
            ("reordering", &mut self.reordering, 0.35),
            ("duplication", &mut self.duplication, 0.3),
            ("corruption", &mut self.corruption, 0.25),
            ("multihomed", &mut self.multihomed, 0.4),
            ("crashes", &mut self.crashes, 0.25),
            ("addresses", &mut self.addresses, 0.25),
            ("cuts", &mut self.cuts, 0.3),
            ("changes", &mut self.changes, 0.2),
            ("rebinding", &mut self.rebinding, 0.15),
            ("aborts", &mut self.aborts, 0.2),
            ("early shutdown", &mut self.early_shutdown, 0.25),
            ("slow readers", &mut self.slow_readers, 0.35),
            ("large", &mut self.large, 0.35),
            ("small buffers", &mut self.small_buffers, 0.3),
            ("small mtu", &mut self.small_mtu, 0.2),
            ("collision", &mut self.collision, 0.15),
            ("crowd", &mut self.crowd, 0.1),
            ("replay", &mut self.replay, 0.25),
            ("blind", &mut self.blind, 0.25),
            ("tampering", &mut self.tampering, 0.12),
            ("poking", &mut self.poking, 0.2),
            ("icmp", &mut self.icmp, 0.5),
            ("odd timers", &mut self.odd_timers, 0.4),
            ("IPv6", &mut self.v6, 0.3),
            ("both families", &mut self.both_families, 0.1),
        ]
    }

    /// One run in twelve has none at all; the others have some more, some fewer.
    fn draw(random: &mut Random) -> (Self, Vec<&'static str>) {
        let mut features = Self::default();
        let mut names = Vec::new();
        let eagerness = if random.chance(1.0 / 12.0) { 0.0 } else { random.pick(&[0.4, 0.8, 1.2]) };
        for (name, on, probability) in features.list() {
            *on = random.chance(probability * eagerness);
            if *on {
                names.push(name);
            }
        }
        features.v6 |= features.both_families;
        features.tight = features.small_buffers && random.chance(0.5);
        (features, names)
    }

    /// Whether anything can be lost, late or cut short.
    fn is_clean(&self) -> bool {
        let rough = self.loss || self.reordering || self.duplication || self.corruption || self.slow;
        let faults = self.crashes || self.addresses || self.cuts || self.changes || self.rebinding;
        let ends = self.aborts || self.early_shutdown || self.collision || self.small_mtu || self.multihomed;
        let attacks = self.replay || self.blind || self.tampering;
        !(rough || faults || ends || attacks)
    }
}

impl Scenario {
    /// The plan that belongs to a seed.
    pub(crate) fn generate(seed: u64) -> Self {
        let mut random = Random::stream(seed, 1);
        let (features, mut names) = Features::draw(&mut random);
        let mut hosts = plans::hosts(&features, &mut random);
        if !features.corruption && plans::leave_out_checksums(&mut hosts, seed) {
            names.push("zero checksum");
        }
        if plans::keep_to_rfc9260(&mut hosts, seed) {
            names.push("RFC 9260 recovery");
        }
        let calm_at = Time::ZERO + random.millis(2_000, 20_000);
        let clients = plans::clients(&features, &hosts, calm_at, &mut random);
        let links = config::link(&features, &mut random);
        let special_links = config::special_links(&features, &hosts, &links, &mut random);
        let faults = faults::faults(&features, &hosts, calm_at, &mut random);
        let attacks = faults::attacks(&features, calm_at, &mut random);
        let rto_max = hosts.iter().map(|host| host.config.association.rto_max).max().unwrap_or_default();
        // Two hosts whose ports both changed never find each other again. And until the MTU is found there are some
        // time-outs: on several paths that no router tells of, or with few retransmissions allowed, too many.
        let patient = !features.odd_timers && (!features.multihomed || features.icmp);
        let lost = features.rebinding || (features.small_mtu && !patient);
        Self {
            last_expiry: if lost { Duration::MAX } else { rto_max + Duration::from_secs(1) },
            clients,
            special_links,
            faults,
            attacks,
            icmp: features.icmp,
            calm_at,
            patience: Duration::from_secs(180) + rto_max * 8,
            tampered: features.tampering.then_some((0, 1)),
            clean: features.is_clean(),
            features: names,
            links,
            hosts,
        }
    }
}

/// The `index`-th address of the `host`-th host.
pub(crate) fn address(host: usize, index: usize, v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0xfd00, 0, 0, index as u16, 0, 0, 0, host as u16 + 1).into()
    } else {
        Ipv4Addr::new(10, index as u8, host as u8, 1).into()
    }
}
