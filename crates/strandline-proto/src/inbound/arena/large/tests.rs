use bytes::Bytes;

use super::*;

#[test]
fn capacity_is_at_most_about_twice() {
    for bytes in [1, UNIT, UNIT + 1, 65_536, 524_288 + 1452, 16 << 20] {
        let capacity = rounded(bytes);
        assert!(capacity >= bytes && capacity < 2 * bytes + 2 * UNIT, "{bytes}: {capacity}");
    }
}

#[test]
fn buffers_go_round_while_messages_are_dropped() {
    let mut buffers = LargeBuffers::default();
    let mut seen = std::collections::BTreeSet::new();
    let mut held: VecDeque<Bytes> = VecDeque::new();
    for round in 0..1000_u32 {
        let mut buffer = buffers.take(500_000);
        seen.insert(buffer.as_ptr() as usize);
        buffer.resize(500_000, round as u8);
        held.push_back(buffer.freeze());
        if held.len() > 3 {
            let oldest = held.pop_front().unwrap();
            assert!(oldest.iter().all(|&byte| byte == (round - 3) as u8), "nobody else wrote into it");
        }
    }
    assert_eq!(seen.len(), 4);
    drop(held);
    buffers.release_idle();
    assert_eq!(buffers.heap_bytes(), 0);
}

#[test]
fn only_so_many_bytes_are_kept() {
    let mut buffers = LargeBuffers::default();
    let held: Vec<Bytes> = (0..300).map(|_| buffers.copy(&[7; 100_000]).freeze()).collect();
    assert!(buffers.bytes <= KEPT_MAX);
    let huge = buffers.take(KEPT_MAX + 1);
    assert!(huge.capacity() > KEPT_MAX && buffers.bytes <= KEPT_MAX);
    assert!(held.iter().all(|bytes| bytes[..] == [7; 100_000]));
    buffers.release_idle();
    assert!(buffers.bytes > 0, "they are still in use");
}
