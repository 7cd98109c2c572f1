//! RFC 7829 section 4: the dormant state, in which all paths are inactive.

use strandline_proto::config::Recovery;
use strandline_proto::stats::Reachability;

use super::rfc7829_3::TwoPaths;
use super::*;

fn lan() -> LinkConfig {
    LinkConfig { queue_bytes_max: 200_000, ..link(Duration::from_micros(100), 1000) }
}

/// Returns two paths that the sender considers inactive, with data that timed out on both. Both are cut.
fn dormant(recovery: Recovery) -> TwoPaths {
    let mut paths = TwoPaths::new([lan(), lan()], |config| {
        config.recovery = recovery;
        config.heartbeat_interval = None;
        config.path_retrans_max = 1;
        config.association_retrans_max = 50;
    });
    paths.run(ms(1000), 100_000);
    paths.cut(0);
    paths.run(ms(5000), 100_000);
    paths.cut(1);
    paths.run(ms(60_000), 100_000);
    let states = paths.paths();
    assert!(states.iter().all(|path| path.state == Reachability::Inactive), "{states:?}");
    paths
}

/// Everything that waits went over both paths, so that no acknowledgement shows which of them works. The data
/// stays on the path that is acknowledged: only what is on the dead path has to wait for T3-rtx.
#[test]
fn data_stays_on_the_path_that_answers() {
    for recovery in [Recovery::Rfc9260, Recovery::Rack] {
        for healed in [0, 1] {
            let mut paths = dormant(recovery);
            paths.heal(healed);
            let began = paths.pair.now;
            while paths.pair.a.endpoint.status(paths.a).unwrap().send_buffered > 0 {
                paths.run(ms(100), 0);
                let time = paths.pair.now.since(began);
                assert!(time < ms(150_000), "{recovery:?}, path {healed}: {:?}", paths.paths());
            }
            paths.finish();
            paths.run(ms(100), 10_000);
            assert_eq!(paths.paths()[healed].state, Reachability::Active, "new data is a clear answer");
            paths.finish();
        }
    }
}

/// SACKs return to the source of the data, as it is the only path that shows a sign of life.
#[test]
fn sacks_return_on_the_path_of_the_data() {
    for healed in [0, 1] {
        let heartbeats = |config: &mut AssociationConfig, interval| {
            config.heartbeat_interval = interval;
            config.path_retrans_max = 1;
            config.association_retrans_max = 50;
        };
        let mut paths = TwoPaths::new([lan(), lan()], |config| heartbeats(config, Some(ms(1000))));
        paths.cut(0);
        paths.cut(1);
        paths.run(ms(30_000), 0);
        let states = paths.pair.b.endpoint.paths(paths.b).unwrap();
        assert!(states.iter().all(|path| path.state == Reachability::Inactive), "{states:?}");
        let mut off = AssociationConfig { path_mtu_initial: 1500, ..AssociationConfig::default() };
        heartbeats(&mut off, None);
        let (now, off) = (paths.pair.now, Arc::new(off));
        paths.pair.a.endpoint.configure(now, paths.a, Arc::clone(&off)).unwrap();
        paths.pair.b.endpoint.configure(now, paths.b, off).unwrap();
        paths.heal(healed);
        paths.run(ms(1), 1000);
        paths.run(ms(150_000), 0);
        let left = paths.pair.a.endpoint.status(paths.a).unwrap().send_buffered;
        assert_eq!(left, 0, "path {healed}: {:?}", paths.pair.b.endpoint.paths(paths.b));
    }
}
