//! Reassembly and partial delivery (RFC 9260 section 6.9).

use super::*;

#[test]
fn fragments_in_order_become_one_contiguous_message() {
    let mut rig = Rig::new();
    assert_eq!(rig.take(&begin(FIRST, 0, b"one ")), ACCEPTED);
    assert_eq!(rig.take(&middle(FIRST + 1, 0, b"contiguous ")), ACCEPTED);
    assert_eq!(rig.take(&end(FIRST + 2, 0, b"message")), READABLE);
    let message = rig.recv().unwrap();
    assert_eq!(&message.data[..], b"one contiguous message");
    assert_eq!(message.tsn, Tsn(FIRST));
    assert!(message.begins && message.ends);
}

/// Every order of arrival of two fragmented messages on two streams, one of them unordered, and a third one whole.
#[test]
fn every_order_of_arrival() {
    let chunks = [
        begin(FIRST, 0, b"a1"),
        middle(FIRST + 1, 0, b"a2"),
        end(FIRST + 2, 0, b"a3"),
        unordered(on_stream(1, begin(FIRST + 3, 0, b"b1"))),
        unordered(on_stream(1, end(FIRST + 4, 0, b"b2"))),
        whole(FIRST + 5, 1, b"c"),
    ];
    let mut order: Vec<usize> = (0..chunks.len()).collect();
    let mut count = 0;
    permute(&mut order, 0, &mut |order| {
        count += 1;
        let mut rig = Rig::new();
        for &number in order {
            let outcome = rig.take(&chunks[number]);
            assert!(matches!(outcome, DataOutcome::Accepted { .. }), "{order:?}: {outcome:?}");
        }
        let texts = rig.texts();
        let ordered: Vec<&str> = texts.iter().map(String::as_str).filter(|&text| text != "b1b2").collect();
        assert_eq!(ordered, ["a1a2a3", "c"], "{order:?}");
        assert_eq!(texts.len(), 3);
        assert_eq!(rig.inbound.buffered_bytes(), 0, "{order:?}");
        assert_eq!(rig.inbound.cumulative_tsn(), Tsn(FIRST + 5));
    });
    assert_eq!(count, 720);
}

fn permute(order: &mut [usize], from: usize, visit: &mut impl FnMut(&[usize])) {
    if from == order.len() {
        return visit(order);
    }
    for other in from..order.len() {
        order.swap(from, other);
        permute(order, from + 1, visit);
        order.swap(from, other);
    }
}

/// Each pair of chunks that cannot be adjacent, arriving in order, in reverse, and in both orders beyond a gap.
#[test]
fn neighbours_that_cannot_be() {
    let tsn = FIRST + 1;
    let ppid = Data { ppid: Ppid(8), ..end(tsn, 0, b"x") };
    let cases = [
        ("B before E", begin(FIRST, 0, b"x"), begin(tsn, 0, b"x")),
        ("whole before E", begin(FIRST, 0, b"x"), whole(tsn, 1, b"x")),
        ("middle after whole", whole(FIRST, 0, b"x"), middle(tsn, 1, b"x")),
        ("E after whole", whole(FIRST, 0, b"x"), end(tsn, 1, b"x")),
        ("middle after E", end(FIRST, 0, b"x"), middle(tsn, 0, b"x")),
        ("E after E", end(FIRST, 0, b"x"), end(tsn, 0, b"x")),
        ("other stream", begin(FIRST, 0, b"x"), on_stream(1, end(tsn, 0, b"x"))),
        ("other SSN", begin(FIRST, 0, b"x"), end(tsn, 1, b"x")),
        ("other PPID", begin(FIRST, 0, b"x"), ppid),
        ("other U bit", begin(FIRST, 0, b"x"), unordered(end(tsn, 0, b"x"))),
    ];
    for (name, first, second) in cases {
        for far in [0, 5] {
            let [first, second] = [first, second].map(|data| Data { tsn: data.tsn + far, ..data });
            for [early, late] in [[first, second], [second, first]] {
                let mut rig = Rig::new();
                let first_outcome = rig.take(&early);
                let both = is_violation(first_outcome) || is_violation(rig.take(&late));
                assert!(both, "{name}, {far} ahead, {early:?} first");
            }
        }
    }
}

#[test]
fn fragment_after_a_messages_end() {
    let mut rig = Rig::new();
    rig.take(&begin(FIRST, 0, b"x"));
    rig.take(&end(FIRST + 1, 0, b"x"));
    assert!(is_violation(rig.take(&end(FIRST + 2, 0, b"x"))));
}

#[test]
fn the_first_chunk_of_all_begins_a_message() {
    let mut rig = Rig::new();
    assert!(is_violation(rig.take(&middle(FIRST, 0, b"x"))));
}

