//! RFC 9260 section 7.2.1: a window that was not used for a while no longer represents the network, and a window that
//! is not filled does not grow.

use strandline_proto::congestion::Algorithm;

use super::scene::Scene;
use super::*;

fn with(algorithm: Algorithm) -> Scene {
    Scene::new(|config| config.congestion = algorithm)
}

/// After a pause of n whole RTOs the window is max(cwnd / 2^n, 4 * PMDCS), and no more than that is sent in the first
/// round trip.
#[test]
fn pause_halves_the_window_each_rto() {
    for pause in [1500, 2500, 20_000] {
        let mut scene = with(Algorithm::Rfc9260);
        let (a, b) = (scene.a, scene.b);
        stream(&mut scene.pair, a, b, ms(3000));
        while !scene.all_is_acknowledged() {
            scene.run(ms(10));
        }
        let idle_since =
            scene.pair.captured().iter().rev().find(|c| c.from == Side::A && !data(c).is_empty());
        let idle_since = idle_since.unwrap().at;
        let before = scene.path();
        scene.run(ms(pause));
        scene.pair.clear_captured();
        scene.give(600);
        let halvings = scene.pair.now.since(idle_since).as_millis() / before.rto.as_millis();
        assert!(halvings >= 1 && before.cwnd > 40 * 1460, "{halvings} {before:?}");
        scene.pair.run_for(ms(50));
        let expected = before.cwnd.checked_shr(halvings as u32).unwrap_or(0).max(4 * 1460);
        assert_eq!(scene.path().cwnd, expected, "after {pause} ms");
        let went: usize =
            scene.pair.captured().iter().filter(|c| c.from == Side::A).map(|c| data(c).len()).sum();
        assert!(went as u32 <= expected / 1460 + 1, "{went} packets of a window of {expected} bytes");
    }
}

/// With the default recovery no burst of the old window follows a pause.
#[test]
fn after_a_long_pause_cubic_begins_small() {
    let mut scene = with(Algorithm::Cubic);
    let (a, b) = (scene.a, scene.b);
    stream(&mut scene.pair, a, b, ms(3000));
    scene.run(ms(2000));
    let before = scene.path().cwnd;
    scene.run(ms(30_000));
    scene.pair.clear_captured();
    scene.give(600);
    scene.pair.run_for(ms(50));
    let went: usize = scene.pair.captured().iter().filter(|c| c.from == Side::A).map(|c| data(c).len()).sum();
    assert!(went <= 11 && before > 40 * 1460, "{went} packets, {before} before");
}

/// An application that sends a packet now and then: no controller's window grows.
#[test]
fn unfilled_window_does_not_grow() {
    for algorithm in [Algorithm::Rfc9260, Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Swift] {
        let mut scene = with(algorithm);
        let before = scene.path().cwnd;
        for _ in 0..100 {
            scene.give(1);
            scene.run(ms(100));
        }
        assert_eq!(scene.path().cwnd, before, "{algorithm:?}");
        assert_eq!(scene.sent_again(), [] as [u32; 0]);
    }
}
