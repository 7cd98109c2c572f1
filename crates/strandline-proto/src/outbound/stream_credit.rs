//! The credit of outgoing streams, as their sender counts it (docs/stream-credit.md).
//!
//! A stream sends new data while its sum is below the limit that the peer granted. One whose credit has no
//! room is [`parked`](super::send_queue::parked): the others go on. Retransmissions need no credit, since
//! their bytes were counted before.

use strandline_wire::PacketBuilder;
use strandline_wire::chunk::stream_blocked;
use strandline_wire::chunk::stream_credit::StreamCredit;

use super::accounts::Accounts;
use super::fragment::FRAGMENT_MIN;
use super::interleaving;
use super::messages::Message;
use super::send_queue::parked::Parked;
use super::send_queue::queue::{on_granted, park, unpark};
use super::send_queue::stream_tracking::Unsent;
use super::{Busy, Outbound};
use crate::config::AssociationConfig;
use crate::error::SendError;
use crate::number::StreamId;

/// Maximum number of streams that a STREAM BLOCKED names: more answers don't fit into a packet.
const STREAMS_MAX: usize = 64;

/// Counts credit from now on, or not: `initial_kib` is the peer's initial one, in units of 1,024 bytes.
pub(crate) fn set_credit(outbound: &mut Outbound, initial_kib: Option<u16>) {
    let initial = initial_kib.map(|kib| u32::from(kib) << 10);
    let next = outbound.next_tsn();
    let Some(interleaving) = interleaving::state_mut(&mut outbound.numbers) else { return };
    match (initial, &mut interleaving.accounts) {
        (None, accounts) => *accounts = None,
        // At another attempt to set the association up, after data was sent.
        (Some(initial), Some(accounts)) => {
            accounts.set_initial(initial);
        }
        (Some(initial), accounts) => {
            *accounts = Some(Box::new(Accounts::new(initial, next)));
        }
    }
    unpark_all(outbound);
}

/// Parks each stream that is next and that has no room for what would be sent, in a packet with room for `packet_space`
/// bytes of chunks. Returns how much the next one may send.
pub(super) fn admit(outbound: &mut Outbound, packet_space: usize) -> Option<usize> {
    let Outbound { busy, numbers, .. } = outbound;
    let Busy { queue, messages, .. } = busy.as_deref_mut()?;
    let Some(accounts) = interleaving::state(numbers).and_then(|state| state.accounts.as_deref()) else {
        return Some(usize::MAX);
    };
    loop {
        let next = queue.next(messages)?;
        let rest = messages.get(next.message).map(Message::rest)?.len;
        let room = accounts.room(next.stream) as usize;
        // A message is not cut for little room: the peer grants more once that is used up.
        let wanted = rest.min(packet_space).min(accounts.initial() as usize / 2).max(rest.min(FRAGMENT_MIN));
        if room >= wanted {
            return Some(room);
        }
        park(queue, messages, next.stream, wanted);
    }
}

/// Takes credits of the peer. Returns true if streams that waited may send.
pub(crate) fn on_credit(outbound: &mut Outbound, chunk: &StreamCredit<'_>) -> bool {
    let next = outbound.next_tsn();
    let cumulative = chunk.cumulative_tsn();
    let current = outbound.sent().map_or(next.previous(), |sent| sent.outstanding.cumulative_ack());
    if cumulative.is_at_or_after(next) {
        // It was never sent, or is of before a reset of all numbers.
        return false;
    }
    let Some(state) = interleaving::state_mut(&mut outbound.numbers) else { return false };
    state.drop_acked(current);
    let Some(accounts) = state.accounts.as_deref_mut() else { return false };
    let Some(Busy { queue, messages, .. }) = outbound.busy.as_deref_mut() else { return false };
    let mut opened = false;
    for credit in chunk.credits() {
        if accounts.take(credit, cumulative, cumulative == current) {
            let room = accounts.room(credit.stream) as usize;
            opened |= on_granted(queue, messages, credit.stream, room);
        }
    }
    opened
}

/// Returns a stream of which a message was refused with
/// [`StreamBlocked`](crate::error::SendError::StreamBlocked), and that may have room now.
pub(crate) fn take_writable_stream(outbound: &mut Outbound) -> Option<StreamId> {
    outbound.busy.as_mut()?.queue.writable.pop()
}

/// Schedules the messages of all parked streams again.
fn unpark_all(outbound: &mut Outbound) {
    let Some(Busy { queue, messages, .. }) = outbound.busy.as_deref_mut() else { return };
    let streams: Vec<_> = queue.parked().iter().flat_map(|parked| parked.streams()).collect();
    for stream in streams {
        unpark(queue, messages, stream);
    }
}

