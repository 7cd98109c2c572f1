//! RFC 8257, DCTCP: the window shrinks by half of alpha, the smoothed share of marked bytes, once per observation
//! window; and the receiver reports each change of marks at once. Round trips of 60 ms without a queue.

use strandline_proto::congestion::Algorithm;
use strandline_sim::pair::Fate;

use super::scene::{Scene, packets};
use super::*;

/// Returns a scene in which both sides asked for ECN and the window is at least `window` packets.
fn started(window: u32) -> Scene {
    let dctcp = |config: &mut AssociationConfig| config.congestion = Algorithm::Dctcp;
    let mut scene = Scene::between(LinkConfig::with_delay(ms(30)), dctcp, dctcp);
    scene.stream_until(|scene| packets(scene.path().cwnd) >= window);
    scene
}

/// Marks the packets with these of the next chunks.
fn mark(scene: &mut Scene, next: impl Iterator<Item = u32>) {
    let first = scene.next_number();
    for number in next {
        scene.fate(first + number, &[Fate::Mark]);
    }
}

fn ratio(fall: &(u64, u32, u32)) -> f64 {
    f64::from(fall.2) / f64::from(fall.1)
}

/// Section 3.3: alpha began with 1 and has lost a sixteenth in each of about nine windows. The window shrinks by half
/// of it, and slow start is over.
#[test]
fn section_3_3_the_first_mark() {
    let mut scene = started(60);
    assert_eq!(scene.path().ssthresh, u32::MAX);
    mark(&mut scene, 0..1);
    let falls = scene.falls(ms(400));
    assert!(falls.len() == 1 && (0.68..0.76).contains(&ratio(&falls[0])), "{falls:?}");
    assert!(scene.path().ssthresh < falls[0].1);
    // One packet more in each round trip from there on.
    let grown = (scene.path().cwnd - falls[0].2) / 1460;
    assert!((2..=6).contains(&grown), "{grown} packets in {} ms", 400 - falls[0].0);
}

/// Section 3.3: however many packets of a window are marked, it shrinks once.
#[test]
fn section_3_3_once_in_each_observation_window() {
    let mut scene = started(60);
    mark(&mut scene, (0..400).filter(|number| number % 3 == 0));
    let falls = scene.falls(ms(600));
    // At most 120 ms until the first, and then one per flight, which is acknowledged sooner the less was sent after
    // the reduction.
    assert!((5..=10).contains(&falls.len()), "{falls:?}");
    assert!(falls.windows(2).all(|pair| pair[1].0 - pair[0].0 >= 10), "{falls:?}");
}

/// Section 3.3 step 6: alpha loses a sixteenth in each window without marks, so that a mark after many of those takes
/// little.
#[test]
fn section_3_3_alpha_is_forgotten() {
    let mut scene = started(60);
    mark(&mut scene, 0..1);
    let falls = scene.falls(ms(200));
    assert_eq!(falls.len(), 1, "{falls:?}");
    assert_eq!(scene.falls(ms(2400)), [], "no marks");
    mark(&mut scene, 0..1);
    let falls = scene.falls(ms(200));
    // 40 windows later: 0.6 * (15 / 16)^40, and half of that.
    assert!(falls.len() == 1 && (0.95..0.995).contains(&ratio(&falls[0])), "{falls:?}");
}

/// With every packet marked alpha grows by a sixteenth of what is left to 1: each reduction takes more, down to two
/// packets.
#[test]
fn section_3_3_alpha_follows_the_share_of_marks() {
    let mut scene = started(60);
    mark(&mut scene, 0..2000);
    let falls = scene.falls(ms(800));
    assert!(falls.len() >= 8, "{falls:?}");
    let mut alpha = 2.0 * (1.0 - ratio(&falls[0]));
    for fall in falls.iter().take(8).skip(1) {
        alpha += (1.0 - alpha) / 16.0;
        assert!((ratio(fall) - (1.0 - alpha / 2.0)).abs() < 0.03, "{alpha}: {falls:?}");
    }
    assert_eq!(packets(scene.path().cwnd), 2, "{:?}", scene.path());
}

/// Section 3.2: when marked and unmarked packets alternate, a SACK is sent at once, with ECNE exactly for marked
/// ones.
#[test]
fn section_3_2_each_change_is_told_at_once() {
    let dctcp = |config: &mut AssociationConfig| config.congestion = Algorithm::Dctcp;
    let mut scene = Scene::between(link(ms(30), 20), dctcp, dctcp);
    for number in [2, 3, 6] {
        scene.fate(number, &[Fate::Mark]);
    }
    scene.give(8);
    scene.run(ms(400));
    let first = scene.first;
    // What each SACK acknowledges first, and whether it reports a mark.
    let told: Vec<(u32, bool)> = scene
        .pair
        .captured()
        .iter()
        .filter(|captured| captured.from == Side::B)
        .filter_map(|captured| {
            let packet = Packet::parse(&captured.datagram.bytes).unwrap();
            let sack = packet.chunks().flatten().find_map(|chunk| match chunk.parse() {
                Ok(Chunk::Sack(sack)) => Some(sack.cumulative_tsn()),
                _ => None,
            });
            sack.map(|tsn| (tsn.distance_from(first), captured.chunk_kinds().contains(&kind::ECNE)))
        })
        .collect();
    let covering =
        |number: u32| *told.iter().find(|(up_to, _)| *up_to >= number).expect("all is acknowledged");
    for marked in [2, 3, 6] {
        assert!(covering(marked).1, "{marked}: {told:?}");
    }
    for (change, at_once) in [(2, 2), (4, 4), (6, 6), (7, 7)] {
        assert_eq!(covering(change).0, at_once, "{told:?}");
    }
    assert!(!covering(1).1 && !covering(7).1, "{told:?}");
    assert_eq!(scene.pair.b.endpoint.status(scene.b).unwrap().stats.marks_received, 3);
    assert!(scene.all_is_acknowledged());
}

/// Section 3.5: a loss counts as in TCP, whatever alpha is.
#[test]
fn section_3_5_a_loss_halves() {
    let mut scene = started(60);
    let first = scene.next_number();
    scene.fate(first, &[Fate::Drop]);
    let falls = scene.falls(ms(400));
    assert!(falls.len() == 1 && (0.48..0.54).contains(&ratio(&falls[0])), "{falls:?}");
}
