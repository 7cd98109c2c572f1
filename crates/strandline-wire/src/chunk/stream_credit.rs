//! STREAM CREDIT: how far the peer may send on streams (docs/stream-credit.md section 3.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 188    │ 0             │ length = 8 + 12 * N           │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ cumulative TSN                                                │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ stream 1                      │ 0                             │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ bytes accepted on stream 1 up to the cumulative TSN           │
//! ├───────────────────────────────────────────────────────────────┤
//! │ limit of the bytes accepted on stream 1                       │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ entries 2 to N                                                ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::builder::PacketBuilder;
use crate::consts::CHUNK_HEADER_LEN;
use crate::encode::Encode;
use crate::error::ChunkError;
use crate::number::{StreamId, Tsn};

/// Length of the fixed field in bytes, chunk header excluded.
const FIELDS_LEN: usize = 4;

/// Length of an entry in bytes.
const ITEM_LEN: usize = 12;

/// Maximum number of entries that a chunk's 16-bit length allows.
const ITEMS_MAX: usize = (u16::MAX as usize - CHUNK_HEADER_LEN - FIELDS_LEN) / ITEM_LEN;

/// The credit of a stream. Bytes are those of user data since the set-up, modulo 2^32.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Credit {
    /// The stream.
    pub stream: StreamId,
    /// Bytes that were accepted up to the chunk's cumulative TSN.
    pub accepted: u32,
    /// The largest value that the bytes accepted on the stream may reach.
    pub limit: u32,
}

/// Returns how many entries a STREAM CREDIT chunk of `len` bytes holds, header included.
#[inline]
#[must_use]
pub const fn entries_in(len: usize) -> usize {
    let items = len.saturating_sub(CHUNK_HEADER_LEN + FIELDS_LEN) / ITEM_LEN;
    if items < ITEMS_MAX { items } else { ITEMS_MAX }
}

/// Returns the length of a STREAM CREDIT chunk with `entries` entries, header included.
#[inline]
#[must_use]
pub const fn len_of(entries: usize) -> usize {
    CHUNK_HEADER_LEN + FIELDS_LEN + ITEM_LEN * entries
}

/// A view of a received STREAM CREDIT chunk and its list. [`write()`] builds one. Reserved bits don't count in
/// comparisons.
#[derive(Debug, Copy, Clone)]
pub struct StreamCredit<'a> {
    cumulative_tsn: Tsn,
    credits: &'a [[u8; ITEM_LEN]],
}

impl<'a> StreamCredit<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (fields, list) = raw.at_least::<FIELDS_LEN>()?;
        let (credits, []) = list.as_chunks::<ITEM_LEN>() else {
            return Err(ChunkError::NotAMultiple { kind: raw.kind, element: ITEM_LEN, found: list.len() });
        };
        Ok(Self { cumulative_tsn: Tsn(u32::from_be_bytes(*fields)), credits })
    }

    /// Returns the Cumulative TSN that the counts of accepted bytes refer to.
    #[inline]
    #[must_use]
    pub const fn cumulative_tsn(&self) -> Tsn {
        self.cumulative_tsn
    }

    /// Returns the credits as the peer wrote them: in any order, perhaps repeated, perhaps of streams that don't exist.
    #[inline]
    pub fn credits(&self) -> impl ExactSizeIterator<Item = Credit> + DoubleEndedIterator + Clone + use<'a> {
        self.credits.iter().map(|&[i0, i1, _, _, a0, a1, a2, a3, l0, l1, l2, l3]| Credit {
            stream: StreamId(u16::from_be_bytes([i0, i1])),
            accepted: u32::from_be_bytes([a0, a1, a2, a3]),
            limit: u32::from_be_bytes([l0, l1, l2, l3]),
        })
    }
}

impl PartialEq for StreamCredit<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cumulative_tsn == other.cumulative_tsn && self.credits().eq(other.credits())
    }
}

impl Eq for StreamCredit<'_> {}

impl Encode for StreamCredit<'_> {
    fn kind(&self) -> u8 {
        kind::STREAM_CREDIT
    }

    fn value_len(&self) -> usize {
        FIELDS_LEN + ITEM_LEN * self.credits.len()
    }

    fn encode_value(&self, out: &mut [u8]) {
        encode(out, self.cumulative_tsn, self.credits());
    }
}

/// Appends a STREAM CREDIT chunk to `builder` with as many of `credits` as fit. Returns their number; none are written,
/// and no chunk, if there is no room for one.
pub fn write(
    builder: &mut PacketBuilder<'_>,
    cumulative_tsn: Tsn,
    credits: impl ExactSizeIterator<Item = Credit>,
) -> usize {
    let count = credits.len().min(entries_in(builder.remaining()));
    if count == 0 {
        return 0;
    }
    let Some(out) = builder.push_raw(kind::STREAM_CREDIT, 0, FIELDS_LEN + ITEM_LEN * count) else { return 0 };
    encode(out, cumulative_tsn, credits);
    count
}

fn encode(out: &mut [u8], cumulative_tsn: Tsn, credits: impl Iterator<Item = Credit>) {
    let Some((fields, list)) = out.split_first_chunk_mut::<FIELDS_LEN>() else { return };
    *fields = cumulative_tsn.0.to_be_bytes();
    let (places, _) = list.as_chunks_mut::<ITEM_LEN>();
    for (place, Credit { stream, accepted, limit }) in places.iter_mut().zip(credits) {
        let ([i0, i1], [a0, a1, a2, a3]) = (stream.0.to_be_bytes(), accepted.to_be_bytes());
        let [l0, l1, l2, l3] = limit.to_be_bytes();
        *place = [i0, i1, 0, 0, a0, a1, a2, a3, l0, l1, l2, l3];
    }
}
