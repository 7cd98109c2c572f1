//! RFC 9438, CUBIC: the window after a loss, how it grows, and where it grows as Reno's would. Round trips of 200 or
//! 20 ms on links without a queue, unless noted otherwise, so that losses leave eight tenths (decision 24).

use strandline_sim::pair::{Fate, with_chunk};

use super::scene::{Scene, packets};
use super::*;

/// C, in packets per second cubed, and alpha (decision 24).
const C: f64 = 0.5;
const ALPHA: f64 = 0.53;

/// Grows a window of `window` packets and loses a packet. Returns the window before, and after the recovery.
fn lost_at(delay: Duration, window: u32) -> (Scene, u32, u32) {
    let mut scene = Scene::on(LinkConfig::with_delay(delay), |_| ());
    scene.stream_until(|scene| packets(scene.path().cwnd) >= window);
    let (before, after) = lose_one(&mut scene);
    (scene, before, after)
}

/// Loses a packet now. Returns the window before and after.
fn lose_one(scene: &mut Scene) -> (u32, u32) {
    scene.pair.drop_next(Side::A, with_chunk(kind::DATA));
    let mut last = scene.path().cwnd;
    let mut fall = None;
    scene.stream_until(|scene| {
        let cwnd = scene.path().cwnd;
        if cwnd < last {
            fall = Some((last, cwnd));
        }
        last = cwnd;
        fall.is_some() && scene.path().recovery_window.is_none()
    });
    scene.pair.clear_captured();
    fall.unwrap()
}

/// Returns the tolerance of a window `since_k` seconds after K: four packets, and a quarter of a second.
fn near(since_k: f64) -> f64 {
    4.0 + 0.25 * 3.0 * C * since_k * since_k
}

/// Returns cwnd in packets at these milliseconds from now on, while as much as possible is sent.
fn windows(scene: &mut Scene, at_ms: &[u64]) -> Vec<f64> {
    let began = scene.pair.now;
    let mut windows = Vec::new();
    for at in at_ms {
        let now = began + ms(*at);
        scene.stream_and_look(now.since(scene.pair.now), |_| ());
        scene.pair.clear_captured();
        windows.push(f64::from(scene.path().cwnd) / 1460.0);
    }
    windows
}

/// Section 4.6: seven tenths remain with a queue, and that is ssthresh; decision 24: eight tenths without one. This
/// is what is sent in the round trip after the recovery.
#[test]
fn section_4_6_the_window_after_a_loss() {
    let (mut scene, before, after) = lost_at(ms(100), 100);
    let left = f64::from(after) / f64::from(before);
    // Slow start continued until the loss was known.
    assert!((0.78..0.84).contains(&left), "{before} {after}");
    assert_eq!(scene.path().ssthresh, after);
    scene.stream_and_look(ms(200), |_| ());
    let sent: usize = scene.sent().iter().map(|seen| seen.numbers.len()).sum();
    let window = packets(after) as usize;
    assert!((window / 10 * 9..=window / 10 * 12).contains(&sent), "{sent} packets, a window of {window}");

    let mut scene = Scene::on(link(ms(30), 20), |_| ());
    scene.stream_and_look(ms(6000), |scene| scene.pair.clear_captured());
    let lost_before = scene.stats().retransmissions;
    let (before, after) = lose_one(&mut scene);
    let left = f64::from(after) / f64::from(before);
    assert!((0.69..0.71).contains(&left), "{before} {after}");
    assert_eq!(scene.stats().retransmissions - lost_before, 1);
}

/// Section 4.2: W_cubic(t) = C (t - K)^3 + W_max, with K = cbrt((W_max - cwnd) / C).
#[test]
fn section_4_2_the_window_grows_as_a_cubic_function() {
    let (mut scene, before, after) = lost_at(ms(100), 100);
    let (w_max, left) = (f64::from(before) / 1460.0, f64::from(after) / 1460.0);
    let k = ((w_max - left) / C).cbrt();
    assert!((3.0..5.0).contains(&k), "{k}");
    let times = [500, 1000, 2000, 3000, 3500, 4000, 5000, 6000];
    for (at, window) in times.iter().zip(windows(&mut scene, &times)) {
        let t = *at as f64 / 1000.0;
        let cubic = C * (t - k).powi(3) + w_max;
        assert!((window - cubic).abs() < near(t - k), "{window} packets after {t} s, W_cubic is {cubic}");
    }
}

/// After a loss `unused` sends so little that the window is not used; then as much as possible is sent again. Returns
/// cwnd in packets before, and at these milliseconds after that, with W_cubic if that time does not count.
fn windows_after(unused: impl Fn(&mut Scene), at_ms: &[u64]) -> (f64, Vec<(f64, f64)>) {
    let (mut scene, w_max, left) = lost_at(ms(100), 100);
    let (w_max, left) = (f64::from(w_max) / 1460.0, f64::from(left) / 1460.0);
    let k = ((w_max - left) / C).cbrt();
    while !scene.all_is_acknowledged() {
        scene.run(ms(10));
    }
    unused(&mut scene);
    let kept = f64::from(scene.path().cwnd) / 1460.0;
    // When the function had this value.
    let before = k - ((w_max - kept) / C).cbrt();
    let cubic = |at: &u64| C * (before + *at as f64 / 1000.0 - k).powi(3) + w_max;
    let seen = windows(&mut scene, at_ms);
    (kept, seen.into_iter().zip(at_ms.iter().map(cubic)).collect())
}

