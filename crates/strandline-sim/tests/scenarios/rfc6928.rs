//! RFC 6928: the initial window is ten packets, or 14,600 bytes if packets are smaller, and so is the window after a
//! pause. Round trips of 60 ms.

use strandline_proto::congestion::Algorithm;

use super::scene::Scene;
use super::*;

/// Returns the packets and bytes of DATA chunks that a new association sends in each of the first round trips for a
/// message of 100,000 bytes, and the number of instants at which those of the first round trip are sent.
fn first_rounds(change: impl Fn(&mut AssociationConfig)) -> (Vec<(usize, usize)>, usize) {
    let mut pair = Pair::new(endpoint(change), endpoint(|_| ()), LinkConfig::with_delay(ms(30)));
    let (a, b) = pair.connect();
    pair.clear_captured();
    let began = pair.now;
    pair.send(Side::A, a, 0, vec![1; 100_000]);
    pair.run_until(ms(1000), |pair| {
        pair.recv_all(Side::B, b);
        false
    });
    let (mut rounds, mut moments) = (vec![(0, 0); 3], std::collections::BTreeSet::new());
    for captured in pair.captured().iter().filter(|captured| captured.from == Side::A) {
        let bytes: usize =
            data(captured).iter().map(|data| 16 + data.payload.len().next_multiple_of(4)).sum();
        let since = captured.at.since(began);
        if bytes == 0 {
            continue;
        }
        if since < ms(60) {
            moments.insert(since);
        }
        if let Some((packets, sum)) = rounds.get_mut((since.as_millis() / 60) as usize) {
            (*packets, *sum) = (*packets + 1, *sum + bytes);
        }
    }
    (rounds, moments.len())
}

/// Section 2: ten packets at one instant, and twice as many once these are acknowledged.
#[test]
fn section_2_ten_packets_and_then_twenty() {
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Swift, Algorithm::Bbr] {
        let (rounds, moments) = first_rounds(|config| config.congestion = algorithm);
        assert_eq!((rounds[0].0, moments), (10, 1), "{algorithm:?}: {rounds:?}");
        assert!((16..=30).contains(&rounds[1].0), "{algorithm:?}: {rounds:?}");
    }
}

/// In bytes while packets are smaller, since other senders begin with large ones (decision 24), but at most twelve
/// packets.
#[test]
fn section_2_small_packets_are_as_many_bytes() {
    for (mtu, bytes) in [(1280, 14_600), (600, 12 * 560)] {
        let (rounds, _) = first_rounds(|config| (config.path_mtu_initial, config.path_mtu_max) = (mtu, mtu));
        let (packets, sent) = rounds[0];
        assert!(packets == 12 && sent <= bytes + usize::from(mtu), "{rounds:?}");
    }
}

/// RFC 9260 section 7.2.1 allows 4,404 bytes.
#[test]
fn rfc_9260_begins_with_less() {
    let (rounds, _) = first_rounds(|config| {
        *config =
            AssociationConfig { path_mtu_initial: 1500, path_mtu_max: 1500, ..AssociationConfig::rfc9260() };
    });
    assert!((3..=4).contains(&rounds[0].0), "{rounds:?}");
}

/// Section 4 (RFC 5681 section 4.1): after a pause exactly this much is sent before anything is acknowledged.
#[test]
fn section_4_the_window_after_a_pause() {
    for algorithm in [Algorithm::Cubic, Algorithm::Dctcp, Algorithm::Swift] {
        let mut scene = Scene::new(|config| config.congestion = algorithm);
        scene.stream_and_look(ms(1000), |_| ());
        scene.run(ms(30_000));
        assert!(scene.all_is_acknowledged() && scene.path().cwnd > 14_600);
        scene.pair.clear_captured();
        scene.give(200);
        scene.run(ms(59));
        let sent: usize = scene.sent().iter().map(|seen| seen.numbers.len()).sum();
        assert_eq!(sent, 10, "{algorithm:?}: {:?}", scene.path());
    }
}

/// A page of 24 KB that names objects of 560 KB, all requested when it has arrived: the windows double in each round
/// trip, also where the first answer left some of one unused, and what a window allows is sent within a part of the
/// round trip. Four round trips carry the objects, at 200 ms.
#[test]
fn page_with_objects_takes_few_round_trips() {
    for (algorithm, most) in [(Algorithm::Cubic, 1200), (Algorithm::Bbr, 1320)] {
        let config = |config: &mut AssociationConfig| config.congestion = algorithm;
        let mut pair = Pair::new(endpoint(config), endpoint(|_| ()), link(ms(100), 100));
        let (a, b) = pair.connect();
        pair.recv_all(Side::B, b);
        let began = pair.now;
        for objects in [1, 40] {
            let size = if objects == 1 { 24_000 } else { 14_000 };
            for object in 0..objects {
                pair.send(Side::A, a, object, vec![1; size]);
            }
            let mut missing = usize::from(objects);
            pair.run_until(ms(10_000), |pair| {
                missing -= pair.recv_all(Side::B, b).len();
                missing == 0
            });
            if objects == 1 {
                // The request for the objects.
                pair.run_until(ms(100), |_| false);
            }
        }
        let took = pair.now.since(began);
        assert!(took < ms(most), "{algorithm:?}: {took:?}");
    }
}
