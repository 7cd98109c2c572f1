//! RFC 8985 section 7: the last packets of a flight are probed for after two round trips (122 ms here), or 200 ms
//! later for a single packet whose acknowledgement may be delayed.

use strandline_sim::pair::Fate;

use super::scene::Scene;
use super::*;

/// The tail of three: the probe is the highest of them, and its SACK reveals the others.
#[test]
fn section_7_3_the_highest_chunk_in_flight_is_the_probe() {
    let mut scene = Scene::new(|_| ());
    for number in 3..6 {
        scene.fate(number, &[Fate::Drop]);
    }
    scene.give(6);
    scene.run(ms(900));
    let after: Vec<_> = scene.sent().split_off(6);
    let numbers: Vec<Vec<u32>> = after.iter().map(|seen| seen.numbers.clone()).collect();
    assert_eq!(numbers, [[5], [3], [4]], "{:#?}", scene.pair.printed());
    assert!((180..190).contains(&after[0].ms) && after[0].asks, "{after:?}");
    assert!((240..252).contains(&after[1].ms), "{after:?}");
    assert_eq!((scene.stats().tail_probes, scene.stats().timeouts), (1, 0));
    assert!(scene.all_is_acknowledged());
}

/// One packet: its acknowledgement might only be delayed.
#[test]
fn section_7_2_single_packet_allows_delayed_ack() {
    let mut scene = Scene::new(|_| ());
    scene.fate(0, &[Fate::Drop]);
    scene.give(1);
    scene.run(ms(900));
    let sent = scene.sent();
    assert!(sent.len() == 2 && (320..326).contains(&sent[1].ms) && sent[1].asks, "{sent:?}");
    assert_eq!((scene.stats().tail_probes, scene.stats().timeouts), (1, 0));
}

/// A single packet that fills a gap is acknowledged at once (RFC 9260 section 6.7): if it is lost again, the probe
/// does not allow for a delayed acknowledgement.
#[test]
fn section_7_2_single_gap_filler_gets_no_allowance() {
    let mut scene = Scene::new(|_| ());
    scene.fate(0, &[Fate::Drop; 2]);
    scene.give(5);
    scene.run(ms(900));
    let times = scene.times(0);
    assert!(times.len() == 3 && (60..80).contains(&times[1]), "{times:?}");
    assert!((120..126).contains(&(times[2] - times[1])), "{times:?}");
    assert_eq!((scene.stats().tail_probes, scene.stats().timeouts), (1, 0));
    assert!(scene.all_is_acknowledged());
}

/// A local network: a round trip of 200 microseconds.
fn local() -> Scene {
    Scene::on(link(Duration::from_micros(100), 1000), |_| ())
}

/// A single packet with the I bit: the probe does not allow for a delayed acknowledgement.
#[test]
fn section_7_2_i_bit_packet_gets_no_allowance() {
    let mut scene = local();
    for (number, wait) in [(0, 2..4), (1, 202..204)] {
        let before = scene.stats();
        scene.fate(number, &[Fate::Drop]);
        if number == 0 {
            scene.ask()
        } else {
            scene.give(1)
        }
        scene.run(ms(900));
        let times = scene.times(number);
        assert!(times.len() == 2 && wait.contains(&(times[1] - times[0])), "{number}: {times:?}");
        let stats = scene.stats();
        assert_eq!((stats.tail_probes - before.tail_probes, stats.timeouts), (1, 0));
    }
    assert!(scene.all_is_acknowledged());
}

/// The answer after a pause has the I bit by itself: if it is lost, it is retransmitted as soon.
#[test]
fn section_7_2_lost_answer_after_pause_returns_soon() {
    let mut scene = local();
    let (a, b) = (scene.a, scene.b);
    // The first question is acknowledged at once, not by the answer.
    for question in ["anybody there?", "how much?"] {
        scene.run(ms(900));
        scene.pair.send(Side::B, b, 0, question);
    }
    scene.run(ms(1));
    scene.fate(0, &[Fate::Drop]);
    scene.pair.send(Side::A, a, 0, "so much");
    scene.run(ms(900));
    let sent = scene.sent();
    assert!(sent.len() == 2 && sent[0].asks && sent[1].ms - sent[0].ms < 4, "{sent:?}");
    assert_eq!((scene.stats().tail_probes, scene.stats().timeouts), (1, 0));
}

