//! The delay-based controller (decision 32; Kumar et al., SIGCOMM 2020, section 3): slow start until the delay shows,
//! a delay near the target from then on, and half of the window for a loss or a mark. Round trips of 60 ms. `rfc7661`
//! covers applications that send little, or nothing for a while.

use strandline_proto::congestion::Algorithm;
use strandline_sim::pair::Fate;

use super::scene::{Scene, packets};
use super::*;

fn scene(link: LinkConfig) -> Scene {
    let swift = |config: &mut AssociationConfig| {
        (config.congestion, config.extensions.ecn) = (Algorithm::Swift, true)
    };
    Scene::between(link, swift, |config| config.extensions.ecn = true)
}

/// Returns a scene in slow start without a queue, with a window of at least `window` packets.
fn started(window: u32) -> Scene {
    let mut scene = scene(LinkConfig::with_delay(ms(30)));
    scene.stream_until(|scene| packets(scene.path().cwnd) >= window);
    scene
}

/// True if one reduction halves the window, and none of the others, which delayed acknowledgements cause, takes more
/// than a twentieth.
fn halves_once(falls: &[(u64, u32, u32)]) -> bool {
    let left = |fall: &(u64, u32, u32)| f64::from(fall.2) / f64::from(fall.1);
    let large: Vec<f64> = falls.iter().map(left).filter(|left| *left < 0.95).collect();
    large.len() == 1 && (0.48..0.54).contains(&large[0])
}

/// Slow start doubles the window, and ends when the queue exceeds the target: a quarter of the round trip, and at
/// most 10 ms for a large window.
#[test]
fn start_ends_at_the_target_delay() {
    let mut scene = scene(link(ms(30), 20));
    let mut windows = vec![scene.path().cwnd];
    while scene.path().ssthresh == u32::MAX {
        scene.stream_and_look(ms(61), |_| ());
        windows.push(scene.path().cwnd);
        assert!(windows.len() < 20, "{windows:?}");
    }
    for pair in windows[1..4].windows(2) {
        let growth = f64::from(pair[1]) / f64::from(pair[0]);
        assert!((1.6..2.3).contains(&growth), "{windows:?}");
    }
    assert_eq!(scene.sent_again(), [] as [u32; 0], "a queue of 200 ms is not filled");
}

/// The queue is near its target: some milliseconds, neither empty nor full.
#[test]
fn the_delay_is_held() {
    let mut scene = scene(link(ms(30), 20));
    scene.stream_and_look(ms(4000), |scene| scene.pair.clear_captured());
    let [from, to] = [Side::A, Side::B].map(|side| scene.pair.addresses(side)[0].ip());
    let (mut sum_us, mut looks) = (0, 0);
    scene.stream_and_look(ms(4000), |scene| {
        let now_ns = scene.pair.now.as_nanos();
        // 2.5 bytes per microsecond.
        sum_us += scene.pair.network.link(from, to).queued_bytes(now_ns) * 10 / 25;
        looks += 1;
        scene.pair.clear_captured();
    });
    let mean_us = sum_us / looks;
    assert!((1_000..20_000).contains(&mean_us), "a queue of {mean_us} us");
    assert_eq!(scene.stats().retransmissions, 0);
}

#[test]
fn loss_halves_once_a_round_trip() {
    let mut scene = started(60);
    let first = scene.next_number();
    for number in [0, 3, 10] {
        scene.fate(first + number, &[Fate::Drop]);
    }
    let falls = scene.falls(ms(400));
    assert!(halves_once(&falls), "{falls:?}");
    assert_eq!(scene.stats().retransmissions, 3);
}

#[test]
fn mark_halves_once_a_round_trip() {
    let mut scene = started(60);
    let first = scene.next_number();
    for number in [0, 3, 10] {
        scene.fate(first + number, &[Fate::Mark]);
    }
    let falls = scene.falls(ms(400));
    assert!(halves_once(&falls), "{falls:?}");
    assert_eq!(scene.stats().retransmissions, 0);
}

/// The path becomes 30 ms longer: in each round trip the window shrinks once, by less than half, in proportion to the
/// excess.
#[test]
fn a_longer_delay_shrinks_it_in_proportion() {
    let mut scene = started(60);
    let [from, to] = [Side::A, Side::B].map(|side| scene.pair.addresses(side)[0].ip());
    scene.pair.network.link(from, to).change(strandline_netem::Change::Delay(ms(60)));
    let falls = scene.falls(ms(500));
    assert!((2..=6).contains(&falls.len()), "{falls:?}");
    for (_, before, after) in falls.iter().take(3) {
        let left = f64::from(*after) / f64::from(*before);
        // 90 ms with a target of about 72: 0.8 of a fifth.
        assert!((0.74..0.95).contains(&left), "{falls:?}");
    }
    assert!(falls.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 80), "{falls:?}");
    assert_eq!(scene.stats().retransmissions, 0);
}
