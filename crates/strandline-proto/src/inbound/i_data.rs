//! Input: from an I-DATA chunk to the queue of readable messages (RFC 8260 section 2.2.3), and I-FORWARD-TSN.

use strandline_wire::chunk::i_forward_tsn::SkippedMessage;
use strandline_wire::{IData, IForwardTsn};

use super::Inbound;
use super::arena::Arena;
use super::dropped::note_dropped;
use super::forward::advance_of;
use super::interleaved::{Cut, Interleaved, Kind, Sink};
use super::nr_report::{is_recording, note_delivered};
use super::ordering::Barred;
use super::receive::{DataOutcome, DropReason, admit};
use crate::number::{Mid, StreamId};

/// Expects I-DATA chunks, or DATA chunks. Nothing may have arrived.
pub(crate) fn set_interleaved(inbound: &mut Inbound, interleaved: bool) {
    inbound.order.set_interleaved(interleaved);
}

/// Returns the streams of interleaved messages of which a part was delivered and the rest is missing.
pub(crate) fn partly_delivered(inbound: &Inbound) -> Vec<StreamId> {
    inbound.order.interleaved().map_or_else(Vec::new, Interleaved::partly_delivered)
}

/// Processes an I-DATA chunk. A message is delivered in parts once it has `partial_delivery_point` bytes and its turn
/// has come.
pub(crate) fn on_i_data(
    inbound: &mut Inbound,
    data: &IData<'_>,
    arena: &mut Arena,
    partial_delivery_point: u32,
) -> DataOutcome {
    if inbound.order.interleaved().is_none() {
        return DataOutcome::Violation("I-DATA although it was not negotiated");
    }
    let place = match admit(inbound, data.tsn, data.payload, data.immediate) {
        Ok(place) => place,
        Err(outcome) => return outcome,
    };
    if is_barred(inbound, data) {
        inbound.sack.on_irregular();
        note_dropped(inbound, data.tsn);
        return DataOutcome::Dropped(DropReason::Barred);
    }
    if data.stream.0 >= inbound.streams {
        inbound.record(data.tsn, place);
        return DataOutcome::InvalidStream;
    }
    match inbound.order.interleaved().map(|interleaved| interleaved.check(data)) {
        Some(Err(why)) => return DataOutcome::Violation(why),
        Some(Ok(Kind::Wanted)) => {}
        Some(Ok(Kind::GivenUp)) | None => {
            inbound.record(data.tsn, place);
            return DataOutcome::Accepted { readable: false };
        }
    }
    if let Some(credits) = inbound.order.interleaved_mut().and_then(|held| held.credits.as_deref_mut()) {
        if !credits.admits(data.stream, data.payload.len()) {
            return DataOutcome::Violation("data beyond the credit of its stream");
        }
        credits.on_accepted(data.stream, data.tsn, data.payload.len(), place);
    }
    inbound.record(data.tsn, place);
    let cumulative = inbound.map.cumulative();
    if let Some(credits) = inbound.order.interleaved_mut().and_then(|held| held.credits.as_deref_mut()) {
        credits.count_up_to(cumulative);
    }
    inbound.window.on_taken(data.payload.len());
    let Inbound { order, window, ready, .. } = inbound;
    let before = ready.len();
    if let Some(interleaved) = order.interleaved_mut() {
        interleaved.take(data, partial_delivery_point as usize, &mut Sink { window, arena, ready });
    }
    if is_recording(inbound) {
        note_delivered(inbound, before);
    }
    if inbound.ready.len() == before {
        inbound.hand_over_part(usize::MAX);
    }
    DataOutcome::Accepted { readable: inbound.ready.len() > before }
}