/// Unordered fragments may carry anything in the field for the SSN (section 3.3.1).
#[test]
fn unordered_fragments_may_differ_in_the_ssn() {
    let mut rig = Rig::new();
    rig.take(&unordered(begin(FIRST, 0, b"a")));
    let end = Data { ssn: Ssn(3), ..unordered(end(FIRST + 1, 0, b"b")) };
    assert_eq!(rig.take(&end), READABLE);
}

/// A chunk on an invalid stream cannot be within a message.
#[test]
fn a_discarded_chunk_within_a_message() {
    for order in [[0, 1], [1, 0]] {
        let chunks = [begin(FIRST, 0, b"x"), on_stream(2000, middle(FIRST + 1, 0, b"x"))];
        let mut rig = Rig::new();
        assert!(order.iter().any(|&number| is_violation(rig.take(&chunks[number]))), "{order:?}");
    }
}

#[test]
fn a_long_message_is_handed_over_in_parts() {
    let mut rig =
        Rig::with(AssociationConfig { partial_delivery_point: 3000, ..AssociationConfig::default() });
    let payload = [7; 1000];
    assert_eq!(rig.take(&on_stream(2, begin(FIRST, 0, &payload))), ACCEPTED);
    assert_eq!(rig.take(&on_stream(2, middle(FIRST + 1, 0, &payload))), ACCEPTED);
    assert_eq!(rig.take(&on_stream(2, middle(FIRST + 2, 0, &payload))), READABLE);
    let part = rig.recv().unwrap();
    assert_eq!((part.begins, part.ends, part.tsn, part.data.len()), (true, false, Tsn(FIRST), 3000));
    for tsn in 3..6 {
        rig.take(&on_stream(2, middle(FIRST + tsn, 0, &payload)));
    }
    let part = rig.recv().unwrap();
    assert_eq!((part.begins, part.ends, part.tsn, part.data.len()), (false, false, Tsn(FIRST + 3), 3000));
    // The next message of the stream waits for the end of this one.
    assert_eq!(rig.take(&on_stream(2, whole(FIRST + 7, 1, b"next"))), ACCEPTED);
    assert_eq!(rig.take(&on_stream(2, end(FIRST + 6, 0, &payload))), READABLE);
    let part = rig.recv().unwrap();
    assert_eq!((part.begins, part.ends, part.tsn, part.data.len()), (false, true, Tsn(FIRST + 6), 1000));
    assert_eq!(rig.texts(), ["next"]);
    assert_eq!(rig.inbound.buffered_bytes(), 0);
}

#[test]
fn no_part_is_handed_over_before_its_turn() {
    let mut rig =
        Rig::with(AssociationConfig { partial_delivery_point: 1000, ..AssociationConfig::default() });
    assert_eq!(rig.take(&begin(FIRST, 1, &[7; 2000])), ACCEPTED);
    assert_eq!(rig.take(&unordered(end(FIRST + 2, 0, b"x"))), ACCEPTED);
    assert!(rig.recv().is_none());
}

/// A short message is not split because others fill the buffer: the missing data will free it.
#[test]
fn incomplete_message_hands_over_no_part() {
    let mut rig = Rig::with_buffer(10_000);
    rig.take(&begin(FIRST, 0, &[7; 100]));
    for number in 3..13 {
        rig.take(&on_stream(1, whole(FIRST + number, number as u16, &[7; 1000])));
    }
    assert_eq!(rig.sack().a_rwnd, 0);
    assert_eq!(rig.take(&middle(FIRST + 1, 0, &[7; 100])), ACCEPTED);
    assert_eq!(rig.take(&end(FIRST + 2, 0, &[7; 100])), READABLE);
    assert_eq!(rig.recv().unwrap().data.len(), 300);
}

/// A message larger than the whole receive buffer arrives, and the window never stays closed.
#[test]
fn a_message_larger_than_the_buffer() {
    let mut rig = Rig::with(AssociationConfig {
        receive_buffer: Some(5000),
        partial_delivery_point: 5000,
        ..AssociationConfig::default()
    });
    let (mut bytes, mut parts) = (0, 0);
    for number in 0..100 {
        let data = match number {
            0 => begin(FIRST, 0, &[7; 1400]),
            99 => end(FIRST + number, 0, &[7; 1400]),
            _ => middle(FIRST + number, 0, &[7; 1400]),
        };
        assert!(matches!(rig.take(&data), DataOutcome::Accepted { .. }), "{number}");
        rig.sack();
        while let Some(part) = rig.recv() {
            assert_eq!(part.begins, bytes == 0);
            bytes += part.data.len();
            parts += 1;
            assert_eq!(part.ends, number == 99);
        }
    }
    assert_eq!(bytes, 140_000);
    assert!(parts < 50, "parts are not handed over one by one: {parts}");
}
