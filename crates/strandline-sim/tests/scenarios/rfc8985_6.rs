//! RFC 8985 section 6: a packet is lost once one that was sent later has arrived and a reordering window has passed.
//! Three packets beyond a gap need no window as long as no reordering was seen. Round trips of 60 ms: the window is
//! 15.

use strandline_sim::pair::Fate;

use super::scene::Scene;
use super::*;

/// Three packets beyond the gap: retransmitted at once, and once.
#[test]
fn section_6_2_loss_is_repaired_after_three_packets() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Drop]);
    scene.give(10);
    scene.run(ms(1000));
    let sent = scene.sent();
    assert!(sent[..10].iter().all(|seen| seen.ms == 0), "the first window goes at once: {sent:?}");
    let times = scene.times(2);
    assert!(times.len() == 2 && (60..64).contains(&times[1]), "{times:?}");
    assert_eq!((scene.sent_again(), scene.stats().timeouts), (vec![2], 0));
    assert_eq!(scene.stats().fast_recoveries, 1);
    assert!(scene.all_is_acknowledged());
}

/// Two packets beyond it prove nothing until the window is over.
#[test]
fn section_6_2_slightly_late_packet_is_not_resent() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Delay(ms(40))]);
    scene.give(5);
    scene.run(ms(1000));
    assert_eq!(scene.sent_again(), [] as [u32; 0]);
    assert_eq!(scene.stats().fast_recoveries, 0);
}

#[test]
fn section_6_2_one_that_is_later_than_the_window_is() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Delay(ms(90))]);
    scene.give(5);
    scene.run(ms(1000));
    let times = scene.times(2);
    assert!(times.len() == 2 && (74..80).contains(&times[1]), "{times:?}");
    assert_eq!(scene.sent_again(), [2]);
}

/// Once reordering was seen, three packets beyond a gap are no proof any more; nor after a pause, which resets the
/// state of the flight.
#[test]
fn section_6_2_reordering_path_waits_for_the_window() {
    for pause in [500, 3000] {
        all_wait_after(ms(pause));
    }
}

fn all_wait_after(pause: Duration) {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Delay(ms(40))]);
    scene.give(5);
    scene.run(pause);
    scene.fate(7, &[Fate::Delay(ms(40))]);
    scene.give(10);
    scene.run(pause);
    assert_eq!(scene.sent_again(), [] as [u32; 0], "{pause:?}");
    // The end of the window reveals a loss instead.
    scene.fate(17, &[Fate::Drop]);
    let began = scene.pair.now.since(scene.began).as_millis() as u64;
    scene.give(10);
    scene.run(ms(500));
    let times = scene.times(17);
    assert!(times.len() == 2 && (began + 74..began + 82).contains(&times[1]), "{times:?} from {began}");
}

/// A lost retransmission is detected by later packets, without a time-out, a round trip later.
#[test]
fn section_6_2_lost_retransmission_needs_no_time_out() {
    let mut scene = Scene::new(|_| ());
    scene.fate(2, &[Fate::Drop, Fate::Drop]);
    scene.give(60);
    scene.run(ms(1000));
    let times = scene.times(2);
    assert_eq!(times.len(), 3, "{times:?}");
    let round_trip = times[2] - times[1];
    assert!((60..90).contains(&round_trip), "{times:?}");
    assert_eq!((scene.sent_again(), scene.stats().timeouts), (vec![2, 2], 0));
    assert!(scene.all_is_acknowledged());
}

/// RFC 9260 alone waits for T3-rtx, for comparison.
#[test]
fn miss_indications_leave_lost_retransmissions_to_t3() {
    let mut scene = Scene::new(|config| {
        *config =
            AssociationConfig { path_mtu_initial: 1500, path_mtu_max: 1500, ..AssociationConfig::rfc9260() }
    });
    scene.fate(2, &[Fate::Drop, Fate::Drop]);
    scene.give(60);
    scene.run(ms(3000));
    let times = scene.times(2);
    assert!(times.len() == 3 && times[2] - times[1] >= 990, "{times:?}");
    assert_eq!(scene.stats().timeouts, 1);
}
