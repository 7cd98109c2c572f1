//! Chunks that were sent and not cumulatively acknowledged, in TSN order.
//!
//! A ring holds a record of 16 bytes for each chunk, indexed by its TSN less the first one's. A record refers to its
//! message in the slab ([`Messages`]), which stays whole until its last chunk leaves, so that a failure can report it
//! whole. Sending times are stored for each instant, in [`SendTimes`].
//!
//! A chunk is in one of seven states. `change` moves it from one to another, and `release` removes whole runs of chunks
//! in one state: the sums of each state balance because they are maintained there.

mod abandoned;
mod non_renegable;
mod questions;

pub(crate) use abandoned::Skipped;
pub(crate) use non_renegable::on_non_renegable;

use std::collections::VecDeque;

use strandline_wire::{DATA_CHUNK_HEADER_LEN, Data};

use super::send_times::SendTimes;
use crate::number::Tsn;
use crate::outbound::messages::{Leaving, MessageKey, Messages};
use crate::path_index::{PathIndex, PathMask, PerPath};
use crate::time::Time;

/// Maximum number of outstanding chunks: what a gap block can report. It also keeps the two limits of section 6.1,
/// 2^31 - 1 TSNs and 2^16 - 1 ordered messages of a stream, since each outstanding message has at least one chunk.
pub(crate) const CHUNKS_MAX: usize = u16::MAX as usize;

/// The assumed state of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// In flight; counts as flight.
    InFlight,
    /// Presumed lost: waits for retransmission; does not count as flight.
    Marked,
    /// Acknowledged by a gap block, which the peer may revoke; does not count as flight.
    GapAcked,
    /// So late that it must have left the network, while no SACK had room to report whether it arrived; does not
    /// count as flight.
    Overdue,
    /// Acknowledged by a gap block that the peer never revokes; does not count as flight.
    NonRenegable,
    /// As [`NonRenegable`](Self::NonRenegable), and so are all chunks of its message, which has left: its
    /// record no longer refers to it.
    NonRenegableFreed,
    /// Abandoned (RFC 3758): as if it were acknowledged, except that the peer must be told to skip it. It stays in this
    /// state, and its record no longer refers to a message; see [`abandon`](Outstanding::abandon).
    Abandoned,
}

impl State {
    /// True if it stays whatever SACKs report of the chunk. Reporting it and omitting it again costs a look-up each.
    #[inline]
    pub(crate) const fn outlasts_reports(self) -> bool {
        matches!(self, Self::NonRenegable | Self::NonRenegableFreed | Self::Abandoned)
    }
}

/// A chunk that was sent.
#[derive(Debug, Clone, Copy)]
#[repr(C)] // `alike` reads the last four fields as one number.
pub(crate) struct Record {
    message: MessageKey,
    /// Offset in the message where its user data starts.
    offset: u32,
    /// Bytes of user data.
    pub(crate) len: u16,
    /// If it was retransmitted: its number in the log of retransmissions.
    pub(crate) resent: u16,
    /// The path that it was last sent on.
    pub(crate) path: PathIndex,
    /// Number of miss indications (section 7.2.4).
    pub(crate) misses: u8,
    /// See `Record::has`.
    flags: u8,
    state: State,
}

/// The chunk was marked by fast retransmit once and never will be again (section 7.2.4 rule 5).
pub(crate) const FAST_RETRANSMITTED: u8 = 1;
/// The chunk was acknowledged before: acknowledging it again is not new.
pub(crate) const ACKED_BEFORE: u8 = 1 << 1;
/// If the chunk is marked, fast retransmit did it, not T3-rtx.
pub(crate) const FAST_MARKED: u8 = 1 << 2;
/// The chunk ends its message.
const ENDING: u8 = 1 << 3;
/// The chunk was retransmitted (recorded only with loss detection by time).
pub(crate) const RESENT: u8 = 1 << 4;
/// The chunk is marked as a tail-loss probe, not because it was declared lost.
pub(crate) const PROBE: u8 = 1 << 5;
/// The chunk was sent on several paths: it is unknown which of them delivered it.
pub(crate) const MOVED: u8 = 1 << 6;
/// The path that the chunk was sent on is removed, and it has not been retransmitted since: its
/// acknowledgement shows nothing about any path.
pub(crate) const ORPHANED: u8 = 1 << 7;

impl Record {
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(crate) fn set(&mut self, flag: u8) {
        self.flags |= flag;
    }

    pub(crate) fn clear(&mut self, flag: u8) {
        self.flags &= !flag;
    }

    pub(crate) const fn state(&self) -> State {
        self.state
    }

    /// True if nothing remains to be done for the chunk: the peer has it, or it was abandoned.
    pub(crate) const fn is_done(&self) -> bool {
        matches!(
            self.state,
            State::GapAcked | State::NonRenegable | State::NonRenegableFreed | State::Abandoned
        )
    }

    /// Returns path, state and acknowledgement as a number: records with the same number can leave together.
    #[inline]
    const fn alike(&self) -> u32 {
        let all = u32::from_le_bytes([self.path.number(), self.misses, self.flags, self.state as u8]);
        all & u32::from_le_bytes([u8::MAX, 0, ACKED_BEFORE | RESENT | MOVED | ORPHANED, u8::MAX])
    }

