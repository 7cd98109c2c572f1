//! Random traffic in I-DATA chunks against a naive model: messages of several streams, ordered and unordered, cut into
//! random fragments whose order is mixed, lost, duplicated and reordered. Everything arrives exactly once, whole and in
//! order.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use strandline_wire::IData;

use super::i_data::interleaved;
use super::model::{Fate, fate};
use super::*;
use crate::number::{Fsn, Mid};

#[derive(Debug, Clone)]
struct Chunk {
    place: (u16, bool, u32),
    fsn: u32,
    ends: bool,
    payload: Vec<u8>,
}

/// Messages of some streams: for each the stream, whether it is unordered, and the lengths of its fragments.
fn traffic() -> impl Strategy<Value = Vec<(u16, bool, Vec<usize>)>> {
    let length = prop_oneof![3 => 1_usize..40, 1 => 1000_usize..1400];
    let message = (0_u16..4, prop::bool::weighted(0.3), prop::collection::vec(length, 1..8));
    prop::collection::vec(message, 1..50)
}

/// Cuts messages into chunks: of each stream one after another, of different streams in any order that `choices` gives.
fn chunks(messages: &[(u16, bool, Vec<usize>)], choices: &[usize]) -> Vec<Chunk> {
    let mut queues: BTreeMap<u16, VecDeque<Chunk>> = BTreeMap::new();
    let mut next: BTreeMap<(u16, bool), u32> = BTreeMap::new();
    for (number, (stream, unordered, lengths)) in messages.iter().enumerate() {
        let mid = next.entry((*stream, *unordered)).or_default();
        for (fsn, len) in lengths.iter().enumerate() {
            let payload = (0..*len).map(|at| (number * 31 + fsn * 7 + at) as u8).collect();
            let place = (*stream, *unordered, *mid);
            let chunk = Chunk { place, fsn: fsn as u32, ends: fsn + 1 == lengths.len(), payload };
            queues.entry(*stream).or_default().push_back(chunk);
        }
        *mid += 1;
    }
    let mut all = Vec::new();
    let mut choices = choices.iter().cycle();
    while !queues.is_empty() {
        let at = choices.next().unwrap() % queues.len();
        let stream = *queues.keys().nth(at).unwrap();
        let queue = queues.get_mut(&stream).unwrap();
        all.extend(queue.pop_front());
        if queue.is_empty() {
            queues.remove(&stream);
        }
    }
    all
}

proptest! {
    #[test]
    fn everything_arrives_once_and_in_order(
        messages in traffic(),
        choices in prop::collection::vec(0_usize..100, 1..40),
        fates in prop::collection::vec(fate(), 1..60),
        first in prop_oneof![Just(100_u32), Just(u32::MAX - 20)],
        point in prop_oneof![Just(1_u32 << 20), Just(1500)],
        receive_buffer in prop_oneof![Just(None), (1500_u32..6000).prop_map(Some)],
    ) {
        let point = point.min(receive_buffer.unwrap_or(point));
        let config =
            AssociationConfig { partial_delivery_point: point, receive_buffer, ..AssociationConfig::default() };
        let mut rig = interleaved(Rig::with(config));
        rig.inbound = Inbound::new(Tsn(first), 10, rig.config.receive_buffer_start());
        rig = interleaved(rig);
        let all = chunks(&messages, &choices);
        let mut waiting: VecDeque<usize> = (0..all.len()).collect();
        let mut fates = fates.iter().cycle();
        let mut parts: BTreeMap<(u16, bool), Vec<Message>> = BTreeMap::new();
        let mut arrived = std::collections::BTreeSet::new();
        let mut rounds = 0;
        while let Some(at) = waiting.pop_front() {
            rounds += 1;
            prop_assert!(rounds < 100_000, "a standstill");
            // A list of fates may let nothing through.
            let fate = if rounds > 5000 { Fate::Arrives } else { *fates.next().unwrap() };
            let times = match fate {
                Fate::Arrives => 1,
                Fate::Twice => 2,
                Fate::Lost => { waiting.push_back(at); 0 }
                Fate::Late(by) => { waiting.insert(by.min(waiting.len()), at); 0 }
            };
            let Chunk { place: (stream, unordered, mid), fsn, ends, payload } = &all[at];
            let data = IData {
                tsn: Tsn(first.wrapping_add(at as u32)),
                fsn: Fsn(*fsn),
                ppid: Ppid(if *fsn == 0 { 9 } else { 0 }),
                unordered: *unordered,
                beginning: *fsn == 0,
                ending: *ends,
                ..IData::whole(Tsn(0), StreamId(*stream), Mid(*mid), payload)
            };
            for time in 0..times {
                let outcome = rig.take_i(&data);
                if receive_buffer.is_some() && outcome == DataOutcome::Dropped(DropReason::BufferFull) {
                    waiting.push_back(at);
                    break;
                }
                let accepted = matches!(outcome, DataOutcome::Accepted { .. });
                prop_assert!(if time == 0 { accepted } else { outcome == DataOutcome::Duplicate }, "{outcome:?}");
                // A full buffer drops what is beyond this chunk.
                arrived.insert(at);
                let is_held = |at: usize| rig.inbound.map.contains(Tsn(first.wrapping_add(at as u32)));
                let dropped: Vec<usize> = arrived.iter().copied().filter(|at| !is_held(*at)).collect();
                prop_assert!(dropped.iter().all(|other| *other > at && receive_buffer.is_some()));
                arrived.retain(|at| !dropped.contains(at));
                waiting.extend(dropped);
            }
            while let Some(part) = rig.recv() {
                parts.entry((part.stream.0, part.unordered)).or_default().push(part);
            }
        }
        prop_assert_eq!((rig.inbound.incomplete(), rig.inbound.buffered_bytes()), (None, 0));
        prop_assert_eq!(rig.sack().cumulative, first.wrapping_add(all.len() as u32).wrapping_sub(1));
        let mut expected: BTreeMap<(u16, bool), Vec<Vec<u8>>> = BTreeMap::new();
        for (stream, unordered, mid) in all.iter().filter(|chunk| chunk.ends).map(|chunk| chunk.place) {
            let of_it = all.iter().filter(|chunk| chunk.place == (stream, unordered, mid));
            let bytes = of_it.flat_map(|chunk| chunk.payload.clone()).collect();
            expected.entry((stream, unordered)).or_default().push(bytes);
        }
        let mut joined: BTreeMap<(u16, bool), Vec<Vec<u8>>> = BTreeMap::new();
        for (key, parts) in parts {
            let mut open: Option<Vec<u8>> = None;
            for part in parts {
                prop_assert_eq!(part.ppid, Ppid(9));
                if part.begins && part.ends {
                    joined.entry(key).or_default().push(part.data.to_vec());
                    continue;
                }
                prop_assert_eq!(part.begins, open.is_none());
                open.get_or_insert_default().extend_from_slice(&part.data);
                if part.ends {
                    joined.entry(key).or_default().extend(open.take());
                }
            }
            prop_assert!(open.is_none());
            if key.1 {
                joined.entry(key).or_default().sort();
                expected.entry(key).or_default().sort();
            }
        }
        prop_assert_eq!(joined, expected);
    }
}
