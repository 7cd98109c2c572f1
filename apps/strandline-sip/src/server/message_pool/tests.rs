use super::*;

#[test]
fn block_is_reused_once_empty() {
    let mut pool = MessagePool::default();
    let message = [b'x'; 1000];
    let first = pool.keep(&message);
    let place = first.as_ptr();
    let second = pool.keep(&message);
    assert_eq!(second.as_ptr(), place.wrapping_add(1000));
    // One of the messages is still waiting.
    drop(first);
    pool.begin();
    let third = pool.keep(b"third");
    assert_eq!(third.as_ptr(), place.wrapping_add(2000));
    drop((second, third));
    pool.begin();
    assert_eq!(pool.keep(&message).as_ptr(), place);
}

#[test]
fn overflowing_message_gets_another_block() {
    let mut pool = MessagePool::default();
    let all: Vec<Bytes> = (0..500u32).map(|number| pool.keep(&number.to_be_bytes().repeat(100))).collect();
    pool.begin();
    let large = pool.keep(&vec![7; 3 * BLOCK]);
    assert_eq!(large, vec![7; 3 * BLOCK]);
    for (number, bytes) in all.iter().enumerate() {
        assert_eq!(*bytes, (number as u32).to_be_bytes().repeat(100));
    }
}
