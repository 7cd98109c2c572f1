use super::*;

#[test]
fn block_is_reused_once_empty() {
    let mut kept = Kept::default();
    let message = [b'x'; 1000];
    let first = kept.keep(&message);
    let place = first.as_ptr();
    let second = kept.keep(&message);
    assert_eq!(second.as_ptr(), place.wrapping_add(1000));
    // One of the messages is still waiting.
    drop(first);
    kept.begin();
    let third = kept.keep(b"third");
    assert_eq!(third.as_ptr(), place.wrapping_add(2000));
    drop((second, third));
    kept.begin();
    assert_eq!(kept.keep(&message).as_ptr(), place);
}

#[test]
fn overflowing_message_gets_another_block() {
    let mut kept = Kept::default();
    let all: Vec<Bytes> = (0..500u32).map(|number| kept.keep(&number.to_be_bytes().repeat(100))).collect();
    kept.begin();
    let large = kept.keep(&vec![7; 3 * BLOCK]);
    assert_eq!(large, vec![7; 3 * BLOCK]);
    for (number, bytes) in all.iter().enumerate() {
        assert_eq!(*bytes, (number as u32).to_be_bytes().repeat(100));
    }
}
