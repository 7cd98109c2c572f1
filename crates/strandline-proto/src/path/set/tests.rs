#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use super::*;
use crate::config::{AssociationConfig, PATHS_MAX};
use crate::path::Link;

fn address(host: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, host])
}

fn path(host: u8, state: PathState) -> Path {
    let remote = SocketAddr::new(address(host), 9899);
    let mut path = Path::new(remote, None, &AssociationConfig::default(), Link::UDP, Time::ZERO);
    path.state = state;
    path
}

fn set(states: &[PathState]) -> PathSet {
    let mut paths = states.iter().zip(0..).map(|(&state, host)| path(host, state));
    let mut set = PathSet::new(paths.next().unwrap());
    for (path, index) in paths.zip(1..) {
        assert_eq!(set.add(path), PathIndex::new(index));
    }
    set
}

use PathState::{Active, Ambiguous, Inactive, Unconfirmed};

fn secs(secs: u64) -> Time {
    Time::ZERO + Duration::from_secs(secs)
}

#[test]
fn one_path_needs_no_heap() {
    let mut set = set(&[Active]);
    println!("PathSet: {} bytes", size_of::<PathSet>());
    assert!(size_of::<PathSet>() <= 312);
    assert_eq!((set.len(), set.heap_bytes()), (1, 0));
    set.add(path(1, Active));
    assert_eq!((set.len(), set.heap_bytes()), (2, size_of::<More>() + size_of::<Path>()));
}

#[test]
fn set_is_bounded_and_addresses_unique() {
    let mut set = set(&[Active; PATHS_MAX]);
    assert_eq!(set.add(path(99, Active)), None);
    assert_eq!(set.add(path(3, Active)), Some(PathIndex::P3));
    assert_eq!(set.len(), PATHS_MAX);
    for (index, path) in set.iter() {
        assert_eq!(path.remote.ip(), address(index.number()));
        assert_eq!(set.get(index).remote, path.remote);
        assert_eq!(set.by_address(path.remote.ip()), Some(index));
    }
    assert_eq!(set.by_address(address(200)), None);
    assert_eq!(set.by_address("::ffff:192.0.2.5".parse().unwrap()), Some(PathIndex::P5));
    assert_eq!(set.indices().count(), PATHS_MAX);
}

#[test]
fn section_6_4_data_returns_to_the_primary() {
    let mut set = set(&[Active, Active, Active]);
    assert_eq!(set.data_path(), Some(PathIndex::FIRST));
    set.get_mut(PathIndex::FIRST).state = Inactive;
    set.get_mut(PathIndex::P1).error_count = 1;
    assert_eq!(set.data_path(), Some(PathIndex::P2), "the fewest errors");
    set.get_mut(PathIndex::FIRST).state = Active;
    set.get_mut(PathIndex::FIRST).error_count = 5;
    assert_eq!(set.data_path(), Some(PathIndex::FIRST));
}

#[test]
fn section_5_4_an_unconfirmed_path_is_neither_primary_nor_used() {
    let mut set = set(&[Active, Unconfirmed, Active]);
    assert!(!set.set_primary(PathIndex::P1));
    assert_eq!(set.primary(), PathIndex::FIRST);
    assert!(set.set_primary(PathIndex::P2));
    assert_eq!((set.primary(), set.data_path()), (PathIndex::P2, Some(PathIndex::P2)));
    set.get_mut(PathIndex::FIRST).state = Inactive;
    set.get_mut(PathIndex::P2).state = Inactive;
    assert_ne!(set.data_path(), Some(PathIndex::P1));
    assert_ne!(set.alternate(PathIndex::FIRST), Some(PathIndex::P1));
    assert_eq!(self::set(&[Unconfirmed, Unconfirmed]).data_path(), None);
}

