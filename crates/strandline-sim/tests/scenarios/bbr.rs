//! BBR (draft-ietf-ccwg-bbr; decisions 25, 57, 80, 115): Startup and the queue it leaves, probes for bandwidth,
//! losses and marks. 20 Mbit/s and round trips of 60 ms, with a queue of 200 ms. `rfc7661` covers applications that
//! send little, or nothing for a while.

use strandline_proto::congestion::Algorithm;
use strandline_sim::pair::Fate;

use super::scene::{Scene, packets};
use super::*;

/// User data and headers of DATA chunks that the link carries per second, in bytes.
const RATE: u64 = 2_500_000 * 1460 / 1500;

/// Number of packets that the path holds.
const HELD: u32 = (RATE * 60 / 1000 / 1460) as u32;

fn scene() -> Scene {
    let bbr =
        |config: &mut AssociationConfig| (config.congestion, config.extensions.ecn) = (Algorithm::Bbr, true);
    Scene::between(link(ms(30), 20), bbr, |config| config.extensions.ecn = true)
}

/// Returns a scene long after Startup.
fn steady() -> Scene {
    let mut scene = scene();
    scene.stream_and_look(ms(3000), |scene| scene.pair.clear_captured());
    scene
}

/// Counts chunks from now on.
fn count(scene: &mut Scene) {
    scene.stream_and_look(ms(20), |_| ());
    scene.count_from_now();
}

fn rate(scene: &Scene) -> u64 {
    scene.path().pacing_rate.unwrap()
}

/// Returns the number of bytes in the queue of the link.
fn queued(scene: &mut Scene) -> usize {
    let [from, to] = [Side::A, Side::B].map(|side| scene.pair.addresses(side)[0].ip());
    let now_ns = scene.pair.now.as_nanos();
    scene.pair.network.link(from, to).queued_bytes(now_ns)
}

/// Startup: the amount sent doubles in each round trip until the path yields no more. Nothing is lost although the
/// queue is short.
#[test]
fn start_doubles_until_the_path_is_full() {
    let mut scene = scene();
    scene.stream_and_look(ms(600), |_| ());
    let mut rounds = [0_usize; 4];
    for seen in scene.sent() {
        if let Some(round) = rounds.get_mut((seen.ms / 62) as usize) {
            *round += seen.numbers.len();
        }
    }
    for pair in rounds[..3].windows(2) {
        let growth = pair[1] as f64 / pair[0] as f64;
        assert!((1.5..3.0).contains(&growth), "{rounds:?}");
    }
    assert!(rounds[3] as u32 >= HELD / 10 * 8, "{rounds:?}, {HELD} fill the path");
    assert_eq!(scene.sent_again(), [] as [u32; 0]);
}

/// Drain: the queue of Startup is gone some round trips later, and the rate is the link's.
#[test]
fn the_queue_of_the_start_goes_away() {
    let mut scene = scene();
    let (mut most, mut gone_ms) = (0, None);
    scene.stream_and_look(ms(1500), |scene| {
        let queued = queued(scene);
        most = most.max(queued);
        let ms = scene.pair.now.since(scene.began).as_millis();
        if most > 60_000 && queued < 5_000 && gone_ms.is_none() {
            gone_ms = Some(ms);
        }
    });
    assert!(most > 60_000, "the start makes a queue: {most}");
    assert!(gone_ms.is_some_and(|ms| ms < 1000), "{gone_ms:?}");
    let rate = rate(&scene);
    assert!((RATE / 10 * 8..=RATE / 10 * 13).contains(&rate), "{rate} of {RATE}");
}

/// ProbeBW: a quarter more for a round trip or two, a tenth less until the queue is gone, and the rate of the path
/// for two to three seconds.
#[test]
fn bandwidth_is_probed_every_two_to_three_seconds() {
    let mut scene = steady();
    let (mut last, mut ups, mut cruised, mut looks) = (false, Vec::new(), 0, 0);
    scene.stream_and_look(ms(12_000), |scene| {
        let rate = rate(scene) as f64 / RATE as f64;
        let up = rate > 1.12;
        if up && !last {
            ups.push(scene.pair.now);
        }
        last = up;
        looks += 1;
        cruised += u32::from((0.93..1.05).contains(&rate));
        assert!((0.8..1.35).contains(&rate), "{rate} at {:?}", scene.pair.now);
        scene.pair.clear_captured();
    });
    assert!((3..=6).contains(&ups.len()), "{ups:?}");
    for pair in ups.windows(2) {
        let between = pair[1].since(pair[0]);
        assert!(between > ms(2000) && between < ms(3700), "{between:?}");
    }
    assert!(cruised > looks / 10 * 7, "{cruised} of {looks} ms at the rate of the path");
}

/// Probes find more bandwidth; less bandwidth is adopted after two of them.
#[test]
fn the_rate_follows_the_path() {
    let mut scene = steady();
    let [from, to] = [Side::A, Side::B].map(|side| scene.pair.addresses(side)[0].ip());
    scene.pair.network.link(from, to).change(strandline_netem::Change::Rate(30_000_000));
    scene.stream_and_look(ms(8000), |scene| scene.pair.clear_captured());
    assert!(rate(&scene) > RATE / 10 * 12, "{} of {RATE} half as much again", rate(&scene));
    scene.pair.network.link(from, to).change(strandline_netem::Change::Rate(10_000_000));
    scene.stream_and_look(ms(10_000), |scene| scene.pair.clear_captured());
    assert!(rate(&scene) < RATE / 10 * 7, "{} of {RATE} where half is left", rate(&scene));
}

