//! What NR-SACKs report as never revoked (draft-tuexen-tsvwg-sctp-multipath section 4.4.1).

use strandline_wire::GapBlock;

use super::*;
use crate::inbound::reconfigure::renumber;

type Runs = Vec<(u16, u16)>;

impl Rig {
    /// Writes an NR-SACK. Returns its cumulative TSN, all of its gap blocks, and those that are never revoked.
    fn nr_sack(&mut self) -> (u32, Runs, Runs) {
        let mut buffer = vec![0; 1452];
        let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        assert!(self.inbound.write_sack(self.now, &mut packet, usize::MAX, true));
        let len = packet.finish();
        let packet = Packet::parse(&buffer[..len]).unwrap();
        let chunk = packet.chunks().next().unwrap().unwrap();
        let Chunk::NrSack(sack) = chunk.parse().unwrap() else { panic!("no NR-SACK") };
        let run = |block: GapBlock| (block.start, block.end);
        let all = sack.gap_blocks().map(run).collect();
        (sack.cumulative_tsn().0, all, sack.non_renegable().map(run).collect())
    }
}

/// A message of three fragments arrives beyond a gap and is dropped for lack of room. It arrives again, and its first
/// fragment is delivered before the others are there.
#[test]
fn dropped_fragments_are_not_kept() {
    for recorded_before in [true, false] {
        let payload = [7; 1000];
        let mut rig = Rig::with_buffer(10_000);
        assert_eq!(rig.take(&unordered(whole(FIRST + 30, 0, b"x"))), READABLE);
        if recorded_before {
            rig.nr_sack();
        }
        let large = [7; 6000];
        let fragments =
            [begin(FIRST + 16, 8, &large), middle(FIRST + 17, 8, &payload), end(FIRST + 18, 8, b"x")];
        for data in &fragments {
            assert_eq!(rig.take(data), ACCEPTED);
        }
        let other = |number: u32| on_stream(2, whole(FIRST + number, number as u16, &payload));
        for number in 1..16 {
            assert_eq!(rig.take(&other(number)), ACCEPTED, "{number}");
        }
        let (cumulative, all, _) = rig.nr_sack();
        assert_eq!((cumulative + 1 - FIRST, all), (0, vec![(2, 16), (31, 31)]));
        assert_eq!(rig.take(&other(0)), READABLE);
        while rig.recv().is_some() {}
        // It is the first one of its stream.
        assert_eq!(rig.take(&Data { ssn: Ssn(0), ..fragments[0] }), READABLE);
        let (cumulative, all, kept) = rig.nr_sack();
        assert_eq!(cumulative, FIRST + 16);
        assert!(kept.iter().all(|run| *run == (14, 14)), "{kept:?} of {all:?}");
        assert_eq!(all, [(14, 14)]);
        for data in &fragments[1..] {
            rig.take(&Data { ssn: Ssn(0), ..*data });
        }
        assert_eq!(rig.nr_sack().0, FIRST + 18);
    }
}

/// After a reset of all numbers, TSNs are half of their space away from those that were recorded.
#[test]
fn renumbering_forgets_what_was_kept() {
    let mut rig = Rig::new();
    rig.take(&whole(FIRST + 2, 1, b"x"));
    rig.nr_sack();
    assert_eq!(rig.take(&unordered(whole(FIRST + 4, 0, b"x"))), READABLE);
    assert_eq!(rig.nr_sack(), (FIRST - 1, vec![(3, 3), (5, 5)], vec![(5, 5)]));
    let next = FIRST.wrapping_add(1 << 31);
    renumber(&mut rig.inbound, Tsn(next));
    assert_eq!(rig.take(&unordered(whole(next + 1, 0, b"x"))), READABLE);
    assert_eq!(rig.nr_sack(), (next - 1, vec![(2, 2)], vec![]));
    assert_eq!(rig.take(&unordered(whole(next + 3, 0, b"x"))), READABLE);
    assert_eq!(rig.nr_sack(), (next - 1, vec![(2, 2), (4, 4)], vec![(4, 4)]));
}
