//! Numbers of I-DATA chunks (RFC 8260): MIDs of messages, and FSNs of their fragments.
//!
//! Only one message of a stream is sent at a time (section 2.2.2), since each stream's messages are sent in
//! their order.

use std::collections::{BTreeMap, VecDeque};

use strandline_wire::chunk::i_forward_tsn::{self, SkippedMessage};
use strandline_wire::{DATA_CHUNK_HEADER_LEN, I_DATA_CHUNK_HEADER_LEN, IData, PacketBuilder};

use super::accounts::Accounts;
use super::messages::Message;
use super::new_chunk::{NewChunk, next_chunk};
use super::recovery::loss_detection::Room;
use super::sent::outstanding::Outstanding;
use super::{Numbers, Outbound};
use crate::number::{Fsn, Mid, StreamId, Tsn};
use crate::path_index::PathIndex;
use crate::reconfiguration::Streams;
use crate::time::Time;

/// Bytes by which the header of I-DATA is longer than that of DATA. Congestion control does not count them.
pub(super) const EXTRA_LEN: usize = I_DATA_CHUNK_HEADER_LEN - DATA_CHUNK_HEADER_LEN;

/// The numbers of a chunk that was sent.
#[derive(Debug, Clone, Copy)]
struct ChunkNumbers {
    stream: StreamId,
    unordered: bool,
    mid: Mid,
    fsn: Fsn,
    /// Bytes that count towards the credit of the stream; 0 once its account has begun anew.
    len: u16,
}

/// The numbers of the sending half of an association that sends I-DATA.
#[derive(Debug, Default)]
pub(crate) struct Interleaving {
    /// The next MIDs of the ordered and of the unordered messages of each stream that was used.
    next: BTreeMap<StreamId, [Mid; 2]>,
    /// The streams with a message that is partly sent: its MID, and the FSN of its next fragment.
    open: BTreeMap<StreamId, (Mid, Fsn)>,
    /// The numbers of chunks that may be outstanding, in the order of TSNs.
    sent: VecDeque<ChunkNumbers>,
    /// The TSN of the first one.
    first: Tsn,
    /// The credit of the streams, if it was negotiated.
    pub(super) accounts: Option<Box<Accounts>>,
}

/// Returns the bytes that a stream may send before it needs more credit; `None` without credit.
#[inline]
pub(super) fn room(numbers: &Numbers, stream: StreamId) -> Option<u32> {
    Some(state(numbers)?.accounts.as_ref()?.room(stream))
}

impl Interleaving {
    /// Assigns the numbers of the chunk with `len` bytes that gets the next TSN; one of data that was
    /// abandoned has none. `ends`: nothing of its message follows.
    pub(super) fn assign(
        &mut self,
        outstanding: &Outstanding,
        (stream, unordered): (StreamId, bool),
        len: usize,
        ends: bool,
    ) -> (Mid, Fsn) {
        let (mid, fsn) = self.open.get(&stream).copied().unwrap_or_else(|| {
            let next = &mut self.next.entry(stream).or_default()[usize::from(unordered)];
            (core::mem::replace(next, next.next()), Fsn(0))
        });
        if ends {
            self.open.remove(&stream);
        } else {
            self.open.insert(stream, (mid, fsn.next()));
        }
        self.drop_acked(outstanding.cumulative_ack());
        // A chunk is at most as long as its length field can say.
        let len = len as u16;
        if let Some(accounts) = self.accounts.as_mut().filter(|_| len > 0) {
            accounts.on_sent(stream, outstanding.next_tsn(), len);
        }
        self.sent.push_back(ChunkNumbers { stream, unordered, mid, fsn, len });
        (mid, fsn)
    }

    /// Drops the numbers of chunks that are acknowledged for good: those up to the Cumulative TSN Ack Point.
    pub(super) fn drop_acked(&mut self, cumulative: Tsn) {
        let first = cumulative.next();
        let gone = (first.distance_from(self.first) as usize).min(self.sent.len());
        self.drop_first(gone);
        self.first = first;
    }

    fn drop_first(&mut self, count: usize) {
        let gone = self.sent.drain(..count);
        if let Some(accounts) = &mut self.accounts {
            gone.for_each(|numbers| accounts.on_acked(numbers.stream, numbers.len));
        }
    }

    fn get(&self, tsn: Tsn) -> Option<&ChunkNumbers> {
        self.sent.get(tsn.distance_from(self.first) as usize)
    }

    /// Returns the numbers of an outstanding chunk.
    pub(super) fn of(&self, tsn: Tsn) -> Option<(Mid, Fsn)> {
        self.get(tsn).map(|numbers| (numbers.mid, numbers.fsn))
    }

    /// Returns the abandoned message of an outstanding chunk.
    pub(super) fn skipped(&self, tsn: Tsn) -> Option<SkippedMessage> {
        let ChunkNumbers { stream, unordered, mid, .. } = *self.get(tsn)?;
        Some(SkippedMessage { stream, unordered, mid })
    }

    /// Sets the MIDs of streams back to 0 (section 2.3.2).
    pub(super) fn reset(&mut self, streams: &Streams) {
        self.next.retain(|stream, _| !streams.contains(*stream));
        if let Some(accounts) = &mut self.accounts {
            accounts.reset(streams);
            // The peer has these chunks, though it may not have acknowledged them.
            let earlier = self.sent.iter_mut().filter(|numbers| streams.contains(numbers.stream));
            earlier.for_each(|numbers| numbers.len = 0);
        }
    }

    /// Handles a reset of all TSNs, with nothing outstanding.
    pub(super) fn renumber(&mut self) {
        self.reset(&Streams::All);
        self.sent.clear();
    }

