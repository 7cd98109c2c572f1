//! Messages that were given up (RFC 3758): their chunks are not in flight and are not sent again, and FORWARD TSN skips
//! nothing else.

use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};

use strandline_proto::time::Time;
use strandline_wire::chunk::{ForwardTsn, IForwardTsn};
use strandline_wire::{Chunk, Ppid, StreamId, Tsn};

use super::{Board, Sent};
use crate::violation::{Violation, demand};

/// A stream and whether the message is unordered; with its SSN or MID, the place of a message.
type Row = (StreamId, bool);

/// The message of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Of {
    message: Ppid,
    /// What a FORWARD TSN lists it by; `None` for an unordered message in DATA.
    place: Option<(Row, u32)>,
    /// True if the chunk ends it.
    ends: bool,
}

/// How often a FORWARD TSN is sent on a path without a time-out: answers that do not acknowledge it repeat it twice.
const FORWARDS_MAX: u32 = 3;

/// The messages that were given up.
#[derive(Debug, Default)]
pub(super) struct Abandoned {
    messages: BTreeSet<u32>,
    /// The latest FORWARD TSN: destination, unless that was removed since, time, and its new cumulative TSN.
    forward: Option<(Option<IpAddr>, Time, Tsn)>,
    /// Destination and place of the messages that were begun and not sent to their ends.
    open: BTreeMap<u32, (IpAddr, Of)>,
    /// The messages by their places: only the first I-DATA chunk of a message has its PPID.
    numbers: BTreeMap<(Row, u32), Ppid>,
    /// How often the same FORWARD TSN may still be sent.
    allowed: u32,
    /// Dynamic streams that were given up.
    resets: BTreeSet<StreamId>,
    /// Number of messages that never existed and are skipped for them, and whose TSNs were not seen.
    unseen: usize,
}

impl Abandoned {
    /// Returns the message of a DATA or I-DATA chunk that is sent.
    pub(super) fn identify(&mut self, chunk: &Chunk<'_>) -> Of {
        match chunk {
            Chunk::Data(data) => {
                let place = (!data.unordered).then_some(((data.stream, false), u32::from(data.ssn.0)));
                Of { message: data.ppid, place, ends: data.ending }
            }
            Chunk::IData(data) => {
                let place = ((data.stream, data.unordered), data.mid.0);
                if data.beginning {
                    self.numbers.insert(place, data.ppid);
                }
                let message = self.numbers.get(&place).copied().unwrap_or_default();
                Of { message, place: Some(place), ends: data.ending }
            }
            _ => Of { message: Ppid(0), place: None, ends: true },
        }
    }

    /// Checks a chunk that is sent.
    pub(super) fn check(&self, tsn: Tsn, of: Of) -> Result<(), Violation> {
        demand(!self.messages.contains(&of.message.0), || {
            format!("{tsn:?} of message {} is sent, which was given up", of.message)
        })
    }

    /// Returns the TSN after those that messages may have which never existed, from `next` on.
    pub(super) fn beyond_unseen(&self, next: Tsn) -> Tsn {
        Tsn(next.0.wrapping_add(self.unseen as u32))
    }

    /// True if there may be any.
    pub(super) fn has_unseen(&self) -> bool {
        self.unseen > 0
    }

    /// Records that an address was removed: the acknowledgement of a FORWARD TSN shows nothing about it any more. On
    /// another path it is sent anew: answers may repeat it there as often as that of the first.
    pub(super) fn on_removed(&mut self, address: IpAddr) {
        let Some((to, ..)) = &mut self.forward else { return };
        if to.take_if(|to| *to == address).is_some() {
            self.allowed = self.allowed.max(FORWARDS_MAX);
        }
    }

    pub(super) fn on_new_data(&mut self, to: IpAddr, of: Of) {
        if of.ends {
            self.open.remove(&of.message.0);
        } else {
            self.open.insert(of.message.0, (to, of));
        }
    }
}

impl Sent {
    /// A chunk that is sent for the first time, with its bytes and those of its user data.
    pub(super) fn new(now: Time, to: IpAddr, of: Of, (bytes, payload): (u32, u32)) -> Self {
        Self {
            bytes,
            payload,
            to,
            at: now,
            of,
            abandoned: false,
            acknowledged: false,
            named: false,
            kept: false,
            denied: false,
            held: false,
            misses: 0,
            excused: false,
            in_set_up: false,
            orphaned: false,
            forgotten: false,
            resent: false,
            moved_from: Vec::new(),
            late: false,
            again: super::Again::default(),
        }
    }
}

impl Board {
    /// Records that a message was given up. If it was begun and not sent to its end, the rest has one TSN that is never
    /// sent. Returns the bytes of user data that the peer's window has room for again.
    pub(crate) fn on_abandoned(&mut self, now: Time, message: Ppid) -> u32 {
        self.least.clear();
        self.abandoned.messages.insert(message.0);
        self.abandoned.allowed = FORWARDS_MAX;
        let mut bytes = 0;
        let chunks = self.earlier.as_mut().map_or(&mut self.chunks, |(_, chunks)| chunks);
        for chunk in chunks.iter_mut().filter(|chunk| chunk.of.message == message) {
            chunk.abandoned = true;
            bytes += if chunk.named { 0 } else { chunk.payload };
        }
        if let Some((to, of)) = self.abandoned.open.remove(&message.0) {
            let of = Of { ends: true, ..of };
            chunks.push_back(Sent { abandoned: true, ..Sent::new(now, to, of, (0, 0)) });
        }
        bytes
    }

