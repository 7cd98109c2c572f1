//! Protocol parameters and links of a run.

use core::net::IpAddr;
use core::time::Duration;

use strandline_netem::{LinkConfig, Loss, Reordering};
use strandline_proto::config::{AssociationConfig, SackFrequency};

use super::{Features, HostPlan};
use crate::random::Random;

/// Draws protocol parameters.
pub(super) fn association(features: &Features, random: &mut Random) -> AssociationConfig {
    let mut config = AssociationConfig::default();
    if features.odd_timers {
        odd_timers(&mut config, random);
    }
    if features.small_buffers {
        let (first, last) = if features.tight { (1_500, 40_000) } else { (40_000, 200_000) };
        config.receive_buffer = Some(random.log_range(first, last) as u32);
        config.send_buffer = Some(random.log_range(1_500, 200_000) as u32);
        config.partial_delivery_point = random.log_range(1, u64::from(config.receive_buffer_start())) as u32;
        config.send_messages_max = random.log_range(1, 1_000) as u32;
    }
    if random.chance(0.3) {
        config.outbound_streams = random.log_range(1, 65_535) as u16;
        config.inbound_streams_max = random.log_range(1, 65_535) as u16;
    }
    if features.small_mtu {
        config.path_mtu_initial = random.range(576, 1280) as u16;
        config.path_mtu_max = random.range(u64::from(config.path_mtu_initial), 9000) as u16;
    }
    config.nodelay = random.chance(0.7);
    config.burst_max = random.pick(&[4, 4, 4, 1, 8, 0]);
    config
}

fn odd_timers(config: &mut AssociationConfig, random: &mut Random) {
    config.rto_min = random.millis(1, 1_000);
    config.rto_max = random.millis(2_000, 60_000);
    config.rto_initial = random.duration(config.rto_min, config.rto_max.min(Duration::from_secs(3)));
    config.association_retrans_max = random.range(4, 12) as u16;
    config.path_retrans_max = random.range(0, 6) as u16;
    config.init_retrans_max = random.range(2, 10) as u16;
    config.cookie_echo_packets_max = random.range(1, 12) as u8;
    config.heartbeat_interval = random.chance(0.8).then(|| random.millis(100, 30_000));
    config.heartbeat_burst_max = random.range(1, 4) as u8;
    config.sack_delay = random.millis(0, 500);
    config.sack_frequency = match random.range(1, 8) as u8 {
        2 | 5 => SackFrequency::Adaptive,
        packets => SackFrequency::Every(packets),
    };
    config.idle_release = random.millis(0, 3_000);
    config.cookie_lifetime = random.millis(2_000, 60_000);
}

/// Draws the link that most pairs of addresses have.
pub(super) fn link(features: &Features, random: &mut Random) -> LinkConfig {
    let mut link = LinkConfig::with_delay(random.duration(Duration::ZERO, Duration::from_millis(60)));
    link.size_max = 1500;
    if features.small_mtu {
        // The minimum sizes that every IPv4 and IPv6 link must carry (RFC 1122 section 3.3.3, RFC 8200 section 5).
        link.size_max = random.range(if features.v6 { 1280 } else { 576 }, 1500) as usize;
    }
    // Some routers fragment packets where allowed, others drop them. Derived from the delay, so that the other draws
    // of a seed do not change.
    link.cuts = link.delay.subsec_nanos().is_multiple_of(2);
    if features.slow {
        link.rate_bps = random.log_range(500_000, 200_000_000);
        link.queue_bytes_max = random.log_range(4_000, 300_000) as usize;
        link.mark_bytes = link.queue_bytes_max / 4;
    }
    if random.chance(0.5) {
        link.jitter = random.millis(0, 20);
    }
    if features.loss {
        link.loss = loss(random);
    }
    if features.reordering {
        let extra_delay_max = random.millis(1, 200);
        link.reordering = Reordering { probability: random.fraction() * 0.2, extra_delay_max };
    }
    if features.duplication {
        link.duplication = random.fraction() * 0.2;
    }
    if features.corruption {
        link.corruption = random.fraction() * 0.1;
    }
    link
}

fn loss(random: &mut Random) -> Loss {
    match random.below(4) {
        0 => Loss::EveryNth(random.log_range(3, 200) as u32),
        1 => Loss::Random(0.2 * random.fraction()),
        2 => Loss::Random(0.01 * random.fraction()),
        _ => Loss::bursts(random.range(20, 300) as f64, random.range(1, 12) as f64),
    }
}

/// Draws links that differ from the others: other paths, other faults.
pub(super) fn special_links(
    features: &Features,
    hosts: &[HostPlan],
    usual: &LinkConfig,
    random: &mut Random,
) -> Vec<(IpAddr, IpAddr, LinkConfig)> {
    let mut special = Vec::new();
    for (from, to) in pairs(hosts) {
        if features.multihomed && random.chance(0.5) {
            let size_max = usual.size_max;
            special.push((from, to, LinkConfig { size_max, ..link(features, random) }));
        }
    }
    special
}

/// Returns the pairs of every address with every other host's addresses.
pub(super) fn pairs(hosts: &[HostPlan]) -> Vec<(IpAddr, IpAddr)> {
    let of = |host: &HostPlan| host.addresses.clone();
    let mut pairs = Vec::new();
    for (index, from) in hosts.iter().enumerate() {
        for (other, to) in hosts.iter().enumerate() {
            if index != other {
                pairs.extend(of(from).into_iter().flat_map(|a| of(to).into_iter().map(move |b| (a, b))));
            }
        }
    }
    pairs
}
