//! The scenario of a run, derived from the run's seed. Each seed enables a random subset of faults, so that faults
//! meet in many combinations and none drowns the others.

mod config;
mod extensions;
mod faults;
mod plans;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::sync::Arc;

use strandline_netem::LinkConfig;
use strandline_proto::config::{AssociationConfig, EndpointConfig};
use strandline_proto::time::Time;

use crate::app::Plan;
use crate::attacker::Attack;
use crate::keys::KeySet;
use crate::random::Random;

/// A host.
#[derive(Debug, Clone)]
pub(crate) struct HostPlan {
    pub(crate) addresses: Vec<IpAddr>,
    /// Further addresses, which associations have only after a request for them (RFC 5061).
    pub(crate) spare: Vec<IpAddr>,
    pub(crate) config: EndpointConfig,
    /// Maximum number of packets in one transmission.
    pub(crate) segments_max: usize,
    /// What its application does with incoming associations.
    pub(crate) server: Plan,
    /// Shared keys that its associations begin with; `None` for the null key alone.
    pub(crate) keys: Option<KeySet>,
    /// Takes more credit for streams than it is granted.
    pub(crate) greedy: bool,
    /// The parameters of associations after a crash, if they differ; then those from before.
    pub(crate) reborn: Option<Arc<AssociationConfig>>,
}

impl HostPlan {
    /// Returns all addresses of the host, those that associations have from the beginning first.
    pub(crate) fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().chain(&self.spare).copied()
    }
}

/// An association to be set up.
#[derive(Debug, Clone)]
pub(crate) struct ClientPlan {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) start: Time,
    /// A fixed port makes a new set-up after a crash a restart for the peer; 0 uses any port.
    pub(crate) local_port: u16,
    /// How often it is set up again after it ended, while faults continue.
    pub(crate) attempts: u32,
    /// Whether to use all addresses of the peer, or only the first.
    pub(crate) all_remotes: bool,
    pub(crate) plan: Plan,
}

/// A fault, or its end.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// The host loses its state and comes back after a while.
    Crash { host: usize, down: Duration },
    /// The address disappears.
    AddressLost { host: usize, address: usize },
    /// The address is back.
    AddressBack { host: usize, address: usize },
    /// The link from one address to the other is cut.
    Cut { from: IpAddr, to: IpAddr },
    /// The link works again.
    Heal { from: IpAddr, to: IpAddr },
    /// The link changes.
    Change { from: IpAddr, to: IpAddr, config: LinkConfig },
    /// The source UDP port of the host's packets changes.
    Rebind { host: usize, port: u16 },
    /// An application requests another primary path or a heartbeat.
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
    /// True if routers report packets that are too big, and cut links.
    pub(crate) icmp: bool,
    /// When the faults end.
    pub(crate) calm_at: Time,
    /// Time after that by which everything must have ended.
    pub(crate) settle_max: Duration,
    /// How long after that an association may still end because of a fault.
    pub(crate) last_expiry: Duration,
    /// The shortest time after which a host drops the key of its cookies.
    pub(crate) keys_last: Duration,
    /// Hosts between which an attacker alters packets under the right tags.
    pub(crate) tampered: Option<(usize, usize)>,
    /// True if nothing is lost or late, and nobody crashes or aborts: every message must arrive.
    pub(crate) clean: bool,
    /// The enabled features, for a reader.
    pub(crate) features: Vec<&'static str>,
}

/// The faults and settings of a run.
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
    /// Small buffers that are too small for many tiny messages: each costs a receiver more than its bytes, which a
    /// sender cannot know.
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

    /// Draws the features. One run in twelve has none at all; the others have more or fewer.
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

    /// True if nothing can be lost, late or truncated.
    fn is_clean(&self) -> bool {
        let rough = self.loss || self.reordering || self.duplication || self.corruption || self.slow;
        let faults = self.crashes || self.addresses || self.cuts || self.changes || self.rebinding;
        let ends = self.aborts || self.early_shutdown || self.collision || self.small_mtu || self.multihomed;
        let attacks = self.replay || self.blind || self.tampering;
        !(rough || faults || ends || attacks)
    }
}