    /// Records that the peer has everything up to `cumulative`. A FORWARD TSN that this acknowledges shows
    /// what became of the data before it, as a retransmission in its place would.
    pub(super) fn on_skipped(&mut self, now: Time, cumulative: Tsn) {
        let answered = self.abandoned.forward.take_if(|(_, _, tsn)| cumulative.is_at_or_after(*tsn));
        let Some((to, at, tsn)) = answered else { return };
        self.abandoned.allowed = FORWARDS_MAX;
        let Some(to) = to else { return };
        self.late.of(to).on_acknowledged(now, (at, tsn), true);
        self.traffic.of(to).sacks += 1;
    }

    /// Checks a FORWARD TSN that is sent (RFC 3758 section 3.5).
    pub(super) fn on_forward_tsn(
        &mut self,
        now: Time,
        forward: &ForwardTsn<'_>,
        to: IpAddr,
    ) -> Result<(), Violation> {
        let listed = forward.skipped().map(|(stream, ssn)| ((stream, false), u32::from(ssn.0)));
        self.on_forward(now, forward.new_cumulative_tsn(), listed.collect(), to)
    }

    /// Checks an I-FORWARD-TSN that is sent (RFC 8260 section 2.3.1).
    pub(super) fn on_i_forward_tsn(
        &mut self,
        now: Time,
        forward: &IForwardTsn<'_>,
        to: IpAddr,
    ) -> Result<(), Violation> {
        let listed = forward.skipped().map(|skipped| ((skipped.stream, skipped.unordered), skipped.mid.0));
        self.on_forward(now, forward.new_cumulative_tsn(), listed.collect(), to)
    }

    /// It moves the peer's cumulative TSN, only over messages that were given up, and lists the highest number of each
    /// stream among them.
    fn on_forward(
        &mut self,
        now: Time,
        last: Tsn,
        listed: Vec<(Row, u32)>,
        to: IpAddr,
    ) -> Result<(), Violation> {
        let again = self
            .abandoned
            .forward
            .replace((Some(to), now, last))
            .is_some_and(|(_, _, before)| before == last);
        let left = if again { self.abandoned.allowed } else { FORWARDS_MAX };
        demand(left > 0, || format!("FORWARD TSN to {last:?} is sent again and again without a time-out"))?;
        self.abandoned.allowed = left - 1;
        if self.first.is_none() && self.abandoned.unseen >= listed.len() {
            // Nothing was sent before, and each message that never existed is of a stream of its own.
            self.first = Some(Tsn(last.next().0.wrapping_sub(listed.len() as u32)));
        }
        let count = self.first.map_or(0, |first| last.next().distance_from(first) as usize);
        reveal_skipped(self, now, to, count);
        demand((1..=self.chunks.len()).contains(&count), || {
            format!("FORWARD TSN to {last:?}, but {} chunks follow {:?}", self.chunks.len(), self.first)
        })?;
        let mut streams = BTreeMap::new();
        for chunk in self.chunks.iter().take(count) {
            demand(chunk.abandoned, || {
                format!("FORWARD TSN to {last:?} skips message {}, which was not given up", chunk.of.message)
            })?;
            streams.extend(chunk.of.place);
        }
        // A stream that was given up is listed with a number that no chunk has.
        let usual = |((stream, _), _): &(Row, u32)| !self.abandoned.resets.contains(stream);
        let expected = streams.clone().into_iter().filter(usual);
        demand(listed.iter().copied().filter(usual).eq(expected), || {
            format!("FORWARD TSN to {last:?} lists {listed:?}, and skips {streams:?}")
        })
    }
}

/// Records that a dynamic stream is given up: a message that never existed will be skipped
/// (docs/dynamic-streams.md section 6.2).
pub(crate) fn on_stream_reset(board: &mut Board, stream: u16) {
    board.abandoned.resets.insert(StreamId(stream));
    board.abandoned.unseen += 1;
    board.abandoned.allowed = FORWARDS_MAX;
}

/// Allows another FORWARD TSN after a time-out, or after its path was removed.
pub(super) fn on_timeout(board: &mut Board) {
    board.abandoned.allowed += 1;
}

/// Adds TSNs of messages that never existed, up to `count` chunks in all.
pub(super) fn reveal_skipped(board: &mut Board, now: Time, to: IpAddr, count: usize) {
    let missing = count.saturating_sub(board.chunks.len());
    if missing > board.abandoned.unseen {
        return;
    }
    board.abandoned.unseen -= missing;
    let of = Of { message: Ppid(0), place: None, ends: true };
    for _ in 0..missing {
        board.chunks.push_back(Sent { abandoned: true, ..Sent::new(now, to, of, (0, 0)) });
    }
}

#[cfg(test)]
mod tests;
