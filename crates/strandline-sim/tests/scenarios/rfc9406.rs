//! RFC 9406, HyStart++: slow start doubles the window in each round trip until the queue lengthens the round trips,
//! and ends before the queue overflows.

use super::scene::Scene;
use super::*;

/// Returns the number of A's packets with DATA in each round trip of 60 ms.
fn rounds(scene: &Scene, count: usize) -> Vec<usize> {
    let mut rounds = vec![0; count];
    for seen in scene.sent() {
        let round = (seen.ms / 61) as usize;
        if let Some(packets) = rounds.get_mut(round) {
            *packets += seen.numbers.len();
        }
    }
    rounds
}

#[test]
fn doubling_stops_before_losses() {
    let mut scene = Scene::on(link(ms(30), 20), |_| ());
    let (a, b) = (scene.a, scene.b);
    stream(&mut scene.pair, a, b, ms(3000));
    let first = rounds(&scene, 4);
    for pair in first.windows(2) {
        let growth = pair[1] as f64 / pair[0] as f64;
        assert!((1.6..2.3).contains(&growth), "{first:?}");
    }
    assert_eq!(scene.sent_again(), [] as [u32; 0], "the queue never overflows");
    assert!(scene.path().ssthresh < u32::MAX, "slow start is over: {:?}", scene.path());
    // The window equals what the path holds: 20 Mbit/s at 60 ms.
    assert!(scene.path().cwnd > 130_000, "{:?}", scene.path());
}

/// Packets become longer during the transfer, and the window with them. A queue of one round trip still does not
/// overflow.
#[test]
fn faster_paths_queue_does_not_overflow() {
    let mut scene = Scene::on(LinkConfig { queue_bytes_max: 250_000, ..link(ms(10), 100) }, |config| {
        config.path_mtu_initial = AssociationConfig::default().path_mtu_initial;
    });
    let (a, b) = (scene.a, scene.b);
    stream(&mut scene.pair, a, b, ms(250));
    assert_eq!(scene.sent_again(), [] as [u32; 0], "the queue never overflows");
    assert!(scene.path().ssthresh < u32::MAX, "slow start is over: {:?}", scene.path());
    assert!(scene.path().cwnd > 250_000, "{:?}", scene.path());
}

/// Without HyStart++, RFC 9260's slow start overflows the same queue, for comparison.
#[test]
fn slow_start_alone_overflows_the_queue() {
    let mut scene = Scene::on(link(ms(30), 20), |config| {
        config.congestion = strandline_proto::congestion::Algorithm::Rfc9260;
    });
    let (a, b) = (scene.a, scene.b);
    stream(&mut scene.pair, a, b, ms(3000));
    assert!(scene.sent_again().len() > 100, "{}", scene.sent_again().len());
}

/// Section 4.3, Conservative Slow Start: once the round trips become longer, the window grows by a quarter as much
/// for some rounds, and then slow start is over.
#[test]
fn section_4_3_the_window_grows_slower_before_slow_start_ends() {
    let mut scene = Scene::on(link(ms(30), 50), |_| ());
    let mut windows = vec![scene.path().cwnd];
    while scene.path().ssthresh == u32::MAX {
        let srtt = scene.path().srtt.unwrap();
        scene.stream_and_look(srtt, |_| ());
        windows.push(scene.path().cwnd);
        assert!(windows.len() < 40, "{windows:?}");
    }
    let growth: Vec<f64> = windows.windows(2).map(|pair| f64::from(pair[1]) / f64::from(pair[0])).collect();
    // In the first round not everything was acknowledged.
    let slower =
        growth.iter().skip(1).position(|growth| *growth < 1.6).expect("it does not double to the end") + 1;
    assert!(slower >= 3, "{growth:?}");
    // The round of the detection may have doubled in part.
    assert!(growth[slower + 1..].iter().all(|growth| *growth < 1.45), "{growth:?}");
    assert_eq!(scene.sent_again(), [] as [u32; 0]);
}
