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
