//! Reconfiguration of incoming streams (RFC 6525): resets of sequence numbers, and more streams.

use strandline_wire::Data;
use strandline_wire::chunk::i_forward_tsn::SkippedMessage;

use super::Inbound;
use super::arena::Arena;
use super::interleaved::{Interleaved, Sink};
use super::nr_report::forget;
use super::ordering::{Barred, Overtaking};
use super::reassembly::Reassembly;
use super::sack::SackPolicy;
use super::tsn_map::{AHEAD_MAX, Place, TsnMap};
use super::window::message_cost;

use crate::number::{Mid, Ssn, StreamId, Tsn};
use crate::reconfiguration::Streams;

/// True if a chunk must not be accepted before a reconfiguration is complete. Ordered messages are barred by their
/// first chunk.
///
/// Until a reset of all numbers is answered, a message of the peer may remain without its end: then the chunk that
/// follows does not fit.
#[cold]
pub(super) fn is_barred(inbound: &mut Inbound, data: &Data<'_>, place: Place) -> bool {
    let overtakes = inbound.order.overtaking().is_some();
    if overtakes && inbound.reassembly.check(data, place, &inbound.map).is_err() {
        return true;
    }
    if !data.beginning || data.unordered {
        return false;
    }
    let ahead = data.tsn.distance_from(inbound.map.cumulative());
    if inbound.order.is_barred(data.stream, data.ssn, data.tsn, ahead) {
        return true;
    }
    if !overtakes || data.stream.0 >= inbound.streams {
        return false;
    }
    if data.ssn == Ssn(0) {
        inbound.order.on_begun(data.stream, 0, data.tsn);
    } else {
        inbound.order.on_unbarred(data.stream, data.ssn.0.into(), data.tsn);
    }
    false
}

/// Bars messages whose SSN leaves open whether they were sent before or after a reset of all numbers that the peer was
/// asked for.
pub(crate) fn bar_past(inbound: &mut Inbound) {
    let overtaking = Overtaking::new(inbound.map.cumulative(), inbound.map.highest());
    if let Some(credits) = inbound.order.interleaved_mut().and_then(|held| held.credits.as_deref_mut()) {
        credits.note();
    }
    inbound.order.set_barred(Some(Barred::Past(overtaking)));
}

/// Records the peer's first TSN after the reset of all numbers that it was asked for: messages with a TSN
/// before that are no longer barred.
pub(crate) fn on_next_tsn_known(inbound: &mut Inbound, next: Tsn) {
    inbound.order.on_next_tsn_known(next);
}

/// Bars messages of the peer, or none any more. They are dropped as if they had been lost.
pub(crate) fn set_barred(inbound: &mut Inbound, barred: Option<Barred>) {
    if let Some(credits) = inbound.order.interleaved_mut().and_then(|held| held.credits.as_deref_mut()) {
        credits.forget_recent();
    }
    inbound.order.set_barred(barred);
}

/// Sets the next SSNs or MIDs of streams back to 0. Everything up to the peer's last TSN before the reset has arrived.
/// Returns the number of messages, or parts of some, that `recv` still returns from before it, or `None` without a
/// change if a message of these streams is incomplete, or waits for another one.
pub(crate) fn reset_streams(inbound: &mut Inbound, streams: &Streams) -> Option<usize> {
    if inbound.order.has_messages_of(streams) || inbound.reassembly.has_open(streams) {
        return None;
    }
    if let Some(interleaved) = inbound.order.interleaved_mut() {
        if interleaved.has_messages_of(streams) {
            return None;
        }
        interleaved.reset(streams);
    }
    inbound.order.reset(streams);
    Some(inbound.ready.len())
}

