//! NR-SACK (draft-tuexen-tsvwg-sctp-multipath section 4.4.1): what of the TSNs beyond a gap is non-renegable.

use core::iter::Peekable;

use strandline_wire::chunk::nr_sack;
use strandline_wire::{GapBlock, PacketBuilder};

use super::Inbound;
use super::flow::Flow;
use super::kept::Kept;
use super::tsn_map::GapBlocks;
use crate::number::Tsn;

fn kept_of(inbound: &mut Inbound) -> Option<&mut Kept> {
    inbound.flow.as_mut()?.kept.as_deref_mut()
}

/// True if NR-SACKs with gaps were sent.
#[inline]
pub(super) fn is_recording(inbound: &Inbound) -> bool {
    inbound.flow.as_ref().is_some_and(|flow| flow.kept.is_some())
}

/// Records the messages that a chunk made readable: all but the first `before` of those that wait to be read.
#[cold]
#[inline(never)]
pub(super) fn note_delivered(inbound: &mut Inbound, before: usize) {
    let whole = inbound.reassembly.take_whole_beyond();
    let cumulative = inbound.map.cumulative();
    let Inbound { flow: Some(flow), ready, .. } = inbound else { return };
    let Some(kept) = flow.kept.as_deref_mut() else { return };
    kept.advance(cumulative);
    if let Some((first, last)) = whole {
        kept.on_whole(first, last);
    }
    for message in ready.range(before.min(ready.len())..) {
        kept.on_delivered(message.tsn);
    }
}

/// Records that what was held, from this TSN on, is dropped.
pub(super) fn note_dropped(inbound: &mut Inbound, from: Tsn) {
    if let Some(kept) = kept_of(inbound) {
        kept.on_dropped(from);
    }
}

/// Forgets everything: the TSNs begin anew.
pub(super) fn forget(inbound: &mut Inbound) {
    if let Some(flow) = &mut inbound.flow {
        flow.kept = None;
    }
}

/// Appends an NR-SACK of at most `len_max` bytes, as [`write_sack`](Inbound::write_sack) does.
#[cold]
pub(super) fn write_nr_sack(
    inbound: &mut Inbound,
    packet: &mut PacketBuilder<'_>,
    len_max: usize,
    a_rwnd: u32,
) -> bool {
    let cumulative = inbound.map.cumulative();
    if inbound.map.has_gaps() {
        let promised = inbound.window.promised();
        let flow = inbound.flow.get_or_insert_with(|| Flow::of_window(promised));
        let kept = flow.kept.get_or_insert_with(|| Box::new(Kept::new(cumulative)));
        kept.advance(cumulative);
    } else if let Some(kept) = kept_of(inbound) {
        kept.catch_up(cumulative);
    }
    let flow = inbound.flow.as_ref();
    let duplicates = flow.map_or(&[][..], |flow| flow.duplicates.as_slice());
    let fixed = (cumulative, a_rwnd);
    let Some(kept) = flow.and_then(|flow| flow.kept.as_deref()) else {
        let none = core::iter::empty();
        return nr_sack::write_within(packet, len_max, fixed, none.clone(), none, duplicates);
    };
    let kept = kept.blocks();
    let others = Others { all: inbound.map.gap_blocks(), kept: kept.clone().peekable(), rest: None };
    let room = nr_sack::items_in(packet.remaining().min(len_max));
    let (other_count, kept_count) = lowest(others.clone(), kept.clone(), room);
    let (others, kept) = (others.take(other_count), kept.take(kept_count));
    nr_sack::write_within(packet, len_max, fixed, others, kept, duplicates)
}

/// Returns how many of two ascending lists are among the `max` lowest blocks of both: a block of one list must not be left
/// out for a higher one of the other, as if it had not arrived.
fn lowest(
    first: impl Iterator<Item = GapBlock>,
    second: impl Iterator<Item = GapBlock>,
    max: usize,
) -> (usize, usize) {
    let (mut first, mut second) = (first.peekable(), second.peekable());
    let mut counts = (0, 0);
    while counts.0 + counts.1 < max {
        match (first.peek(), second.peek()) {
            (None, None) => break,
            (Some(one), other) if other.is_none_or(|other| one.start < other.start) => {
                first.next();
                counts.0 += 1;
            }
            _ => {
                second.next();
                counts.1 += 1;
            }
        }
    }
    counts
}

/// The blocks of all TSNs that arrived, without those that are kept.
#[derive(Debug, Clone)]
struct Others<'a> {
    all: GapBlocks<'a>,
    kept: Peekable<GapBlocks<'a>>,
    /// What is left of a block behind kept TSNs.
    rest: Option<GapBlock>,
}

impl Iterator for Others<'_> {
    type Item = GapBlock;

    fn next(&mut self) -> Option<GapBlock> {
        loop {
            let block = self.rest.take().or_else(|| self.all.next())?;
            while self.kept.next_if(|kept| kept.end < block.start).is_some() {}
            let Some(kept) = self.kept.peek().filter(|kept| kept.start <= block.end) else {
                return Some(block);
            };
            self.rest = (kept.end < block.end).then(|| GapBlock { start: kept.end + 1, end: block.end });
            if kept.start > block.start {
                return Some(GapBlock { start: block.start, end: kept.start - 1 });
            }
        }
    }
}
