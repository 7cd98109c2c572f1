//! SACK: reports received TSNs, gaps, duplicates and the receive window (RFC 9260 section 3.3.4).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 3      │ 0             │ length = 16 + 4 * (N + M)     │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ cumulative TSN ack                                            │
//! ├───────────────────────────────────────────────────────────────┤
//! │ advertised receiver window credit (a_rwnd)                    │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ number of gap ack blocks = N  │ number of duplicate TSNs = M  │
//! ├───────────────────────────────┼───────────────────────────────┤
//! │ gap ack block 1 start         │ gap ack block 1 end           │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ gap ack blocks 2 to N                                         ╎
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ duplicate TSNs 1 to M                                         ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::builder::PacketBuilder;
use crate::consts::CHUNK_HEADER_LEN;
use crate::encode::Encode;
use crate::error::ChunkError;
use crate::number::Tsn;

/// Length of the fixed fields in bytes, chunk header excluded.
const FIELDS_LEN: usize = 12;

/// Length of one gap ack block or one duplicate TSN in bytes.
pub(super) const ITEM_LEN: usize = 4;

/// Maximum number of gap ack blocks and duplicate TSNs together that a chunk's 16-bit length allows.
const ITEMS_MAX: usize = (u16::MAX as usize - CHUNK_HEADER_LEN - FIELDS_LEN) / ITEM_LEN;

/// Returns how many gap ack blocks and duplicate TSNs together a chunk of `len` bytes holds, header included.
#[inline]
#[must_use]
pub const fn items_in(len: usize) -> usize {
    len.saturating_sub(CHUNK_HEADER_LEN + FIELDS_LEN) / ITEM_LEN
}

/// A range of TSNs received beyond a gap, as offsets from the cumulative TSN, both ends included. A peer may
/// write any two numbers here.
#[derive(Debug, Copy, Clone, PartialEq, Eq, Default)]
pub struct GapBlock {
    /// Offset of the first TSN.
    pub start: u16,
    /// Offset of the last TSN.
    pub end: u16,
}

impl GapBlock {
    #[inline]
    pub(super) fn from_bytes(&[s0, s1, e0, e1]: &[u8; ITEM_LEN]) -> Self {
        Self { start: u16::from_be_bytes([s0, s1]), end: u16::from_be_bytes([e0, e1]) }
    }

    #[inline]
    pub(super) fn to_bytes(self) -> [u8; ITEM_LEN] {
        let ([s0, s1], [e0, e1]) = (self.start.to_be_bytes(), self.end.to_be_bytes());
        [s0, s1, e0, e1]
    }
}

/// A view of a received SACK chunk and its lists. [`write()`] builds one.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Sack<'a> {
    cumulative_tsn: Tsn,
    a_rwnd: u32,
    gap_blocks: &'a [[u8; ITEM_LEN]],
    duplicates: &'a [[u8; ITEM_LEN]],
}

impl<'a> Sack<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (fields, lists) = raw.at_least::<FIELDS_LEN>()?;
        let [t0, t1, t2, t3, a0, a1, a2, a3, n0, n1, m0, m1] = *fields;
        let gap_blocks = u16::from_be_bytes([n0, n1]);
        let duplicates = u16::from_be_bytes([m0, m1]);
        let wrong = ChunkError::SackCounts { gap_blocks, duplicates, found: lists.len() };
        let (items, rest) = lists.as_chunks::<ITEM_LEN>();
        let (gap_blocks, duplicates) = (usize::from(gap_blocks), usize::from(duplicates));
        if !rest.is_empty() || gap_blocks + duplicates != items.len() {
            return Err(wrong);
        }
        let (gap_blocks, duplicates) = items.split_at_checked(gap_blocks).ok_or(wrong)?;
        Ok(Self {
            cumulative_tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            a_rwnd: u32::from_be_bytes([a0, a1, a2, a3]),
            gap_blocks,
            duplicates,
        })
    }

    /// Returns the Cumulative TSN Ack: this TSN and all before it have been received.
    #[inline]
    #[must_use]
    pub const fn cumulative_tsn(&self) -> Tsn {
        self.cumulative_tsn
    }

    /// Returns the Advertised Receiver Window Credit in bytes.
    #[inline]
    #[must_use]
    pub const fn a_rwnd(&self) -> u32 {
        self.a_rwnd
    }

    /// Returns the Gap Ack Blocks as the peer wrote them: not necessarily sorted, disjoint or even with
    /// `start <= end`.
    #[inline]
    pub fn gap_blocks(
        &self,
    ) -> impl ExactSizeIterator<Item = GapBlock> + DoubleEndedIterator + Clone + use<'a> {
        self.gap_blocks.iter().map(GapBlock::from_bytes)
    }

    /// Returns the TSNs that were received more than once.
    #[inline]
    pub fn duplicates(&self) -> impl ExactSizeIterator<Item = Tsn> + DoubleEndedIterator + Clone + use<'a> {
        self.duplicates.iter().map(|&bytes| Tsn(u32::from_be_bytes(bytes)))
    }
}

