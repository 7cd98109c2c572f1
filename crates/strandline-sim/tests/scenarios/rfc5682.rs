//! RFC 5682, F-RTO: after a time-out the first packet alone goes again; if what was in flight before it turns out to have
//! arrived, nothing else does, and the window is what it was.

use core::cell::Cell;
use std::rc::Rc;

use strandline_sim::pair::Fate;

use super::scene::Scene;
use super::*;

/// The way stands still from now on: what A sends within so long arrives after that.
fn stands_still(scene: &mut Scene, time: Duration) {
    let until = scene.pair.now + time;
    let now = Rc::new(Cell::new(scene.pair.now));
    let clock = Rc::clone(&now);
    scene.pair.filter(move |from, _| {
        let left = until.since(clock.get());
        if from == Side::A && !left.is_zero() { Fate::Delay(left) } else { Fate::Pass }
    });
    scene.give(8);
    let end = scene.pair.now + ms(3000);
    while scene.pair.now < end {
        now.set(scene.pair.now);
        scene.pair.run_until(ms(1), |_| false);
    }
}

/// The answers are on their way when T3-rtx expires: they come sooner than any to what goes then.
#[test]
fn a_needless_time_out_sends_little_again_and_is_undone() {
    let mut scene = Scene::new(|_| ());
    let before = scene.path().cwnd;
    stands_still(&mut scene, ms(985));
    let stats = scene.stats();
    assert_eq!((stats.timeouts, stats.undone), (1, 1), "{:?}", scene.sent());
    // Beside the probes, which is what the highest chunk is for, the lowest one.
    let again: Vec<u32> = scene.sent_again().into_iter().filter(|number| *number != 7).collect();
    assert_eq!(again, [0], "{:?}", scene.sent());
    assert!(scene.path().cwnd >= before, "{before} before, {:?}", scene.path());
    assert!(scene.all_is_acknowledged());
}

/// All were lost: the answer to the first says so, and the others follow a round trip later.
#[test]
fn a_true_one_sends_all_again() {
    let mut scene = Scene::new(|_| ());
    let until = scene.pair.now + ms(900);
    let began = scene.began;
    // The probes are lost as well.
    for number in 0..8 {
        scene.fate(number, &[Fate::Drop; 5][..if number == 7 { 5 } else { 1 }]);
    }
    scene.give(8);
    scene.run(until.since(began));
    scene.run(ms(2000));
    assert!(scene.all_is_acknowledged(), "{:?}", scene.sent());
    assert_eq!(scene.stats().undone, 0);
    for number in 0..8 {
        assert!(scene.times(number).len() >= 2, "{number}: {:?}", scene.sent());
    }
}
