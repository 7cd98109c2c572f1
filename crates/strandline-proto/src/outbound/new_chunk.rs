//! New data: the next chunk of a message gets its TSN and its numbers within the stream.

use strandline_wire::Data;

use super::messages::Message;
use super::recovery::send_window::SendWindow;
use super::sent::outstanding::{Outstanding, Piece};
use super::{Busy, Numbers, Outbound, fragment};
use crate::path_index::PathIndex;
use crate::time::Time;

/// The next chunk of a message.
pub(super) struct NewChunk<'a> {
    /// The chunks before it.
    pub(super) outstanding: &'a Outstanding,
    /// Its bytes of user data.
    pub(super) len: usize,
    /// True if it is the first one of its message.
    pub(super) begins: bool,
    /// True if it is the last one of its message.
    pub(super) ends: bool,
}

/// Takes the next chunk of new data from its message, of at most `most` bytes of user data, as
/// [`next_new`](Outbound::next_new) returns it. `number` assigns its numbers within the stream.
#[inline(always)]
pub(super) fn next_chunk<N>(
    outbound: &mut Outbound,
    now: Time,
    path: PathIndex,
    (space, packet_space): (usize, usize),
    most: usize,
    number: impl FnOnce(&mut Numbers, &mut Message, NewChunk<'_>) -> N,
) -> Option<(Data<'_>, N)> {
    let Outbound { busy, window, numbers, .. } = outbound;
    let Busy { queue, sent: SendWindow { outstanding, rack, .. }, messages, .. } = busy.as_deref_mut()?;
    if outstanding.marked() > 0 || outstanding.is_full() {
        return None;
    }
    let fragment = queue.next(messages)?;
    let message = messages.get_mut(fragment.message)?;
    let rest = message.rest();
    let len = fragment::payload_len(rest, space, packet_space)?.min(fragment.bytes_max).min(most);
    let len = window.admit(len, rest, packet_space, outstanding.is_empty())?;
    let (begins, ends) = (!rest.begun, len == rest.len);
    let assigned = number(numbers, message, NewChunk { outstanding, len, begins, ends });
    let offset = message.on_sent(len);
    if let Some(rack) = rack {
        rack.set_packet(packet_space);
    }
    window.spend(len);
    let tsn = outstanding.next_tsn();
    queue.on_sent(messages, &fragment, len, (begins, ends));
    outstanding.push(path, Piece { message: fragment.message, offset, len: len as u16, ends });
    outstanding.on_sent(now, path, 1, len);
    Some((messages.chunk(fragment.message, tsn, offset as usize, len, ends)?, assigned))
}
