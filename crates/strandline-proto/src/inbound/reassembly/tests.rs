#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use allocation_counter::measure;

use super::*;
use crate::number::{Ppid, Ssn};

const BYTES: [u8; 256] = {
    let mut bytes = [0; 256];
    let mut place = 0;
    while place < 256 {
        bytes[place] = place as u8;
        place += 1;
    }
    bytes
};

/// The fragment `tsn` of the message that begins at `first` and ends at `last`; its payload is its TSN's low byte.
fn fragment(tsn: u32, first: u32, last: u32) -> Data<'static> {
    let place = (tsn % 256) as usize;
    Data {
        tsn: Tsn(tsn),
        stream: StreamId(3),
        ssn: Ssn(9),
        ppid: Ppid(7),
        unordered: false,
        beginning: tsn == first,
        ending: tsn == last,
        immediate: false,
        payload: &BYTES[place..=place],
    }
}

#[test]
fn any_order_of_fragments_makes_the_message() {
    let orders = [[10, 11, 12, 13, 14], [14, 13, 12, 11, 10], [10, 12, 14, 11, 13], [12, 10, 14, 13, 11]];
    for order in orders {
        let mut reassembly = Held::default();
        for &tsn in &order[..4] {
            assert!(reassembly.hold(&fragment(tsn, 10, 14)).is_none());
        }
        let run = reassembly.hold(&fragment(order[4], 10, 14)).unwrap();
        assert_eq!((run.first, run.bytes, run.fragments.len()), (Tsn(10), 5, 5));
        assert!(run.fragments.iter().flatten().copied().eq(10..15));
        assert!(reassembly.is_empty());
    }
}

#[test]
fn a_run_may_cross_the_wrap() {
    let mut reassembly = Held::default();
    let at = |offset: u32| (u32::MAX - 1).wrapping_add(offset);
    for offset in [3, 1, 0] {
        assert!(reassembly.hold(&fragment(at(offset), at(0), at(3))).is_none());
    }
    let run = reassembly.hold(&fragment(at(2), at(0), at(3))).unwrap();
    assert!(run.fragments.iter().flatten().copied().eq([254, 255, 0, 1]));
}

#[test]
fn adjoining_messages_stay_apart() {
    let mut reassembly = Held::default();
    assert!(reassembly.hold(&fragment(11, 10, 11)).is_none());
    assert!(reassembly.hold(&fragment(12, 12, 13)).is_none());
    assert_eq!(reassembly.before(Tsn(12)), Neighbour::Apart);
    assert!(matches!(reassembly.before(Tsn(13)), Neighbour::Joined(_)));
    assert!(matches!(reassembly.at(Tsn(11)), Neighbour::Joined(_)));
    assert_eq!(reassembly.at(Tsn(12)), Neighbour::Apart);
    assert_eq!(reassembly.hold(&fragment(10, 10, 11)).unwrap().fragments.len(), 2);
    assert_eq!(reassembly.hold(&fragment(13, 12, 13)).unwrap().first, Tsn(12));
}

#[test]
fn runs_leave_when_the_cumulative_tsn_arrives() {
    let mut reassembly = Held::default();
    for tsn in [20, 21, 30] {
        assert!(reassembly.hold(&fragment(tsn, 10, 40)).is_none());
    }
    assert!(reassembly.take_reached(Tsn(19)).is_none());
    assert_eq!(reassembly.take_reached(Tsn(21)).unwrap().first, Tsn(20));
    assert!(reassembly.take_reached(Tsn(29)).is_none());
    assert_eq!(reassembly.take_reached(Tsn(30)).unwrap().first, Tsn(30));
}

/// The most expensive order: each fragment joins two runs. If lists were always copied to the later one, 32,000 times
/// 32,000 entries would move.
#[test]
fn joining_is_cheap_in_any_order() {
    let last = 65_000;
    let orders: [Vec<u32>; 2] = [
        (0..=last).step_by(2).chain((1..last).step_by(2)).collect(),
        (0..=last).step_by(2).chain((1..last).step_by(2).rev()).collect(),
    ];
    for order in orders {
        let mut reassembly = Held::default();
        let mut whole = None;
        let heap = measure(|| {
            for &tsn in &order {
                whole = whole.take().or(reassembly.hold(&fragment(tsn, 0, last)));
            }
        });
        assert_eq!(whole.map(|run| run.fragments.len()), Some(65_001));
        assert!(heap.bytes_total < 30 << 20, "{heap:?}");
    }
}

/// The fixed cost of a held chunk covers its records and allocations, in whatever order the map's nodes are filled.
#[test]
fn held_costs_cover_the_memory() {
    let ascending: Vec<u32> = (0..30_000).map(|number| 2 * number).collect();
    let descending = ascending.iter().rev().copied().collect();
    let mixed = (0..30_000).map(|number| 2 * (number * 7919 % 30_000)).collect();
    for order in [ascending, descending, mixed] {
        let mut reassembly = Held::default();
        let heap = measure(|| {
            for &tsn in &order {
                assert!(reassembly.hold(&fragment(tsn, 70_000, 70_001)).is_none());
            }
        });
        assert!(heap.bytes_current <= 30_000 * HELD_COST as i64, "{} each", heap.bytes_current / 30_000);
        assert_eq!(reassembly.heap_bytes().1, 30_000);
    }
}