impl Encode for Sack<'_> {
    fn kind(&self) -> u8 {
        kind::SACK
    }

    fn value_len(&self) -> usize {
        FIELDS_LEN + ITEM_LEN * (self.gap_blocks.len() + self.duplicates.len())
    }

    fn encode_value(&self, out: &mut [u8]) {
        let counts = (self.gap_blocks.len(), self.duplicates.len());
        let items = self.gap_blocks.iter().chain(self.duplicates).copied();
        encode(out, self.cumulative_tsn, self.a_rwnd, counts, items);
    }
}

/// Appends a SACK to `builder` with as many of `gap_blocks`, then of `duplicates`, as fit. Returns false and
/// writes nothing if not even a SACK without either fits.
///
/// Leaving out gap ack blocks and duplicates for lack of space is harmless: a later SACK reports the gaps
/// again, and duplicates are only a hint.
#[must_use]
pub fn write(
    builder: &mut PacketBuilder<'_>,
    cumulative_tsn: Tsn,
    a_rwnd: u32,
    gap_blocks: impl Iterator<Item = GapBlock> + Clone,
    duplicates: &[Tsn],
) -> bool {
    write_within(builder, usize::MAX, cumulative_tsn, a_rwnd, gap_blocks, duplicates)
}

/// As [`write()`], but limits the chunk to `len_max` bytes, unless even a SACK without blocks is longer than
/// that.
#[must_use]
pub fn write_within(
    builder: &mut PacketBuilder<'_>,
    len_max: usize,
    cumulative_tsn: Tsn,
    a_rwnd: u32,
    gap_blocks: impl Iterator<Item = GapBlock> + Clone,
    duplicates: &[Tsn],
) -> bool {
    let fixed = CHUNK_HEADER_LEN + FIELDS_LEN;
    let Some(room) = builder.remaining().checked_sub(fixed) else { return false };
    let room = room.min(len_max.saturating_sub(fixed));
    let items_max = (room / ITEM_LEN).min(ITEMS_MAX);
    let gap_count = gap_blocks.clone().take(items_max).count();
    let duplicate_count = duplicates.len().min(items_max - gap_count);
    let value_len = FIELDS_LEN + ITEM_LEN * (gap_count + duplicate_count);
    let Some(out) = builder.push_raw(kind::SACK, 0, value_len) else { return false };
    let items = gap_blocks
        .take(gap_count)
        .map(GapBlock::to_bytes)
        .chain(duplicates.iter().take(duplicate_count).map(|tsn| tsn.0.to_be_bytes()));
    encode(out, cumulative_tsn, a_rwnd, (gap_count, duplicate_count), items);
    true
}

/// Encodes a SACK. Both counts are at most `ITEMS_MAX`, so they fit into 16 bits.
fn encode(
    out: &mut [u8],
    cumulative_tsn: Tsn,
    a_rwnd: u32,
    (gap_count, duplicate_count): (usize, usize),
    items: impl Iterator<Item = [u8; ITEM_LEN]>,
) {
    let Some((fields, lists)) = out.split_first_chunk_mut::<FIELDS_LEN>() else { return };
    let [t0, t1, t2, t3] = cumulative_tsn.0.to_be_bytes();
    let [a0, a1, a2, a3] = a_rwnd.to_be_bytes();
    let [n0, n1] = (gap_count as u16).to_be_bytes();
    let [m0, m1] = (duplicate_count as u16).to_be_bytes();
    *fields = [t0, t1, t2, t3, a0, a1, a2, a3, n0, n1, m0, m1];
    let (places, _) = lists.as_chunks_mut::<ITEM_LEN>();
    for (place, item) in places.iter_mut().zip(items) {
        *place = item;
    }
}