/// Sets the next SSNs or MIDs of all streams back to 0, and the TSN that is expected to `next`. Incomplete messages are
/// lost.
///
/// Returns the number of messages, or parts of some, that `recv` still returns from before the reset, and the
/// stream of a message of which a part was handed over and the rest is lost.
pub(crate) fn renumber(inbound: &mut Inbound, next: Tsn) -> (usize, Option<StreamId>) {
    let cut = inbound.reassembly.partly_delivered();
    let readable: usize = inbound.ready.iter().map(|message| message_cost(message.data.len())).sum();
    inbound.window.release((inbound.window.used() as usize).saturating_sub(readable));
    inbound.reassembly = Reassembly::default();
    if let Some(interleaved) = inbound.order.interleaved_mut() {
        interleaved.renumber(next);
    }
    inbound.order.drop_messages();
    inbound.order.set_barred(None);
    inbound.order.reset(&Streams::All);
    inbound.map = TsnMap::new(next);
    inbound.dropped = next.previous();
    // A SACK would acknowledge numbers that the peer may not know yet, and nothing waits for one: the peer has no
    // data outstanding.
    inbound.sack = SackPolicy::new();
    if let Some(flow) = &mut inbound.flow {
        flow.duplicates.clear();
    }
    forget(inbound);
    (inbound.ready.len(), cut)
}

/// Sets the next SSNs or MIDs back to 0 as of the TSN `first`, with which the peer continues after a reset of
/// all numbers that it was asked for. What it sent from there on, and was accepted before its response, is
/// kept. Returns `None` without a change if the TSN does not continue the earlier ones.
///
/// Returns otherwise the number of messages, or parts of some, that `recv` still returns from before the reset, and the
/// stream of a message of which a part was handed over and the rest is lost.
pub(crate) fn go_on(
    inbound: &mut Inbound,
    first: Tsn,
    arena: &mut Arena,
) -> Option<(usize, Option<StreamId>)> {
    let since = inbound.order.overtaking()?.since;
    let cumulative = inbound.map.cumulative();
    let reach = cumulative.distance_from(since) + AHEAD_MAX;
    if !first.is_after(since) || first.distance_from(since) > reach {
        return None;
    }
    let unread =
        inbound.ready.iter().rposition(|message| message.tsn.is_before(first)).map_or(0, |last| last + 1);
    let partly = inbound.reassembly.partly_delivered();
    let begun = inbound.order.overtaking().map(|overtaking| overtaking.begun_from(first)).unwrap_or_default();
    let skipped =
        inbound.order.overtaking().map(|overtaking| overtaking.skipped_from(first)).unwrap_or_default();
    let Inbound { order, window, ready, .. } = inbound;
    if let Some(interleaved) = order.interleaved_mut() {
        interleaved.go_on(first, |stream| begun.contains(&stream));
        // Nothing of them was delivered: by the old numbering they were past.
        let mut sink = Sink { window, arena, ready };
        for (stream, mid) in skipped {
            let skipped = SkippedMessage { stream, unordered: false, mid: Mid(mid) };
            interleaved.skip(skipped, u32::MAX, usize::MAX, &mut sink, &mut Vec::new());
        }
    }
    inbound.order.go_on(first);
    inbound.reassembly.drop_before(first);
    let cut = partly.filter(|_| inbound.reassembly.partly_delivered().is_none());
    let readable: usize = inbound.ready.iter().map(|message| message_cost(message.data.len())).sum();
    let interleaved = inbound.order.interleaved().map_or(0, Interleaved::cost);
    let held = readable + inbound.reassembly.cost() + interleaved + inbound.order.waiting_cost();
    inbound.window.release((inbound.window.used() as usize).saturating_sub(held));
    inbound.map.skip_to(first);
    if inbound.on_cumulative(arena).is_err() {
        // Fragments that fit nothing: they never become a message.
        inbound.reassembly = Reassembly::default();
    }
    inbound.sack.request();
    Some((unread, cut))
}

/// Returns the number of messages, or parts of some, that `recv` still returns.
pub(crate) fn unread(inbound: &Inbound) -> usize {
    inbound.ready.len()
}

/// Adds streams behind the existing ones.
pub(crate) fn add_streams(inbound: &mut Inbound, count: u16) {
    inbound.streams = inbound.streams.saturating_add(count);
}

/// Requests a SACK for what has arrived.
pub(crate) fn acknowledge_now(inbound: &mut Inbound) {
    inbound.sack.request();
}
