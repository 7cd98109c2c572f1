//! Sending again: T3-rtx time-outs (RFC 9260 section 6.3.3) and the chunks marked for retransmission (6.1 C).

use strandline_wire::Data;

use super::copies::Copies;
use super::fragment;
use super::outstanding::{FAST_MARKED, Outstanding, PROBE, RESENT, State};
use crate::config::PATHS_MAX;
use crate::time::Time;

/// The chunk that is to be sent again next: the lowest TSN marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Retransmission {
    /// Bytes it takes in a packet, header and padding included. More than an empty packet holds if the path MTU has
    /// shrunk since: fragments are never cut again, IP has to do it then (section 6.9).
    pub(crate) size: usize,
    /// The path it was last sent to.
    pub(crate) last_path: u8,
    /// Marked by fast retransmit: it should go to the same path (section 6.4). Otherwise T3-rtx expired, and it
    /// should go to another path if there is one.
    pub(crate) fast: bool,
    /// It had been sent again before, and losses are found by time: another path may be better (RFC 9260 has fast
    /// retransmissions stay on theirs).
    pub(crate) repeated: bool,
    /// A tail-loss probe, which nothing tells to be lost.
    pub(crate) probe: bool,
}

/// Section 6.3.3 E3: the lowest chunks are sent again at once, the others are marked; here all are marked, and the
/// congestion window of one packet that the time-out leaves lets the first ones go. Marks every
/// chunk in flight on the path. Returns their bytes, headers and padding included.
pub(super) fn mark_path(outstanding: &mut Outstanding, path: u8) -> u32 {
    let path = path % PATHS_MAX as u8;
    let mut bytes = 0;
    for index in 0..outstanding.len() {
        let Some(record) = outstanding.get_mut(index) else { break };
        if record.path != path {
            continue;
        }
        record.clear(FAST_MARKED); // Chunks that waited for fast retransmission timed out too.
        match record.state() {
            State::InFlight => bytes += record.chunk_len(),
            State::Overdue => {}
            State::Marked | State::GapAcked => continue,
        }
        outstanding.change(index, State::Marked);
    }
    bytes
}

/// What `next` would send, whatever the space.
pub(super) fn peek(outstanding: &mut Outstanding) -> Option<Retransmission> {
    let index = outstanding.first_marked()?;
    let by_time = outstanding.rack.is_some();
    let record = outstanding.get(index)?;
    Some(Retransmission {
        size: record.chunk_len() as usize,
        last_path: record.path,
        fast: record.has(FAST_MARKED),
        repeated: by_time && record.has(RESENT),
        probe: record.has(PROBE),
    })
}

/// Sends the lowest chunk marked again if it fits. A later one that would fit has to wait, so that a packet's TSNs
/// and those of successive packets rise.
pub(super) fn next<'a>(
    now: Time,
    outstanding: &'a mut Outstanding,
    copies: &'a Copies,
    path: u8,
    space: usize,
) -> Option<Data<'a>> {
    let index = outstanding.first_marked()?;
    let record = outstanding.get(index)?;
    if usize::from(record.len) > fragment::payload_room(space) {
        return None;
    }
    outstanding.resend(now, index, path);
    outstanding.chunk(index, copies)
}
