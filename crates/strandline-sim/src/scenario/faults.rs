//! The faults of a run, and when they happen.

use core::time::Duration;

use strandline_proto::time::Time;

use super::{Fault, Features, HostPlan, config};
use crate::attacker::Attack;
use crate::random::Random;

pub(super) fn faults(
    features: &Features,
    hosts: &[HostPlan],
    calm_at: Time,
    random: &mut Random,
) -> Vec<(Time, Fault)> {
    let mut faults = Vec::new();
    let span = calm_at.since(Time::ZERO);
    let some = |on: bool, most: u64, random: &mut Random, add: &mut dyn FnMut(Time, &mut Random)| {
        for _ in 0..if on { random.range(1, most) } else { 0 } {
            let at = Time::ZERO + random.duration(Duration::ZERO, span);
            add(at, random);
        }
    };
    let host = |random: &mut Random| random.below(hosts.len() as u64) as usize;
    let pairs = config::pairs(hosts);
    some(features.crashes, 3, random, &mut |at, random| {
        faults.push((at, Fault::Crash { host: host(random), down: random.millis(0, 3_000) }));
    });
    some(features.addresses, 4, random, &mut |at, random| {
        let host = host(random);
        let address = random.below(hosts[host].addresses.len() as u64) as usize;
        faults.push((at, Fault::AddressLost { host, address }));
        faults.push((at + random.millis(100, 8_000), Fault::AddressBack { host, address }));
    });
    some(features.cuts, 5, random, &mut |at, random| {
        let (from, to) = random.pick(&pairs);
        let back = at + random.millis(10, 6_000);
        let both = random.chance(0.5);
        for (from, to) in [(from, to), (to, from)].into_iter().take(1 + usize::from(both)) {
            faults.push((at, Fault::Cut { from, to }));
            faults.push((back, Fault::Heal { from, to }));
        }
    });
    some(features.changes, 5, random, &mut |at, random| {
        let (from, to) = random.pick(&pairs);
        let config = config::link(features, random);
        faults.push((at, Fault::Change { from, to, config }));
    });
    some(features.rebinding, 3, random, &mut |at, random| {
        let port = 10_000 + random.below(50_000) as u16;
        faults.push((at, Fault::Rebind { host: host(random), port }));
    });
    some(features.poking, 10, random, &mut |at, random| {
        faults.push((at, Fault::PokePath { host: host(random) }));
    });
    faults
}

/// Adds attacks that break the rules of the extensions to most runs in which packets between two hosts are
/// altered. Uses its own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn violate(attacks: &mut Vec<(Time, Attack)>, calm_at: Time, seed: u64) -> bool {
    let mut random = Random::stream(seed, 26);
    let wanted = random.chance(0.7);
    let span = calm_at.since(Time::ZERO);
    for _ in 0..random.log_range(5, 200) * u64::from(wanted) {
        attacks.push((Time::ZERO + random.duration(Duration::ZERO, span), Attack::Violation));
    }
    wanted
}

/// Adds attacks with the right numbers and keys to half of the runs in which packets between two hosts are
/// altered. Uses its own random numbers, so that the rest of a seed's plan does not change.
pub(super) fn intrude(attacks: &mut Vec<(Time, Attack)>, calm_at: Time, seed: u64) -> bool {
    let mut random = Random::stream(seed, 27);
    let wanted = random.chance(0.5);
    let span = calm_at.since(Time::ZERO);
    for _ in 0..random.log_range(5, 100) * u64::from(wanted) {
        attacks.push((Time::ZERO + random.duration(Duration::ZERO, span), Attack::Insider));
    }
    wanted
}

pub(super) fn attacks(features: &Features, calm_at: Time, random: &mut Random) -> Vec<(Time, Attack)> {
    let mut attacks = Vec::new();
    let span = calm_at.since(Time::ZERO);
    let mut kinds: Vec<Attack> = Vec::new();
    if features.replay {
        kinds.push(Attack::Replay);
    }
    if features.blind {
        kinds.extend([
            Attack::SpoofedInit,
            Attack::ForgedCookie,
            Attack::Soup,
            Attack::Truncated,
            Attack::Icmp,
        ]);
    }
    if features.tampering {
        kinds.extend([Attack::Altered, Attack::SoupWithTag]);
    }
    if kinds.is_empty() {
        return attacks;
    }
    for _ in 0..random.log_range(5, 200) {
        attacks.push((Time::ZERO + random.duration(Duration::ZERO, span), random.pick(&kinds)));
    }
    attacks
}