/// Switches each extension on and off on each side.
fn extend(hosts: &mut [HostPlan], clients: &mut [ClientPlan], seed: u64, names: &mut Vec<&'static str>) {
    if plans::reconfigure(hosts, clients, seed) {
        names.push("reconfiguration");
    }
    if plans::give_up(hosts, clients, seed) {
        names.push("partial reliability");
    }
    if plans::interleave(hosts, seed) {
        names.push("interleaving");
    }
    if plans::grant(hosts, seed) {
        names.push("stream credit");
    }
    if plans::authenticate(hosts, seed) {
        names.push("authentication");
    }
    if plans::keep(hosts, seed) {
        names.push("NR-SACK");
    }
    if plans::spread(hosts, seed) {
        names.push("multipath");
    }
    if plans::schedule(hosts, clients, seed) {
        names.push("schedulers");
    }
}

impl Scenario {
    /// Returns the plan of a seed.
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
        let keys = hosts.iter().map(|host| host.config.cookie_key_lifetime);
        let keys_last = keys.min().unwrap_or(Duration::MAX);
        let calm_at = Time::ZERO + random.millis(2_000, 20_000);
        let mut clients = plans::clients(&features, &hosts, calm_at, &mut random);
        extend(&mut hosts, &mut clients, seed, &mut names);
        let relocations = plans::relocate(&mut hosts, &mut clients, calm_at, seed);
        if relocations.is_some() {
            names.push("dynamic addresses");
        }
        if seed >= extensions::FIRST_SEED {
            extensions::draw(&mut hosts, &mut clients, &features, seed, &mut names);
        }
        let links = config::link(&features, &mut random);
        let special_links = config::special_links(&features, &hosts, &links, &mut random);
        let mut faults = faults::faults(&features, &hosts, calm_at, &mut random);
        // An association may have kept only the address whose link is cut.
        let clean = features.is_clean()
            && !hosts.iter().any(|host| host.greedy)
            && relocations.as_ref().is_none_or(Vec::is_empty);
        faults.extend(relocations.unwrap_or_default());
        let mut attacks = faults::attacks(&features, calm_at, &mut random);
        if features.tampering && faults::violate(&mut attacks, calm_at, seed) {
            names.push("violations");
        }
        if features.tampering && faults::intrude(&mut attacks, calm_at, seed) {
            names.push("insider");
        }
        if seed >= extensions::FIRST_SEED && extensions::leave_unchecked(&hosts, &mut attacks, calm_at, seed)
        {
            names.push("unchecked");
        }
        let rto_max = hosts.iter().map(|host| host.config.association.rto_max).max().unwrap_or_default();
        // Two hosts whose ports both changed never find each other again. Until the MTU is found there are some
        // time-outs: too many on several paths without reports from routers, or with few retransmissions allowed.
        let patient = !features.odd_timers && (!features.multihomed || features.icmp);
        let lost = features.rebinding || (features.small_mtu && !patient);
        Self {
            keys_last,
            last_expiry: if lost { Duration::MAX } else { rto_max + Duration::from_secs(1) },
            clients,
            special_links,
            faults,
            attacks,
            icmp: features.icmp,
            calm_at,
            // Of hosts that never find each other again, each gives up by itself.
            settle_max: Duration::from_secs(180) + rto_max * if lost { 16 } else { 8 },
            tampered: features.tampering.then_some((0, 1)),
            clean,
            features: names,
            links,
            hosts,
        }
    }
}

/// Returns the `index`-th address of the `host`-th host.
pub(crate) fn address(host: usize, index: usize, v6: bool) -> IpAddr {
    if v6 {
        Ipv6Addr::new(0xfd00, 0, 0, index as u16, 0, 0, 0, host as u16 + 1).into()
    } else {
        Ipv4Addr::new(10, index as u8, host as u8, 1).into()
    }
}
