//! Hosts and applications of a run.

use core::net::IpAddr;
use core::time::Duration;
use std::sync::Arc;

use strandline_proto::authentication::{Authentication, HmacAlgorithms};
use strandline_proto::config::{
    EndpointConfig, ErrorDetectionMethod, LinkMtu, Multipath, Recovery, StreamCredit, StreamScheduler,
};
use strandline_proto::congestion::Algorithm;
use strandline_proto::reconfiguration::PeerRequests;
use strandline_proto::time::Time;
use strandline_wire::chunk::kind;

use super::{ClientPlan, Fault, Features, HostPlan, address, config};
use crate::app::{Ending, Plan, Reading, Sizes};
use crate::board::INITIAL_MAX;
use crate::limits::LimitPlan;
use crate::random::Random;
use crate::reconfiguration::ReconfigurePlan;
use crate::relocation::RelocationPlan;
use crate::scheduling::SchedulePlan;

/// Approximate number of bytes that one application sends.
const BYTES_AIM: u64 = 800_000;

pub(super) fn hosts(features: &Features, random: &mut Random) -> Vec<HostPlan> {
    let count = if features.crowd { random.range(3, 6) } else { random.range(2, 3) };
    (0..count as usize)
        .map(|host| {
            let addresses = if features.multihomed { random.range(1, 4) as usize } else { 1 };
            let addresses: Vec<_> = (0..addresses)
                .map(|index| address(host, index, features.v6 ^ (features.both_families && index % 2 == 1)))
                .collect();
            // A host with one address may leave it to its peer to see the source of packets.
            let named = addresses.len() > 1 || random.chance(0.5);
            let association = Arc::new(config::association(features, random));
            let config = EndpointConfig {
                local_addresses: if named { addresses.clone() } else { Vec::new() },
                cookie_key_lifetime: association
                    .cookie_lifetime
                    .max(Duration::from_secs(random.range(2, 120))),
                association,
                // Random maxima go up to jumbo frames.
                link_mtu: LinkMtu {
                    to_others: if features.small_mtu { 9000 } else { 1500 },
                    ..LinkMtu::default()
                },
                ..EndpointConfig::default()
            };
            HostPlan {
                addresses,
                spare: Vec::new(),
                config,
                segments_max: random.pick(&[1, 1, 8, 64]),
                server: server(features, random),
                keys: None,
                greedy: false,
                reborn: None,
            }
        })
        .collect()
}

/// Makes some hosts of some runs omit checksums (RFC 9653): both, one or none of two peers. Returns true if any does.
/// Only for links without damage, since the lower layer must guarantee that. Uses its own random numbers, so that the
/// rest of a seed's plan does not change.
pub(super) fn leave_out_checksums(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 4);
    let mut any = false;
    let wanted = random.chance(0.35);
    for host in hosts.iter_mut().filter(|_| wanted && random.chance(0.8)) {
        let association = Arc::make_mut(&mut host.config.association);
        association.extensions.zero_checksum = Some(ErrorDetectionMethod::SctpOverDtls);
        any = true;
    }
    any
}

/// Lets some hosts of some runs reconfigure streams (RFC 6525), and some of these perform what their peers ask for.
/// Returns true if any does. Uses its own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn reconfigure(hosts: &mut [HostPlan], clients: &mut [ClientPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 6);
    let wanted = random.chance(0.4);
    let plan = |random: &mut Random| {
        let (seed, pause_max) = (random.bits(), random.millis(10, 5_000));
        random.chance(0.7).then_some(ReconfigurePlan { seed, pause_max })
    };
    for host in hosts.iter_mut() {
        let offers = wanted && random.chance(0.85);
        let extensions = &mut Arc::make_mut(&mut host.config.association).extensions;
        extensions.stream_reconfiguration = offers;
        let all = random.chance(0.6);
        extensions.peer_requests = PeerRequests {
            reset_streams: all || random.chance(0.5),
            reset_association: all || random.chance(0.5),
            add_streams: all || random.chance(0.5),
            outbound_streams_max: if random.chance(0.5) {
                u16::MAX
            } else {
                random.log_range(1, 65_535) as u16
            },
        };
        if wanted {
            host.server.reconfigure = plan(&mut random);
        }
    }
    for client in clients.iter_mut().filter(|_| wanted) {
        client.plan.reconfigure = plan(&mut random);
    }
    wanted
}

