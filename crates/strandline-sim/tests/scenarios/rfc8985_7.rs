//! RFC 8985 section 7: the last packets of a flight are probed for after two round trips (122 ms here), or 200 ms later where a
//! single packet is in flight whose acknowledgement may be delayed.

use strandline_sim::pair::Fate;

use super::scene::Scene;
use super::*;

/// The tail of three: the probe is the highest of them, and its SACK tells of the others.
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
fn section_7_2_a_lone_packet_has_time_for_a_delayed_acknowledgement() {
    let mut scene = Scene::new(|_| ());
    scene.fate(0, &[Fate::Drop]);
    scene.give(1);
    scene.run(ms(900));
    let sent = scene.sent();
    assert!(sent.len() == 2 && (320..326).contains(&sent[1].ms) && sent[1].asks, "{sent:?}");
    assert_eq!((scene.stats().tail_probes, scene.stats().timeouts), (1, 0));
}

/// A single packet that fills a gap is acknowledged at once (RFC 9260 section 6.7): if it is lost again, nobody waits for a delayed
/// acknowledgement.
#[test]
fn section_7_2_a_lone_packet_that_fills_a_gap_has_no_more_time_than_others() {
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

/// A probe that is lost is followed by another one, after twice the time, and that by one after as long: RFC 9002 section 6.2.4 has two
/// packets for each time that is doubled.
#[test]
fn section_7_2_each_second_probe_waits_twice_as_long_as_those_before() {
    let mut scene = Scene::new(|_| ());
    scene.fate(0, &[Fate::Drop; 3]);
    scene.give(1);
    scene.run(ms(900));
    let times = scene.times(0);
    assert!(times.len() == 4 && (320..326).contains(&times[1]), "{times:?}");
    assert!((240..250).contains(&(times[2] - times[1])), "{times:?}");
    assert!((240..250).contains(&(times[3] - times[2])), "{times:?}");
    assert_eq!((scene.stats().tail_probes, scene.stats().timeouts), (3, 0));
}

/// Data that was not sent yet is the better probe, one packet beyond the window at most.
#[test]
fn section_7_3_new_data_goes_as_a_probe_where_there_is_any() {
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

/// A loss that the probe repaired is congestion all the same (section 7.4.2).
#[test]
fn section_7_4_a_repaired_loss_shrinks_the_window_and_a_needless_probe_does_not() {
    for (fate, shrinks) in [(Fate::Drop, true), (Fate::Delay(ms(340)), false)] {
        let mut scene = Scene::new(|_| ());
        let before = scene.path().cwnd;
        scene.fate(0, &[fate]);
        scene.give(1);
        scene.run(ms(900));
        assert_eq!(scene.stats().tail_probes, 1, "{fate:?}");
        // What follows is acknowledged, and nobody told of a second copy; or somebody did.
        scene.give(2);
        scene.run(ms(900));
        assert_eq!(scene.path().cwnd < before, shrinks, "{fate:?}: {before} {:?}", scene.path());
    }
}