    /// Returns the bytes of the chunk in a packet, including header and padding, as congestion control counts them
    /// (section 7.2).
    #[inline]
    pub(crate) fn chunk_len(&self) -> u32 {
        chunk_len(usize::from(self.len))
    }
}

/// Returns the bytes of a chunk with `len` bytes of user data, including header and padding.
#[inline]
pub(crate) fn chunk_len(len: usize) -> u32 {
    (DATA_CHUNK_HEADER_LEN + ((len + 3) & !3)) as u32
}

/// The records of outstanding chunks, in TSN order.
#[derive(Debug)]
pub(crate) struct Outstanding {
    /// TSN of the first record, or the next TSN if there is none.
    first: Tsn,
    records: VecDeque<Record>,
    in_flight_bytes: u32,
    /// Bytes of all records.
    bytes: u32,
    marked: u32,
    /// Number of times that a chunk was marked, wrapping.
    marks: u32,
    /// No record below this index is marked.
    marked_from: usize,
    /// Bytes of the records acknowledged by gap blocks.
    gap_acked_bytes: u32,
    /// Number of records of each path that are [`State::Overdue`].
    overdue: PerPath<u16>,
    times: SendTimes,
    /// If the latest SACK was full: the highest TSN that it reported, and the next TSN when it arrived. It is unknown
    /// when chunks between them arrived.
    unnamed: Option<(Tsn, Tsn)>,
    /// The paths that any of these was sent on.
    paths: PathMask,
}

/// Chunks that leave together, alike in path, state and credit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run {
    /// Index of the first one.
    pub(crate) first: usize,
    pub(crate) path: PathIndex,
    pub(crate) state: State,
    flags: u8,
    /// Bytes of user data.
    payload: u32,
    /// Bytes of user data with headers and padding.
    pub(crate) bytes: u32,
    pub(crate) chunks: u32,
}

impl Run {
    /// Returns the chunk at an index, with its record, as a run.
    pub(crate) fn single(index: usize, record: &Record) -> Self {
        let Record { path, state, flags, len, .. } = *record;
        let (payload, bytes) = (u32::from(len), record.chunk_len());
        Self { first: index, path, state, flags, payload, bytes, chunks: 1 }
    }

    /// True if the chunks have a flag; see [`Record::has`]. Only for flags in which they are alike.
    pub(crate) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the index of the last chunk.
    #[inline]
    pub(crate) const fn last(&self) -> usize {
        self.first + self.chunks as usize - 1
    }
}

/// A part of a message that gets a TSN.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) message: MessageKey,
    /// Offset in the message where it starts.
    pub(crate) offset: u32,
    /// Bytes of user data.
    pub(crate) len: u16,
    /// It ends the message.
    pub(crate) ends: bool,
}

impl Outstanding {
    pub(crate) fn new(first: Tsn) -> Self {
        Self {
            first,
            records: VecDeque::new(),
            in_flight_bytes: 0,
            bytes: 0,
            marked: 0,
            marks: 0,
            marked_from: 0,
            gap_acked_bytes: 0,
            overdue: PerPath::default(),
            times: SendTimes::default(),
            unnamed: None,
            paths: PathMask::default(),
        }
    }

    /// Assigns the next TSN to a piece of a message; [`on_sent`](Self::on_sent) must follow.
    #[inline]
    pub(crate) fn push(&mut self, path: PathIndex, piece: Piece) {
        let Piece { message, offset, len, ends } = piece;
        self.records.push_back(Record {
            message,
            offset,
            len,
            state: State::InFlight,
            path,
            misses: 0,
            flags: if ends { ENDING } else { 0 },
            resent: 0,
        });
    }

    /// Records that the last `chunks`, of `user_data` bytes in all, are sent to `path` now.
    #[inline]
    pub(crate) fn on_sent(&mut self, now: Time, path: PathIndex, chunks: u32, user_data: usize) {
        self.times.on_sent(self.first + (self.records.len() as u32 - chunks), now);
        self.paths.insert(path);
        self.in_flight_bytes += user_data as u32;
        self.bytes += user_data as u32;
    }

