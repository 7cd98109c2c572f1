#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use proptest::prelude::*;

use super::*;
use crate::{Loss, Reordering};

const MS: u64 = 1_000_000;

fn arrival(verdict: Verdict) -> Option<u64> {
    match verdict {
        Verdict::Delivered(copies) => Some(copies.first.arrival_ns),
        Verdict::Dropped(_) => None,
    }
}

fn delivered(link: &mut Link, packets: u32) -> Vec<bool> {
    (0..packets).map(|_| arrival(link.offer(0, 100)).is_some()).collect()
}

fn loses(loss: Loss, seed: u64, packets: u32) -> f64 {
    let mut link = Link::new(LinkConfig { loss, ..LinkConfig::default() }, seed);
    let lost = delivered(&mut link, packets).into_iter().filter(|arrived| !arrived).count();
    assert_eq!(link.stats().dropped_loss, lost as u64);
    lost as f64 / f64::from(packets)
}

#[test]
fn a_perfect_link_delivers_at_once() {
    let mut link = Link::new(LinkConfig::default(), 0);
    assert_eq!(arrival(link.offer(17, 65_535)), Some(17));
    assert_eq!(link.queued_bytes(17), 0);
}

#[test]
fn every_nth_packet_is_lost() {
    let mut link = Link::new(LinkConfig { loss: Loss::EveryNth(10), ..LinkConfig::default() }, 3);
    let arrived = delivered(&mut link, 95);
    for (index, arrived) in arrived.into_iter().enumerate() {
        assert_eq!(arrived, (index + 1) % 10 != 0, "packet {}", index + 1);
    }
    assert_eq!(link.stats().dropped_loss, 9);
}

#[test]
fn random_loss_has_its_probability() {
    for seed in 0..20 {
        // The standard deviation is 0.0015; the tolerance is five of them.
        let lost = loses(Loss::Random(0.05), seed, 20_000);
        assert!((0.0425..0.0575).contains(&lost), "seed {seed}: {lost}");
    }
    assert_eq!(loses(Loss::Random(1.0), 1, 100), 1.0);
    assert_eq!(loses(Loss::Random(0.0), 1, 100), 0.0);
}

#[test]
fn bursts_have_their_mean_lengths() {
    for seed in 0..10 {
        let loss = Loss::bursts(95.0, 5.0);
        let mut link = Link::new(LinkConfig { loss, ..LinkConfig::default() }, seed);
        let arrived = delivered(&mut link, 200_000);
        let lost = arrived.iter().filter(|arrived| !**arrived).count() as f64;
        let bursts = arrived.windows(2).filter(|pair| pair[0] && !pair[1]).count() as f64;
        assert!((4.5..5.5).contains(&(lost / bursts)), "seed {seed}: bursts of {}", lost / bursts);
        assert!((0.043..0.057).contains(&(lost / 200_000.0)), "seed {seed}: {lost} lost");
    }
}

#[test]
fn losses_are_independent_of_other_features() {
    let plain = LinkConfig { loss: Loss::Random(0.3), ..LinkConfig::default() };
    let rich = LinkConfig {
        jitter: Duration::from_millis(4),
        duplication: 0.5,
        corruption: 0.5,
        reordering: Reordering { probability: 0.5, extra_delay_max: Duration::from_millis(9) },
        ..plain.clone()
    };
    assert_eq!(delivered(&mut Link::new(plain, 5), 500), delivered(&mut Link::new(rich, 5), 500));
}

#[test]
fn the_queue_drops_what_does_not_fit() {
    // The link transmits 1 byte per microsecond.
    let config = LinkConfig { rate_bps: 8_000_000, queue_bytes_max: 3000, ..LinkConfig::default() };
    let mut link = Link::new(config, 0);
    for expected in [Some(MS), Some(2 * MS), Some(3 * MS), None] {
        assert_eq!(arrival(link.offer(0, 1000)), expected);
    }
    assert_eq!(link.queued_bytes(0), 3000);
    assert_eq!(link.queued_bytes(MS), 2000, "the first has been sent");
    assert_eq!(arrival(link.offer(MS, 1000)), Some(4 * MS));
    assert_eq!(link.offer(MS, 1), Verdict::Dropped(DropReason::Queue));
    assert_eq!(link.stats().dropped_queue, 2);
}