#[test]
fn section_6_4_1_what_timed_out_takes_another_active_path() {
    let mut set = set(&[Active, Active, Active]);
    assert_eq!(set.alternate(PathIndex::FIRST), Some(PathIndex::P1));
    assert_eq!(set.alternate(PathIndex::P1), Some(PathIndex::FIRST), "the primary first");
    set.get_mut(PathIndex::P1).error_count = 2;
    assert_eq!(set.alternate(PathIndex::FIRST), Some(PathIndex::P2));
    set.get_mut(PathIndex::P1).state = Inactive;
    set.get_mut(PathIndex::P2).state = Inactive;
    assert_eq!(set.alternate(PathIndex::FIRST), None, "better the one that is active");
    assert_eq!(self::set(&[Active]).alternate(PathIndex::FIRST), None);
}

#[test]
fn section_8_2_without_active_paths_all_alternate() {
    let mut set = set(&[Inactive, Inactive, Inactive, Unconfirmed]);
    let mut tried = Vec::new();
    let mut last = PathIndex::P2;
    for second in 1..=6 {
        last = set.alternate(last).unwrap();
        assert_eq!(set.data_path(), Some(last));
        set.get_mut(last).last_sent = secs(second);
        tried.push(last.number());
    }
    assert_eq!(tried, [0, 1, 2, 0, 1, 2]);
    set.get_mut(PathIndex::P1).on_answer();
    assert_eq!(
        (set.data_path(), set.alternate(PathIndex::FIRST)),
        (Some(PathIndex::P1), Some(PathIndex::P1))
    );
}

/// RFC 7829 section 4.1: which of the inactive paths is used is up to the sender, and its state stays.
#[test]
fn rfc7829_4_1_answering_path_is_preferred() {
    let config = AssociationConfig::default();
    let mut set = set(&[Inactive, Inactive, Inactive]);
    set.get_mut(PathIndex::P1).last_sent = secs(1);
    set.get_mut(PathIndex::P1).state = Ambiguous;
    assert!(is_dormant(&set));
    assert_eq!(set.data_path(), Some(PathIndex::P1));
    assert_eq!(set.alternate(PathIndex::FIRST), Some(PathIndex::P1));
    assert_eq!(set.alternate(PathIndex::P1), None, "the data stays there");
    assert_eq!(substitute(&set, PathIndex::P2), Some(PathIndex::P1));
    assert_eq!(substitute(&set, PathIndex::P1), None);
    assert_eq!(set.get_mut(PathIndex::P1).on_error(&config), None, "it was inactive");
    assert_eq!(set.alternate(PathIndex::P1), Some(PathIndex::FIRST), "until the next error");
    assert_eq!(substitute(&set, PathIndex::P2), None);
    set.get_mut(PathIndex::P1).state = Ambiguous;
    set.get_mut(PathIndex::P2).state = Active;
    assert!(!is_dormant(&set));
    assert_eq!(set.data_path(), Some(PathIndex::P2));
    assert_eq!(set.alternate(PathIndex::P2), None, "better the one that is active");
}

#[test]
fn section_5_4_deferred_heartbeats_come_first() {
    let config = AssociationConfig::default();
    let mut set = set(&[Active, Unconfirmed, Unconfirmed]);
    set.get_mut(PathIndex::FIRST).on_heartbeat_sent(secs(2), 1, 0, &config);
    set.get_mut(PathIndex::P1).on_heartbeat_sent(secs(1), 2, 0, &config);
    let order: Vec<u8> = set.indices_by_heartbeat().map(PathIndex::number).collect();
    assert_eq!(order, [2, 1, 0]);
}

#[test]
fn section_7_3_messages_are_fragmented_for_the_smallest_confirmed_path() {
    let mut set = set(&[Active, Active, Unconfirmed]);
    let full = set.get(PathIndex::FIRST).payload_max();
    assert!(set.get_mut(PathIndex::P2).pmtu.on_black_hole(9000));
    assert_eq!(set.payload_max(), full);
    assert!(set.get_mut(PathIndex::P1).pmtu.on_black_hole(9000));
    assert_eq!(set.payload_max(), set.get(PathIndex::P1).payload_max());
    assert!(set.payload_max() < full);
}

