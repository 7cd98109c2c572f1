//! NR-SACK: a SACK that also says which TSNs beyond a gap the peer never revokes (draft-tuexen-tsvwg-sctp-multipath
//! section 4.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 16     │ 0             │ length = 20 + 4 * (N + M + X) │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ cumulative TSN ack                                            │
//! ├───────────────────────────────────────────────────────────────┤
//! │ advertised receiver window credit (a_rwnd)                    │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ number of R gap ack blocks = N│number of NR gap ack blocks = M│
//! ├───────────────────────────────┼───────────────────────────────┤
//! │ number of duplicate TSNs = X  │ reserved = 0                  │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ R (renegable) gap ack blocks 1 to N                           ╎
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ NR (non-renegable) gap ack blocks 1 to M                      ╎
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ duplicate TSNs 1 to X                                         ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use super::sack::{GapBlock, ITEM_LEN};
use crate::builder::PacketBuilder;
use crate::consts::CHUNK_HEADER_LEN;
use crate::encode::Encode;
use crate::error::ChunkError;
use crate::number::Tsn;

/// Length of the fixed fields in bytes, chunk header excluded.
const FIELDS_LEN: usize = 16;

/// Maximum number of blocks and duplicate TSNs together that a chunk's 16-bit length allows.
const ITEMS_MAX: usize = (u16::MAX as usize - CHUNK_HEADER_LEN - FIELDS_LEN) / ITEM_LEN;

/// Returns how many gap ack blocks and duplicate TSNs together a chunk of `len` bytes holds, header included.
#[must_use]
pub const fn items_in(len: usize) -> usize {
    len.saturating_sub(CHUNK_HEADER_LEN + FIELDS_LEN) / ITEM_LEN
}

/// A view of a received NR-SACK chunk and its lists. [`write_within()`] builds one.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct NrSack<'a> {
    cumulative_tsn: Tsn,
    a_rwnd: u32,
    /// Renegable blocks, non-renegable blocks, duplicates.
    items: &'a [[u8; ITEM_LEN]],
    /// Number of renegable blocks.
    renegable: u16,
    /// Number of non-renegable blocks.
    non_renegable: u16,
}

impl<'a> NrSack<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (fields, lists) = raw.at_least::<FIELDS_LEN>()?;
        let [t0, t1, t2, t3, a0, a1, a2, a3, n0, n1, m0, m1, x0, x1, _, _] = *fields;
        let renegable = u16::from_be_bytes([n0, n1]);
        let non_renegable = u16::from_be_bytes([m0, m1]);
        let duplicates = u16::from_be_bytes([x0, x1]);
        let (items, rest) = lists.as_chunks::<ITEM_LEN>();
        let counted = [renegable, non_renegable, duplicates].map(usize::from).iter().sum::<usize>();
        if !rest.is_empty() || counted != items.len() {
            return Err(ChunkError::NrSackCounts {
                renegable,
                non_renegable,
                duplicates,
                found: lists.len(),
            });
        }
        Ok(Self {
            cumulative_tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            a_rwnd: u32::from_be_bytes([a0, a1, a2, a3]),
            items,
            renegable,
            non_renegable,
        })
    }

    /// Returns the Cumulative TSN Ack: this TSN and all before it have been received.
    #[must_use]
    pub const fn cumulative_tsn(&self) -> Tsn {
        self.cumulative_tsn
    }

    /// Returns the Advertised Receiver Window Credit in bytes.
    #[must_use]
    pub const fn a_rwnd(&self) -> u32 {
        self.a_rwnd
    }

    /// Returns the blocks of both kinds as the peer wrote them: not necessarily sorted, disjoint or even with
    /// `start <= end`.
    pub fn gap_blocks(
        &self,
    ) -> impl ExactSizeIterator<Item = GapBlock> + DoubleEndedIterator + Clone + use<'a> {
        let count = usize::from(self.renegable) + usize::from(self.non_renegable);
        self.items.get(..count).unwrap_or_default().iter().map(GapBlock::from_bytes)
    }

    /// Returns the blocks of TSNs that the peer never revokes, as it wrote them.
    pub fn non_renegable(
        &self,
    ) -> impl ExactSizeIterator<Item = GapBlock> + DoubleEndedIterator + Clone + use<'a> {
        let (start, count) = (usize::from(self.renegable), usize::from(self.non_renegable));
        self.items.get(start..start + count).unwrap_or_default().iter().map(GapBlock::from_bytes)
    }

    /// Returns the TSNs that were received more than once.
    pub fn duplicates(&self) -> impl ExactSizeIterator<Item = Tsn> + DoubleEndedIterator + Clone + use<'a> {
        let start = usize::from(self.renegable) + usize::from(self.non_renegable);
        let items = self.items.get(start..).unwrap_or_default();
        items.iter().map(|&bytes| Tsn(u32::from_be_bytes(bytes)))
    }
}

