//! RFC 9937, proportional rate reduction: in recovery the amount sent relates to what arrives as the window after the
//! loss to the flight before it, without a pause, and without a burst at its end.

use core::cell::RefCell;
use std::rc::Rc;

use strandline_sim::pair::{Fate, with_chunk};

use super::scene::Scene;
use super::*;

#[test]
fn prr_sends_seven_tenths_evenly() {
    let mut pair = Pair::new(endpoint(|_| ()), endpoint(|_| ()), link(ms(30), 20));
    let (a, b) = pair.connect();
    stream(&mut pair, a, b, ms(6000));
    // A loss without a queue: the current flight is what matters.
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
    // The recovery lasts until everything sent before it is acknowledged: the round trip, including the queue.
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

/// Runs the recovery from one loss at full rate, with every `every`-th SACK 3 ms late (0: none). Returns the packets
/// sent in its round trip, and the SACKs of that time that arrived after later ones.
fn sent_in_recovery(every: u32) -> (usize, usize) {
    let mut scene = Scene::new(|_| ());
    let (a, b) = (scene.a, scene.b);
    stream(&mut scene.pair, a, b, ms(1500));
    while !scene.all_is_acknowledged() {
        scene.run(ms(10));
    }
    scene.count_from_now();
    // Long after the beginning, when the window is full again.
    const LOST: u32 = 2000;
    scene.fate(LOST, &[Fate::Drop]);
    let late = Rc::new(RefCell::new(Vec::new()));
    let (mut sacks, mut is_sack, moments) = (0, with_chunk(kind::SACK), Rc::clone(&late));
    scene.pair.filter(move |from, packet| {
        let counts = from == Side::B && is_sack(packet);
        sacks += u32::from(counts);
        if !(counts && every > 0 && sacks.is_multiple_of(every)) {
            return Fate::Pass;
        }
        moments.borrow_mut().push(sacks);
        // The link takes 30 ms.
        Fate::Delay(ms(33))
    });
    stream(&mut scene.pair, a, b, ms(600));
    let times = scene.times(LOST);
    assert_eq!(times.len(), 2, "{times:?}");
    assert_eq!(scene.stats().fast_recoveries, 1);
    let recovery = times[1]..times[1] + 60;
    let answers = |ms: &u64| recovery.contains(&(ms + 33));
    let all = scene.sacks();
    let late = late.borrow().iter().filter(|sack| answers(&all[**sack as usize - 1])).count();
    let sent = scene.sent();
    assert!(sent.last().is_some_and(|seen| seen.ms > recovery.end), "there was always more to send");
    (sent.iter().filter(|seen| recovery.contains(&seen.ms)).count(), late)
}

/// SACKs that overtake each other: the later one arrives first and reports everything, the earlier one revokes some
/// of that, and the next one reports it again. The amount sent is as if they had arrived in order: it counts once.
#[test]
fn reordered_sacks_count_once() {
    let (in_order, _) = sent_in_recovery(0);
    assert!(in_order > 200, "{in_order}");
    for every in [2, 3, 5, 20] {
        let (sent, late) = sent_in_recovery(every);
        assert!(late > 200 / every as usize, "{late} SACKs late of every {every}th");
        assert!(
            sent <= in_order + in_order / 20,
            "every {every}th late: {sent} packets, in order {in_order}"
        );
        assert!(sent >= in_order / 2, "every {every}th late: {sent} packets, in order {in_order}");
    }
}