/// Sections 4.2 and 5.8: a trickle, or pauses shorter than an RTO, for half a minute after a loss. The window
/// continues as if that time had not passed.
#[test]
fn section_5_8_idle_time_does_not_grow_cubic() {
    type Unused = fn(&mut Scene);
    let trickle: Unused = |scene| {
        for _ in 0..1500 {
            scene.give(2);
            scene.run(ms(20));
        }
    };
    let pauses: Unused = |scene| {
        for _ in 0..33 {
            scene.give(1);
            scene.run(ms(900));
        }
    };
    for (what, unused) in [("trickle", trickle), ("pauses", pauses)] {
        let (kept, windows) = windows_after(unused, &[600, 1200, 2000]);
        for (seen, cubic) in &windows {
            assert!((seen - cubic).abs() < 8.0, "{what}: {kept} kept, and then {windows:?}");
        }
    }
}

/// Section 4.7, fast convergence: a loss before the window has recovered leaves a W_max below it, to make room for
/// others.
#[test]
fn section_4_7_a_loss_below_the_last_maximum_leaves_room() {
    let (mut scene, first, _) = lost_at(ms(100), 100);
    scene.stream_and_look(ms(1000), |scene| scene.pair.clear_captured());
    let (before, after) = lose_one(&mut scene);
    assert!(before < first, "{first} {before}");
    let (cwnd, left) = (f64::from(before) / 1460.0, f64::from(after) / 1460.0);
    let w_max = cwnd * 0.9;
    let k = ((w_max - left) / C).cbrt();
    let times = [1000, 2000, 2500, 3000, 4000];
    for (at, window) in times.iter().zip(windows(&mut scene, &times)) {
        let t = *at as f64 / 1000.0;
        let cubic = C * (t - k).powi(3) + w_max;
        assert!((window - cubic).abs() < near(t - k), "{window} packets after {t} s, W_cubic is {cubic}");
        let without = C * (t - ((cwnd - left) / C).cbrt()).powi(3) + cwnd;
        assert!(t > 3.0 || window < without - 3.0, "{window} after {t} s, {without} without it");
    }
}

/// Section 4.3: on a short path the cubic function is slower than Reno, and the window grows as W_est: by alpha in
/// each round trip up to W_max, and by one packet from there on.
#[test]
fn section_4_3_short_paths_grow_as_reno() {
    let (mut scene, before, after) = lost_at(ms(10), 50);
    let (w_max, left) = (f64::from(before) / 1460.0, f64::from(after) / 1460.0);
    let k = ((w_max - left) / C).cbrt();
    let times = [300, 1300, 1700];
    let seen = windows(&mut scene, &times);
    let early = left + ALPHA * 15.0;
    assert!((seen[0] - early).abs() < 2.0, "{seen:?} and {early} by alpha; {left} of {w_max} were left");
    assert!(C * (0.3 - k).powi(3) + w_max < seen[0] - 1.0, "the cubic function is slower");
    let grown = seen[2] - seen[1];
    assert!(seen[1] > w_max && (17.0..22.0).contains(&grown), "{seen:?}: 20 round trips, {grown} packets");
}

/// Section 4.8: a time-out leaves one packet; then slow start up to seven tenths of the old window, and no further.
#[test]
fn section_4_8_a_time_out_leaves_one_packet() {
    let mut scene = Scene::new(|_| ());
    scene.stream_until(|scene| packets(scene.path().cwnd) >= 60);
    let before = scene.path().cwnd;
    let until = scene.pair.now + ms(1500);
    let clock = std::rc::Rc::new(core::cell::Cell::new(scene.pair.now));
    let now = std::rc::Rc::clone(&clock);
    let is_lost = move |from| from == Side::A && now.get() < until;
    scene.pair.filter(move |from, _| if is_lost(from) { Fate::Drop } else { Fate::Pass });
    let mut least = u32::MAX;
    scene.stream_and_look(ms(1500), |scene| {
        clock.set(scene.pair.now);
        least = least.min(scene.path().cwnd);
    });
    assert_eq!(
        (least, scene.path().ssthresh >= before / 100 * 65),
        (1460, true),
        "{before} {:?}",
        scene.path()
    );
    let ssthresh = scene.path().ssthresh;
    clock.set(until);
    let mut last = scene.path().cwnd;
    let mut rounds = 0;
    while scene.path().cwnd < ssthresh {
        scene.stream_and_look(ms(61), |_| ());
        let cwnd = scene.path().cwnd;
        assert!(cwnd <= 2 * last + 2 * 1460, "{last} {cwnd}: no faster than slow start");
        last = cwnd;
        rounds += 1;
        assert!(rounds < 80, "{:?}", scene.path());
    }
    scene.stream_and_look(ms(300), |_| ());
    assert!(scene.path().cwnd < ssthresh / 4 * 5, "slow start ends there: {ssthresh} {:?}", scene.path());
}
