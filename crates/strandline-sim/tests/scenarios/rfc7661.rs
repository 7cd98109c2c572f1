//! RFC 7661, application-limited senders: an unused window neither grows (section 4.3, the non-validated phase) nor
//! is lost without a pause of an RTO (section 4.2), and new data afterwards is not sent in a burst (section 4.4.2).
//! Round trips of 60 ms.

use strandline_proto::congestion::Algorithm;

use super::scene::{Scene, packets};
use super::*;

/// Controllers whose windows change only by acknowledgements and losses.
const ALL: [Algorithm; 3] = [Algorithm::Cubic, Algorithm::Rfc9260, Algorithm::Dctcp];

/// Returns a scene in which a full flow has filled the path.
fn filled(algorithm: Algorithm) -> Scene {
    let mut scene = Scene::new(|config| config.congestion = algorithm);
    let (a, b) = (scene.a, scene.b);
    stream(&mut scene.pair, a, b, ms(1500));
    while !scene.all_is_acknowledged() {
        scene.run(ms(10));
    }
    scene.pair.clear_captured();
    scene
}

/// Sends `packets` packets every 20 ms, `times` times.
fn trickle(scene: &mut Scene, packets: usize, times: usize) {
    for _ in 0..times {
        scene.give(packets);
        scene.run(ms(20));
    }
}

/// Section 4.2: a tenth of the window is used for many round trips. The window does not change.
#[test]
fn section_4_2_a_window_that_is_used_a_little_stays() {
    for algorithm in ALL {
        let mut scene = filled(algorithm);
        let before = scene.path().cwnd;
        assert!(packets(before) > 60, "{algorithm:?} {:?}", scene.path());
        trickle(&mut scene, 2, 500);
        assert_eq!(scene.path().cwnd, before, "{algorithm:?}");
        assert_eq!(scene.sent_again(), [] as [u32; 0]);
    }
}

/// Section 4.3: with a third of the window in flight it does not grow either, in any of a hundred round trips.
#[test]
fn section_4_3_window_used_by_a_third_is_kept() {
    for algorithm in ALL {
        let mut scene = Scene::new(|config| config.congestion = algorithm);
        let before = scene.path().cwnd;
        let third = packets(before) as usize / 3;
        for _ in 0..100 {
            scene.give(third);
            scene.run(ms(61));
        }
        assert_eq!(scene.path().cwnd, before, "{algorithm:?}");
    }
}

/// Section 4.3: with more than half of it in each round trip slow start continues, up to twice what is used.
#[test]
fn section_4_3_slow_start_continues_above_half() {
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp] {
        let mut scene = Scene::new(|config| config.congestion = algorithm);
        let before = scene.path().cwnd;
        let used = packets(before) * 3 / 4 + 1;
        for _ in 0..100 {
            scene.give(used as usize);
            scene.run(ms(90));
        }
        let cwnd = scene.path().cwnd;
        assert!(cwnd > before, "{algorithm:?}: {before} and {cwnd}");
        assert!(cwnd <= 2 * (used + 1) * 1460, "{algorithm:?}: {cwnd} where {used} packets are used");
    }
}

/// Section 4.3 measures what was in flight over a round trip (pipeACK), not at the arrival of one acknowledgement: 17
/// packets after a new association's set-up leave a window of twice the most that was in flight.
#[test]
fn section_4_3_flight_counts_for_its_round_trip() {
    let mut scene = Scene::new(|config| config.congestion = Algorithm::Cubic);
    let before = packets(scene.path().cwnd);
    scene.give(17);
    scene.run(ms(150));
    let after = packets(scene.path().cwnd);
    assert!((24..=27).contains(&after), "{before} before, {after} after");
}

/// Section 4.3, the validated phase: using the whole window at one instant of each round trip counts, although most
/// acknowledgements find less in flight (RFC 9260 considers each of those instants).
#[test]
fn section_4_3_fully_used_window_grows_by_all() {
    let grown = |algorithm| {
        let mut scene = Scene::new(|config| config.congestion = algorithm);
        let before = scene.path().cwnd;
        for _ in 0..3 {
            let window = packets(scene.path().cwnd) as usize + 1;
            scene.give(window);
            scene.run(ms(90));
        }
        f64::from(scene.path().cwnd) / f64::from(before)
    };
    let (cubic, letter) = (grown(Algorithm::Cubic), grown(Algorithm::Rfc9260));
    assert!(cubic > 5.0, "{cubic}: slow start doubles it three times");
    assert!(letter < cubic, "{letter} {cubic}");
}

/// Section 4.4.2: a window that was kept is not sent in one burst when there is more data, nor is more than it sent
/// in a round trip.
#[test]
fn section_4_4_2_what_is_kept_goes_in_no_burst() {
    let mut scene = filled(Algorithm::Cubic);
    trickle(&mut scene, 2, 100);
    let kept = packets(scene.path().cwnd) as usize;
    scene.pair.clear_captured();
    let began = scene.pair.now.since(scene.began);
    scene.give(2 * kept);
    scene.run(ms(59));
    let mut moments = Vec::<(Duration, usize)>::new();
    for seen in scene.sent() {
        match moments.last_mut() {
            Some((at, packets)) if *at == seen.at => *packets += seen.numbers.len(),
            _ => moments.push((seen.at, seen.numbers.len())),
        }
    }
    let (first, all) = (moments[0].1, moments.iter().map(|(_, packets)| packets).sum::<usize>());
    assert!(moments[0].0 - began < ms(1) && first <= kept / 5, "{first} of {kept} at once: {moments:?}");
    assert!((kept / 10 * 9..=kept + 8).contains(&all), "{all} in a round trip, a window of {kept}");
}

/// BBR knows the rate of the path: a trickle of ten seconds, and pauses of seconds, do not lower it, and the first
/// data after them is sent at that rate, without a burst.
#[test]
fn section_4_2_bbr_keeps_its_rate_through_trickles_and_pauses() {
    let mut scene = filled(Algorithm::Bbr);
    let before = scene.path().pacing_rate.unwrap();
    trickle(&mut scene, 2, 500);
    scene.run(ms(4000));
    let after = scene.path().pacing_rate.unwrap();
    assert!(after >= before / 10 * 7, "{before} a second, and {after}");
    scene.pair.clear_captured();
    let began = scene.pair.now.since(scene.began);
    scene.give(400);
    scene.run(ms(25));
    let sent: usize = scene.sent().iter().map(|seen| seen.numbers.len()).sum();
    let at_once =
        scene.sent().iter().filter(|seen| seen.at == began).map(|seen| seen.numbers.len()).sum::<usize>();
    let most = packets(u32::try_from(after * 25 / 1000).unwrap()) as usize + 40;
    assert!(sent > 20 && sent <= most, "{sent} in 25 ms, {most} allowed at {after} a second");
    assert!(at_once <= packets(u32::try_from(after * 4 / 1000).unwrap()) as usize + 12, "{at_once} at once");
}

/// Swift keeps the window through a trickle as well, and a pause lowers it at most to the initial window.
#[test]
fn section_4_2_swift_keeps_what_it_may() {
    let mut scene = filled(Algorithm::Swift);
    let before = scene.path().cwnd;
    trickle(&mut scene, 2, 250);
    assert!(scene.path().cwnd >= before / 10 * 9, "{before} and {:?}", scene.path());
    scene.run(ms(10_000));
    scene.give(1);
    scene.run(ms(100));
    assert!(packets(scene.path().cwnd) >= 10, "{:?}", scene.path());
}