/// Lets some hosts of some runs offer partial reliability (RFC 3758): both, one or none of two peers, and most of their
/// applications limit messages. Returns true if any host offers it. Uses its own random numbers, so that the rest of a
/// seed's plan does not change.
pub(super) fn give_up(hosts: &mut [HostPlan], clients: &mut [ClientPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 7);
    let wanted = random.chance(0.4);
    let mut any = false;
    for host in hosts.iter_mut() {
        let offers = wanted && random.chance(0.85);
        Arc::make_mut(&mut host.config.association).extensions.partial_reliability = offers;
        any |= offers;
    }
    let servers = hosts.iter_mut().map(|host| &mut host.server);
    let plans = servers.chain(clients.iter_mut().map(|client| &mut client.plan));
    for plan in plans.filter(|_| wanted) {
        plan.limits = random.chance(0.8).then(|| LimitPlan::draw(&mut random));
    }
    any
}

/// Lets some hosts of some runs offer I-DATA (RFC 8260): both, one or none of two peers. Returns true if any does. Uses
/// its own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn interleave(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 20);
    let wanted = random.chance(0.3);
    let mut any = false;
    for host in hosts.iter_mut().filter(|_| wanted) {
        let association = Arc::make_mut(&mut host.config.association);
        association.extensions.interleaving = random.chance(0.9);
        if random.chance(0.7) {
            association.stream_scheduler = StreamScheduler::RoundRobin;
        }
        any |= association.extensions.interleaving;
    }
    any
}

/// Lets some hosts of some runs with I-DATA offer credit for each stream: both, one or none of two peers.
/// Returns true if any does. Uses its own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn grant(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 22);
    let wanted = random.chance(0.6);
    let mut any = false;
    for host in hosts.iter_mut().filter(|_| wanted) {
        let extensions = &mut Arc::make_mut(&mut host.config.association).extensions;
        let initial = random.log_range(1 << 10, u64::from(INITIAL_MAX)) as u32;
        let credit = StreamCredit::new(initial, initial * random.pick(&[1, 2, 16]));
        if extensions.interleaving && random.chance(0.9) {
            extensions.stream_credit = Some(credit);
            any = true;
        }
    }
    any
}

/// Lets some hosts of some runs offer NR-SACK: both, one or none of two peers. Returns true if any does. Uses
/// its own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn keep(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 23);
    let wanted = random.chance(0.3);
    let mut any = false;
    for host in hosts.iter_mut().filter(|_| wanted) {
        let offers = random.chance(0.9);
        let extensions = &mut Arc::make_mut(&mut host.config.association).extensions;
        extensions.nr_sack = offers;
        if let Some(settings) = extensions.authentication.as_mut().filter(|_| random.chance(0.5)) {
            settings.chunks = settings.chunks.with(kind::NR_SACK);
        }
        any |= offers;
    }
    any
}

/// Lets some hosts of some runs send on several paths at once. Returns true if any does. Uses its own random
/// numbers, so that the rest of a seed's plan does not change.
pub(super) fn spread(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 24);
    let wanted = random.chance(0.4);
    let mut any = false;
    for host in hosts.iter_mut().filter(|_| wanted) {
        let multipath = random.pick(&[Multipath::Off, Multipath::Coupled, Multipath::Independent]);
        let association = Arc::make_mut(&mut host.config.association);
        if association.recovery == Recovery::Rack {
            association.extensions.multipath = multipath;
            any |= multipath.is_on() && host.addresses.len() > 1;
        }
    }
    any
}

/// Chunk types whose authentication may be demanded in any run. Those that an association cannot be restarted or ended
/// without, COOKIE ECHO and ABORT, are not among them: hosts crash. Those with credit for streams are drawn in
/// `extensions`, so that earlier seeds keep their worlds.
const DEMANDED: [u8; 14] = [
    kind::DATA,
    kind::SACK,
    kind::HEARTBEAT,
    kind::HEARTBEAT_ACK,
    kind::SHUTDOWN,
    kind::SHUTDOWN_ACK,
    kind::ERROR,
    kind::COOKIE_ACK,
    kind::ECNE,
    kind::RE_CONFIG,
    kind::PAD,
    kind::FORWARD_TSN,
    kind::I_DATA,
    kind::I_FORWARD_TSN,
];

/// Lets some hosts of some runs authenticate chunks (RFC 4895): both, one or none of two peers. Returns true
/// if any does. Uses its own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn authenticate(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 21);
    let wanted = random.chance(0.3);
    let mut any = false;
    for host in hosts.iter_mut().filter(|_| wanted) {
        let share = random.pick(&[0.0, 0.2, 0.5, 1.0]);
        let chunks = DEMANDED.into_iter().filter(|_| random.chance(share)).collect();
        let hmacs = random.pick(&[HmacAlgorithms::Sha256, HmacAlgorithms::Sha1, HmacAlgorithms::Sha1Only]);
        let settings = Authentication { chunks, hmacs, required: false };
        let association = Arc::make_mut(&mut host.config.association);
        association.extensions.authentication = random.chance(0.9).then_some(settings);
        any |= association.extensions.authentication.is_some();
    }
    any
}