/// True if a fragment must not be accepted before a reconfiguration is complete (RFC 6525), because it may be one of a
/// message with the same numbers from before.
fn is_barred(inbound: &mut Inbound, data: &IData<'_>) -> bool {
    let Inbound { order, map, .. } = inbound;
    let overtaking = match order.barred() {
        None => return false,
        Some(Barred::Beyond(streams, last)) => {
            return data.tsn.is_after(*last) && streams.contains(data.stream);
        }
        Some(Barred::Past(overtaking)) => overtaking,
    };
    let Some(interleaved) = order.interleaved() else { return false };
    // The peer begins anew only once everything from before has arrived.
    if data.unordered || interleaved.holds(data) {
        return false;
    }
    let next = interleaved.next(data.stream);
    let (number, ahead) = (data.mid.0, data.tsn.distance_from(map.cumulative()));
    let continues = data.mid == next && ahead == 1;
    let is_clear =
        || overtaking.precedes_number(number, data.tsn) || overtaking.agrees(data.stream, number, ahead);
    if !continues && (data.mid.is_before(next) || !is_clear()) {
        return true;
    }
    if data.stream.0 < inbound.streams {
        match data.mid {
            Mid(0) => order.on_begun(data.stream, 0, data.tsn),
            _ => order.on_unbarred(data.stream, number, data.tsn),
        }
    }
    false
}

/// Processes an I-FORWARD-TSN, as [`on_forward_tsn`](super::forward::on_forward_tsn) does a FORWARD TSN. Returns the
/// messages that are cut off.
pub(crate) fn on_i_forward_tsn(
    inbound: &mut Inbound,
    chunk: &IForwardTsn<'_>,
    arena: &mut Arena,
    partial_delivery_point: u32,
) -> Vec<Cut> {
    inbound.sack.on_chunk(false);
    let mut cuts = Vec::new();
    let (before, last) = (inbound.map.cumulative(), chunk.new_cumulative_tsn());
    if inbound.map.has_gaps() || !last.is_after(before) {
        // One that is out of date repeats what was acknowledged: the SACK may have been lost.
        inbound.sack.on_irregular();
    }
    let Some(tsns) = advance_of(inbound, last) else { return cuts };
    inbound.map.skip_to(last.next());
    let ambiguous = may_follow_reset(inbound, chunk);
    let Inbound { order, window, ready, streams, .. } = inbound;
    let Some(interleaved) = order.interleaved_mut() else { return cuts };
    let mut sink = Sink { window, arena, ready };
    for skipped in chunk.skipped().filter(|skipped| skipped.stream.0 < *streams) {
        interleaved.skip(skipped, tsns, partial_delivery_point as usize, &mut sink, &mut cuts);
    }
    for (skipped, is_past) in ambiguous {
        match is_past {
            true => order.on_past_skipped(skipped.stream, last, skipped.mid.0),
            false => order.on_begun(skipped.stream, skipped.mid.0, last),
        }
    }
    inbound.hand_over_part(usize::MAX);
    cuts
}

/// Returns the ordered messages that the chunk skips and that the peer may have sent after a reset of all
/// numbers which it has not answered yet (RFC 6525 section 5.1.4), and whether each is past by the old
/// numbering. Then nothing is skipped, unless the chunk turns out to follow the reset. It can't be refused
/// until then: the peer answers once everything from before is acknowledged, and a message that was skipped
/// may have had further fragments.
fn may_follow_reset(inbound: &Inbound, chunk: &IForwardTsn<'_>) -> Vec<(SkippedMessage, bool)> {
    let last = chunk.new_cumulative_tsn();
    let Inbound { order, streams, .. } = inbound;
    let unknown = order.overtaking().is_some_and(|overtaking| !overtaking.is_known(last));
    let Some(interleaved) = order.interleaved().filter(|_| unknown) else { return Vec::new() };
    let ordered = chunk.skipped().filter(|skipped| !skipped.unordered && skipped.stream.0 < *streams);
    ordered.map(|skipped| (skipped, skipped.mid.is_before(interleaved.next(skipped.stream)))).collect()
}

/// Returns what counts for the limit of all associations: the buffer in use, and records that the window is not charged
/// for, because nothing that is read would free them.
pub(crate) fn charged_bytes(inbound: &Inbound) -> u32 {
    let records = inbound.order.interleaved().map_or(0, Interleaved::record_bytes);
    inbound.buffered_bytes().saturating_add(records)
}
