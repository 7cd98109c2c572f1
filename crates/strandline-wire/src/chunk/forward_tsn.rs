//! FORWARD TSN: the sender abandons the missing TSNs up to a new cumulative TSN, and names the ordered messages
//! among them (RFC 3758 section 3.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 192    │ 0             │ length = 8 + 4 * N            │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ new cumulative TSN                                            │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ stream 1                      │ stream sequence 1             │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ streams and stream sequences 2 to N                           ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::builder::PacketBuilder;
use crate::consts::CHUNK_HEADER_LEN;
use crate::encode::Encode;
use crate::error::ChunkError;
use crate::number::{Ssn, StreamId, Tsn};

/// Length of the fixed field in bytes, chunk header excluded.
const FIELDS_LEN: usize = 4;

/// Length of a stream and its SSN in bytes.
const ITEM_LEN: usize = 4;

/// Maximum number of streams that a chunk's 16-bit length allows.
const ITEMS_MAX: usize = (u16::MAX as usize - CHUNK_HEADER_LEN - FIELDS_LEN) / ITEM_LEN;

/// Returns how many streams a FORWARD TSN of `len` bytes holds, header included.
#[inline]
#[must_use]
pub const fn streams_in(len: usize) -> usize {
    let items = len.saturating_sub(CHUNK_HEADER_LEN + FIELDS_LEN) / ITEM_LEN;
    if items < ITEMS_MAX { items } else { ITEMS_MAX }
}

/// A view of a received FORWARD TSN chunk and its list. [`write()`] builds one.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct ForwardTsn<'a> {
    new_cumulative_tsn: Tsn,
    skipped: &'a [[u8; ITEM_LEN]],
}

impl<'a> ForwardTsn<'a> {
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

    /// Returns the streams of ordered messages that are abandoned, each with the highest SSN of these, as the
    /// peer wrote them: in any order, perhaps repeated, perhaps of streams that don't exist.
    #[inline]
    pub fn skipped(
        &self,
    ) -> impl ExactSizeIterator<Item = (StreamId, Ssn)> + DoubleEndedIterator + Clone + use<'a> {
        self.skipped.iter().map(|&[i0, i1, s0, s1]| {
            (StreamId(u16::from_be_bytes([i0, i1])), Ssn(u16::from_be_bytes([s0, s1])))
        })
    }
}

impl Encode for ForwardTsn<'_> {
    fn kind(&self) -> u8 {
        kind::FORWARD_TSN
    }

    fn value_len(&self) -> usize {
        FIELDS_LEN + ITEM_LEN * self.skipped.len()
    }

    fn encode_value(&self, out: &mut [u8]) {
        encode(out, self.new_cumulative_tsn, self.skipped.iter().copied());
    }
}

/// Appends a FORWARD TSN to `builder`. Returns false and writes nothing if it does not fit with all of
/// `skipped`: a list that is cut off would leave the messages that it does not name missing for ever. The
/// caller lowers the new cumulative TSN until the list fits, see [`streams_in`].
#[must_use]
pub fn write(
    builder: &mut PacketBuilder<'_>,
    new_cumulative_tsn: Tsn,
    skipped: impl Iterator<Item = (StreamId, Ssn)> + Clone,
) -> bool {
    let count = skipped.clone().take(ITEMS_MAX + 1).count();
    if count > streams_in(builder.remaining()) {
        return false;
    }
    let Some(out) = builder.push_raw(kind::FORWARD_TSN, 0, FIELDS_LEN + ITEM_LEN * count) else {
        return false;
    };
    let items = skipped.map(|(stream, ssn)| {
        let ([i0, i1], [s0, s1]) = (stream.0.to_be_bytes(), ssn.0.to_be_bytes());
        [i0, i1, s0, s1]
    });
    encode(out, new_cumulative_tsn, items);
    true
}

fn encode(out: &mut [u8], new_cumulative_tsn: Tsn, items: impl Iterator<Item = [u8; ITEM_LEN]>) {
    let Some((fields, list)) = out.split_first_chunk_mut::<FIELDS_LEN>() else { return };
    *fields = new_cumulative_tsn.0.to_be_bytes();
    let (places, _) = list.as_chunks_mut::<ITEM_LEN>();
    for (place, item) in places.iter_mut().zip(items) {
        *place = item;
    }
}