/// Lets some hosts of some runs have another scheduler than first come, first served, and their applications set values
/// of streams and other schedulers. Returns true if any does. Uses its own random numbers, so that the rest of a seed's
/// plan does not change.
pub(super) fn schedule(hosts: &mut [HostPlan], clients: &mut [ClientPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 8);
    let wanted = random.chance(0.5);
    let plan = |random: &mut Random| {
        let (seed, pause_max) = (random.bits(), random.millis(10, 3_000));
        random.chance(0.7).then_some(SchedulePlan { seed, pause_max })
    };
    for host in hosts.iter_mut().filter(|_| wanted) {
        Arc::make_mut(&mut host.config.association).stream_scheduler = random.pick(StreamScheduler::ALL);
        host.server.schedule = plan(&mut random);
    }
    for client in clients.iter_mut().filter(|_| wanted) {
        client.plan.schedule = plan(&mut random);
    }
    wanted
}

/// Maximum number of further addresses of a host, and the index of the first.
const SPARE_MAX: u64 = 4;
const SPARE_FIRST: usize = 16;

/// Lets some hosts of some runs offer dynamic addresses (RFC 5061): both, one or none of two peers, and most
/// of their applications change addresses. Returns cuts of links of the further addresses, or `None` if no
/// host offers it. Uses its own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn relocate(
    hosts: &mut [HostPlan],
    clients: &mut [ClientPlan],
    calm_at: Time,
    seed: u64,
) -> Option<Vec<(Time, Fault)>> {
    let mut random = Random::stream(seed, 25);
    let wanted = random.chance(0.35);
    let mut any = false;
    for (number, host) in hosts.iter_mut().enumerate().filter(|_| wanted) {
        let offers = random.chance(0.9);
        Arc::make_mut(&mut host.config.association).extensions.dynamic_addresses = offers;
        any |= offers;
        let v6 = host.addresses.iter().all(IpAddr::is_ipv6)
            || (host.addresses.len() > 1 && host.addresses.first().is_some_and(IpAddr::is_ipv6));
        let count = random.range(1, SPARE_MAX) as usize;
        host.spare = (0..count).map(|index| address(number, SPARE_FIRST + index, v6)).collect();
    }
    let pools: Vec<Vec<IpAddr>> = hosts.iter().map(pool).collect();
    let plan = |random: &mut Random, host: usize| {
        let (seed, pause_max) = (random.bits(), random.millis(5, 3_000));
        random.chance(0.8).then(|| RelocationPlan { seed, pause_max, pool: pools[host].clone() })
    };
    for (number, host) in hosts.iter_mut().enumerate().filter(|_| any) {
        host.server.relocate = plan(&mut random, number);
    }
    for client in clients.iter_mut().filter(|_| any) {
        client.plan.relocate = plan(&mut random, client.from);
    }
    any.then(|| spare_cuts(hosts, calm_at, &mut random))
}

/// Returns the addresses that applications add and delete: those of the family of the host's first address.
fn pool(host: &HostPlan) -> Vec<IpAddr> {
    let v4 = host.addresses.first().is_some_and(IpAddr::is_ipv4);
    host.all().filter(|address| address.is_ipv4() == v4).collect()
}

/// Draws cuts of links from and to further addresses.
fn spare_cuts(hosts: &[HostPlan], calm_at: Time, random: &mut Random) -> Vec<(Time, Fault)> {
    let mut faults = Vec::new();
    for _ in 0..if random.chance(0.3) { random.range(1, 6) } else { 0 } {
        let at = Time::ZERO + random.duration(Duration::ZERO, calm_at.since(Time::ZERO));
        let back = at + random.millis(10, 6_000);
        let (from, to) =
            (random.below(hosts.len() as u64) as usize, random.below(hosts.len() as u64) as usize);
        let ends = [from, to].map(|host| hosts[host].all().collect::<Vec<IpAddr>>());
        let (from, to) = (random.pick(&ends[0]), random.pick(&ends[1]));
        faults.push((at, Fault::Cut { from, to }));
        faults.push((back, Fault::Heal { from, to }));
    }
    faults
}

/// Every algorithm, and RFC 9260's more often.
const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Rfc9260,
    Algorithm::Rfc9260,
    Algorithm::Cubic,
    Algorithm::Bbr,
    Algorithm::Dctcp,
    Algorithm::Swift,
];