/// Returns by which power of two the time until the next STREAM BLOCKED is longer than an RTO: 0 to 8.
pub(crate) fn back_off(outbound: &Outbound) -> u8 {
    parked(outbound).map_or(0, Parked::back_off)
}

/// Returns the streams that wait for credit, beginning behind those that the latest STREAM BLOCKED named.
pub(crate) fn blocked_streams(outbound: &Outbound) -> Vec<StreamId> {
    parked(outbound).map_or_else(Vec::new, |parked| parked.next_blocked().collect())
}

/// Writes a STREAM BLOCKED chunk with as many of the streams as fit. Returns their number.
pub(crate) fn write_stream_blocked(streams: &[StreamId], packet: &mut PacketBuilder<'_>) -> usize {
    stream_blocked::write(packet, streams.iter().copied().take(STREAMS_MAX))
}

/// Returns whether there may be streams to report as writable.
#[inline]
pub(crate) fn has_writable(outbound: &Outbound) -> bool {
    outbound
        .busy
        .as_ref()
        .is_some_and(|busy| busy.queue.parked().is_some() || !busy.queue.writable.is_empty())
}

/// Returns true once after a stream began to wait for credit, or got some: the next STREAM BLOCKED is due after an RTO.
pub(crate) fn take_changed(outbound: &mut Outbound) -> bool {
    let parked = outbound.busy.as_mut().and_then(|busy| busy.queue.parked_mut());
    parked.is_some_and(Parked::take_changed)
}

/// True if the peer has not acknowledged anything since the latest STREAM BLOCKED.
pub(crate) fn is_unanswered(outbound: &Outbound) -> bool {
    parked(outbound).is_some_and(Parked::is_unanswered)
}

/// Records a STREAM BLOCKED that names the first `count` of these streams.
pub(crate) fn on_stream_blocked_sent(outbound: &mut Outbound, streams: &[StreamId], count: usize) {
    let last = count.checked_sub(1).and_then(|last| streams.get(last));
    let parked = outbound.busy.as_mut().and_then(|busy| busy.queue.parked_mut());
    if let (Some(parked), Some(last)) = (parked, last) {
        parked.on_stream_blocked_sent(*last);
    }
}

/// Returns the bytes that a stream may send before it needs more credit; `None` without credit.
pub(crate) fn room(outbound: &Outbound, stream: StreamId) -> Option<u32> {
    interleaving::room(&outbound.numbers, stream)
}

/// Returns the bytes of user data that wait for credit, which don't count against the send buffer.
pub(crate) fn parked_bytes(outbound: &Outbound) -> usize {
    parked(outbound).map_or(0, |parked| parked.bytes)
}

/// Checks whether a message of one byte has room in the send buffer, on a stream that does not wait for
/// credit. Otherwise the application is notified when it has.
pub(crate) fn check_buffer(
    outbound: &mut Outbound,
    config: &AssociationConfig,
    send_buffer: impl FnOnce(u32) -> u32,
) -> Result<(), SendError> {
    let rwnd = outbound.window.rwnd();
    let Some(busy) = &mut outbound.busy else { return Ok(()) };
    busy.queue.check_buffer(StreamId(0), 1, config, || send_buffer(rwnd))
}

/// Returns whether a stream that waits for credit, or has queued as much as it may beyond that, has room for
/// a message of one byte: if not, the application is notified when it has. `None` if only the send buffer
/// matters.
pub(crate) fn parked_room(
    outbound: &mut Outbound,
    stream: StreamId,
    config: &AssociationConfig,
) -> Option<bool> {
    let credit = room(outbound, stream);
    outbound.busy.as_mut()?.queue.stream_room(stream, 1, credit, config)
}

/// Returns the number of messages of which nothing was sent, without those that wait for credit.
pub(crate) fn unparked_messages(outbound: &Outbound) -> usize {
    outbound.pending_messages() - parked(outbound).map_or(0, |parked| parked.waiting)
}

/// Returns the streams that take no more messages until they have credit.
pub(crate) fn refused_streams(outbound: &Outbound) -> Vec<StreamId> {
    let Some(busy) = &outbound.busy else { return Vec::new() };
    let parked = busy.queue.parked().into_iter().flat_map(Parked::refused);
    let unsent = busy.queue.tracking.as_ref().and_then(|tracking| tracking.unsent.as_ref());
    let crowded = unsent.into_iter().flat_map(Unsent::refused);
    parked.chain(crowded).chain(busy.queue.writable.iter().copied()).collect()
}

/// True if a stream's data waits for credit.
pub(crate) fn is_parked(outbound: &Outbound, stream: StreamId) -> bool {
    parked(outbound).is_some_and(|parked| parked.contains(stream))
}

fn parked(outbound: &Outbound) -> Option<&Parked> {
    outbound.busy.as_ref()?.queue.parked()
}
