//! NR-SACK (draft-tuexen-tsvwg-sctp-multipath section 4.4.1): what of the TSNs beyond a gap is non-renegable.

use core::iter::Peekable;

use strandline_wire::chunk::nr_sack;
use strandline_wire::{GapBlock, PacketBuilder};

use super::Inbound;
use super::flow::Flow;
use super::non_renegable::NonRenegable;
use super::tsn_map::GapBlocks;
use crate::number::Tsn;

fn non_renegable_of(inbound: &mut Inbound) -> Option<&mut NonRenegable> {
    inbound.flow.as_mut()?.non_renegable.as_deref_mut()
}

/// True if NR-SACKs with gaps were sent.
#[inline]
pub(super) fn is_recording(inbound: &Inbound) -> bool {
    inbound.flow.as_ref().is_some_and(|flow| flow.non_renegable.is_some())
}

/// Records the messages that a chunk made readable: all but the first `before` of those that wait to be read.
#[cold]
#[inline(never)]
pub(super) fn note_delivered(inbound: &mut Inbound, before: usize) {
    let whole = inbound.reassembly.take_whole_beyond();
    let cumulative = inbound.map.cumulative();
    let Inbound { flow: Some(flow), ready, .. } = inbound else { return };
    let Some(record) = flow.non_renegable.as_deref_mut() else { return };
    record.advance(cumulative);
    if let Some((first, last)) = whole {
        record.on_whole(first, last);
    }
    for message in ready.range(before.min(ready.len())..) {
        record.on_delivered(message.tsn);
    }
}

/// Records that what was held, from this TSN on, is dropped.
pub(super) fn note_dropped(inbound: &mut Inbound, from: Tsn) {
    if let Some(record) = non_renegable_of(inbound) {
        record.on_dropped(from);
    }
}

/// Forgets everything: the TSNs begin anew.
pub(super) fn forget(inbound: &mut Inbound) {
    if let Some(flow) = &mut inbound.flow {
        flow.non_renegable = None;
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
        let record = flow.non_renegable.get_or_insert_with(|| Box::new(NonRenegable::new(cumulative)));
        record.advance(cumulative);
    } else if let Some(record) = non_renegable_of(inbound) {
        record.catch_up(cumulative);
    }
    let flow = inbound.flow.as_ref();
    let duplicates = flow.map_or(&[][..], |flow| flow.duplicates.as_slice());
    let fixed = (cumulative, a_rwnd);
    let Some(record) = flow.and_then(|flow| flow.non_renegable.as_deref()) else {
        let none = core::iter::empty();
        return nr_sack::write_within(packet, len_max, fixed, none.clone(), none, duplicates);
    };
    let reported = record.blocks();
    let others = Others { all: inbound.map.gap_blocks(), reported: reported.clone().peekable(), rest: None };
    let room = nr_sack::items_in(packet.remaining().min(len_max));
    let (other_count, kept_count) = lowest(others.clone(), reported.clone(), room);
    let (others, reported) = (others.take(other_count), reported.take(kept_count));
    nr_sack::write_within(packet, len_max, fixed, others, reported, duplicates)
}

/// Returns how many of two ascending lists are among the `max` lowest blocks of both: a block of one list
/// must not be left out for a higher one of the other, as if it had not arrived.
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

/// The blocks of all TSNs that arrived, without the non-renegable ones.
#[derive(Debug, Clone)]
struct Others<'a> {
    all: GapBlocks<'a>,
    reported: Peekable<GapBlocks<'a>>,
    /// What is left of a block behind non-renegable TSNs.
    rest: Option<GapBlock>,
}

impl Iterator for Others<'_> {
    type Item = GapBlock;

    fn next(&mut self) -> Option<GapBlock> {
        loop {
            let block = self.rest.take().or_else(|| self.all.next())?;
            while self.reported.next_if(|reported| reported.end < block.start).is_some() {}
            let Some(reported) = self.reported.peek().filter(|reported| reported.start <= block.end) else {
                return Some(block);
            };
            self.rest =
                (reported.end < block.end).then(|| GapBlock { start: reported.end + 1, end: block.end });
            if reported.start > block.start {
                return Some(GapBlock { start: block.start, end: reported.start - 1 });
            }
        }
    }
}
