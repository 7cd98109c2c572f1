use core::time::Duration;

use super::*;
use crate::config::{AssociationConfig, ExtensionsConfig, Recovery};
use crate::path::Link;
use crate::time::Time;

/// Paths with these round-trip times in milliseconds, in use, each with the initial window.
fn paths(round_trips_ms: &[u64]) -> PathSet {
    let config = AssociationConfig::default();
    let path = |number: usize, rtt_ms: u64| {
        let remote = ([10, 0, number as u8, 1], 9899).into();
        let mut path = Path::new(remote, None, &config, Link::UDP, Time::ZERO);
        path.state = PathState::Active;
        path.flight = 1000;
        path.rto.on_sample(Duration::from_millis(rtt_ms), &config);
        path
    };
    let mut set = PathSet::new(path(0, round_trips_ms[0]));
    for (number, rtt_ms) in round_trips_ms.iter().enumerate().skip(1) {
        set.add(path(number, *rtt_ms)).unwrap();
    }
    set
}

#[test]
fn miss_indications_allow_one_path_only() {
    let extensions = ExtensionsConfig { multipath: Multipath::Coupled, ..ExtensionsConfig::default() };
    let config = AssociationConfig { extensions, ..AssociationConfig::default() };
    assert!(config.validate().is_ok());
    let config = AssociationConfig { recovery: Recovery::Rfc9260, ..config };
    assert_eq!(config.validate().map_err(|error| error.name), Err("extensions.multipath"));
}

fn shares(paths: &PathSet) -> Vec<f32> {
    let shares = shares_of(paths);
    paths.indices().map(|index| shares[index]).collect()
}

/// RFC 6356 section 3: with n equal paths each grows by 1 / n^2 of what a flow alone would, so that all
/// together grow by 1 / n of that in packets, and in proportion to their windows as much as one flow.
#[test]
fn equal_paths_grow_as_one_flow() {
    assert_eq!(shares(&paths(&[20])), [1.0]);
    assert_eq!(shares(&paths(&[20, 20])), [0.25, 0.25]);
    for share in shares(&paths(&[20, 20, 20])) {
        assert!((share - 1.0 / 9.0).abs() < 1e-6, "{share}");
    }
}

/// w = 1, r = 1 and 4: rates 1 and 1/4, their sum 5/4, the best w / r^2 is 1: both shares are 1 / (5/4)^2.
#[test]
fn the_path_with_the_best_throughput_leads() {
    for share in shares(&paths(&[10, 40])) {
        assert!((share - 0.64).abs() < 1e-6, "{share}");
    }
}

#[test]
fn idle_paths_are_no_part_of_the_flow() {
    let mut set = paths(&[20, 20]);
    set.get_mut(PathIndex::P1).flight = 0;
    assert_eq!(shares(&set), [1.0, 1.0]);
    set.get_mut(PathIndex::P1).flight = 1000;
    set.get_mut(PathIndex::P1).state = PathState::PotentiallyFailed;
    assert_eq!(shares(&set), [1.0, 1.0]);
}
