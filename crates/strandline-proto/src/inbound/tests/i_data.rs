//! I-DATA: messages of several streams that arrive in any mixture of fragments (RFC 8260 section 2.2.3).

use strandline_wire::IData;
use strandline_wire::chunk::i_forward_tsn::{self, SkippedMessage};

use super::*;
use crate::inbound::i_data::{on_i_data, on_i_forward_tsn, partly_delivered, set_interleaved};
use crate::inbound::interleaved::Cut;
use crate::inbound::reconfigure::{bar_past, go_on, renumber, reset_streams, set_barred};
use crate::number::{Fsn, Mid};
use crate::reconfiguration::Streams;

/// A whole ordered message.
pub(super) fn one(tsn: u32, stream: u16, mid: u32, payload: &[u8]) -> IData<'_> {
    IData { ppid: Ppid(7), ..IData::whole(Tsn(tsn), StreamId(stream), Mid(mid), payload) }
}

/// The fragment `fsn` of an ordered message, which is not the last one.
fn part(tsn: u32, stream: u16, mid: u32, fsn: u32, payload: &[u8]) -> IData<'_> {
    let beginning = fsn == 0;
    let ppid = Ppid(if beginning { 7 } else { 0 });
    IData { fsn: Fsn(fsn), beginning, ending: false, ppid, ..one(tsn, stream, mid, payload) }
}

