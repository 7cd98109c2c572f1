#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

fn accept(map: &mut TsnMap, tsn: u32) {
    match map.place(Tsn(tsn)) {
        Place::Next => map.advance(),
        Place::Ahead => map.insert_ahead(Tsn(tsn)),
        place => panic!("{tsn} is {place:?}"),
    }
}

fn blocks(map: &TsnMap) -> Vec<(u16, u16)> {
    map.gap_blocks().map(|block| (block.start, block.end)).collect()
}

/// The example of RFC 9260 section 3.3.4: 10 to 12, 14, 15 and 17 have arrived.
#[test]
fn gap_blocks_of_the_rfcs_example() {
    let mut map = TsnMap::new(Tsn(10));
    for tsn in [10, 11, 12, 14, 15, 17] {
        accept(&mut map, tsn);
    }
    assert_eq!(map.cumulative(), Tsn(12));
    assert_eq!(blocks(&map), [(2, 3), (5, 5)]);
}

#[test]
fn nothing_received_acknowledges_the_tsn_before_the_first() {
    let map = TsnMap::new(Tsn(0));
    assert_eq!(map.cumulative(), Tsn(u32::MAX));
    assert_eq!(map.place(Tsn(0)), Place::Next);
    assert_eq!(map.place(Tsn(u32::MAX)), Place::Seen);
    assert!(!map.has_gaps());
}

#[test]
fn in_order_arrival_needs_no_heap() {
    let mut map = TsnMap::new(Tsn(u32::MAX - 2));
    for tsn in (0..1000).map(|step| (u32::MAX - 2).wrapping_add(step)) {
        accept(&mut map, tsn);
    }
    assert_eq!(map.heap_bytes(), 0);
}

#[test]
fn a_gap_across_the_wrap_closes() {
    let mut map = TsnMap::new(Tsn(u32::MAX - 1));
    for tsn in [u32::MAX, 0, 1] {
        accept(&mut map, tsn);
    }
    assert_eq!(blocks(&map), [(2, 4)]);
    accept(&mut map, u32::MAX - 1);
    assert_eq!(map.cumulative(), Tsn(1));
    assert!(!map.has_gaps());
    assert!(blocks(&map).is_empty());
}

#[test]
fn offsets_end_where_gap_blocks_do() {
    let mut map = TsnMap::new(Tsn(1));
    assert_eq!(map.place(Tsn(65_536)), Place::TooFar);
    assert_eq!(map.place(Tsn(65_535)), Place::Ahead);
    accept(&mut map, 65_535);
    assert_eq!(blocks(&map), [(65_535, 65_535)]);
    assert_eq!(map.heap_bytes(), 8192);
    assert_eq!(map.place(Tsn(1 << 31)), Place::TooFar);
    assert_eq!(map.place(Tsn((1 << 31) + 1)), Place::Seen);
}

#[test]
fn the_whole_range_fills_and_empties() {
    let mut map = TsnMap::new(Tsn(7));
    for tsn in (8..7 + 65_535).rev() {
        accept(&mut map, tsn);
    }
    assert_eq!(blocks(&map), [(2, 65_535)]);
    accept(&mut map, 7);
    assert_eq!(map.cumulative(), Tsn(7 + 65_534));
    assert!(map.ring.iter().all(|&word| word == 0));
}

#[test]
fn ring_grows_with_gaps_and_is_freed() {
    let mut map = TsnMap::new(Tsn(100));
    accept(&mut map, 101);
    assert_eq!(map.heap_bytes(), 32);
    accept(&mut map, 100 + 255);
    assert_eq!(map.heap_bytes(), 32);
    accept(&mut map, 100 + 256);
    assert_eq!(map.heap_bytes(), 64);
    assert_eq!(blocks(&map), [(2, 2), (256, 257)]);
    map.release_idle();
    assert_eq!(map.heap_bytes(), 64, "something is missing still");
    for tsn in (100..355).filter(|&tsn| tsn != 101) {
        accept(&mut map, tsn);
    }
    assert_eq!(map.heap_bytes(), 64);
    map.release_idle();
    assert_eq!(map.heap_bytes(), 0);
}

proptest! {
    /// Any arrivals, in any order and number, compared with a plain set.
    #[test]
    fn agrees_with_a_set(
        initial in prop_oneof![Just(1_u32), Just(u32::MAX - 300), any::<u32>()],
        offsets in prop::collection::vec(prop_oneof![9 => 0_u32..700, 1 => 0_u32..70_000], 1..600),
    ) {
        let mut map = TsnMap::new(Tsn(initial));
        let mut come = BTreeSet::new();
        let mut cumulative = 0_u32; // Number from `initial` on without a gap.
        for offset in offsets {
            let tsn = Tsn(initial.wrapping_add(offset));
            let expected = if offset < cumulative || come.contains(&offset) { Place::Seen }
                else if offset == cumulative { Place::Next }
                else if offset - cumulative + 1 > AHEAD_MAX { Place::TooFar }
                else { Place::Ahead };
            prop_assert_eq!(map.place(tsn), expected);
            if matches!(expected, Place::Next | Place::Ahead) {
                accept(&mut map, tsn.0);
                come.insert(offset);
                while come.remove(&cumulative) {
                    cumulative += 1;
                }
            }
            prop_assert_eq!(map.cumulative(), Tsn(initial.wrapping_add(cumulative).wrapping_sub(1)));
            prop_assert_eq!(map.has_gaps(), !come.is_empty());
            let mut expected: Vec<(u16, u16)> = Vec::new();
            for &offset in &come {
                let offset = (offset - cumulative + 1) as u16;
                match expected.last_mut() {
                    Some((_, end)) if *end + 1 == offset => *end = offset,
                    _ => expected.push((offset, offset)),
                }
            }
            prop_assert_eq!(blocks(&map), expected);
        }
    }
}

/// A jump clears what is below it and absorbs what follows, like a naive set, across words and the end of the number
/// space.
#[test]
fn skipping_agrees_with_a_set() {
    let mut random = 7_u32;
    let mut next = move |below: u32| {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (random >> 8) % below
    };
    for round in 0..2000 {
        let first = Tsn(next(u32::MAX)) + if round % 2 == 0 { 0 } else { u32::MAX - 100 };
        let mut map = TsnMap::new(first);
        let mut arrived = std::collections::BTreeSet::new();
        for _ in 0..next(60) {
            let offset = 2 + next(if round % 3 == 0 { 400 } else { 40 });
            if arrived.insert(offset) {
                map.insert_ahead(first.previous() + offset);
            }
        }
        let to = 1 + next(500);
        map.skip_to(first.previous() + to + 1);
        let mut cumulative = to;
        while arrived.contains(&(cumulative + 1)) {
            cumulative += 1;
        }
        assert_eq!(map.cumulative(), first.previous() + cumulative, "{round}");
        let left: Vec<u32> = arrived.range(cumulative + 1..).copied().collect();
        let told = map.gap_blocks().flat_map(|block| block.start..=block.end);
        assert_eq!(told.map(|offset| cumulative + u32::from(offset)).collect::<Vec<_>>(), left, "{round}");
        assert_eq!(map.highest(), first.previous() + left.last().copied().unwrap_or(cumulative), "{round}");
        // No bit of an earlier TSN is left in the ring.
        assert_eq!(map.ring.iter().map(|word| word.count_ones() as usize).sum::<usize>(), left.len());
    }
}