    /// Returns the number of chunks that may still become outstanding.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        CHUNKS_MAX.saturating_sub(self.records.len())
    }

    /// Returns the chunk of a record, as it is sent.
    pub(crate) fn chunk<'a>(&self, index: usize, messages: &'a Messages) -> Option<Data<'a>> {
        let record = self.records.get(index)?;
        let (start, len) = (record.offset as usize, usize::from(record.len));
        messages.chunk(record.message, self.tsn(index), start, len, record.has(ENDING))
    }

    /// Moves a record to another state and maintains the sums. Returns the record as it was.
    pub(crate) fn change(&mut self, index: usize, to: State) -> Option<Record> {
        let record = self.records.get_mut(index)?;
        let before = *record;
        record.state = to;
        let len = u32::from(before.len);
        match before.state {
            State::InFlight => self.in_flight_bytes -= len,
            State::Marked => self.marked -= 1,
            State::GapAcked | State::NonRenegable => self.gap_acked_bytes -= len,
            State::Overdue => self.overdue[before.path] -= 1,
            State::Abandoned => self.bytes += len,
            State::NonRenegableFreed => {
                self.gap_acked_bytes -= len;
                self.bytes += len;
            }
        }
        match to {
            State::InFlight => self.in_flight_bytes += len,
            State::Marked => {
                self.marked += 1;
                self.marks = self.marks.wrapping_add(1);
                self.marked_from = self.marked_from.min(index);
            }
            State::GapAcked | State::NonRenegable => self.gap_acked_bytes += len,
            State::Overdue => self.overdue[before.path] += 1,
            State::Abandoned => self.bytes -= len,
            State::NonRenegableFreed => {
                self.gap_acked_bytes += len;
                self.bytes -= len;
            }
        }
        Some(before)
    }

    /// Removes the first `steps` records, which are accounted for.
    pub(crate) fn drop_front(&mut self, steps: usize) {
        self.records.drain(..steps);
        self.first += steps as u32;
        self.marked_from = self.marked_from.saturating_sub(steps);
        self.times.advance(self.first);
        if self.records.is_empty() {
            self.paths = PathMask::default();
        }
    }

    /// Returns the run of like records from `from` on, or `None` if there is no record. Adds the messages
    /// that end in it to `leaving`.
    #[inline]
    pub(crate) fn run_at(&self, from: usize, end: usize, leaving: &mut Leaving<'_>) -> Option<Run> {
        let (front, back) = self.records.as_slices();
        let split = front.len();
        // A run that wraps around the end of the ring is returned as two.
        let records =
            if from < split { front.get(from..end.min(split)) } else { back.get(from - split..end - split) };
        let records = records.unwrap_or_default();
        let first = records.first()?;
        let (alike, mut payload, mut padded) = (first.alike(), 0, 0);
        let mut chunks = 0;
        for record in records {
            if record.alike() != alike {
                break;
            }
            let len = u32::from(record.len);
            payload += len;
            padded += (len + 3) & !3;
            if record.has(ENDING) {
                leaving.add(record.message);
            }
            chunks += 1;
        }
        let bytes = padded + chunks * DATA_CHUNK_HEADER_LEN as u32;
        let (path, state, flags) = (first.path, first.state, first.flags);
        Some(Run { first: from, path, state, flags, payload, bytes, chunks })
    }

    /// Subtracts a run that leaves from the sums.
    pub(crate) fn release(&mut self, run: &Run) {
        if !matches!(run.state, State::Abandoned | State::NonRenegableFreed) {
            self.bytes -= run.payload;
        }
        match run.state {
            State::InFlight => self.in_flight_bytes -= run.payload,
            State::Marked => self.marked -= run.chunks,
            State::GapAcked | State::NonRenegable | State::NonRenegableFreed => {
                self.gap_acked_bytes -= run.payload
            }
            State::Overdue => self.overdue[run.path] -= run.chunks as u16,
            State::Abandoned => {}
        }
    }

    /// Index of the lowest record marked for retransmission.
    pub(crate) fn first_marked(&mut self) -> Option<usize> {
        if self.marked == 0 {
            self.marked_from = self.records.len();
            return None;
        }
        let from = self.marked_from;
        let found =
            self.records.range(from.min(self.records.len())..).position(|r| r.state == State::Marked)?;
        self.marked_from = from + found;
        Some(self.marked_from)
    }

    /// Records that a marked chunk is retransmitted on `path`. `number` is its number in the log of retransmissions,
    /// if there is one.
    pub(crate) fn resend(&mut self, index: usize, path: PathIndex, number: Option<u16>) {
        let Some(record) = self.records.get_mut(index) else { return };
        match number {
            Some(number) => {
                record.resent = number;
                record.clear(PROBE);
                record.set(RESENT);
            }
            None => self.times.forget(),
        }
        if record.path != path {
            record.set(MOVED);
        }
        record.clear(ORPHANED);
        record.path = path;
        self.paths.insert(path);
        record.misses = 0;
        self.change(index, State::InFlight);
    }

    /// Assigns the chunks of a path that is removed, none of which is in flight or overdue, to another path.
    pub(crate) fn move_path(&mut self, from: PathIndex, to: PathIndex) {
        for record in self.records.iter_mut().filter(|record| record.path == from) {
            record.path = to;
            record.clear(RESENT | PROBE | FAST_MARKED);
            record.set(MOVED | ORPHANED);
        }
        if self.paths.contains(from) {
            self.paths.insert(to);
        }
    }

    /// Ends the processing of a SACK. `cut_at` is the highest index that it reported, if it had no room for more.
    pub(crate) fn set_unreported(&mut self, cut_at: Option<usize>) {
        self.unnamed = cut_at.map(|index| (self.tsn(index), self.next_tsn()));
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Record> {
        self.records.get_mut(index)
    }

    /// Returns the message of each chunk that the peer may not have, in TSN order. Chunks that were abandoned
    /// have none.
    pub(crate) fn messages(&self) -> impl Iterator<Item = MessageKey> {
        self.records.iter().filter_map(Record::message)
    }
}