/// Makes some hosts of some runs use RFC 9260's recovery or congestion control. Returns true if any does. Uses its
/// own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn keep_to_rfc9260(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 5);
    let share = random.pick(&[0.0, 0.5, 1.0]);
    let mut any = false;
    for host in hosts {
        if random.chance(share) {
            Arc::make_mut(&mut host.config.association).recovery = Recovery::Rfc9260;
            any = true;
        }
        let algorithm = random.pick(&ALGORITHMS);
        let association = Arc::make_mut(&mut host.config.association);
        association.congestion = algorithm;
        association.extensions.ecn = random.chance(0.3);
    }
    any
}

pub(super) fn clients(
    features: &Features,
    hosts: &[HostPlan],
    calm_at: Time,
    random: &mut Random,
) -> Vec<ClientPlan> {
    let count = if features.crowd { random.range(10, 60) } else { random.range(1, 4) };
    let share = if features.crowd { 20 } else { 1 };
    let mut clients = Vec::new();
    for number in 0..count {
        let from = random.below(hosts.len() as u64) as usize;
        let to = (from + random.range(1, hosts.len() as u64 - 1) as usize) % hosts.len();
        let fixed = random.chance(if features.crashes { 0.7 } else { 0.3 });
        clients.push(ClientPlan {
            from,
            to,
            start: Time::ZERO + random.duration(Duration::ZERO, calm_at.since(Time::ZERO) / 2),
            local_port: if fixed { 7_000 + number as u16 } else { 0 },
            attempts: random.range(0, 3) as u32,
            all_remotes: random.chance(0.5),
            plan: client(features, share, random),
        });
    }
    if features.collision {
        collide(&mut clients, random);
    }
    clients
}

/// Makes both hosts set up the same association at about the same time (RFC 9260 section 5.2.1).
fn collide(clients: &mut Vec<ClientPlan>, random: &mut Random) {
    let Some(first) = clients.first_mut() else { return };
    // Both use the port on which both listen.
    first.local_port = crate::pair::SCTP_PORT;
    first.all_remotes = true;
    let mut other = first.clone();
    core::mem::swap(&mut other.from, &mut other.to);
    other.start = first.start + random.millis(0, 100);
    clients.push(other);
}

fn sizes(features: &Features, random: &mut Random) -> Sizes {
    let (first, last) = match random.below(6) {
        0 => (1, 1),
        1 => (1, 64),
        2 => (1, 1_500),
        3 => (1_000, 1_500),
        4 => (1, 20_000),
        _ => (5_000, 60_000),
    };
    let last = if features.large && random.chance(0.5) { 300_000 } else { last };
    let least = if features.tight { 300 } else { 1 };
    Sizes { first: first.max(least), last: last.max(least) }
}

fn plan(features: &Features, share: u64, random: &mut Random) -> Plan {
    let sizes = sizes(features, random);
    // The mean of a log-uniform distribution.
    let (first, last) = (sizes.first as f64, sizes.last as f64);
    let mean = if sizes.first == sizes.last { first } else { (last - first) / (last / first).ln() };
    let messages = (random.fraction() * BYTES_AIM as f64 / share as f64 / mean).clamp(1.0, 2_500.0);
    let reading = if features.slow_readers && random.chance(0.6) {
        Reading::Pauses { batch: random.log_range(1, 30) as u32, pause_max: random.millis(1, 1_500) }
    } else {
        Reading::Prompt
    };
    Plan {
        messages: messages as u32,
        sizes,
        streams: random.pick(&[1, 1, 2, 10, 100, 1000, 65_535]),
        unordered: random.pick(&[0.0, 0.0, 0.1, 0.5, 1.0]),
        immediate: random.pick(&[0.0, 0.0, 0.2]),
        gap_max: if random.chance(0.6) { Duration::ZERO } else { random.millis(0, 100) },
        reading,
        echo: false,
        ending: Ending::Never,
        reconfigure: None,
        schedule: None,
        limits: None,
        relocate: None,
        keys: None,
        dynamic: None,
    }
}

fn early_end(features: &Features, random: &mut Random) -> Option<Ending> {
    let after = random.millis(0, 5_000);
    if features.aborts && random.chance(0.3) {
        return Some(Ending::Abort(after));
    }
    (features.early_shutdown && random.chance(0.3)).then_some(Ending::Shutdown(after))
}

fn server(features: &Features, random: &mut Random) -> Plan {
    let mut plan = plan(features, 2, random);
    plan.echo = random.chance(0.4);
    if random.chance(0.5) {
        plan.messages = 0;
    }
    if let Some(ending) = early_end(features, random) {
        plan.ending = ending;
    }
    plan
}

fn client(features: &Features, share: u64, random: &mut Random) -> Plan {
    let mut plan = plan(features, share, random);
    plan.ending = random.pick(&[Ending::WhenSent, Ending::WhenSent, Ending::WhenEchoed]);
    if let Some(ending) = early_end(features, random) {
        plan.ending = ending;
    }
    plan
}
