//! RFC 3708: a chunk that the peer got twice had not been lost. If everything that a recovery retransmitted was
//! spurious, the old window is restored.

use strandline_sim::pair::Fate;

use super::scene::Scene;
use super::*;

/// Retransmitted when it was late; the second copy is reported a round trip later.
#[test]
fn reported_duplicate_undoes_a_needless_recovery() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Delay(ms(85))]);
    scene.give(10);
    scene.run(ms(70));
    let before = scene.path();
    assert_eq!((scene.sent_again(), scene.stats().fast_recoveries), (vec![2], 1));
    // It has arrived, but nobody can tell yet which of the two.
    scene.run(ms(45));
    assert_eq!(scene.stats().undone, 0);
    let reduced = scene.path().cwnd;
    scene.run(ms(15));
    assert_eq!(scene.stats().undone, 1, "{:?}", scene.sacks());
    assert!(scene.path().cwnd > reduced && scene.path().ssthresh > before.ssthresh, "{:?}", scene.path());
    scene.run(ms(1000));
    assert_eq!(scene.sent_again(), [2]);
}

/// One of two was lost: nothing is undone.
#[test]
fn one_true_loss_is_enough() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Delay(ms(75))]);
    scene.fate(4, &[Fate::Drop]);
    scene.give(12);
    scene.run(ms(1500));
    assert_eq!(scene.sent_again(), [2, 4]);
    assert_eq!((scene.stats().fast_recoveries, scene.stats().undone), (1, 0));
}

/// The next packet that is as late is waited for: the reordering window has grown (RFC 8985 section 6.2 step 4).
#[test]
fn the_reordering_window_grows_by_it() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Delay(ms(52))]);
    scene.give(10);
    scene.run(ms(500));
    assert_eq!(scene.sent_again(), [2]);
    scene.fate(12, &[Fate::Delay(ms(52))]);
    scene.give(10);
    scene.run(ms(500));
    assert_eq!(scene.sent_again(), [2]);
}
