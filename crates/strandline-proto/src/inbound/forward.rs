//! FORWARD TSN: the peer abandons what is missing up to a TSN (RFC 3758 section 3.6).
//!
//! The peer may end its numbering of a message anywhere, so that fragments of it may follow the new
//! cumulative TSN. They are dropped.

use strandline_wire::chunk::ForwardTsn;

use super::Inbound;
use super::arena::Arena;
use super::interleaved::Cut;
use super::reassembly::Violation;
use super::receive::{deliver_waiting, make_waiting_ready};
use super::tsn_map::{AHEAD_MAX, JUMP_MAX};
use crate::number::{Ssn, StreamId, Tsn};

/// Returns by how many TSNs a chunk advances the cumulative TSN; `None` if it is of another time.
pub(super) fn advance_of(inbound: &Inbound, last: Tsn) -> Option<u32> {
    let tsns = last.distance_from(inbound.map.cumulative());
    (1..=JUMP_MAX).contains(&tsns).then_some(tsns)
}

/// Processes a FORWARD TSN. A message under assembly is delivered in parts once it has `partial_delivery_point` bytes.
/// Returns a message that is cut off.
///
/// Streams that don't exist, and SSNs that the peer cannot have abandoned, are ignored: nothing of them is
/// missing here.
pub(crate) fn on_forward_tsn(
    inbound: &mut Inbound,
    chunk: &ForwardTsn<'_>,
    arena: &mut Arena,
    partial_delivery_point: u32,
) -> Result<Option<Cut>, Violation> {
    inbound.sack.on_chunk(false);
    let (before, last) = (inbound.map.cumulative(), chunk.new_cumulative_tsn());
    if inbound.map.has_gaps() || !last.is_after(before) {
        // One that is out of date repeats what was acknowledged: the SACK may have been lost.
        inbound.sack.on_irregular();
    }
    let Some(tsns) = advance_of(inbound, last) else { return Ok(None) };
    let next = last.next();
    let unread = inbound.ready.len();
    let stream = inbound.reassembly.abandon(next, &inbound.map, &mut inbound.window);
    inbound.map.skip_to(next);
    for (stream, ssn) in chunk.skipped() {
        skip(inbound, (stream, ssn), last, tsns);
    }
    inbound.on_cumulative(arena)?;
    // One of which only later data is missing, but that is listed.
    inbound.reassembly.drop_past(&inbound.order, &mut inbound.window);
    inbound.hand_over_part(partial_delivery_point as usize);
    Ok(stream.map(|stream| Cut { stream, unread }))
}

/// Returns the SSN of the next ordered message of a stream that becomes readable.
pub(crate) fn next_ssn(inbound: &Inbound, stream: StreamId) -> Ssn {
    let interleaved = inbound.order.interleaved();
    interleaved.map_or_else(|| inbound.order.next(stream), |held| Ssn((held.next(stream).0 & 0xffff) as u16))
}

/// True if the number may be that of a message among `tsns` missing or waiting ones, `ahead` messages after
/// the next one of its stream. Otherwise it was delivered before, or never sent: each message has a TSN of
/// its own.
const fn is_ahead(ahead: u16, tsns: u32) -> bool {
    (ahead as u32) < tsns && (ahead < 1 << 15 || tsns <= AHEAD_MAX)
}

/// Gives up the messages of a stream up to an SSN that have not arrived, and delivers the others. `last` is the new
/// cumulative TSN.
///
/// Until the peer has answered a request for a reset of all numbers (RFC 6525 section 5.1.4), an SSN that is
/// past may be one from after the reset. Then nothing is skipped, unless the chunk turns out to follow the
/// reset. It can't be refused until then: the peer answers once everything from before is acknowledged.
fn skip(inbound: &mut Inbound, (stream, ssn): (StreamId, Ssn), last: Tsn, tsns: u32) {
    if stream.0 >= inbound.streams {
        return;
    }
    if !is_ahead(ssn.distance_from(inbound.order.next(stream)), tsns) {
        return inbound.order.on_past_skipped(stream, last, ssn.0.into());
    }
    while let Some(message) = inbound.order.take_up_to(stream, ssn) {
        make_waiting_ready(inbound, message);
    }
    inbound.order.go_to(stream, ssn.next());
    inbound.order.on_begun(stream, ssn.0.into(), last);
    if inbound.order.has_waiting() {
        deliver_waiting(inbound, stream);
    }
}