impl Encode for NrSack<'_> {
    fn kind(&self) -> u8 {
        kind::NR_SACK
    }

    fn value_len(&self) -> usize {
        FIELDS_LEN + ITEM_LEN * self.items.len()
    }

    fn encode_value(&self, out: &mut [u8]) {
        let (renegable, non_renegable) = (usize::from(self.renegable), usize::from(self.non_renegable));
        let counts = [renegable, non_renegable, self.duplicates().len()];
        encode(out, self.cumulative_tsn, self.a_rwnd, counts, self.items.iter().copied());
    }
}

/// Appends an NR-SACK of at most `len_max` bytes to `builder`, unless even one without blocks is longer than that, with
/// as many of the `renegable` blocks, then of the `non_renegable` ones, then of `duplicates`, as fit. Returns false and
/// writes nothing if not even an NR-SACK without any fits.
///
/// What is left out for lack of space is reported by a later one.
#[must_use]
pub fn write_within(
    builder: &mut PacketBuilder<'_>,
    len_max: usize,
    (cumulative_tsn, a_rwnd): (Tsn, u32),
    renegable: impl Iterator<Item = GapBlock> + Clone,
    non_renegable: impl Iterator<Item = GapBlock> + Clone,
    duplicates: &[Tsn],
) -> bool {
    let fixed = CHUNK_HEADER_LEN + FIELDS_LEN;
    let Some(room) = builder.remaining().checked_sub(fixed) else { return false };
    let room = room.min(len_max.saturating_sub(fixed));
    let items_max = (room / ITEM_LEN).min(ITEMS_MAX);
    let renegable_count = renegable.clone().take(items_max).count();
    let non_renegable_count = non_renegable.clone().take(items_max - renegable_count).count();
    let duplicate_count = duplicates.len().min(items_max - renegable_count - non_renegable_count);
    let counts = [renegable_count, non_renegable_count, duplicate_count];
    let value_len = FIELDS_LEN + ITEM_LEN * counts.iter().sum::<usize>();
    let Some(out) = builder.push_raw(kind::NR_SACK, 0, value_len) else { return false };
    let blocks = renegable.take(renegable_count).chain(non_renegable.take(non_renegable_count));
    let duplicates = duplicates.iter().take(duplicate_count).map(|tsn| tsn.0.to_be_bytes());
    encode(out, cumulative_tsn, a_rwnd, counts, blocks.map(GapBlock::to_bytes).chain(duplicates));
    true
}

/// Encodes an NR-SACK. All counts together are at most `ITEMS_MAX`, so each fits into 16 bits.
fn encode(
    out: &mut [u8],
    cumulative_tsn: Tsn,
    a_rwnd: u32,
    counts: [usize; 3],
    items: impl Iterator<Item = [u8; ITEM_LEN]>,
) {
    let Some((fields, lists)) = out.split_first_chunk_mut::<FIELDS_LEN>() else { return };
    let [t0, t1, t2, t3] = cumulative_tsn.0.to_be_bytes();
    let [a0, a1, a2, a3] = a_rwnd.to_be_bytes();
    let [[n0, n1], [m0, m1], [x0, x1]] = counts.map(|count| (count as u16).to_be_bytes());
    *fields = [t0, t1, t2, t3, a0, a1, a2, a3, n0, n1, m0, m1, x0, x1, 0, 0];
    let (places, _) = lists.as_chunks_mut::<ITEM_LEN>();
    for (place, item) in places.iter_mut().zip(items) {
        *place = item;
    }
}