#[test]
fn an_empty_queue_takes_any_packet() {
    let config = LinkConfig { rate_bps: 8_000_000, queue_bytes_max: 10, ..LinkConfig::default() };
    let mut link = Link::new(config, 0);
    assert_eq!(arrival(link.offer(0, 1000)), Some(MS));
    assert_eq!(arrival(link.offer(0, 1)), None);
}

#[test]
fn what_is_too_long_is_dropped() {
    let mut link = Link::new(LinkConfig { size_max: 1500, ..LinkConfig::default() }, 0);
    assert_eq!(link.offer(0, 1501), Verdict::Dropped(DropReason::Size));
    assert!(arrival(link.offer(0, 1500)).is_some());
}

#[test]
fn changes_happen_at_their_time() {
    let mut link = Link::new(LinkConfig::with_delay(Duration::from_millis(1)), 0);
    link.schedule(10, Change::Cut);
    link.schedule(20, Change::Heal);
    link.schedule(20, Change::Delay(Duration::from_millis(2)));
    assert_eq!(arrival(link.offer(9, 1)), Some(MS + 9));
    assert_eq!(link.offer(10, 1), Verdict::Dropped(DropReason::Cut));
    assert_eq!(link.next_change_ns(), Some(20));
    assert_eq!(arrival(link.offer(25, 1)), Some(2 * MS + 25));
    assert_eq!(link.next_change_ns(), None);
    assert_eq!(link.stats().dropped_cut, 1);
}

#[test]
fn a_slower_rate_holds_for_later_packets() {
    let mut link = Link::new(LinkConfig { rate_bps: 8_000_000, ..LinkConfig::default() }, 0);
    assert_eq!(arrival(link.offer(0, 1000)), Some(MS));
    link.change(Change::Rate(800_000));
    assert_eq!(arrival(link.offer(0, 1000)), Some(11 * MS));
    assert_eq!(link.queued_bytes(MS), 1000);
}

#[test]
fn overtaken_packets_are_counted() {
    let reordering = Reordering { probability: 0.1, extra_delay_max: Duration::from_millis(50) };
    let config = LinkConfig { reordering, ..LinkConfig::with_delay(Duration::from_millis(20)) };
    let mut link = Link::new(config, 11);
    let arrivals: Vec<u64> = (0..2000).filter_map(|n| arrival(link.offer(n * MS, 100))).collect();
    // RFC 4737: a packet is reordered if a later one arrived before it.
    let overtaken = |index: &usize| arrivals[index + 1..].iter().any(|later| *later < arrivals[*index]);
    let reordered = (0..arrivals.len()).filter(overtaken).count() as u64;
    assert!(reordered > 100, "{reordered}");
    // A held-back packet that only another held-back one overtakes isn't counted; that is rare.
    assert!(link.stats().reordered <= reordered && link.stats().reordered + 5 >= reordered);
}

#[test]
fn duplicates_and_damage_have_their_probability() {
    let config = LinkConfig { duplication: 0.2, corruption: 0.1, ..LinkConfig::default() };
    let mut link = Link::new(config, 2);
    let _ = delivered(&mut link, 20_000);
    let stats = *link.stats();
    assert!((3600..4400).contains(&stats.duplicated), "{stats:?}");
    assert!((2150..2650).contains(&stats.corrupted), "one in ten of 24,000 copies: {stats:?}");
    assert_eq!(stats.delivered, 20_000);
}

/// RFC 8257 section 3.1: packets that find more than the threshold in the queue are marked.
#[test]
fn packets_that_find_a_queue_are_marked() {
    let config = LinkConfig { rate_bps: 8_000_000, mark_bytes: 3_000, ..LinkConfig::default() };
    let mut link = Link::new(config, 1);
    let marks: Vec<bool> = (0..6)
        .map(|_| matches!(link.offer(0, 1_000), Verdict::Delivered(Copies { marked: true, .. })))
        .collect();
    assert_eq!(marks, [false, false, false, false, true, true]);
    assert_eq!(link.stats().marked, 2);
    let later = link.offer(4 * MS, 1_000);
    assert!(matches!(later, Verdict::Delivered(Copies { marked: false, .. })), "the queue is short again");
}

fn any_loss() -> impl Strategy<Value = Loss> {
    prop_oneof![
        Just(Loss::None),
        (0u32..20).prop_map(Loss::EveryNth),
        (0.0..0.5f64).prop_map(Loss::Random),
        (1.0..50.0f64, 1.0..9.0f64).prop_map(|(good, bad)| Loss::bursts(good, bad)),
    ]
}

