//! Reconfiguration of outgoing streams (RFC 6525): resets of sequence numbers, and more streams.

use super::interleaving;
use super::recovery::on_sack::Cumulative;
use super::recovery::send_window::SendWindow;
use super::scheduling;
use super::send_queue::held::Held;
use super::{Busy, Outbound, queue_settings};
use crate::config::{AssociationConfig, Recovery};
use crate::number::Tsn;
use crate::reconfiguration::Streams;

/// Holds back messages of these streams that are given from now on, until [`release_held`].
pub(crate) fn hold(outbound: &mut Outbound, streams: Streams, config: &AssociationConfig) {
    let numbers = &mut outbound.numbers;
    let create = || Box::new(Busy::new(outbound.idle_next, outbound.learnt, queue_settings(numbers), config));
    let Busy { queue, messages, .. } = &mut **outbound.busy.get_or_insert_with(create);
    let before = messages.unsent_of(&streams);
    queue.tracking.get_or_insert_default().held = Some(Held::new(streams, before));
}

/// True if messages are held back.
pub(crate) fn holds_messages(outbound: &Outbound) -> bool {
    let held = outbound.busy.as_ref().and_then(|busy| busy.queue.held());
    held.is_some_and(|held| held.count > 0)
}

/// True if every message of the held streams that was given before is sent to its end.
pub(crate) fn is_drained(outbound: &Outbound) -> bool {
    let held = outbound.busy.as_ref().and_then(|busy| busy.queue.held());
    held.is_none_or(|held| held.before == 0)
}

/// True if everything up to this TSN, which was assigned before, is cumulatively acknowledged.
pub(crate) fn is_acked(outbound: &Outbound, tsn: Tsn) -> bool {
    outbound.sent().is_none_or(|sent| sent.outstanding.cumulative_ack().is_at_or_after(tsn))
}

/// Returns true if a Cumulative TSN Ack of this TSN is possible: it is not beyond what was sent.
pub(crate) fn may_acknowledge(outbound: &Outbound, cumulative: Tsn) -> bool {
    match outbound.sent() {
        Some(sent) => sent.classify(cumulative) != Cumulative::Impossible,
        None => cumulative.is_before(outbound.idle_next),
    }
}

/// Lets messages that were held back be sent.
pub(crate) fn release_held(outbound: &mut Outbound) {
    let Some(Busy { queue, messages, .. }) = outbound.busy.as_deref_mut() else { return };
    queue.release_held(messages);
}

/// Sets the next SSNs or MIDs of streams back to 0. No message of them may be partly sent.
pub(crate) fn reset_streams(outbound: &mut Outbound, streams: &Streams) {
    outbound.numbers.reset(streams);
    if let Some(interleaving) = interleaving::state_mut(&mut outbound.numbers) {
        interleaving.reset(streams);
    }
}

/// True if the next SSN or MID of each of the streams is 0, and nothing of them waits to be sent.
pub(crate) fn are_reset(outbound: &Outbound, streams: &Streams) -> bool {
    let unsent = outbound.busy.as_ref().map_or(0, |busy| busy.messages.unsent_of(streams));
    let are_zero = match interleaving::state(&outbound.numbers) {
        Some(interleaving) => interleaving.are_zero(streams),
        None => outbound.numbers.are_zero(streams),
    };
    unsent == 0 && are_zero
}

/// Sets the next SSNs or MIDs of all streams back to 0, and the next TSN to `next`. Nothing may be outstanding.
pub(crate) fn renumber(outbound: &mut Outbound, next: Tsn) {
    outbound.numbers.reset(&Streams::All);
    if let Some(interleaving) = interleaving::state_mut(&mut outbound.numbers) {
        interleaving.renumber();
    }
    // Streams that were opened at run time are lost.
    scheduling::forget_dynamic(outbound);
    outbound.idle_next = next;
    if let Some(busy) = &mut outbound.busy {
        debug_assert!(busy.sent.outstanding.is_empty(), "its TSNs would be lost");
        let (mode, learnt) = match &busy.sent.rack {
            Some(rack) => (Recovery::Rack, rack.learnt()),
            None => (Recovery::Rfc9260, outbound.learnt),
        };
        busy.sent = SendWindow::new(next, mode, learnt);
    }
}

/// Adds streams behind the existing ones.
pub(crate) fn add_streams(outbound: &mut Outbound, count: u16) {
    outbound.streams = outbound.streams.saturating_add(count);
}
