//! Tests of RFC 9937 (formerly RFC 6937) by section.

use proptest::prelude::*;

use super::*;

const PMDCS: u32 = 1000;

fn step(acked: u32, flight: u32, threshold: u32) -> Step {
    Step { acked, flight, threshold, safe: true, pmdcs: PMDCS }
}

/// Half of what arrives is replaced when the window halves, so that the flight falls over a round trip.
#[test]
fn the_flight_comes_down_in_proportion() {
    let mut prr = Prr::begin(20_000);
    let mut flight = 18_000; // One packet lost, one acknowledged.
    let mut sent_in_all = 0;
    for _ in 0..18 {
        prr.on_sack(step(PMDCS, flight, 10_000));
        while flight < prr.window() {
            flight += PMDCS;
            prr.on_sent(PMDCS);
            sent_in_all += PMDCS;
        }
        flight -= PMDCS;
    }
    assert!((8_000..=10_000).contains(&sent_in_all), "{sent_in_all}");
    assert!((8_000..=10_000).contains(&flight), "{flight}");
}

/// Heavy loss leaves less in flight than the threshold. The flight then grows as in slow start, by a packet more than
/// arrived.
#[test]
fn below_the_threshold_it_grows_as_slow_start() {
    let mut prr = Prr::begin(20_000);
    prr.on_sack(step(PMDCS, 2_000, 10_000));
    assert_eq!(prr.window(), 2_000 + 2 * PMDCS);
    prr.on_sent(2 * PMDCS);
    prr.on_sack(Step { safe: false, ..step(PMDCS, 3_000, 10_000) });
    assert_eq!(prr.window(), 3_000 + PMDCS, "not while more losses show");
}

/// What is abandoned leaves the flight and makes no room. When nothing is left, a packet may go.
#[test]
fn data_abandoned_makes_no_room() {
    let mut prr = Prr::begin(20_000);
    prr.on_sack(step(PMDCS, 10_000, 10_000));
    prr.on_sent(PMDCS);
    let window = prr.window();
    prr.on_abandoned(4_000, 6_000, PMDCS);
    assert_eq!(prr.window(), window - 4_000);
    prr.on_abandoned(6_000, 0, PMDCS);
    assert_eq!(prr.window(), PMDCS);
}

/// A SACK may cover many packets. What is sent still doubles in each round trip.
#[test]
fn below_ssthresh_train_sacks_double_the_flight() {
    let mut prr = Prr::begin(2_000_000);
    let (mut flight, mut rounds) = (0, 0);
    while flight < 1_000_000 {
        // Everything is acknowledged at once.
        prr.on_sack(step(flight, 0, 1_000_000));
        flight = prr.window();
        prr.on_sent(flight);
        rounds += 1;
        assert!(rounds < 30, "{flight} after {rounds} round trips");
    }
}

/// Chunks of another path advance the cumulative ack point, and nothing of this path has arrived.
#[test]
fn what_another_path_brought_lets_nothing_go() {
    let mut prr = Prr::begin(20_000);
    prr.on_sack(step(PMDCS, 2_000, 10_000));
    prr.on_sent(2 * PMDCS);
    for _ in 0..5 {
        prr.on_sack(step(0, 4_000, 10_000));
        assert_eq!(prr.window(), 4_000);
    }
}

#[test]
fn the_first_retransmission_always_goes() {
    let mut prr = Prr::begin(20_000);
    prr.on_sack(step(0, 19_000, 1_000));
    assert_eq!(prr.window(), 19_000 + PMDCS);
    prr.on_sent(PMDCS);
    prr.on_sack(step(0, 20_000, 1_000));
    assert_eq!(prr.window(), 20_000);
}

/// Everything in flight was declared lost at once. One packet is sent, or nothing would ever move again.
#[test]
fn with_nothing_in_flight_a_packet_goes() {
    let mut prr = Prr::begin(20_000);
    prr.on_sack(step(PMDCS, 19_000, 10_000));
    prr.on_sent(3 * PMDCS);
    prr.on_sack(Step { safe: false, ..step(0, 0, 10_000) });
    assert_eq!(prr.window(), PMDCS);
}

proptest! {
    /// For any sequence the flight stays within the threshold or its previous value, except for the packet that is
    /// always allowed.
    #[test]
    fn never_beyond_the_threshold(
        start in 1_000_u32..1_000_000,
        threshold in 1_000_u32..1_000_000,
        steps in prop::collection::vec((0_u32..50_000, 0_u32..50_000, any::<bool>()), 1..100),
    ) {
        let mut prr = Prr::begin(start);
        let mut flight = start;
        for (acked, lost, safe) in steps {
            let acked = acked.min(flight);
            flight -= acked;
            flight -= lost.min(flight);
            prr.on_sack(Step { acked, flight, threshold, safe, pmdcs: PMDCS });
            let limit = flight.max(threshold).max(start) + PMDCS;
            prop_assert!(prr.window() <= limit);
            let sent = prr.window().saturating_sub(flight);
            prr.on_sent(sent);
            flight += sent;
        }
    }
}