/// Single losses without a queue change neither rate nor window.
#[test]
fn a_loss_without_a_queue_changes_nothing() {
    let mut scene = steady();
    count(&mut scene);
    let before = scene.path();
    let first = scene.next_number();
    for number in [5, 300, 600] {
        scene.fate(first + number, &[Fate::Drop]);
    }
    let mut least = u32::MAX;
    scene.stream_and_look(ms(700), |scene| least = least.min(scene.path().cwnd));
    assert!(scene.stats().retransmissions >= 3);
    assert!(least >= before.cwnd / 10 * 8, "{least} of {}", before.cwnd);
    assert!(rate(&scene) >= RATE / 20 * 17, "{before:?} {:?}", scene.path());
    assert_eq!(scene.stats().timeouts, 0);
}

/// Decision 80: a mark limits the flight to 85 percent, and one packet more is allowed in each round trip after it.
#[test]
fn mark_takes_a_seventh_of_inflight() {
    let mut scene = steady();
    count(&mut scene);
    let mut flight = 0;
    scene.stream_and_look(ms(130), |scene| flight = flight.max(scene.path().flight));
    let first = scene.next_number();
    for number in 0..5 {
        scene.fate(first + number, &[Fate::Mark]);
    }
    let mut least = u32::MAX;
    scene.stream_and_look(ms(140), |scene| least = least.min(scene.path().cwnd));
    assert!(least <= flight / 100 * 92 && least >= flight / 100 * 70, "{least} after {flight}");
    // Only once: many marks of one window count as one.
    scene.stream_and_look(ms(300), |_| ());
    let now = scene.path().cwnd;
    assert!(now > least && now <= least + 10 * 1460, "{least} {now}: a packet for each round trip");
}

/// A mark ends Startup.
#[test]
fn a_mark_ends_the_start() {
    let mut scene = scene();
    scene.stream_until(|scene| packets(scene.path().cwnd) >= 40);
    let (first, before) = (scene.next_number(), rate(&scene));
    scene.fate(first, &[Fate::Mark]);
    let mut least = u64::MAX;
    scene.stream_and_look(ms(130), |scene| least = least.min(rate(scene)));
    assert!(least < before / 2, "{least} after {before}: the queue of the start is drained");
    let window = scene.path().cwnd;
    let flight = scene.path().flight;
    scene.stream_and_look(ms(250), |_| ());
    assert!(scene.path().cwnd <= window + 6 * 1460, "{window} in flight {flight}: {:?}", scene.path());
    assert!(packets(scene.path().cwnd) < HELD, "{:?}", scene.path());
}

/// ProbeRTT: on a path that has become longer no sample comes near the minimum round-trip time any more. Five seconds
/// after the last one, half of the assumed bandwidth-delay product is in flight for 200 ms and a round trip, and then
/// as much as before. The minimum since the probe before the last counts, so the third probe finds the new one.
#[test]
fn smallest_rtt_is_probed_at_half_inflight() {
    let mut scene = steady();
    let ends = [Side::A, Side::B].map(|side| scene.pair.addresses(side)[0].ip());
    for (from, to) in [(ends[0], ends[1]), (ends[1], ends[0])] {
        scene.pair.network.link(from, to).change(strandline_netem::Change::Config(link(ms(40), 20)));
    }
    let (began, cwnd) = (scene.pair.now, scene.path().cwnd);
    let (mut searches, mut searching, mut least) = (Vec::new(), None, u32::MAX);
    scene.stream_and_look(ms(19_000), |scene| {
        let path = scene.path();
        let low = path.cwnd < HELD * 1460 / 4 * 3;
        match (low, searching) {
            (true, None) => (searching, least) = (Some(scene.pair.now), u32::MAX),
            (true, Some(_)) => least = least.min(path.flight),
            (false, Some(since)) => {
                searches.push((
                    since.since(began).as_millis(),
                    scene.pair.now.since(since).as_millis(),
                    packets(least),
                ));
                searching = None;
            }
            (false, None) => {}
        }
        scene.pair.clear_captured();
    });
    assert_eq!(searches.len(), 3, "{searches:?}");
    let mut last_ms = 0;
    for (at_ms, took_ms, least) in &searches {
        assert!((4_000..6_500).contains(&(at_ms - last_ms)), "{searches:?}");
        assert!((200..520).contains(took_ms), "{searches:?}");
        assert!((HELD / 3..=HELD / 2 + 3).contains(least), "{searches:?}: half of {HELD}");
        last_ms = *at_ms;
    }
    scene.stream_and_look(ms(1500), |_| ());
    let now = scene.path().cwnd;
    assert!(now > cwnd / 100 * 115, "{cwnd} for 60 ms, {now} for 80");
    assert!(rate(&scene) >= RATE / 20 * 17);
}