fn last(data: IData<'_>) -> IData<'_> {
    IData { ending: true, ..data }
}

fn free(data: IData<'_>) -> IData<'_> {
    IData { unordered: true, ..data }
}

pub(super) fn interleaved(mut rig: Rig) -> Rig {
    set_interleaved(&mut rig.inbound, true);
    rig
}

impl Rig {
    pub(super) fn take_i(&mut self, data: &IData<'_>) -> DataOutcome {
        let point = self.config.partial_delivery_point;
        let outcome = on_i_data(&mut self.inbound, data, &mut self.arena, point);
        self.inbound.on_packet_end(self.now, false, &self.config, || self.config.receive_buffer_limit());
        outcome
    }

    fn accepts(&mut self, chunks: &[IData<'_>]) {
        for data in chunks {
            let outcome = self.take_i(data);
            assert!(matches!(outcome, DataOutcome::Accepted { .. }), "{data:?}: {outcome:?}");
        }
    }

    fn skips(&mut self, last: u32, skipped: &[(u16, bool, u32)]) -> Vec<Cut> {
        let mut buffer = [0; 500];
        let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        let entry = |&(stream, unordered, mid): &(u16, bool, u32)| SkippedMessage {
            stream: StreamId(stream),
            unordered,
            mid: Mid(mid),
        };
        assert!(i_forward_tsn::write(&mut packet, Tsn(last), skipped.iter().map(entry)));
        let len = packet.finish();
        let packet = Packet::parse(&buffer[..len]).unwrap();
        let Chunk::IForwardTsn(chunk) = packet.chunks().next().unwrap().unwrap().parse().unwrap() else {
            panic!("not one")
        };
        let point = self.config.partial_delivery_point;
        on_i_forward_tsn(&mut self.inbound, &chunk, &mut self.arena, point)
    }

    /// Asserts that nothing is held and the window is open again.
    fn is_empty_again(&mut self) {
        assert_eq!(self.texts(), [""; 0]);
        assert_eq!(self.inbound.buffered_bytes(), 0);
        assert_eq!(self.inbound.incomplete(), None);
    }
}

#[test]
fn fragments_of_several_streams_alternate() {
    let mut rig = interleaved(Rig::new());
    rig.accepts(&[part(100, 1, 0, 0, b"a"), part(101, 2, 0, 0, b"x"), free(part(102, 1, 0, 0, b"u"))]);
    assert_eq!(
        rig.inbound.incomplete(),
        Some("shutdown in the middle of a message: its last fragment has not arrived")
    );
    rig.accepts(&[
        part(103, 1, 0, 1, b"b"),
        last(part(104, 2, 0, 1, b"y")),
        last(free(part(105, 1, 0, 1, b"v"))),
    ]);
    assert_eq!(rig.texts(), ["xy", "uv"]);
    rig.accepts(&[last(part(106, 1, 0, 2, b"c"))]);
    let message = rig.recv().unwrap();
    assert_eq!((&message.data[..], message.ppid, message.tsn), (&b"abc"[..], Ppid(7), Tsn(100)));
    rig.is_empty_again();
    assert_eq!(rig.sack().cumulative, 106);
}

/// The order of TSNs has no meaning for a message.
#[test]
fn fragments_arrive_in_any_order() {
    for order in [[0, 1, 2, 3], [3, 2, 1, 0], [2, 0, 3, 1], [1, 3, 0, 2]] {
        let mut rig = interleaved(Rig::new());
        for (tsn, fsn) in (100..).zip(order) {
            let text = [b'a' + fsn as u8];
            let data = part(tsn, 5, 0, fsn, &text);
            rig.accepts(&[if fsn == 3 { last(data) } else { data }]);
        }
        assert_eq!(rig.texts(), ["abcd"], "{order:?}");
        rig.is_empty_again();
    }
}

#[test]
fn messages_of_a_stream_wait_for_their_turn() {
    let mut rig = interleaved(Rig::new());
    rig.accepts(&[one(101, 1, 1, b"second"), last(part(103, 1, 2, 1, b"ird")), part(102, 1, 2, 0, b"th")]);
    rig.accepts(&[one(104, 2, 0, b"other"), free(one(105, 1, 0, b"free"))]);
    assert_eq!(rig.texts(), ["other", "free"]);
    rig.accepts(&[one(100, 1, 0, b"first")]);
    assert_eq!(rig.texts(), ["first", "second", "third"]);
    rig.is_empty_again();
}

/// MIDs have 32 bits; those of a message are its SSN as far as that goes.
#[test]
fn mids_wrap_around() {
    let mut rig = interleaved(Rig::new());
    for (tsn, mid) in [(100, u32::MAX - 1), (101, u32::MAX), (102, 0), (103, 1)] {
        if tsn == 100 {
            // As if all earlier ones had arrived: those are abandoned in two steps.
            rig.skips(99, &[]);
            let skipped = [(1, false, (1 << 31) - 1)];
            let Inbound { window, ready, order, .. } = &mut rig.inbound;
            let state = order.interleaved_mut().unwrap();
            let mut sink = crate::inbound::interleaved::Sink { window, arena: &mut rig.arena, ready };
            for (stream, unordered, mid) in skipped.into_iter().chain([(1, false, u32::MAX - 2)]) {
                let skipped = SkippedMessage { stream: StreamId(stream), unordered, mid: Mid(mid) };
                state.skip(skipped, u32::MAX, 1000, &mut sink, &mut Vec::new());
            }
        }
        let text = format!("{mid}");
        rig.accepts(&[one(tsn, 1, mid, text.as_bytes())]);
        assert_eq!(rig.recv().map(|message| message.ssn), Some(Ssn((mid & 0xffff) as u16)));
    }
    rig.is_empty_again();
}

/// Unordered messages that come half of all numbers after an abandoned one are new.
#[test]
fn unordered_mids_wrap_around() {
    let mut rig = interleaved(Rig::new());
    rig.skips(99, &[]);
    let Inbound { window, ready, order, .. } = &mut rig.inbound;
    let mut sink = crate::inbound::interleaved::Sink { window, arena: &mut rig.arena, ready };
    let skipped = SkippedMessage { stream: StreamId(1), unordered: true, mid: Mid(5) };
    order.interleaved_mut().unwrap().skip(skipped, u32::MAX, 1000, &mut sink, &mut Vec::new());
    let half = 1_u32 << 31;
    for (nth, mid) in [half + 4, half + 6, 3 << 30, u32::MAX, 4, 6, 1 << 30].into_iter().enumerate() {
        let tsn = 100 + 2 * nth as u32;
        rig.accepts(&[free(part(tsn, 1, mid, 0, b"n")), free(last(part(tsn + 1, 1, mid, 1, b"ew")))]);
        assert_eq!(rig.texts(), ["new"], "{mid}");
    }
    rig.is_empty_again();
}

/// What contradicts fragments that have arrived is a violation, whatever came first.
#[test]
fn contradictions_are_violations() {
    let cases: [(&str, &[IData<'_>], IData<'_>); 8] = [
        ("FSN twice, joined", &[part(100, 1, 0, 0, b"a")], part(101, 1, 0, 0, b"a")),
        ("FSN twice, beyond", &[part(100, 1, 0, 2, b"a")], part(101, 1, 0, 2, b"a")),
        ("two ends", &[last(part(100, 1, 0, 2, b"a"))], last(part(101, 1, 0, 1, b"a"))),
        ("beyond the end", &[last(part(100, 1, 0, 2, b"a"))], part(101, 1, 0, 3, b"a")),
        ("an end too early", &[part(100, 1, 0, 2, b"a")], last(part(101, 1, 0, 1, b"a"))),
        ("whole and not", &[part(100, 1, 0, 1, b"a")], one(101, 1, 0, b"a")),
        ("MID twice", &[one(100, 1, 0, b"a")], one(101, 1, 0, b"a")),
        ("MID twice, waiting", &[one(100, 1, 1, b"a")], one(101, 1, 1, b"a")),
    ];
    for (what, before, wrong) in cases {
        let mut rig = interleaved(Rig::new());
        rig.accepts(before);
        assert!(is_violation(rig.take_i(&wrong)), "{what}");
    }
}

/// RFC 8260 section 2.2.3: only the negotiated kind of chunks is accepted.
#[test]
fn the_other_kind_of_chunks_is_a_violation() {
    let mut rig = interleaved(Rig::new());
    for data in [whole(100, 0, b"a"), begin(100, 0, b"a"), unordered(whole(100, 0, b"a"))] {
        assert!(is_violation(rig.take(&data)), "{data:?}");
    }
    assert!(is_violation(Rig::new().take_i(&one(100, 0, 0, b"a"))));
}

#[test]
fn duplicates_and_invalid_streams() {
    let mut rig = interleaved(Rig::new());
    rig.accepts(&[one(100, 1, 0, b"a")]);
    assert_eq!(rig.take_i(&one(100, 1, 0, b"a")), DataOutcome::Duplicate);
    assert_eq!(rig.take_i(&one(101, 1000, 0, b"a")), DataOutcome::InvalidStream);
    assert_eq!(rig.take_i(&one(102, 1, 1, b"")), DataOutcome::NoUserData);
    assert_eq!(rig.sack(), Told { cumulative: 101, duplicates: vec![100], ..rig_told(&rig) });
}

fn rig_told(rig: &Rig) -> Told {
    Told { cumulative: 0, a_rwnd: rig.inbound.a_rwnd(), gaps: vec![], duplicates: vec![] }
}

/// Parts of large messages on two streams come in turn; of a stream, one ordered and one unordered message at a time.
#[test]
fn large_messages_are_delivered_in_parts() {
    let mut rig = interleaved(Rig::with(AssociationConfig {
        partial_delivery_point: 4,
        ..AssociationConfig::default()
    }));
    rig.accepts(&[part(100, 1, 0, 0, b"aaaa"), part(101, 2, 0, 0, b"bbb"), part(102, 2, 0, 1, b"b")]);
    let parts: Vec<_> = core::iter::from_fn(|| rig.recv()).collect();
    let shape = |part: &Message| (part.stream.0, part.begins, part.ends, part.data.len());
    assert_eq!(parts.iter().map(shape).collect::<Vec<_>>(), [(1, true, false, 4), (2, true, false, 4)]);
    assert_eq!(partly_delivered(&rig.inbound), [StreamId(1), StreamId(2)]);
    // The second message of stream 1 is not next, and the second unordered one waits for the first one's end.
    rig.accepts(&[
        part(103, 1, 1, 0, b"later"),
        free(part(104, 1, 0, 0, b"uuuu")),
        free(part(105, 1, 1, 0, b"vvvv")),
    ]);
    let parts: Vec<_> = core::iter::from_fn(|| rig.recv()).collect();
    assert_eq!(parts.iter().map(shape).collect::<Vec<_>>(), [(1, true, false, 4)]);
    assert!(parts[0].unordered);
    rig.accepts(&[last(part(106, 1, 0, 1, b"a"))]);
    let parts: Vec<_> = core::iter::from_fn(|| rig.recv()).collect();
    assert_eq!(parts.iter().map(shape).collect::<Vec<_>>(), [(1, false, true, 1), (1, true, false, 5)]);
    rig.accepts(&[
        last(free(part(107, 1, 0, 1, b"u"))),
        last(free(part(108, 1, 1, 1, b"v"))),
        last(part(109, 2, 0, 2, b"b")),
        last(part(110, 1, 1, 1, b"!")),
    ]);
    assert_eq!(rig.texts(), ["u", "vvvvv", "b", "!"]);
    rig.is_empty_again();
}

/// A full buffer with nothing to read abandons the longest part, so that the window opens again.
#[test]
fn a_full_buffer_of_fragments_is_handed_over() {
    let mut rig = interleaved(Rig::with_buffer(8000));
    let payload = [b'x'; 1000];
    let mut tsn = 100;
    let mut read = 0;
    for fsn in 0..20 {
        for stream in [1, 2] {
            rig.accepts(&[part(tsn, stream, 0, fsn, &payload)]);
            tsn += 1;
            read += core::iter::from_fn(|| rig.recv()).map(|part| part.data.len()).sum::<usize>();
            rig.sack();
        }
    }
    for stream in [1, 2] {
        rig.accepts(&[last(part(tsn, stream, 0, 20, &payload))]);
        tsn += 1;
    }
    read += core::iter::from_fn(|| rig.recv()).map(|part| part.data.len()).sum::<usize>();
    assert_eq!(read, 42_000);
    assert_eq!((rig.inbound.buffered_bytes(), rig.inbound.incomplete()), (0, None));
}

/// A full buffer hands over one unordered message of a stream, and others only once that is complete.
#[test]
fn full_buffer_hands_over_unordered_in_turn() {
    let mut rig = interleaved(Rig::with_buffer(8000));
    let payloads = [[b'a'; 1000], [b'b'; 1000], [b'c'; 1000]];
    let mut tsn = 100;
    let mut read = String::new();
    let mut take = |rig: &mut Rig, mid: u32, fsn: u32, ends: bool| {
        let whole = part(tsn, 1, mid, fsn, &payloads[mid as usize]);
        rig.accepts(&[free(IData { ending: ends, ..whole })]);
        tsn += 1;
        let parts: Vec<_> = core::iter::from_fn(|| rig.recv()).collect();
        rig.sack();
        read.extend(parts.iter().map(|part| char::from(part.data[0])));
        read.clone()
    };
    for (mid, count) in [(0, 4), (1, 5), (2, 2)] {
        for fsn in 0..count {
            take(&mut rig, mid, fsn, false);
        }
    }
    let first = take(&mut rig, 0, 4, true);
    assert!(first.starts_with("aa") && first.ends_with('b'), "{first}");
    assert!(!take(&mut rig, 1, 5, true).contains('c'));
    for fsn in 2..7 {
        take(&mut rig, 2, fsn, false);
    }
    assert!(take(&mut rig, 2, 7, true).ends_with("cc"));
    assert_eq!((rig.inbound.buffered_bytes(), rig.inbound.incomplete()), (0, None));
}

/// Section 2.3.1: ordered and unordered messages up to the MIDs are abandoned; complete ones are delivered.
#[test]
fn i_forward_tsn_gives_messages_up() {
    let mut rig = interleaved(Rig::new());
    // Message 0 is missing, of 1 a part; 2 is there, of 3 a part.
    rig.accepts(&[
        part(101, 1, 1, 0, b"one"),
        one(103, 1, 2, b"two"),
        part(104, 1, 3, 0, b"thr"),
        free(part(105, 1, 0, 0, b"u0")),
        free(part(106, 1, 1, 0, b"u1")),
    ]);
    assert_eq!(rig.skips(102, &[(1, false, 1), (1, true, 0)]), []);
    assert_eq!(rig.texts(), ["two"]);
    assert_eq!(rig.sack().cumulative, 106);
    // Fragments of what was abandoned are acknowledged and dropped; the others complete their messages.
    rig.accepts(&[
        last(part(107, 1, 1, 1, b"late")),
        last(free(part(108, 1, 0, 1, b"late"))),
        last(free(part(109, 1, 1, 1, b"!"))),
        last(part(110, 1, 3, 1, b"ee")),
    ]);
    assert_eq!(rig.texts(), ["u1!", "three"]);
    rig.is_empty_again();
    assert_eq!(rig.sack().cumulative, 110);
}

/// Of several messages parts were delivered: each is reported.
#[test]
fn i_forward_tsn_cuts_messages_off() {
    let mut rig = interleaved(Rig::with(AssociationConfig {
        partial_delivery_point: 4,
        ..AssociationConfig::default()
    }));
    rig.accepts(&[
        part(100, 1, 0, 0, b"aaaa"),
        part(101, 2, 0, 0, b"bbbb"),
        free(part(102, 3, 0, 0, b"cccc")),
    ]);
    rig.recv().unwrap();
    let cuts = rig.skips(105, &[(1, false, 0), (2, false, 0), (3, true, 0), (1000, false, 5)]);
    let cut = |stream| Cut { stream: StreamId(stream), unread: 2 };
    assert_eq!(cuts, [cut(1), cut(2), cut(3)]);
    assert_eq!(rig.texts(), ["bbbb", "cccc"]);
    rig.is_empty_again();
    rig.accepts(&[one(106, 1, 1, b"on"), free(one(107, 3, 1, b"and")), one(108, 2, 1, b"on")]);
    assert_eq!(rig.texts(), ["on", "and", "on"]);
}

/// One that claims more than can be missing, or that is out of date, changes nothing but the TSN.
#[test]
fn impossible_mids_are_ignored() {
    let mut rig = interleaved(Rig::new());
    rig.accepts(&[one(100, 1, 0, b"a")]);
    assert_eq!(rig.skips(102, &[(1, false, 50), (1, false, 0), (1, false, u32::MAX)]), []);
    rig.accepts(&[one(103, 1, 1, b"b")]);
    assert_eq!(rig.skips(103, &[(1, false, 2)]), [], "out of date");
    rig.accepts(&[one(104, 1, 2, b"c")]);
    assert_eq!(rig.texts(), ["a", "b", "c"]);
}

/// Section 2.3.2: both numberings of a stream begin anew.
#[test]
fn a_reset_sets_both_numbers_back() {
    let mut rig = interleaved(Rig::new());
    let streams = Streams::from([StreamId(1)].as_slice());
    rig.accepts(&[
        one(100, 1, 0, b"a"),
        free(one(101, 1, 0, b"b")),
        one(102, 2, 0, b"c"),
        part(103, 1, 1, 0, b"d"),
    ]);
    assert_eq!(reset_streams(&mut rig.inbound, &streams), None, "a message is incomplete");
    rig.accepts(&[last(part(104, 1, 1, 1, b"d"))]);
    // Data from after the reset must not be mixed with what is still missing.
    let beyond = Barred::Beyond(streams.clone(), Tsn(104));
    set_barred(&mut rig.inbound, Some(beyond));
    let barred = DataOutcome::Dropped(DropReason::Barred);
    assert_eq!(rig.take_i(&free(part(105, 1, 0, 0, b"e"))), barred);
    rig.accepts(&[one(106, 2, 1, b"f")]);
    set_barred(&mut rig.inbound, None);
    assert_eq!(reset_streams(&mut rig.inbound, &streams), Some(5));
    rig.accepts(&[free(one(105, 1, 0, b"g")), one(107, 1, 0, b"h"), one(108, 2, 2, b"i")]);
    assert_eq!(rig.texts(), ["a", "b", "c", "dd", "f", "g", "h", "i"]);
    rig.is_empty_again();
}

/// After a reset of all numbers that the peer was asked for, what it sent before its response is kept.
#[test]
fn messages_overtake_the_response_to_a_reset() {
    let mut rig = interleaved(Rig::new());
    rig.accepts(&[one(100, 1, 0, b"a"), one(101, 1, 1, b"b")]);
    bar_past(&mut rig.inbound);
    let barred = DataOutcome::Dropped(DropReason::Barred);
    // Stream 1 begins anew, which can't be told from the past; stream 2 begins for the first time.
    assert_eq!(rig.take_i(&one(102, 1, 0, b"new")), barred);
    assert_eq!(rig.take_i(&one(103, 2, 1, b"too early")), barred);
    rig.accepts(&[one(102, 2, 0, b"new"), free(part(103, 1, 0, 0, b"u"))]);
    assert_eq!(go_on(&mut rig.inbound, Tsn(102), &mut rig.arena), Some((2, None)));
    rig.accepts(&[one(104, 1, 0, b"again"), one(105, 2, 1, b"on"), last(free(part(106, 1, 0, 1, b"v")))]);
    assert_eq!(rig.texts(), ["a", "b", "new", "again", "on", "uv"]);
    rig.is_empty_again();
    rig.accepts(&[part(107, 1, 1, 0, b"half")]);
    assert_eq!(renumber(&mut rig.inbound, Tsn(5000)), (0, None));
    rig.accepts(&[one(5000, 1, 0, b"anew")]);
    assert_eq!(rig.texts(), ["anew"]);
    rig.is_empty_again();
}

/// A peer that sends only beginnings fills the buffer and no more.
#[test]
fn memory_of_incomplete_messages_is_bounded() {
    let mut rig = interleaved(Rig::with_buffer(100_000));
    let mut accepted: u32 = 0;
    for n in 0..5000 {
        if rig.take_i(&free(part(100 + n, (n % 1000) as u16, n / 1000, 0, b"x"))) == ACCEPTED {
            accepted += 1;
        }
    }
    assert!((300..1000).contains(&accepted), "{accepted}");
    assert!(rig.inbound.heap_bytes() < 400_000, "{}", rig.inbound.heap_bytes());
}

/// The records of messages that are delivered in parts don't fill a small buffer, however many streams there are. The
/// index that a full buffer needs is gone with the last message.
#[test]
fn many_streams_pass_a_small_buffer() {
    let [small, large] = [2700, 1 << 20].map(|buffer| {
        let mut rig = interleaved(Rig::with_buffer(buffer));
        let payload = [b'x'; 600];
        let (mut tsn, mut read) = (100, 0);
        for fsn in 0..3 {
            for stream in 0..20 {
                let data = part(tsn, stream, 0, fsn, &payload);
                let data = if fsn == 2 { last(data) } else { data };
                rig.accepts(&[if stream % 2 == 0 { free(data) } else { data }]);
                tsn += 1;
                read += core::iter::from_fn(|| rig.recv()).map(|part| part.data.len()).sum::<usize>();
                rig.sack();
            }
        }
        assert_eq!(read, 36_000);
        rig.is_empty_again();
        rig.inbound.order.interleaved().unwrap().heap_bytes()
    });
    assert_eq!(small, large);
}

/// What a reset of all numbers has dropped is not looked for in a full buffer.
#[test]
fn full_buffer_after_a_reset() {
    let mut rig = interleaved(Rig::with_buffer(40_000));
    let mut tsn = 100;
    let mut take = |rig: &mut Rig, streams: core::ops::Range<u16>, len: usize| {
        for stream in streams {
            rig.accepts(&[free(part(tsn, stream, 0, 0, &vec![b'x'; len]))]);
            tsn += 1;
            while rig.recv().is_some() {}
            rig.sack();
        }
        tsn
    };
    take(&mut rig, 0..80, 1);
    let next = take(&mut rig, 100..200, 600);
    bar_past(&mut rig.inbound);
    assert!(go_on(&mut rig.inbound, Tsn(next), &mut rig.arena).is_some());
    take(&mut rig, 200..300, 600);
}

/// An I-FORWARD-TSN from before a reset of all numbers, which moves TSNs by half of their space, skips nothing.
#[test]
fn i_forward_tsn_from_another_numbering() {
    let mut rig = interleaved(Rig::with_buffer(100_000));
    rig.accepts(&[one(100, 1, 0, b"first")]);
    for (last, skips) in [(100_u32.wrapping_add((1 << 31) - 5), false), (101 + (1 << 26), false), (101, true)]
    {
        rig.skips(last, &[(1, false, 1)]);
        assert_eq!(rig.inbound.cumulative_tsn() == Tsn(last), skips, "{last}");
    }
    rig.accepts(&[one(102, 1, 2, b"third")]);
    assert_eq!(rig.texts(), ["first", "third"]);
}

/// Unordered messages that were given up on many streams: fragments of them that arrive later are dropped,
/// and hold up no shutdown.
#[test]
fn late_fragments_of_many_given_up_messages() {
    const STREAMS: u32 = 4000;
    let mut rig = Rig::with_buffer(100_000);
    rig.inbound = Inbound::new(Tsn(100), STREAMS as u16, 100_000);
    let mut rig = interleaved(rig);
    for stream in 0..STREAMS {
        rig.skips(100 + stream, &[(stream as u16, true, 0)]);
    }
    for stream in 0..STREAMS {
        let late = part(100 + STREAMS + stream, stream as u16, 0, 1, b"late");
        assert_ne!(rig.take_i(&last(free(late))), DataOutcome::Duplicate);
    }
    assert_eq!(rig.inbound.cumulative_tsn(), Tsn(99 + 2 * STREAMS));
    rig.is_empty_again();
    // The next one of each stream is wanted.
    for stream in 0..STREAMS {
        rig.accepts(&[free(one(100 + 2 * STREAMS + stream, stream as u16, 1, b"n"))]);
        assert_eq!(rig.texts(), ["n"]);
    }
}

/// What is missing when the peer is asked for a reset of all numbers was sent before it, whatever its number.
#[test]
fn gaps_from_before_a_reset_are_filled() {
    let mut rig = interleaved(Rig::new());
    rig.accepts(&[one(100, 1, 0, b"a"), one(105, 2, 1, b"d")]);
    bar_past(&mut rig.inbound);
    rig.accepts(&[one(104, 2, 0, b"c")]);
    assert_eq!(rig.take_i(&one(107, 3, 1, b"unknown")), DataOutcome::Dropped(DropReason::Barred));
    rig.accepts(&[one(101, 1, 1, b"b")]);
    assert_eq!(rig.texts(), ["a", "c", "d", "b"]);
    // The peer abandons what was delivered, since it missed the acknowledgement.
    rig.skips(103, &[(1, false, 1), (2, false, 0)]);
    assert_eq!(rig.inbound.cumulative_tsn(), Tsn(105));
}

/// The peer has abandoned a message and skips its remaining fragments, after later messages of the stream
/// have arrived. It answers the request for a reset of all numbers only once that is acknowledged.
#[test]
fn fragments_of_skipped_message_precede_a_reset() {
    let mut rig = interleaved(Rig::new());
    rig.accepts(&[one(100, 1, 0, b"a")]);
    bar_past(&mut rig.inbound);
    rig.skips(101, &[(1, false, 1)]);
    rig.accepts(&[one(102, 1, 2, b"c"), part(103, 2, 0, 0, b"d")]);
    rig.skips(104, &[(1, false, 1)]);
    assert_eq!(rig.inbound.cumulative_tsn(), Tsn(104));
    rig.accepts(&[last(part(105, 2, 0, 1, b"e"))]);
    assert_eq!(go_on(&mut rig.inbound, Tsn(106), &mut rig.arena), Some((3, None)));
    rig.accepts(&[one(106, 1, 0, b"new"), one(107, 2, 0, b"new")]);
    assert_eq!(rig.texts(), ["a", "c", "de", "new", "new"]);
    rig.is_empty_again();
}

/// By the old numbering the chunk skips nothing. It follows the reset, and the MIDs that it skips are new ones.
#[test]
fn past_mids_are_skipped_after_a_reset() {
    let mut rig = interleaved(Rig::new());
    rig.accepts(&[one(100, 1, 0, b"a"), one(101, 1, 1, b"b"), one(102, 1, 2, b"c")]);
    bar_past(&mut rig.inbound);
    rig.skips(104, &[(1, false, 1)]);
    assert_eq!(rig.inbound.cumulative_tsn(), Tsn(104));
    assert_eq!(go_on(&mut rig.inbound, Tsn(103), &mut rig.arena), Some((3, None)));
    rig.accepts(&[one(105, 1, 2, b"new")]);
    assert_eq!(rig.texts(), ["a", "b", "c", "new"]);
    rig.is_empty_again();
}

/// Messages that were abandoned before a reset do not concern those that follow it.
#[test]
fn abandoned_messages_are_forgotten_with_a_reset() {
    for of_all in [false, true] {
        let mut rig = interleaved(Rig::new());
        rig.skips(100, &[(1, true, 5)]);
        if of_all {
            bar_past(&mut rig.inbound);
            assert_eq!(go_on(&mut rig.inbound, Tsn(101), &mut rig.arena), Some((0, None)));
        } else {
            assert_eq!(reset_streams(&mut rig.inbound, &Streams::from(StreamId(1))), Some(0));
        }
        rig.accepts(&[free(part(101, 1, 3, 0, b"x")), last(free(part(102, 1, 3, 1, b"y")))]);
        assert_eq!(rig.texts(), ["xy"], "{of_all}");
        rig.is_empty_again();
    }
}
