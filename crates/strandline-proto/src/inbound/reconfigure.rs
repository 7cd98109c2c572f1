//! Reconfiguration of incoming streams (RFC 6525): resets of sequence numbers, and more streams.

use strandline_wire::Data;

use super::Inbound;
use super::ordering::Barred;
use super::reassembly::Reassembly;
use super::sack::SackPolicy;
use super::tsn_map::TsnMap;
use super::window::message_cost;
use crate::number::{StreamId, Tsn};
use crate::reconfiguration::Streams;

/// True if a message that begins with this chunk must not be accepted before a reconfiguration is complete.
#[cold]
pub(super) fn is_barred(inbound: &Inbound, data: &Data<'_>) -> bool {
    let ahead = data.tsn.distance_from(inbound.map.cumulative());
    inbound.order.is_barred(data.stream, data.ssn, data.tsn, ahead)
}

/// Bars messages of the peer, or none any more. They are dropped as if they had been lost.
pub(crate) fn set_barred(inbound: &mut Inbound, barred: Option<Barred>) {
    inbound.order.set_barred(barred);
}

/// Sets the next SSNs of streams back to 0. Everything up to the peer's last TSN before the reset has arrived.
/// Returns the number of messages, or parts of some, that `recv` still returns from before it, or `None` without a
/// change if a message of these streams is incomplete, or waits for another one.
pub(crate) fn reset_streams(inbound: &mut Inbound, streams: &Streams) -> Option<usize> {
    if inbound.order.has_messages_of(streams) || inbound.reassembly.has_open(streams) {
        return None;
    }
    inbound.order.reset(streams);
    Some(inbound.ready.len())
}

/// Sets the next SSNs of all streams back to 0, and the TSN that is expected to `next`. Incomplete messages are
/// lost.
///
/// Returns the number of messages, or parts of some, that `recv` still returns from before the reset, and the
/// stream of a message of which a part was handed over and the rest is lost.
pub(crate) fn renumber(inbound: &mut Inbound, next: Tsn) -> (usize, Option<StreamId>) {
    let cut = inbound.reassembly.partly_delivered();
    let readable: usize = inbound.ready.iter().map(|message| message_cost(message.data.len())).sum();
    inbound.window.release((inbound.window.used() as usize).saturating_sub(readable));
    inbound.reassembly = Reassembly::default();
    inbound.order.drop_messages();
    inbound.order.set_barred(None);
    inbound.order.reset(&Streams::All);
    inbound.map = TsnMap::new(next);
    // A SACK would acknowledge numbers that the peer may not know yet, and nothing waits for one: the peer has no
    // data outstanding.
    inbound.sack = SackPolicy::new();
    if let Some(flow) = &mut inbound.flow {
        flow.duplicates.clear();
    }
    (inbound.ready.len(), cut)
}

/// Adds streams behind the existing ones.
pub(crate) fn add_streams(inbound: &mut Inbound, count: u16) {
    inbound.streams = inbound.streams.saturating_add(count);
}

/// Requests a SACK for what has arrived.
pub(crate) fn acknowledge_now(inbound: &mut Inbound) {
    inbound.sack.request();
}