#[test]
fn the_first_deadline_of_any_path() {
    let mut set = set(&[Active, Active]);
    assert_eq!(set.next_deadline(), Time::MAX);
    set.get_mut(PathIndex::P1).start_rtx(secs(3));
    assert_eq!(set.next_deadline(), secs(4));
    set.get_mut(PathIndex::FIRST).start_rtx(secs(2));
    assert_eq!(set.next_deadline(), secs(3));
}

#[test]
fn removed_path_leaves_the_indices_of_the_others() {
    let mut set = set(&[Active, Active, Active]);
    assert!(set.remove(PathIndex::P1, None));
    assert_eq!((set.len(), set.contains(PathIndex::P1)), (2, false));
    assert!(set.indices().eq([PathIndex::P0, PathIndex::P2]));
    assert_eq!((set.find(PathIndex::P1).is_none(), set.by_number(1)), (true, None));
    assert_eq!((set.by_address(address(1)), set.by_address(address(2))), (None, Some(PathIndex::P2)));
    assert!(set.iter().map(|(_, path)| path.remote.ip()).eq([address(0), address(2)]));
    assert!(set.indices_by_heartbeat().eq([PathIndex::P0, PathIndex::P2]));
    assert!(!set.remove(PathIndex::P1, None), "it is gone");
    assert_eq!(set.add(path(9, Unconfirmed)), Some(PathIndex::P1), "its index is free");
    assert_eq!(set.by_address(address(9)), Some(PathIndex::P1));
}

#[test]
fn last_confirmed_path_stays() {
    let mut set = set(&[Active, Unconfirmed, Inactive]);
    assert!(set.remove(PathIndex::P0, None));
    assert_eq!(set.primary(), PathIndex::P2);
    assert!(!set.remove(PathIndex::P2, None), "the other one is not confirmed");
    assert!(set.remove(PathIndex::P1, None));
    assert!(!set.remove(PathIndex::P2, None));
    assert_eq!((set.len(), set.has_several(), set.primary()), (1, false, PathIndex::P2));
    assert_eq!(set.get(PathIndex::P2).remote.ip(), address(2));
}

#[test]
fn primary_moves_to_the_best_other_path() {
    let mut set = set(&[Active, Inactive, Active, Active]);
    set.get_mut(PathIndex::P2).error_count = 1;
    assert!(set.remove(PathIndex::P0, None));
    assert_eq!((set.primary(), set.data_path()), (PathIndex::P3, Some(PathIndex::P3)));
    assert_eq!(set.add(path(7, Active)), Some(PathIndex::FIRST));
    assert_eq!(set.primary(), PathIndex::P3, "it does not move back");
    assert!(set.remove(PathIndex::P3, None));
    assert_eq!(set.primary(), PathIndex::FIRST);
}

#[test]
fn removed_paths_free_their_memory_and_timers() {
    let mut set = set(&[Active, Active, Active]);
    set.get_mut(PathIndex::P1).start_rtx(secs(1));
    assert!(set.next_deadline() < secs(10));
    assert!(set.remove(PathIndex::P1, None));
    assert_eq!(set.next_deadline(), Time::MAX);
    assert!(set.remove(PathIndex::P2, None));
    assert_eq!((set.len(), set.heap_bytes()), (1, 0), "also those in between");
    // What is left of a removed first path has no timers either.
    set.add(path(1, Active));
    set.get_mut(PathIndex::P0).start_rtx(secs(1));
    assert!(set.remove(PathIndex::P0, None));
    assert_eq!(set.next_deadline(), Time::MAX);
    assert_eq!(set.by_address(address(0)), None);
}

#[test]
fn without_local_addresses_none_cost_memory() {
    let mut set = set(&[Active]);
    assert!(set.local().is_empty());
    set.set_local(vec![address(1)]);
    assert_eq!(set.local(), [address(1)]);
    set.replace(path(5, Active));
    assert_eq!((set.len(), set.local()), (1, &[address(1)][..]), "they stay");
    set.set_local(Vec::new());
    assert_eq!((set.local().len(), set.heap_bytes()), (0, 0));
}
