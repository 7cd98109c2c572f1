//! RFC 6675, recovery by selective acknowledgements, with gap blocks in place of SACK options and TSNs in place of
//! bytes: what counts as lost and as in flight, what is sent next, and what one recovery covers. Round trips of 60
//! ms. Both kinds of loss detection must do this: by time (RFC 8985), and by miss indications (RFC 9260 section
//! 7.2.4).

use strandline_sim::pair::Fate;

use super::scene::Scene;
use super::*;

/// Returns a scene in which ten packets and more may be sent at once.
fn begun(messages: usize, change: impl Fn(&mut AssociationConfig)) -> Scene {
    let mut scene = Scene::new(change);
    scene.give(messages);
    scene.run(ms(600));
    assert!(scene.all_is_acknowledged() && scene.sent_again().is_empty());
    scene.count_from_now();
    assert!(scene::packets(scene.path().cwnd) >= 15, "{:?}", scene.path());
    scene
}

/// Returns a scene with loss detection by miss indications.
fn by_misses() -> Scene {
    let letter =
        AssociationConfig { path_mtu_initial: 1500, path_mtu_max: 1500, ..AssociationConfig::rfc9260() };
    begun(40, |config| *config = AssociationConfig { burst_max: 0, ..letter.clone() })
}

fn by_time() -> Scene {
    begun(20, |_| ())
}

fn drops(scene: &mut Scene, numbers: impl IntoIterator<Item = u32>) {
    numbers.into_iter().for_each(|number| scene.fate(number, &[Fate::Drop]));
}

/// Section 4, IsLost: DupThresh is three. With two packets beyond the gap only time tells, T3-rtx or a tail-loss
/// probe.
#[test]
fn section_4_is_lost_needs_three_later_packets() {
    for (behind, at_once) in [(2, false), (3, true)] {
        let mut scene = by_misses();
        drops(&mut scene, [2]);
        scene.give(3 + behind);
        scene.run(ms(3000));
        let times = scene.times(2);
        assert_eq!(times.len(), 2, "{times:?}");
        assert_eq!((60..65).contains(&times[1]), at_once, "{behind} behind it: {times:?}");
        assert_eq!(scene.stats().fast_recoveries == 1, at_once);
        assert_eq!(scene.stats().timeouts == 0, at_once);
    }
}

/// Section 4, SetPipe: lost chunks and those in gap blocks are not in flight. Every other packet of a window is
/// therefore retransmitted within a round trip; with cumulative acknowledgements alone each would take one.
#[test]
fn section_4_set_pipe_repairs_within_one_rtt() {
    for mut scene in [by_time(), by_misses()] {
        drops(&mut scene, [1, 3, 5]);
        scene.give(14);
        scene.run(ms(1500));
        for number in [1, 3, 5] {
            let times = scene.times(number);
            assert!(times.len() == 2 && (60..120).contains(&times[1]), "{number}: {:?}", scene.sent());
        }
        assert_eq!(scene.sent_again(), [1, 3, 5]);
        assert_eq!((scene.stats().fast_recoveries, scene.stats().timeouts), (1, 0));
        assert!(scene.all_is_acknowledged());
    }
}

/// Section 4, NextSeg rules 1 and 2: the lowest lost chunk is sent first, and new data once no known loss is left.
#[test]
fn section_4_next_seg_losses_precede_new_data() {
    for mut scene in [by_time(), by_misses()] {
        drops(&mut scene, [0, 1, 2]);
        scene.give(60);
        scene.run(ms(119));
        let sent: Vec<u32> = scene.sent().into_iter().flat_map(|seen| seen.numbers).collect();
        let again = sent.iter().skip(1).position(|number| *number == 0).expect("it goes again") + 1;
        assert_eq!(sent[again..again + 3], [0, 1, 2], "{sent:?}");
        let after = &sent[again + 3..];
        assert!(!after.is_empty(), "what arrives lets new data go in the recovery: {sent:?}");
        assert!(after.windows(2).all(|pair| pair[1] == pair[0] + 1), "{sent:?}");
        assert_eq!(after[0], again as u32, "the next one that had not been sent: {sent:?}");
    }
}

/// Section 5: up to RecoveryPoint, the highest chunk sent when the first loss was detected, further losses belong to
/// the same congestion: the window shrinks once. The loss of data sent after it counts anew.
#[test]
fn section_5_the_window_shrinks_once_up_to_recovery_point() {
    for mut scene in [by_time(), by_misses()] {
        // The second loss shows during the recovery of the first.
        drops(&mut scene, [0, 9]);
        scene.give(14);
        scene.run(ms(90));
        let reduced = scene.path().ssthresh;
        assert!(reduced < u32::MAX, "{:?}", scene.path());
        scene.run(ms(1500));
        assert_eq!(scene.sent_again(), [0, 9]);
        assert_eq!((scene.stats().fast_recoveries, scene.stats().timeouts), (1, 0));
        drops(&mut scene, [16]);
        scene.give(10);
        scene.run(ms(1500));
        assert_eq!(scene.stats().fast_recoveries, 2);
    }
}

/// Section 4, NextSeg rule 4 requires a rescue if the highest packet is lost, since nothing above it can reveal that.
/// Here a tail-loss probe does this, not T3-rtx.
#[test]
fn section_4_next_seg_highest_needs_no_time_out() {
    let mut scene = by_time();
    drops(&mut scene, [2, 9]);
    scene.give(10);
    scene.run(ms(1500));
    let times = scene.times(9);
    assert!(times.len() == 2 && (119..200).contains(&times[1]), "{times:?}");
    assert_eq!((scene.sent_again(), scene.stats().timeouts), (vec![2, 9], 0));
}

/// Section 5.1: a time-out keeps what gap blocks acknowledged; it is not retransmitted.
#[test]
fn section_5_1_time_out_keeps_gap_acknowledgements() {
    for (mut scene, times) in [(by_time(), 5), (by_misses(), 2)] {
        scene.fate(0, &vec![Fate::Drop; times]);
        scene.give(8);
        scene.run(ms(8000));
        assert!(scene.stats().timeouts >= 1, "{:?}", scene.sent());
        assert!(scene.sent_again().iter().all(|number| *number == 0), "{:?}", scene.sent());
        assert_eq!(scene.times(0).len(), times + 1);
        assert!(scene.all_is_acknowledged());
    }
}