fn any_config() -> impl Strategy<Value = LinkConfig> {
    let times = (0u64..50 * MS, 0u64..20 * MS, 0u64..30 * MS);
    let limits = (prop_oneof![Just(0), 1_000u64..2_000_000_000], 1_000usize..100_000);
    (times, limits, any_loss(), 0.0..0.3f64, 0.0..0.3f64, 0.0..0.3f64).prop_map(
        |((delay, jitter, extra), (rate_bps, queue_bytes_max), loss, held, duplication, corruption)| {
            LinkConfig {
                delay: Duration::from_nanos(delay),
                jitter: Duration::from_nanos(jitter),
                rate_bps,
                queue_bytes_max,
                mark_bytes: 10_000,
                size_max: 1500,
                cuts: true,
                loss,
                reordering: Reordering { probability: held, extra_delay_max: Duration::from_nanos(extra) },
                duplication,
                corruption,
            }
        },
    )
}

/// Generates gaps between packets in nanoseconds, and lengths.
fn any_packets() -> impl Strategy<Value = Vec<(u64, usize)>> {
    proptest::collection::vec((0u64..3 * MS, 1usize..1600), 1..300)
}

fn run(link: &mut Link, packets: &[(u64, usize)]) -> Vec<Verdict> {
    let mut now_ns = 0;
    let mut offer = |&(gap, len): &(u64, usize)| {
        now_ns += gap;
        link.offer(now_ns, len)
    };
    packets.iter().map(&mut offer).collect()
}

#[test]
fn link_reports_its_queue_and_busy_time() {
    // Each 1,000 bytes take 1 ms.
    let mut link =
        Link::new(LinkConfig { rate_bps: 8_000_000, ..LinkConfig::with_delay(Duration::from_millis(10)) }, 0);
    assert_eq!(link.free_at_ns(), 0);
    run(&mut link, &[(5 * MS, 1000), (0, 500), (0, 500)]);
    assert_eq!(link.free_at_ns(), 7 * MS);
    run(&mut link, &[(20 * MS, 700)]);
    assert_eq!((link.stats().queue_bytes_max, link.stats().queue_packets_max), (2000, 3));
}

proptest! {
    #[test]
    fn a_busy_link_sends_exactly_at_its_rate(rate in 1_000u64..10_000_000_000, lens in proptest::collection::vec(1usize..9000, 1..200)) {
        let mut link = Link::new(LinkConfig { rate_bps: rate, ..LinkConfig::default() }, 0);
        let mut bits = 0u128;
        for len in lens {
            bits += len as u128 * 8;
            // The n-th packet has been transmitted when all bits so far have been, rounded down to a
            // nanosecond.
            prop_assert_eq!(arrival(link.offer(0, len)), Some((bits * 1_000_000_000 / u128::from(rate)) as u64));
        }
    }

    #[test]
    fn order_is_kept_without_reordering(config in any_config(), packets in any_packets(), seed: u64) {
        let mut link = Link::new(LinkConfig { reordering: Reordering::default(), ..config }, seed);
        let arrivals: Vec<u64> = run(&mut link, &packets).into_iter().filter_map(arrival).collect();
        prop_assert!(arrivals.is_sorted());
        prop_assert_eq!(link.stats().reordered, 0);
    }

    #[test]
    fn a_seed_repeats_a_run(config in any_config(), packets in any_packets(), seed: u64) {
        let mut one = Link::new(config.clone(), seed);
        let mut two = Link::new(config, seed);
        prop_assert_eq!(run(&mut one, &packets), run(&mut two, &packets));
        prop_assert_eq!(one.stats(), two.stats());
    }

    #[test]
    fn every_packet_is_accounted_for(config in any_config(), packets in any_packets(), seed: u64) {
        let mut link = Link::new(config.clone(), seed);
        let verdicts = run(&mut link, &packets);
        let mut now_ns = 0;
        for ((gap, len), verdict) in packets.iter().zip(&verdicts) {
            now_ns += gap;
            if let Some(arrival_ns) = arrival(*verdict) {
                let sending_ns = (*len as u64 * 8_000_000_000).checked_div(config.rate_bps).unwrap_or(0);
                prop_assert!(arrival_ns >= now_ns + config.delay.as_nanos() as u64 + sending_ns);
            }
        }
        let stats = link.stats();
        prop_assert_eq!(stats.offered, packets.len() as u64);
        prop_assert_eq!(stats.offered, stats.delivered + stats.dropped());
        prop_assert!(link.queued_bytes(now_ns) <= config.queue_bytes_max.max(1600));
    }
}