    /// Returns the number of messages of a stream that have a MID.
    pub(super) fn begun(&self, stream: StreamId) -> usize {
        self.next.get(&stream).map_or(0, |[ordered, unordered]| ordered.0 as usize + unordered.0 as usize)
    }

    /// True if the next MIDs of all these streams are 0.
    pub(super) fn are_zero(&self, streams: &Streams) -> bool {
        self.next.iter().all(|(stream, next)| !streams.contains(*stream) || *next == [Mid(0); 2])
    }

    /// Frees what is not needed while nothing is outstanding.
    pub(super) fn release_idle(&mut self) {
        self.drop_first(self.sent.len());
        self.sent = VecDeque::new();
    }

    /// Returns the heap bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>()
            + self.next.len() * size_of::<(StreamId, [Mid; 2])>()
            + self.open.len() * size_of::<(StreamId, (Mid, Fsn))>()
            + self.sent.capacity() * size_of::<ChunkNumbers>()
            + self.accounts.as_ref().map_or(0, |accounts| accounts.heap_bytes())
    }
}

/// Returns the numbers of I-DATA chunks, if these are sent.
#[inline]
pub(super) fn state(numbers: &Numbers) -> Option<&Interleaving> {
    numbers.state()?.interleaving.as_deref()
}

/// Returns the numbers of I-DATA chunks, if these are sent.
#[inline]
pub(super) fn state_mut(numbers: &mut Numbers) -> Option<&mut Interleaving> {
    numbers.state_mut()?.interleaving.as_deref_mut()
}

/// True if messages are sent in I-DATA chunks.
#[inline]
pub(super) fn interleaves(outbound: &Outbound) -> bool {
    state(&outbound.numbers).is_some()
}

/// Returns the room of a packet for `bytes` bytes of chunks with user data.
pub(super) fn packet_room(outbound: &Outbound, bytes: u32) -> Room {
    let extra_each = if interleaves(outbound) { EXTRA_LEN as u32 } else { 0 };
    Room { bytes, extra_each }
}

/// Returns the most that chunks of `bytes` bytes can take in a packet. They are counted as DATA chunks, and
/// those of I-DATA have 4 bytes more: the shortest have 24 instead of 20.
pub(crate) fn wire_bytes(outbound: &Outbound, bytes: u32) -> u32 {
    if interleaves(outbound) { bytes.saturating_add(bytes / 5) } else { bytes }
}

/// True if messages can go in I-DATA chunks from now on, or in DATA chunks: nothing of the other kind is outstanding.
pub(crate) fn may_interleave(outbound: &Outbound, wanted: bool) -> bool {
    wanted == interleaves(outbound) || outbound.sent().is_none_or(|sent| sent.outstanding.is_empty())
}

/// Sends messages in I-DATA chunks, or in DATA chunks. Returns false without a change if it differs while anything is
/// outstanding.
#[must_use]
pub(crate) fn set_interleaving(outbound: &mut Outbound, wanted: bool) -> bool {
    if wanted == interleaves(outbound) {
        return true;
    }
    if !may_interleave(outbound, wanted) {
        return false;
    }
    outbound.numbers.state_or_default().interleaving = wanted.then(Box::default);
    if let Some(busy) = &mut outbound.busy {
        busy.queue.set_interleaves(wanted);
    }
    true
}

/// As [`next_new`](Outbound::next_new), for I-DATA, with at most `most` bytes of user data.
pub(super) fn next_new(
    outbound: &mut Outbound,
    now: Time,
    path: PathIndex,
    (space, packet_space): (usize, usize),
    most: usize,
) -> Option<IData<'_>> {
    let number = |numbers: &mut Numbers, message: &mut Message, chunk: NewChunk<'_>| {
        let interleaving = numbers.state_or_default().interleaving.get_or_insert_default();
        let NewChunk { outstanding, len, ends, .. } = chunk;
        interleaving.assign(outstanding, (message.info.stream, message.info.unordered), len, ends)
    };
    let (space, packet_space) = (space.saturating_sub(EXTRA_LEN), packet_space.saturating_sub(EXTRA_LEN));
    let (data, (mid, fsn)) = next_chunk(outbound, now, path, (space, packet_space), most, number)?;
    Some(IData::of(data, mid, fsn))
}

/// Returns the numbers of an outstanding chunk.
pub(super) fn numbers_of(outbound: &Outbound, tsn: Tsn) -> Option<(Mid, Fsn)> {
    state(&outbound.numbers)?.of(tsn)
}

/// The messages that an I-FORWARD-TSN names: the last one of each stream, ordered and unordered.
#[derive(Debug, Default)]
pub(super) struct SkippedMessages(BTreeMap<(StreamId, bool), Mid>);

impl SkippedMessages {
    /// Adds a message; those of a stream are added in their order. Returns false without a change if there would be
    /// more than `max` entries.
    pub(super) fn add(&mut self, message: SkippedMessage, max: usize) -> bool {
        let key = (message.stream, message.unordered);
        if self.0.len() >= max && !self.0.contains_key(&key) {
            return false;
        }
        self.0.insert(key, message.mid);
        true
    }

    /// Appends the chunk.
    pub(super) fn write(&self, packet: &mut PacketBuilder<'_>, point: Tsn) -> bool {
        let entries = self.0.iter();
        let entries = entries.map(|((stream, unordered), mid)| SkippedMessage {
            stream: *stream,
            unordered: *unordered,
            mid: *mid,
        });
        i_forward_tsn::write(packet, point, entries)
    }
}
