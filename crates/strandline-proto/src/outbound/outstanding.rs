//! Chunks that were sent and not acknowledged cumulatively, in TSN order, with the messages they are parts of.
//!
//! One ring holds a record of 24 bytes for each chunk, its place being its TSN less the first one's; a second ring
//! holds each message once, however many chunks it was cut into. A message stays whole until its last chunk leaves,
//! so that a failure can report it whole.
//!
//! A chunk is in one of three states, and `change` is the only way from one to another: the sums of each state
//! balance because they are kept there.

use std::collections::VecDeque;

use strandline_wire::{DATA_CHUNK_HEADER_LEN, Data};

use super::message::Message;
use crate::config::PATHS_MAX;
use crate::number::Tsn;
use crate::time::Time;

/// Chunks outstanding at most: what a gap block can name. It also keeps the two limits of section 6.1, 2^31 - 1 TSNs
/// and 2^16 - 1 ordered messages of a stream, since each message outstanding has at least one chunk.
pub(super) const CHUNKS_MAX: usize = u16::MAX as usize;

/// What is believed of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// On its way; counts as flight.
    InFlight,
    /// Believed lost: waits to be sent again; does not count as flight.
    Marked,
    /// Acknowledged by a gap block, which the peer may take back; does not count as flight.
    GapAcked,
}

/// A chunk that was sent.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    /// When it was last sent.
    pub(super) sent_at: Time,
    /// Number of its message, counted from the association's first one, modulo 2^32.
    message: u32,
    /// Where in the message its user data starts.
    offset: u32,
    /// Bytes of user data.
    pub(super) len: u16,
    state: State,
    /// The path it was last sent to.
    pub(super) path: u8,
    /// Miss indications (section 7.2.4).
    pub(super) misses: u8,
    /// See `Record::has`.
    flags: u8,
}

/// It was marked by fast retransmit once and never is again (section 7.2.4 rule 5).
pub(super) const FAST_RETRANSMITTED: u8 = 1;
/// It was acknowledged before: acknowledging it again is no news.
pub(super) const CREDITED: u8 = 1 << 1;
/// If it is marked, fast retransmit did it, not T3-rtx.
pub(super) const FAST_MARKED: u8 = 1 << 2;
/// It ends its message.
const ENDING: u8 = 1 << 3;

impl Record {
    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn set(&mut self, flag: u8) {
        self.flags |= flag;
    }

    pub(super) fn clear(&mut self, flag: u8) {
        self.flags &= !flag;
    }

    pub(super) const fn state(&self) -> State {
        self.state
    }

    /// Bytes of the chunk in a packet, header and padding included: what congestion control counts (section 7.2).
    pub(super) fn chunk_len(&self) -> u32 {
        chunk_len(usize::from(self.len))
    }
}

/// Bytes of a chunk with `len` bytes of user data, header and padding included.
pub(super) fn chunk_len(len: usize) -> u32 {
    (DATA_CHUNK_HEADER_LEN + len.next_multiple_of(4)) as u32
}

/// The send window.
#[derive(Debug)]
pub(super) struct Outstanding {
    /// TSN of the first record, or the next TSN if there is none.
    first: Tsn,
    records: VecDeque<Record>,
    /// Number of the first message, modulo 2^32.
    first_message: u32,
    messages: VecDeque<Message>,
    /// Bytes of the last message that have a TSN; 0 if it has been sent to its end.
    begun: u32,
    in_flight_bytes: u32,
    /// Bytes of all records.
    bytes: u32,
    marked: u32,
    /// No record below this index is marked.
    marked_from: usize,
    /// Records below this index give no round-trip time: a chunk was sent again after they were sent.
    timed_from: usize,
}

impl Outstanding {
    pub(super) fn new(first: Tsn) -> Self {
        Self {
            first,
            records: VecDeque::new(),
            first_message: 0,
            messages: VecDeque::new(),
            begun: 0,
            in_flight_bytes: 0,
            bytes: 0,
            marked: 0,
            marked_from: 0,
            timed_from: 0,
        }
    }

    /// Starts a message; `extend` must follow until it has been sent to its end.
    pub(super) fn begin(&mut self, message: Message) {
        self.messages.push_back(message);
        self.begun = 0;
    }

    /// Bytes of the message under way that have no TSN yet.
    pub(super) fn under_way(&self) -> Option<usize> {
        if self.begun == 0 {
            return None;
        }
        self.messages.back().map(|message| message.data.len().saturating_sub(self.begun as usize))
    }

