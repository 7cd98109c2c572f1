//! Shares of bytes (RFC 8260 sections 3.5 and 3.6).

use std::collections::BTreeMap;

use super::*;

const LONGEST: usize = 3000;

/// Keeps streams 1 to 3 backlogged with messages of these lengths, and sends `count` fragments of at most
/// `most` bytes. After each, the bytes of each pair of streams, divided by their weights, differ at most by
/// one of their longest pieces.
fn check(line: &mut Line, lengths: [usize; 3], weights: [u16; 3], most: usize, count: usize) {
    let mut sent = [0_usize; 3];
    let piece = |at: usize| if line.interleaves { lengths[at].min(most) } else { lengths[at] };
    let pieces = [0, 1, 2].map(|at| piece(at) as f64 / f64::from(weights[at]));
    for (stream, len) in (1..).zip(lengths) {
        for _ in 0..2 {
            line.push(stream, len);
        }
    }
    for _ in 0..count {
        let before = line.messages.get(line.next_key()).map_or(0, |message| message.rest().len);
        let Some((_, stream, len)) = line.send(most) else { panic!("it is backlogged") };
        let at = usize::from(stream) - 1;
        sent[at] += len;
        if before == len {
            line.push(stream, lengths[at]);
        }
        let shares = [0, 1, 2].map(|at| sent[at] as f64 / f64::from(weights[at]));
        for (a, b) in [(0, 1), (0, 2), (1, 2)] {
            let (difference, bound) = ((shares[a] - shares[b]).abs(), pieces[a] + pieces[b] + 1.0);
            assert!(difference <= bound, "{shares:?}: streams {a} and {b}, bound {bound}");
        }
    }
    assert!(sent.iter().all(|bytes| *bytes > 10 * LONGEST), "{sent:?}");
}

impl Line {
    fn next_key(&self) -> MessageKey {
        let next = || self.scheduler.next(&self.messages).map(|fragment| fragment.message);
        self.under_way.or_else(next).unwrap_or(MessageKey::NONE)
    }
}

#[test]
fn streams_share_bytes_equally() {
    for interleaves in [false, true] {
        let mut line = Line::new(StreamScheduler::FairCapacity, interleaves);
        line.set(1, 10);
        check(&mut line, [10, 700, LONGEST], [1, 1, 1], 1000, 30_000);
    }
}

#[test]
fn weights_divide_bytes() {
    for interleaves in [false, true] {
        for weights in [[1, 3, 1], [3, 1, 1], [u16::MAX, u16::MAX, 30_000]] {
            let mut line = Line::new(StreamScheduler::WeightedFairQueueing, interleaves);
            for (stream, weight) in (1..).zip(weights) {
                line.set(stream, weight);
            }
            check(&mut line, [10, 700, LONGEST], weights, 1000, 30_000);
        }
    }
}

/// A weight of 0, which no stream that was never set differs from, counts as 1.
#[test]
fn no_weight_counts_as_one() {
    let mut line = Line::new(StreamScheduler::WeightedFairQueueing, false);
    line.set(2, 1);
    line.set(3, 5);
    line.set(3, 0);
    check(&mut line, [100, 100, 100], [1, 1, 1], 1000, 2000);
}

/// A weight that is changed holds from the next piece on.
#[test]
fn weights_change_while_messages_are_queued() {
    let mut line = Line::new(StreamScheduler::WeightedFairQueueing, true);
    for stream in [1, 2] {
        line.push(stream, 1_000_000);
    }
    let round = |weights: [u16; 2], line: &mut Line| {
        for (stream, weight) in (1..).zip(weights) {
            line.set(stream, weight);
        }
        let streams: Vec<_> = (0..400).filter_map(|_| line.send(100)).map(|(_, stream, _)| stream).collect();
        streams.iter().filter(|stream| **stream == 1).count()
    };
    assert!((199..=201).contains(&round([1, 1], &mut line)));
    assert!((99..=101).contains(&round([1, 3], &mut line)));
    assert!((299..=301).contains(&round([3, 1], &mut line)));
}

/// A stream that queues a message whenever its previous one was sent gets its share, and no more.
#[test]
fn one_message_at_a_time_is_no_privilege() {
    let mut line = Line::new(StreamScheduler::FairCapacity, false);
    line.push(1, 1000);
    line.push(2, 10_000);
    let mut sent = BTreeMap::<u16, usize>::new();
    for _ in 0..1000 {
        if line.scheduler.has_reserve(StreamId(2)) {
            line.push(2, 10_000);
        }
        line.push(1, 1000);
        let Some((_, stream, len)) = line.send(20_000) else { panic!("it is backlogged") };
        *sent.entry(stream).or_default() += len;
    }
    assert!(sent[&1].abs_diff(sent[&2]) <= 11_000, "{sent:?}");
}

/// What a stream did not use while it had nothing to send is no claim to more than its share afterwards.
#[test]
fn pauses_earn_nothing() {
    let mut line = Line::new(StreamScheduler::FairCapacity, true);
    line.push(2, 100);
    line.push(1, 1_000_000);
    for _ in 0..1000 {
        line.send(100);
    }
    line.push(2, 1_000_000);
    let streams: Vec<_> = (0..10).filter_map(|_| line.send(100)).map(|(_, stream, _)| stream).collect();
    assert_eq!(streams.iter().filter(|stream| **stream == 1).count(), 5, "{streams:?}");
}

/// Streams that have nothing queued take no memory once the others have caught up.
#[test]
fn idle_streams_are_forgotten() {
    for &kind in StreamScheduler::ALL {
        let mut line = Line::new(kind, false);
        line.push(0, 10_000_000);
        for stream in 1..1000 {
            line.push(stream, 10);
        }
        for _ in 0..1100 {
            line.scheduler.begin_packet();
            line.send(usize::MAX);
        }
        assert!(line.scheduler.next(&line.messages).is_none(), "{kind:?}");
        // A ring keeps the room for its order.
        assert!(line.scheduler.heap_bytes() <= 2 * 1024, "{kind:?}: {}", line.scheduler.heap_bytes());
    }
}

/// The bytes that a stream is ahead by are remembered only until the others have sent as many.
#[test]
fn streams_ahead_are_forgotten_in_time() {
    let mut line = Line::new(StreamScheduler::FairCapacity, true);
    for stream in 1..1000 {
        line.push(stream, 10);
    }
    line.push(0, 10_000);
    while line.scheduler.next(&line.messages).is_some_and(|next| next.stream.0 > 0) {
        line.send(10);
    }
    let before = line.scheduler.heap_bytes();
    for _ in 0..3 {
        line.send(10);
    }
    assert!(line.scheduler.heap_bytes() * 100 < before, "{} of {before}", line.scheduler.heap_bytes());
}