/// A peer that ignores the I bit delays its acknowledgement: one spurious probe reveals it, and none follows.
#[test]
fn section_7_2_peer_ignoring_i_bit_is_learnt() {
    let mut scene = local();
    scene.pair.ignore_i_bits(Side::B);
    for _ in 0..5 {
        scene.ask();
        scene.run(ms(900));
    }
    assert!(scene.sent().iter().all(|seen| seen.asks));
    assert_eq!(scene.sent_again(), [0], "{:#?}", scene.pair.printed());
    assert_eq!((scene.stats().tail_probes, scene.stats().timeouts), (1, 0));
    // A lost packet gets the allowance of 200 ms again.
    scene.fate(5, &[Fate::Drop]);
    scene.ask();
    scene.run(ms(900));
    let times = scene.times(5);
    assert!(times.len() == 2 && times[1] - times[0] >= 200, "{times:?}");
    assert!(scene.all_is_acknowledged());
}

/// Answers that come at once because they go with data do not show that the peer heeds the I bit.
#[test]
fn section_7_2_an_acknowledgement_that_comes_with_data_tells_nothing() {
    let mut scene = local();
    scene.pair.ignore_i_bits(Side::B);
    let b = scene.b;
    for answers in [false, true, false, true, false] {
        scene.ask();
        scene.run(Duration::from_micros(150));
        if answers {
            scene.pair.send(Side::B, b, 0, "yes");
        }
        scene.run(ms(900));
    }
    assert_eq!(scene.sent_again(), [0], "{:#?}", scene.pair.printed());
}

/// A lost acknowledgement looks as if the peer ignored the I bit; the next immediate one shows that it does not.
#[test]
fn section_7_2_after_an_answer_at_once_asking_counts_again() {
    let mut scene = local();
    scene.pair.drop_next(Side::B, strandline_sim::pair::with_chunk(kind::SACK));
    scene.ask();
    scene.run(ms(900));
    assert_eq!(scene.sent_again(), [0]);
    for (number, wait) in [(1, 202..204), (3, 2..4)] {
        scene.fate(number, &[Fate::Drop]);
        scene.ask();
        scene.run(ms(900));
        let times = scene.times(number);
        assert!(times.len() == 2 && wait.contains(&(times[1] - times[0])), "{number}: {times:?}");
        scene.ask();
        scene.run(ms(900));
    }
    assert!(scene.all_is_acknowledged());
}

/// A lost probe is followed by one other, after twice the time.
#[test]
fn section_7_2_the_second_probe_waits_twice_as_long() {
    let mut scene = Scene::new(|_| ());
    scene.fate(0, &[Fate::Drop; 2]);
    scene.give(1);
    scene.run(ms(900));
    let times = scene.times(0);
    assert!(times.len() == 3 && (320..326).contains(&times[1]), "{times:?}");
    assert!((240..250).contains(&(times[2] - times[1])), "{times:?}");
    assert_eq!((scene.stats().tail_probes, scene.stats().timeouts), (2, 0));
}

/// Unsent data is the better probe, at most one packet beyond the window.
#[test]
fn section_7_3_new_data_serves_as_probe() {
    let mut scene = Scene::new(|_| ());
    for number in 0..10 {
        scene.fate(number, &[Fate::Drop]);
    }
    let window = scene::packets(scene.path().cwnd);
    for number in 10..window {
        scene.fate(number, &[Fate::Drop]);
    }
    scene.give(30);
    scene.run(ms(130));
    let sent = scene.sent();
    let last = &sent[sent.len() - 1];
    assert!((122..126).contains(&last.ms) && last.asks && last.numbers == [window], "{sent:?}");
    assert_eq!(sent.len() as u32, window + 1);
    scene.run(ms(900));
    assert_eq!(scene.stats().timeouts, 0);
    assert!(scene.all_is_acknowledged());
}

/// A loss that the probe repaired still counts as congestion (section 7.4.2).
#[test]
fn section_7_4_repaired_loss_shrinks_and_probe_does_not() {
    for (fate, shrinks) in [(Fate::Drop, true), (Fate::Delay(ms(340)), false)] {
        let mut scene = Scene::new(|_| ());
        let before = scene.path().cwnd;
        scene.fate(0, &[fate]);
        scene.give(1);
        scene.run(ms(900));
        assert_eq!(scene.stats().tail_probes, 1, "{fate:?}");
        // The following data is acknowledged, and a second copy is reported or not.
        scene.give(2);
        scene.run(ms(900));
        assert_eq!(scene.path().cwnd < before, shrinks, "{fate:?}: {before} {:?}", scene.path());
    }
}
