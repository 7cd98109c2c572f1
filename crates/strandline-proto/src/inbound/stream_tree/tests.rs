use super::*;

#[test]
fn every_stream_counts_for_itself() {
    let mut tree = StreamTree::default();
    for stream in (0..=u16::MAX).rev() {
        for _ in 0..stream % 3 {
            tree.advance(StreamId(stream));
        }
    }
    for stream in 0..=u16::MAX {
        assert_eq!(tree.next(StreamId(stream)), Ssn(stream % 3), "stream {stream}");
    }
}

/// The highest stream costs under 1 KB, not a table of 128 KB.
#[test]
fn one_far_stream_costs_little() {
    let mut tree = StreamTree::default();
    assert_eq!(tree.next(StreamId(u16::MAX)), Ssn(0));
    assert!(tree.is_empty());
    tree.advance(StreamId(u16::MAX));
    assert_eq!(tree.next(StreamId(u16::MAX)), Ssn(1));
    assert_eq!(tree.heap_bytes(), 256 + 256 + 128);
    let mut low = StreamTree::default();
    low.advance(StreamId(63));
    assert_eq!(low.heap_bytes(), 128);
}

#[test]
fn numbers_wrap() {
    let mut tree = StreamTree::default();
    for _ in 0..=u16::MAX {
        tree.advance(StreamId(9));
    }
    assert_eq!(tree.next(StreamId(9)), Ssn(0));
}
