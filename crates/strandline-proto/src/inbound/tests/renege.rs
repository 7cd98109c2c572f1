//! A full buffer drops the highest TSNs held for reordering to take what fills a gap (RFC 9260 section 6.2).

use strandline_wire::IData;

use super::i_data::{interleaved, one};
use super::*;
use crate::number::Mid;

/// Bytes of user data in a chunk, and what the window is charged for one that is held.
const LEN: usize = 1000;
const COST: u32 = (LEN + HELD_COST) as u32;
/// The receive buffer: less than ten chunks. Twice as much may be held.
const SIZE: u32 = 10_000;

fn chunk(number: u32) -> Data<'static> {
    whole(FIRST + number, number as u16, &[7; LEN])
}

fn gaps(rig: &mut Rig) -> (u32, Vec<(u16, u16)>) {
    let told = rig.sack();
    (told.cumulative + 1 - FIRST, told.gaps)
}

/// Chunk 0 is missing, and every second one beyond it arrives, then some between them: all of them wait for the first
/// message. The next one would exceed twice the buffer.
fn full() -> Rig {
    let mut rig = Rig::with_buffer(SIZE);
    for number in (2..=20).step_by(2).chain((1..12).step_by(2)) {
        assert_eq!(rig.take(&chunk(number)), ACCEPTED, "{number}");
    }
    assert_eq!(rig.inbound.buffered_bytes(), 16 * COST);
    assert_eq!(gaps(&mut rig), (0, vec![(2, 13), (15, 15), (17, 17), (19, 19), (21, 21)]));
    rig
}

#[test]
fn highest_tsn_makes_room_for_a_gap() {
    let mut rig = full();
    assert_eq!(rig.take(&chunk(13)), ACCEPTED);
    assert!(rig.sack_due());
    // Chunk 20 is not reported any more, and the window stays closed.
    let told = rig.sack();
    assert_eq!((told.gaps, told.a_rwnd), (vec![(2, 15), (17, 17), (19, 19)], 0));
    assert_eq!(rig.inbound.buffered_bytes(), 16 * COST);
    // It is new data, for which there is no room.
    assert_eq!(rig.take(&chunk(20)), DataOutcome::Dropped(DropReason::BufferFull));
    assert_eq!(rig.take(&chunk(0)), READABLE);
    assert_eq!(gaps(&mut rig), (15, vec![(2, 2)]));
    for number in 0..15 {
        assert_eq!(rig.recv().map(|message| message.ssn), Some(Ssn(number)));
    }
    for number in 15..21 {
        let held = number == 16;
        assert_eq!(
            rig.take(&chunk(number)),
            if held { DataOutcome::Duplicate } else { READABLE },
            "{number}"
        );
    }
    assert_eq!(rig.inbound.ready.len(), 6);
    assert!(core::iter::from_fn(|| rig.recv()).map(|message| message.ssn.0).eq(15..21));
    assert_eq!((rig.inbound.buffered_bytes(), gaps(&mut rig)), (0, (21, vec![])));
}

/// What was acknowledged and dropped is missing until it comes again, though nothing beyond it is held.
#[test]
fn dropped_tsns_are_missing() {
    let mut rig = full();
    assert_eq!(rig.take(&chunk(13)), ACCEPTED);
    assert_eq!(rig.take(&chunk(0)), READABLE);
    while rig.recv().is_some() {}
    for number in [15, 17, 18, 19] {
        assert_eq!(rig.take(&chunk(number)), READABLE);
    }
    assert_eq!(gaps(&mut rig), (20, vec![]));
    assert!(rig.inbound.incomplete().is_some(), "chunk 20");
    assert_eq!(rig.take(&chunk(20)), READABLE);
    assert_eq!(rig.inbound.incomplete(), None);
}

/// Nothing goes while there is room, for data beyond everything that arrived, or for data above what is held.
#[test]
fn nothing_goes_without_need() {
    let mut rig = full();
    let before = gaps(&mut rig);
    for number in [21, 40] {
        assert_eq!(rig.take(&chunk(number)), DataOutcome::Dropped(DropReason::BufferFull));
    }
    assert_eq!(gaps(&mut rig), before);
    // The highest TSN is that of a message that was delivered, and stays acknowledged.
    let mut rig = Rig::with_buffer(SIZE);
    assert_eq!(rig.take(&unordered(chunk(30))), READABLE);
    for number in (2..=18).step_by(2).chain((1..14).step_by(2)) {
        assert_eq!(rig.take(&chunk(number)), ACCEPTED, "{number}");
    }
    assert_eq!(rig.inbound.buffered_bytes(), 16 * COST + 1000);
    let outcome = rig.take(&chunk(25));
    assert_eq!(outcome, DataOutcome::Dropped(DropReason::BufferFull));
    assert_eq!(gaps(&mut rig), (0, vec![(2, 15), (17, 17), (19, 19), (31, 31)]));
    assert_eq!(rig.take(&chunk(15)), ACCEPTED);
    assert_eq!(gaps(&mut rig), (0, vec![(2, 16), (31, 31)]));
}

