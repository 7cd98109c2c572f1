//! RFC 9937, proportional rate reduction: in recovery as much is sent, in proportion to what arrives, as the window that the loss
//! leaves is to what was in flight; without a pause, and without a burst at its end.

use strandline_sim::pair::{Fate, with_chunk};

use super::scene::Scene;
use super::*;

#[test]
fn seven_tenths_of_what_arrives_goes_without_pause_or_burst() {
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(30), 20));
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(6000));
    // A loss that no queue made: how much is under way now is what matters.
    let lost_before = pair.a.endpoint.status(a).unwrap().stats.retransmissions;
    pair.drop_next(Side::A, with_chunk(kind::DATA));
    pair.clear_captured();
    stream(&mut pair, a, b, ms(400));
    assert_eq!(pair.a.endpoint.status(a).unwrap().stats.retransmissions - lost_before, 1);
    let lost = pair.captured().iter().find(|captured| !captured.delivered).expect("dropped").clone();
    let tsn = data(&lost)[0].tsn;
    let of_a = || pair.captured().iter().filter(|captured| captured.from == Side::A);
    let again = of_a().filter(|captured| data(captured).iter().any(|data| data.tsn == tsn)).nth(1);
    let began = again.expect("it is sent again").at;
    // The recovery lasts until what was sent before it is acknowledged: the round trip, queue included.
    let round_trip = began.since(lost.at);
    let between = |captured: &&Captured, from, to| captured.at >= from && captured.at < to;
    let count = |side, from, to| {
        let all = pair.captured().iter().filter(|captured| captured.from == side);
        all.filter(|captured| between(captured, from, to))
            .filter(|captured| side == Side::B || !data(captured).is_empty())
            .count()
    };
    let end = began + round_trip;
    let (sent, before) = (count(Side::A, began, end), count(Side::A, lost.at, began));
    let share = sent as f64 / before as f64;
    assert!((0.6..0.82).contains(&share), "{sent} packets after {before}: {share}");
    let mut moments: Vec<_> = of_a().filter(|c| between(c, began, end)).map(|captured| captured.at).collect();
    let pause = moments.windows(2).map(|pair| pair[1].since(pair[0])).max().unwrap();
    assert!(pause < round_trip / 8, "a pause of {pause:?} in {round_trip:?}");
    moments.dedup();
    assert!(moments.len() > sent / 4, "{sent} packets at {} moments", moments.len());
    // No burst when it is over.
    let after = count(Side::A, end, end + round_trip / 8);
    assert!(after <= sent / 8 * 2 + 10, "{after} in an eighth of a round trip after {sent} in a whole one");
}

/// SACKs that overtake each other: the later one comes first and tells all, the earlier one takes some of that back, and the next
/// one tells it once more. As much is sent in proportion to that as if they had come in order: it counts once.
#[test]
fn what_sacks_out_of_order_tell_twice_counts_once() {
    let sent_in_recovery = |every: u32| {
        let mut scene = Scene::new(|_| ());
        let (a, b) = (scene.a, scene.b);
        stream(&mut scene.pair, a, b, ms(1500));
        while !scene.all_is_acknowledged() {
            scene.run(ms(10));
        }
        scene.count_from_now();
        scene.fate(0, &[Fate::Drop]);
        let (mut sacks, mut is_sack) = (0, with_chunk(kind::SACK));
        scene.pair.filter(move |from, packet| {
            let counts = from == Side::B && is_sack(packet);
            sacks += u32::from(counts);
            if counts && every > 0 && sacks.is_multiple_of(every) { Fate::Delay(ms(3)) } else { Fate::Pass }
        });
        scene.give(1000);
        scene.run(ms(300));
        let times = scene.times(0);
        assert_eq!(times.len(), 2, "{times:?}");
        assert_eq!(scene.stats().fast_recoveries, 1);
        let recovery = times[1]..times[1] + 30;
        scene.sent().iter().filter(|seen| recovery.contains(&seen.ms)).count()
    };
    let in_order = sent_in_recovery(0);
    assert!(in_order > 100, "{in_order}");
    for every in [2, 3, 5] {
        let sent = sent_in_recovery(every);
        assert!(
            sent <= in_order + in_order / 20 + 3,
            "every {every}th late: {sent} packets, in order {in_order}"
        );
    }
}
