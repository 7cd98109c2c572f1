use std::collections::VecDeque;

use super::*;

#[test]
fn copies_leave_in_any_order_with_blocks() {
    let mut copies = Copies::default();
    let message = |number: usize| vec![number as u8; 1 + number % 200];
    let places: Vec<Place> = (0..2000).map(|number| copies.push(&message(number))).collect();
    let taken = copies.heap_bytes();
    for (number, place) in places.iter().enumerate().filter(|(number, _)| number % 3 == 0) {
        assert_eq!(copies.bytes(*place), message(number));
        copies.release(place.block(), 1);
    }
    for (number, place) in places.iter().enumerate().filter(|(number, _)| number % 3 != 0) {
        assert_eq!(copies.bytes(*place), message(number), "others' leaving moves nothing");
        copies.release(place.block(), 1);
    }
    assert!(copies.blocks.iter().all(|block| block.live == 0 && block.bytes.is_empty()));
    assert!(copies.heap_bytes() <= taken + copies.blocks.len() * size_of::<u32>());
    assert!(taken < 2 * places.iter().map(|place| place.len()).sum::<usize>() + BLOCK_MAX);
}

#[test]
fn a_small_message_costs_a_small_block() {
    let mut copies = Copies::default();
    let place = copies.push(b"ping");
    assert!(copies.heap_bytes() < 1024, "{}", copies.heap_bytes());
    copies.release(place.block(), 1);
    for _ in 0..1000 {
        let place = copies.push(b"ping");
        copies.release(place.block(), 1);
    }
    assert!(copies.heap_bytes() < 1024, "{}", copies.heap_bytes());
}

/// A message that stays, such as one of a stream whose reader has stopped, keeps its own block and no other.
#[test]
fn message_that_stays_keeps_one_block() {
    let mut copies = Copies::default();
    let stays = copies.push(&[7; 100]);
    let mut waiting = VecDeque::new();
    for number in 0..100_000_u32 {
        waiting.push_back((copies.push(&[number as u8; 1000]), number as u8));
        if waiting.len() > 500 {
            let (place, byte) = waiting.remove(number as usize % 7).unwrap();
            assert_eq!(copies.bytes(place), [byte; 1000]);
            copies.release(place.block(), 1);
        }
    }
    assert!(copies.heap_bytes() < 40 * BLOCK_MAX, "{}", copies.heap_bytes());
    assert_eq!(copies.bytes(stays), [7; 100]);
    for (place, byte) in waiting {
        assert_eq!(copies.bytes(place), [byte; 1000]);
        copies.release(place.block(), 1);
    }
    copies.release(stays.block(), 1);
    assert!(copies.blocks.iter().all(|block| block.live == 0 && block.bytes.is_empty()));
}

#[test]
fn block_of_a_long_message_is_reused() {
    let mut copies = Copies::default();
    let first = copies.push(&[1; 100_000]);
    let short = copies.push(b"short");
    let at = copies.bytes(first).as_ptr();
    copies.release(first.block(), 1);
    assert!(copies.free_large_bytes >= 100_000);
    let second = copies.push(&[2; 90_000]);
    assert_eq!(copies.bytes(second), [2; 90_000]);
    assert_eq!(copies.bytes(second).as_ptr(), at);
    assert_eq!((copies.bytes(short), copies.free_large_bytes), (&b"short"[..], 0));
    copies.release(second.block(), 1);
    // A much larger one is not taken.
    let third = copies.push(&[3; 70_000]);
    copies.release(third.block(), 1);
    let large = copies.push(&[4; 1 << 20]);
    copies.release(large.block(), 1);
    let fourth = copies.push(&[5; 300_000]);
    assert_ne!(fourth.block(), large.block());
}

#[test]
fn free_blocks_of_long_messages_are_limited() {
    let mut copies = Copies::default();
    for len in [1_000_000, 200_000, 70_000] {
        let places: Vec<Place> = (0..100).map(|_| copies.push(&vec![0; len])).collect();
        for place in places {
            copies.release(place.block(), 1);
            let sizes = copies.free_large.iter().map(|index| copies.blocks[*index as usize].bytes.capacity());
            assert_eq!(copies.free_large_bytes, sizes.sum::<usize>());
            assert!(copies.free_large_bytes <= LARGE_KEPT_MAX);
        }
    }
    assert!(copies.blocks.len() < 150, "the places of freed blocks are used again");
    let largest = copies.push(&vec![0; LARGE_SINGLE_MAX]);
    copies.release(largest.block(), 1);
    assert_eq!(copies.free_large_bytes, LARGE_SINGLE_MAX, "a single one may be larger");
    let larger = copies.push(&vec![0; LARGE_SINGLE_MAX + 1]);
    copies.release(larger.block(), 1);
    assert!(copies.heap_bytes() < 2 * LARGE_SINGLE_MAX);
}
