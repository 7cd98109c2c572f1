//! Extensions whose plans need those of others: they are drawn last.

use core::time::Duration;
use std::sync::Arc;

use strandline_proto::authentication::Authentication;
use strandline_proto::config::StreamCredit;
use strandline_proto::time::Time;
use strandline_wire::chunk::kind;

use super::{ClientPlan, Features, HostPlan};
use crate::attacker::Attack;
use crate::dynamic_streams::DynamicPlan;
use crate::keys::{KeyPlan, KeySet};
use crate::random::Random;

/// Seeds below this one keep the worlds in which faults were found: see `tests/named`.
pub(super) const FIRST_SEED: u64 = 16_000_000_000;

/// Switches these extensions on and off.
pub(super) fn draw(
    hosts: &mut [HostPlan],
    clients: &mut [ClientPlan],
    features: &Features,
    seed: u64,
    names: &mut Vec<&'static str>,
) {
    if key(hosts, clients, seed) {
        names.push("shared keys");
    }
    if overdraw(hosts, features, seed) {
        names.push("overdraw");
    }
    if open_at_run_time(hosts, clients, seed) {
        names.push("dynamic streams");
    }
    if demand_credit(hosts, seed) {
        names.push("authenticated credit");
    }
    if features.crashes && change_at_restart(hosts, seed) {
        names.push("changed restarts");
    }
}

/// Gives the hosts of some runs shared keys, which most of their applications change while associations
/// exist: some in one order, so that both sides can delete those behind, others in any. Returns true if any
/// host authenticates. Uses its own random numbers, so that the rest of a seed's plan does not change.
fn key(hosts: &mut [HostPlan], clients: &mut [ClientPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 28);
    let authenticates = hosts.iter().any(|host| {
        let extensions = &host.config.association.extensions;
        extensions.authentication.is_some() || extensions.dynamic_addresses
    });
    if !random.chance(0.6) || !authenticates {
        return false;
    }
    let last = random.range(1, 5) as u16;
    let keys = KeySet { seed: random.bits(), last, first: random.range(0, 1) as u16 };
    let retires = random.chance(0.6);
    let plan = |random: &mut Random| {
        let (seed, pause_max) = (random.bits(), random.millis(10, 3_000));
        random.chance(0.8).then_some(KeyPlan { seed, pause_max, keys, retires })
    };
    for host in hosts.iter_mut() {
        host.keys = Some(keys);
        host.server.keys = plan(&mut random);
    }
    for client in clients {
        client.plan.keys = plan(&mut random);
    }
    true
}

/// Makes some hosts that authenticate chunks and offer credit for each stream demand AUTH of the chunks with credit.
/// Returns true if any does. Uses its own random numbers, so that the rest of a seed's plan does not change.
fn demand_credit(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 33);
    let mut any = false;
    for host in hosts {
        let wanted = random.chance(0.6);
        let extensions = &mut Arc::make_mut(&mut host.config.association).extensions;
        if extensions.stream_credit.is_none() {
            continue;
        }
        if let Some(settings) = extensions.authentication.as_mut().filter(|_| wanted) {
            settings.chunks = settings.chunks.with(kind::STREAM_CREDIT).with(kind::STREAM_BLOCKED);
            any = true;
        }
    }
    any
}

/// Makes a host of some runs take more credit for its streams than it is granted. Only in runs in which
/// nobody else breaks rules. Returns true if one does. Uses its own random numbers, so that the rest of a
/// seed's plan does not change.
fn overdraw(hosts: &mut [HostPlan], features: &Features, seed: u64) -> bool {
    let mut random = Random::stream(seed, 29);
    let at = random.below(hosts.len() as u64) as usize;
    let grants = |host: &HostPlan| host.config.association.extensions.stream_credit.is_some();
    let wanted =
        random.chance(0.3) && !features.tampering && hosts.iter().filter(|host| grants(host)).count() > 1;
    hosts[at].greedy = wanted && grants(&hosts[at]);
    hosts[at].greedy
}

/// Makes the streams from one on dynamic in some runs, at all hosts, since both sides must agree on that.
/// Some applications open streams, and the others answer. Returns true if there are such streams. Uses its
/// own random numbers, so that the rest of a seed's plan does not change.
fn open_at_run_time(hosts: &mut [HostPlan], clients: &mut [ClientPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 30);
    if !random.chance(0.35) {
        return false;
    }
    let first = random.pick(&[1, 2, 5, 10, 100]);
    let plan = |random: &mut Random| DynamicPlan {
        seed: random.bits(),
        pause_max: random.millis(1, 1_000),
        first,
        open_max: random.pick(&[0, 1, 4, 20, 200]),
        resets: random.chance(0.6),
    };
    for host in hosts.iter_mut() {
        Arc::make_mut(&mut host.config.association).extensions.stream_reconfiguration = true;
        host.server.dynamic = Some(plan(&mut random));
    }
    for client in clients {
        client.plan.dynamic = Some(plan(&mut random));
    }
    true
}

/// Adds altered packets with a checksum of zero to some runs in which no host accepts that (RFC 9653): they
/// must have no effect. Returns true if there are any. Uses its own random numbers, so that the rest of a
/// seed's plan does not change.
pub(super) fn leave_unchecked(
    hosts: &[HostPlan],
    attacks: &mut Vec<(Time, Attack)>,
    calm_at: Time,
    seed: u64,
) -> bool {
    let mut random = Random::stream(seed, 32);
    let accepts = |host: &HostPlan| host.config.association.extensions.zero_checksum.is_some();
    let wanted = random.chance(0.15) && !hosts.iter().any(accepts);
    let span = calm_at.since(Time::ZERO);
    for _ in 0..random.log_range(5, 100) * u64::from(wanted) {
        attacks.push((Time::ZERO + random.duration(Duration::ZERO, span), Attack::Unchecked));
    }
    wanted
}

/// Lets some hosts of some runs come back with other extensions after a crash, so that associations restart
/// with them. Returns true if any does. Uses its own random numbers, so that the rest of a seed's plan does
/// not change.
fn change_at_restart(hosts: &mut [HostPlan], seed: u64) -> bool {
    let mut random = Random::stream(seed, 31);
    let wanted = random.chance(0.5);
    for host in hosts.iter_mut().filter(|_| wanted) {
        if !random.chance(0.7) {
            continue;
        }
        let mut association = (*host.config.association).clone();
        let extensions = &mut association.extensions;
        for on in [
            &mut extensions.interleaving,
            &mut extensions.nr_sack,
            &mut extensions.ecn,
            &mut extensions.partial_reliability,
        ] {
            *on ^= random.chance(0.4);
        }
        if !extensions.interleaving {
            extensions.stream_credit = None;
        } else if random.chance(0.5) {
            extensions.stream_credit = Some(StreamCredit::new(4 << 10, 64 << 10));
        }
        if random.chance(0.4) {
            let missing = extensions.authentication.is_none();
            extensions.authentication = missing.then(Authentication::default);
        }
        host.reborn = Some(Arc::new(association));
    }
    hosts.iter().any(|host| host.reborn.is_some())
}
