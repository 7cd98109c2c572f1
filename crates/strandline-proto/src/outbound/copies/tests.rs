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
    assert_eq!(copies.blocks.len(), 1, "the last one is kept, empty");
    assert!(copies.blocks[0].bytes.is_empty());
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
