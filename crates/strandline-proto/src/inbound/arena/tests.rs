use bytes::{Bytes, BytesMut};

use super::*;

#[test]
fn fragments_in_order_are_joined_where_they_are() {
    let mut arena = Arena::default();
    let mut message = arena.copy(&[1; 1000]);
    let at = message.as_ptr();
    for part in 2..20 {
        arena.append(&mut message, &[part; 1000], 0);
    }
    assert_eq!(message.as_ptr(), at, "nothing moved");
    assert_eq!(message.len(), 19_000);
    assert!(message.chunks(1000).zip(1..).all(|(chunk, part)| chunk.iter().all(|&byte| byte == part)));
}

#[test]
fn interleaved_messages_keep_their_bytes() {
    let mut arena = Arena::default();
    let mut messages: Vec<BytesMut> = vec![BytesMut::new(); 5];
    for round in 0..200_u8 {
        for (number, message) in messages.iter_mut().enumerate() {
            arena.append(message, &[round ^ number as u8; 700], 0);
        }
    }
    for (number, message) in messages.iter().enumerate() {
        assert_eq!(message.len(), 200 * 700);
        for (round, chunk) in message.chunks(700).enumerate() {
            assert!(chunk.iter().all(|&byte| byte == round as u8 ^ number as u8));
        }
    }
}

/// How often a message of many fragments moves grows with the logarithm of its length.
#[test]
fn a_message_moves_rarely() {
    let mut arena = Arena::default();
    let mut message = BytesMut::new();
    let mut moves = 0;
    for _ in 0..10_000 {
        let before = message.as_ptr();
        arena.append(&mut message, &[0; 1000], 0);
        drop(arena.copy(b"another association's"));
        moves += u32::from(message.as_ptr() != before);
    }
    assert!(moves < 20, "{moves}");
}

#[test]
fn blocks_go_round_while_messages_are_dropped() {
    let mut arena = Arena::default();
    let mut held: VecDeque<Bytes> = VecDeque::new();
    for _ in 0..10_000 {
        held.push_back(arena.copy(&[7; 1400]).freeze());
        if held.len() > 100 {
            held.pop_front();
        }
    }
    assert!(arena.heap_bytes() <= 5 * BLOCK_SIZE, "{}", arena.heap_bytes());
    drop(held);
    arena.release_idle();
    assert_eq!(arena.heap_bytes(), 0);
    assert_eq!(&arena.copy(b"again")[..], b"again");
}

#[test]
fn only_so_many_blocks_are_kept() {
    let mut arena = Arena::default();
    let held: Vec<Bytes> = (0..2000).map(|_| arena.copy(&[7; 1400]).freeze()).collect();
    assert!(arena.heap_bytes() <= (RETIRED_MAX + 2) * BLOCK_SIZE);
    assert!(held.iter().all(|bytes| bytes[..] == [7; 1400]));
}

#[test]
fn long_payloads_take_no_block() {
    let mut arena = Arena::default();
    let long = arena.copy(&[1; COPY_MAX + 1]);
    assert!(!arena.begun && long.capacity() <= 3 * COPY_MAX, "{}", long.capacity());
    drop(long);
    arena.release_idle();
    assert_eq!(arena.heap_bytes(), 0);
}

/// Messages of one sender often have one length.
#[test]
fn message_of_expected_length_does_not_move() {
    let mut arena = Arena::default();
    let mut message = BytesMut::new();
    arena.append(&mut message, &[0; 1000], 300_000);
    let at = message.as_ptr();
    for _ in 1..300 {
        drop(arena.copy(b"another association's"));
        arena.append(&mut message, &[0; 1000], 300_000);
    }
    assert_eq!((message.as_ptr(), message.len()), (at, 300_000));
}

#[test]
fn short_message_of_expected_length_does_not_move() {
    let mut arena = Arena::default();
    let (mut one, mut other) = (BytesMut::new(), BytesMut::new());
    arena.append(&mut one, &[0; 1000], 8000);
    arena.append(&mut other, &[0; 1000], 8000);
    let at = [one.as_ptr(), other.as_ptr()];
    for part in 1..8 {
        arena.append(&mut one, &[part; 1000], 8000);
        arena.append(&mut other, &[part; 1000], 8000);
    }
    assert_eq!([one.as_ptr(), other.as_ptr()], at);
    for message in [one, other] {
        assert_eq!((message.len(), message.capacity()), (8000, 8000));
        assert!(message.chunks(1000).zip(0..).all(|(chunk, part)| chunk.iter().all(|&byte| byte == part)));
    }
}

#[test]
fn message_longer_than_expected_grows_where_it_is() {
    let mut arena = Arena::default();
    let mut message = BytesMut::new();
    arena.append(&mut message, &[0; 700], 2000);
    let at = message.as_ptr();
    for part in 1..20 {
        arena.append(&mut message, &[part; 700], 2000);
    }
    let after = arena.copy(b"the next message");
    assert_eq!((message.as_ptr(), message.len()), (at, 14_000));
    assert!(message.chunks(700).zip(0..).all(|(chunk, part)| chunk.iter().all(|&byte| byte == part)));
    assert_eq!(&after[..], b"the next message");
}

#[test]
fn longer_message_moves_if_another_one_follows() {
    let mut arena = Arena::default();
    let mut message = BytesMut::new();
    arena.append(&mut message, &[0; 700], 2000);
    let after = arena.copy(b"another message");
    for part in 1..20 {
        arena.append(&mut message, &[part; 700], 2000);
    }
    assert_eq!(message.len(), 14_000);
    assert!(message.chunks(700).zip(0..).all(|(chunk, part)| chunk.iter().all(|&byte| byte == part)));
    assert_eq!(&after[..], b"another message");
}

/// What was in the processor's cache last is reused first: after a burst of unread messages, an application that keeps
/// up with reading passes through two blocks and not through all that the burst took.
#[test]
fn latest_free_block_is_reused_first() {
    let mut arena = Arena::default();
    let burst: Vec<Bytes> = (0..1000).map(|_| arena.copy(&[7; 1400]).freeze()).collect();
    assert!(arena.heap_bytes() > 20 * BLOCK_SIZE);
    drop(burst);
    for _ in 0..100 {
        drop(arena.copy(&[7; 1400]));
    }
    let mut addresses: Vec<usize> = (0..1000).map(|_| arena.copy(&[7; 1400]).as_ptr().addr()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    let per_block = BLOCK_SIZE / 1400;
    assert!(addresses.len() <= 2 * per_block, "{} addresses", addresses.len());
}

#[test]
fn buffers_have_the_room_asked_for() {
    let mut arena = Arena::default();
    for capacity in [1, 1000, ASSEMBLY_MAX, ASSEMBLY_MAX + 1, 10 * BLOCK_SIZE] {
        let mut buffer = arena.buffer(capacity);
        assert!(buffer.is_empty() && buffer.capacity() >= capacity);
        let at = buffer.as_ptr();
        buffer.extend_from_slice(&vec![1; capacity]);
        assert_eq!(buffer.as_ptr(), at);
    }
}
