//! RFC 3042, limited transmit: the first acknowledgements beyond a gap release new data before the gap counts as a
//! loss.

use strandline_sim::pair::Fate;

use super::scene::{Scene, packets};
use super::*;

#[test]
fn limited_transmit_precedes_the_retransmission() {
    let mut scene = Scene::new(|_| ());
    let window = packets(scene.path().cwnd);
    scene.fate(0, &[Fate::Drop]);
    scene.give(60);
    scene.run(ms(70));
    let after: Vec<_> = scene.sent().split_off(window as usize);
    let again = after.iter().position(|seen| seen.numbers == [0]).expect("it is sent again");
    let before = &after[..again];
    // New, in order, at two instants at least: those of the first two SACKs.
    let numbers: Vec<u32> = before.iter().flat_map(|seen| seen.numbers.clone()).collect();
    assert_eq!(numbers, (window..window + numbers.len() as u32).collect::<Vec<_>>());
    let mut moments: Vec<Duration> = before.iter().map(|seen| seen.at).collect();
    moments.dedup();
    assert!(moments.len() >= 2 && moments.iter().all(|at| (ms(60)..ms(63)).contains(at)), "{after:?}");
    assert_eq!(scene.stats().timeouts, 0);
}

/// Without new data the reordering window or a tail-loss probe detects the loss: three packets beyond it never
/// arrive.
#[test]
fn with_nothing_new_time_tells() {
    let mut scene = Scene::new(|_| ());
    scene.fate(0, &[Fate::Drop]);
    scene.give(3);
    scene.run(ms(900));
    let times = scene.times(0);
    assert!(times.len() == 2 && (74..80).contains(&times[1]), "{times:?}");
    assert_eq!((scene.stats().timeouts, scene.stats().tail_probes), (0, 0));
}