/// A search in vain looks at all that is held, and is repeated only after as many chunks as that is worth.
#[test]
fn vain_searches_are_rare() {
    let mut rig = Rig::with_buffer(100_000);
    assert_eq!(rig.take(&unordered(whole(FIRST + 60_000, 0, b"x"))), READABLE);
    let held = (2..).step_by(2).find(|&number| {
        let outcome = rig.take(&whole(FIRST + number, number as u16, b"x"));
        outcome == DataOutcome::Dropped(DropReason::BufferFull)
    });
    let held = held.expect("it becomes full") / 2 - 1;
    assert_eq!(held, (200_000 - 64) / 257 + 1);
    let full = DataOutcome::Dropped(DropReason::BufferFull);
    // The search for the last one was in vain. There is room for a lower one, which is not sought at once.
    let refused = (0..100).take_while(|_| rig.take(&whole(FIRST + 1, 1, b"x")) == full).count();
    assert_eq!(refused, held as usize / 64);
    // After a search that made room the next one comes at once.
    rig.inbound.window.charge(7000);
    assert_eq!(rig.take(&whole(FIRST + 3, 3, b"x")), ACCEPTED);
}

/// Fragments go from the end of a message, and a whole message that waits goes with all its fragments.
#[test]
fn fragments_of_messages_go() {
    let payload = [7; LEN];
    let mut rig = Rig::with_buffer(SIZE);
    for data in [
        begin(FIRST + 20, 9, &payload),
        middle(FIRST + 21, 9, &payload),
        middle(FIRST + 22, 9, &payload),
        begin(FIRST + 16, 8, &payload),
        middle(FIRST + 17, 8, &payload),
        end(FIRST + 18, 8, &payload),
    ] {
        assert_eq!(rig.take(&data), ACCEPTED);
    }
    // What fills the rest is another stream's.
    let other = |number: u32| on_stream(2, whole(FIRST + number, number as u16, &payload));
    let mut left = Vec::new();
    for number in 2..16 {
        assert_eq!(rig.take(&other(number)), ACCEPTED, "{number}");
        left.push(gaps(&mut rig).1.into_iter().skip(1).collect::<Vec<_>>());
    }
    left.dedup();
    let both = |last| vec![(17, 19), (21, last)];
    assert_eq!(left, [both(23), both(21), vec![]]);
    assert_eq!(rig.inbound.buffered_bytes(), rig.inbound.order.each_cost());
    for number in [1, 0] {
        assert!(matches!(rig.take(&other(number)), DataOutcome::Accepted { .. }));
    }
    assert_eq!(core::iter::from_fn(|| rig.recv()).count(), 16);
    for data in [begin(FIRST + 16, 0, &payload), middle(FIRST + 17, 0, &payload)] {
        assert!(matches!(rig.take(&data), DataOutcome::Accepted { .. }));
    }
    assert_eq!(rig.take(&end(FIRST + 18, 0, &payload)), READABLE);
    assert_eq!(gaps(&mut rig), (19, vec![]));
}

impl crate::inbound::StreamOrder {
    /// Returns what the window is charged for messages that wait.
    fn each_cost(&self) -> u32 {
        let mut sum = 0;
        self.each_waiting(&mut |_, cost| sum += cost as u32);
        sum
    }
}

/// Fragments and messages of I-DATA go as well, and the credit of their streams counts them as not accepted.
#[test]
fn i_data_goes_from_the_end() {
    let mut rig = interleaved(Rig::with_buffer(SIZE));
    stream_credit::set_credit(&mut rig.inbound, Some(18), None);
    let payload = [7; LEN];
    let fragment = |number: u32, fsn: u32| IData {
        fsn: crate::number::Fsn(fsn),
        beginning: false,
        ending: false,
        ..IData::whole(Tsn(FIRST + number), StreamId(3), Mid(0), &payload)
    };
    for (number, fsn) in [(20, 9), (21, 10)] {
        assert_eq!(rig.take_i(&fragment(number, fsn)), ACCEPTED);
    }
    assert_eq!(rig.take_i(&one(FIRST + 22, 4, 1, &payload)), ACCEPTED);
    for number in 2..15 {
        let outcome = rig.take_i(&one(FIRST + number, 0, number, &payload));
        assert_eq!(outcome, ACCEPTED, "{number}");
    }
    assert_eq!(gaps(&mut rig), (0, vec![(3, 15), (21, 23)]));
    for (number, left) in [(15, vec![(3, 16), (21, 22)]), (16, vec![(3, 17), (21, 21)]), (17, vec![(3, 18)])]
    {
        assert_eq!(rig.take_i(&one(FIRST + number, 0, number, &payload)), ACCEPTED, "{number}");
        assert_eq!(gaps(&mut rig).1, left);
    }
    // Everything arrives in the end, within the credit.
    for number in [0, 1] {
        assert_eq!(rig.take_i(&one(FIRST + number, 0, number, &payload)), READABLE);
    }
    assert_eq!(gaps(&mut rig), (17, vec![]), "that made room for the lowest one");
    while rig.recv().is_some() {}
    assert_eq!(rig.take_i(&one(FIRST + 17, 0, 17, &payload)), READABLE);
    let first = IData { beginning: true, ..fragment(18, 0) };
    assert!(matches!(rig.take_i(&first), DataOutcome::Accepted { .. }));
    let rest = [(19, 1), (20, 2), (21, 3)];
    for (number, fsn) in rest {
        assert!(matches!(rig.take_i(&fragment(number, fsn)), DataOutcome::Accepted { .. }), "{number}");
    }
    assert_eq!(rig.take_i(&one(FIRST + 22, 4, 0, &payload)), READABLE);
    assert_eq!(gaps(&mut rig), (23, vec![]));
}
