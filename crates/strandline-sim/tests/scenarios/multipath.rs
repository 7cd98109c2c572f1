//! Several paths at once (draft-tuexen-tsvwg-sctp-multipath sections 3.1 and 5.4.2).

use strandline_netem::{Loss, Reordering};
use strandline_proto::config::Multipath;
use strandline_proto::congestion::Algorithm;
use strandline_proto::event::PathChange;

use super::rfc7829_3::TwoPaths;
use super::*;

fn roomy(delay: Duration, mbit: u64) -> LinkConfig {
    LinkConfig { queue_bytes_max: 10_000_000, ..link(delay, mbit) }
}

fn both(config: &mut AssociationConfig) {
    config.extensions.multipath = Multipath::Independent;
}

/// On a path of 200 ms data arrives after thousands of packets that were sent later on one of 10 ms.
#[test]
fn data_that_overtakes_is_not_lost() {
    let mut paths = TwoPaths::new([roomy(ms(5), 50), roomy(ms(100), 50)], |config| {
        both(config);
        (config.send_buffer, config.receive_buffer) = (Some(16 << 20), Some(16 << 20));
    });
    paths.run(ms(4000), 3_000_000);
    let stats = paths.pair.a.endpoint.status(paths.a).unwrap().stats;
    let found = (stats.retransmissions, stats.fast_recoveries, stats.timeouts);
    assert_eq!(found, (0, 0, 0));
    let sent = [0, 1].map(|path| paths.sent(path, kind::DATA));
    assert!(sent.iter().all(|packets| *packets > 1000), "{sent:?}");
    paths.finish();
}

/// What was lost on the path is sent on the other one, and nothing stands still for long.
#[test]
fn a_cut_path_is_left_and_used_again() {
    for cut in [0, 1] {
        let mut paths = TwoPaths::new([roomy(ms(10), 20), roomy(ms(20), 20)], both);
        paths.run(ms(1000), 400_000);
        paths.changes(cut);
        paths.cut(cut);
        let standstill = paths.standstill(400_000);
        assert!(standstill < ms(600), "{cut}: {standstill:?}");
        assert_eq!(paths.changes(cut), [PathChange::PotentiallyFailed], "{cut}");
        paths.run(ms(1000), 400_000);
        paths.pair.clear_captured();
        paths.run(ms(500), 400_000);
        assert_eq!(paths.sent(cut, kind::DATA), 0, "{cut}");
        paths.heal(cut);
        paths.run(ms(5000), 400_000);
        paths.pair.clear_captured();
        paths.run(ms(500), 400_000);
        let sent = [0, 1].map(|path| paths.sent(path, kind::DATA));
        assert!(sent.iter().all(|packets| *packets > 300), "{cut}: {sent:?}");
        paths.finish();
    }
}

/// SACKs of both paths overtake each other for as long as a chunk is missing. The older ones revoke nothing: the
/// association lasts, and only what was lost is retransmitted.
#[test]
fn sacks_that_overtake_are_no_reneging() {
    for multipath in [Multipath::Off, Multipath::Independent] {
        let reordering = Reordering { probability: 0.1, extra_delay_max: ms(3) };
        let lossy = LinkConfig { reordering, ..roomy(ms(40), 50).loss(Loss::Random(0.05)) };
        let mut paths = TwoPaths::new([lossy.clone(), lossy], |config| {
            config.extensions.multipath = multipath;
            config.congestion = Algorithm::Bbr;
            (config.send_buffer, config.receive_buffer) = (Some(16 << 20), Some(16 << 20));
        });
        // Enough that data does not wait for room in the send buffer: thousands of packets are in flight.
        paths.run(ms(3000), 4_000_000);
        let stats = paths.pair.a.endpoint.status(paths.a).unwrap().stats;
        let sent: usize = [0, 1].map(|path| paths.sent(path, kind::DATA)).iter().sum();
        assert!(sent > 15_000, "{multipath:?}: {sent}");
        let share = stats.retransmissions as f64 / sent as f64;
        assert!((0.04..0.06).contains(&share), "{multipath:?}: {share}");
        paths.finish();
    }
}
