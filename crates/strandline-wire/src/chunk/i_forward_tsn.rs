//! I-FORWARD-TSN: the sender abandons the missing TSNs of I-DATA chunks up to a new cumulative TSN, and names the
//! messages among them (RFC 8260 section 2.3.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 194    │ 0             │ length = 8 + 8 * N            │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ new cumulative TSN                                            │
//! ├───────────────────────────────┬─────────────────────────────┬─┤
//! │ stream 1                      │ 0                           │U│
//! ├───────────────────────────────┴─────────────────────────────┴─┤
//! │ message identifier 1                                          │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ streams and message identifiers 2 to N                        ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::builder::PacketBuilder;
use crate::consts::CHUNK_HEADER_LEN;
use crate::encode::Encode;
use crate::error::ChunkError;
use crate::number::{Mid, StreamId, Tsn};

/// Length of the fixed field in bytes, chunk header excluded.
const FIELDS_LEN: usize = 4;

/// Length in bytes of a stream, its U bit and its message identifier.
const ITEM_LEN: usize = 8;

/// Maximum number of entries that a chunk's 16-bit length allows.
const ITEMS_MAX: usize = (u16::MAX as usize - CHUNK_HEADER_LEN - FIELDS_LEN) / ITEM_LEN;

/// The last one of the messages that are abandoned among the ordered or unordered ones of a stream.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct SkippedMessage {
    /// The stream.
    pub stream: StreamId,
    /// U bit: the identifier is one of an unordered message.
    pub unordered: bool,
    /// The identifier.
    pub mid: Mid,
}

/// Returns how many entries an I-FORWARD-TSN of `len` bytes holds, header included.
#[inline]
#[must_use]
pub const fn entries_in(len: usize) -> usize {
    let items = len.saturating_sub(CHUNK_HEADER_LEN + FIELDS_LEN) / ITEM_LEN;
    if items < ITEMS_MAX { items } else { ITEMS_MAX }
}

/// A view of a received I-FORWARD-TSN chunk and its list. [`write()`] builds one. Reserved bits don't count in
/// comparisons.
#[derive(Debug, Copy, Clone)]
pub struct IForwardTsn<'a> {
    new_cumulative_tsn: Tsn,
    skipped: &'a [[u8; ITEM_LEN]],
}

impl<'a> IForwardTsn<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (fields, list) = raw.at_least::<FIELDS_LEN>()?;
        let (skipped, []) = list.as_chunks::<ITEM_LEN>() else {
            return Err(ChunkError::NotAMultiple { kind: raw.kind, element: ITEM_LEN, found: list.len() });
        };
        Ok(Self { new_cumulative_tsn: Tsn(u32::from_be_bytes(*fields)), skipped })
    }

    /// Returns the New Cumulative TSN: of the TSNs up to this one, those that are missing are abandoned.
    #[inline]
    #[must_use]
    pub const fn new_cumulative_tsn(&self) -> Tsn {
        self.new_cumulative_tsn
    }

    /// Returns the streams of messages that are abandoned, each with the highest identifier of these, as the peer wrote
    /// them: in any order, perhaps repeated, perhaps of streams that don't exist. The 15 reserved bits are ignored.
    #[inline]
    pub fn skipped(
        &self,
    ) -> impl ExactSizeIterator<Item = SkippedMessage> + DoubleEndedIterator + Clone + use<'a> {
        self.skipped.iter().map(|&[i0, i1, _, flags, m0, m1, m2, m3]| SkippedMessage {
            stream: StreamId(u16::from_be_bytes([i0, i1])),
            unordered: flags & 1 != 0,
            mid: Mid(u32::from_be_bytes([m0, m1, m2, m3])),
        })
    }
}

impl PartialEq for IForwardTsn<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.new_cumulative_tsn == other.new_cumulative_tsn && self.skipped().eq(other.skipped())
    }
}

impl Eq for IForwardTsn<'_> {}

impl Encode for IForwardTsn<'_> {
    fn kind(&self) -> u8 {
        kind::I_FORWARD_TSN
    }

    fn value_len(&self) -> usize {
        FIELDS_LEN + ITEM_LEN * self.skipped.len()
    }

    fn encode_value(&self, out: &mut [u8]) {
        encode(out, self.new_cumulative_tsn, self.skipped());
    }
}

/// Appends an I-FORWARD-TSN to `builder`. Returns false and writes nothing if it does not fit with all of `skipped`: a
/// list that is cut off would leave the messages that it does not name missing for ever. The caller lowers the new
/// cumulative TSN until the list fits, see [`entries_in`].
#[must_use]
pub fn write(
    builder: &mut PacketBuilder<'_>,
    new_cumulative_tsn: Tsn,
    skipped: impl Iterator<Item = SkippedMessage> + Clone,
) -> bool {
    let count = skipped.clone().take(ITEMS_MAX + 1).count();
    if count > entries_in(builder.remaining()) {
        return false;
    }
    let Some(out) = builder.push_raw(kind::I_FORWARD_TSN, 0, FIELDS_LEN + ITEM_LEN * count) else {
        return false;
    };
    encode(out, new_cumulative_tsn, skipped);
    true
}

fn encode(out: &mut [u8], new_cumulative_tsn: Tsn, skipped: impl Iterator<Item = SkippedMessage>) {
    let Some((fields, list)) = out.split_first_chunk_mut::<FIELDS_LEN>() else { return };
    *fields = new_cumulative_tsn.0.to_be_bytes();
    let (places, _) = list.as_chunks_mut::<ITEM_LEN>();
    for (place, SkippedMessage { stream, unordered, mid }) in places.iter_mut().zip(skipped) {
        let ([i0, i1], [m0, m1, m2, m3]) = (stream.0.to_be_bytes(), mid.0.to_be_bytes());
        *place = [i0, i1, 0, u8::from(unordered), m0, m1, m2, m3];
    }
}
