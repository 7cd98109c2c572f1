//! STREAM BLOCKED: streams with data that their credit has no room for (docs/stream-credit.md section 3.3).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 189    │ 0             │ length = 4 + 2 * N            │
//! ├───────────────┴───────────────┼───────────────────────────────┤
//! │ stream 1                      │ stream 2                      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ streams 3 to N                                                ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::builder::PacketBuilder;
use crate::consts::CHUNK_HEADER_LEN;
use crate::encode::Encode;
use crate::error::ChunkError;
use crate::number::StreamId;

/// Length of an entry in bytes.
const ITEM_LEN: usize = 2;

/// Maximum number of entries that a chunk's 16-bit length allows.
const ITEMS_MAX: usize = (u16::MAX as usize - CHUNK_HEADER_LEN) / ITEM_LEN;

/// A view of a received STREAM BLOCKED chunk and its list. [`write()`] builds one.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct StreamBlocked<'a> {
    streams: &'a [[u8; ITEM_LEN]],
}

impl<'a> StreamBlocked<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        match raw.value.as_chunks::<ITEM_LEN>() {
            (streams, []) => Ok(Self { streams }),
            _ => {
                let found = raw.value.len();
                Err(ChunkError::NotAMultiple { kind: raw.kind, element: ITEM_LEN, found })
            }
        }
    }

    /// Returns the streams as the peer wrote them: in any order, perhaps repeated, perhaps ones that don't exist.
    #[inline]
    pub fn streams(&self) -> impl ExactSizeIterator<Item = StreamId> + DoubleEndedIterator + Clone + use<'a> {
        self.streams.iter().map(|bytes| StreamId(u16::from_be_bytes(*bytes)))
    }
}

impl Encode for StreamBlocked<'_> {
    fn kind(&self) -> u8 {
        kind::STREAM_BLOCKED
    }

    fn value_len(&self) -> usize {
        ITEM_LEN * self.streams.len()
    }

    fn encode_value(&self, out: &mut [u8]) {
        encode(out, self.streams());
    }
}

/// Appends a STREAM BLOCKED chunk to `builder` with as many of `streams` as fit. Returns their number; none
/// are written, and no chunk, if there is no room for one.
pub fn write(builder: &mut PacketBuilder<'_>, streams: impl ExactSizeIterator<Item = StreamId>) -> usize {
    let room = builder.remaining().saturating_sub(CHUNK_HEADER_LEN) / ITEM_LEN;
    let count = streams.len().min(room).min(ITEMS_MAX);
    if count == 0 {
        return 0;
    }
    let Some(out) = builder.push_raw(kind::STREAM_BLOCKED, 0, ITEM_LEN * count) else { return 0 };
    encode(out, streams);
    count
}

fn encode(out: &mut [u8], streams: impl Iterator<Item = StreamId>) {
    let (places, _) = out.as_chunks_mut::<ITEM_LEN>();
    for (place, stream) in places.iter_mut().zip(streams) {
        *place = stream.0.to_be_bytes();
    }
}
