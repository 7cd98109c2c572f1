use super::*;

#[test]
fn every_stream_counts_for_itself() {
    let mut tree = StreamTree::default();
    for stream in (0..=u16::MAX).rev() {
        for _ in 0..stream % 3 {
            tree.take(StreamId(stream));
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
    tree.take(StreamId(u16::MAX));
    assert_eq!(tree.next(StreamId(u16::MAX)), Ssn(1));
    assert_eq!(tree.heap_bytes(), 256 + 256 + 128);
    let mut low = StreamTree::default();
    low.take(StreamId(63));
    assert_eq!(low.heap_bytes(), 128);
}

#[test]
fn numbers_wrap() {
    let mut tree = StreamTree::default();
    for _ in 0..=u16::MAX {
        tree.take(StreamId(9));
    }
    assert_eq!(tree.next(StreamId(9)), Ssn(0));
}

/// The first streams cost no heap, and stream 65,535 no table of all streams.
#[test]
fn high_stream_costs_little() {
    let mut numbers = StreamNumbers::<()>::default();
    for stream in [0, 1, 2, 3] {
        assert_eq!(numbers.take(StreamId(stream)), Ssn(0));
    }
    assert_eq!(numbers.heap_bytes(), 0);
    assert_eq!(numbers.take(StreamId(65_535)), Ssn(0));
    assert_eq!(numbers.take(StreamId(65_535)), Ssn(1));
    assert!(numbers.heap_bytes() < 1024, "{}", numbers.heap_bytes());
    assert_eq!(numbers.take(StreamId(4)), Ssn(0));
    assert_eq!(numbers.take(StreamId(3)), Ssn(1));
}

/// A reset concerns the streams that are listed, or all, and allocates nothing.
#[test]
fn numbers_are_reset() {
    let far = [StreamId(2), StreamId(40), StreamId(700), StreamId(65_535)];
    let mut numbers = StreamNumbers::<()>::default();
    numbers.reset(&Streams::from(far));
    assert_eq!((numbers.heap_bytes(), numbers.are_zero(&Streams::All)), (0, true));
    for stream in far {
        numbers.take(stream);
        numbers.take(stream);
    }
    let some = Streams::from([StreamId(2), StreamId(700), StreamId(9)]);
    numbers.reset(&some);
    assert!(numbers.are_zero(&some) && !numbers.are_zero(&Streams::All));
    assert_eq!(far.map(|stream| numbers.next(stream)), [Ssn(0), Ssn(2), Ssn(0), Ssn(2)]);
    numbers.reset(&Streams::All);
    assert!(numbers.are_zero(&Streams::All));
    assert_eq!(far.map(|stream| numbers.next(stream)), [Ssn(0); 4]);
}