    /// Gives the next `len` bytes of the last message a TSN.
    pub(super) fn extend(&mut self, now: Time, path: u8, len: usize) -> Option<Data<'_>> {
        let message_len = self.messages.back()?.data.len();
        let offset = self.begun;
        let end = offset as usize + len;
        let ending = end >= message_len;
        let len = u16::try_from(len).ok()?;
        self.records.push_back(Record {
            sent_at: now,
            message: self.first_message.wrapping_add(self.messages.len() as u32).wrapping_sub(1),
            offset,
            len,
            state: State::InFlight,
            path: path % PATHS_MAX as u8,
            misses: 0,
            flags: if ending { ENDING } else { 0 },
        });
        self.begun = if ending { 0 } else { end as u32 };
        self.in_flight_bytes += u32::from(len);
        self.bytes += u32::from(len);
        self.chunk(self.records.len() - 1)
    }

    /// The chunk of a record, as it is sent.
    pub(super) fn chunk(&self, index: usize) -> Option<Data<'_>> {
        let record = self.records.get(index)?;
        let message = self.messages.get(record.message.wrapping_sub(self.first_message) as usize)?;
        let start = record.offset as usize;
        let ending = record.has(ENDING);
        Some(Data {
            tsn: self.first + index as u32,
            stream: message.info.stream,
            ssn: message.ssn,
            ppid: message.info.ppid,
            unordered: message.info.unordered,
            beginning: start == 0,
            ending,
            immediate: ending && message.info.immediate,
            payload: message.data.get(start..start + usize::from(record.len))?,
        })
    }

    /// Moves a record to another state and keeps the sums. Returns the record as it was.
    pub(super) fn change(&mut self, index: usize, to: State) -> Option<Record> {
        let record = self.records.get_mut(index)?;
        let before = *record;
        record.state = to;
        let len = u32::from(before.len);
        match before.state {
            State::InFlight => self.in_flight_bytes -= len,
            State::Marked => self.marked -= 1,
            State::GapAcked => {}
        }
        match to {
            State::InFlight => self.in_flight_bytes += len,
            State::Marked => {
                self.marked += 1;
                self.marked_from = self.marked_from.min(index);
            }
            State::GapAcked => {}
        }
        Some(before)
    }

    /// Takes out the first record, and its message if it was the last chunk of it. Returns it as it was.
    pub(super) fn pop(&mut self) -> Option<Record> {
        let before = self.change(0, State::GapAcked)?;
        self.records.pop_front();
        self.first = self.first.next();
        self.bytes -= u32::from(before.len);
        self.marked_from = self.marked_from.saturating_sub(1);
        self.timed_from = self.timed_from.saturating_sub(1);
        if before.has(ENDING) {
            self.messages.pop_front();
            self.first_message = self.first_message.wrapping_add(1);
        }
        Some(before)
    }

    /// Index of the lowest record marked for retransmission.
    pub(super) fn first_marked(&mut self) -> Option<usize> {
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

    /// A chunk is sent again: no chunk outstanding gives a round-trip time any more, itself least of all. Section
    /// 6.3.1 C5 would allow those below it; leaving them out costs a few samples and saves a look at each.
    pub(super) fn spoil_timing(&mut self) {
        self.timed_from = self.records.len();
    }

    /// Whether the record gives a round-trip time when it is acknowledged now.
    pub(super) fn is_timed(&self, index: usize) -> bool {
        index >= self.timed_from
    }

    pub(super) fn get(&self, index: usize) -> Option<&Record> {
        self.records.get(index)
    }

    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Record> {
        self.records.get_mut(index)
    }

    /// Records from `start` to before `end`.
    pub(super) fn range(&self, start: usize, end: usize) -> impl Iterator<Item = &Record> {
        let end = end.min(self.records.len());
        self.records.range(start.min(end)..end)
    }

    /// Index of a TSN, if it is outstanding.
    pub(super) fn index_of(&self, tsn: Tsn) -> Option<usize> {
        let index = tsn.distance_from(self.first) as usize;
        (index < self.records.len()).then_some(index)
    }

    pub(super) fn next_tsn(&self) -> Tsn {
        self.first + self.records.len() as u32
    }

    /// The Cumulative TSN Ack Point.
    pub(super) fn cumulative_ack(&self) -> Tsn {
        self.first.previous()
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() >= CHUNKS_MAX
    }

    pub(super) fn in_flight_bytes(&self) -> u32 {
        self.in_flight_bytes
    }

    pub(super) fn bytes(&self) -> u32 {
        self.bytes
    }

    pub(super) fn marked(&self) -> u32 {
        self.marked
    }

    pub(super) fn messages(&self) -> usize {
        self.messages.len()
    }

    /// The messages that are not acknowledged whole, oldest first.
    pub(super) fn into_messages(self) -> impl Iterator<Item = Message> {
        self.messages.into_iter()
    }

    pub(super) fn record_heap_bytes(&self) -> usize {
        self.records.capacity() * size_of::<Record>()
    }

    pub(super) fn message_heap_bytes(&self) -> usize {
        self.messages.capacity() * size_of::<Message>()
    }
}
