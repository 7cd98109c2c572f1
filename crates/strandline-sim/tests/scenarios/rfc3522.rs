//! RFC 3522: data that is acknowledged sooner after its retransmission than any answer could arrive was not lost.
//! This is known long before the duplicate is reported.

use strandline_sim::pair::Fate;

use super::scene::Scene;
use super::*;

/// It arrives 10 ms after the others, 60 ms before the answer to its second copy.
#[test]
fn late_packet_ends_a_needless_recovery() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Delay(ms(40))]);
    scene.give(10);
    scene.run(ms(67));
    assert_eq!((scene.sent_again(), scene.stats().fast_recoveries), (vec![2], 1));
    let reduced = scene.path();
    scene.run(ms(8));
    assert_eq!(scene.stats().undone, 1, "{:?}", scene.sacks());
    assert!(
        scene.path().cwnd > reduced.cwnd && scene.path().ssthresh > reduced.ssthresh,
        "{:?}",
        scene.path()
    );
    scene.run(ms(1000));
    assert_eq!((scene.sent_again(), scene.stats().undone), (vec![2], 1), "the duplicate tells nothing new");
}

/// The packet is lost: its answer arrives a round trip after the retransmission.
#[test]
fn an_answer_in_time_undoes_nothing() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Drop]);
    scene.give(10);
    scene.run(ms(1000));
    assert_eq!(scene.sent_again(), [2]);
    assert_eq!((scene.stats().fast_recoveries, scene.stats().undone), (1, 0));
}
