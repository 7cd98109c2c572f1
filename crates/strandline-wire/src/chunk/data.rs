//! DATA: user data, a whole message or a fragment of one (RFC 9260 section 3.3.1; the I bit: RFC 7053).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────┬─┬─┬─┬─┬───────────────────────────────┐
//! │ type = 0      │ 0     │I│U│B│E│ length = 16 + user data       │
//! ├───────────────┴───────┴─┴─┴─┴─┴───────────────────────────────┤
//! │ TSN                                                           │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ stream identifier             │ stream sequence number        │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ payload protocol identifier                                   │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ user data, at least one byte                                  ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::consts::{CHUNK_HEADER_LEN, DATA_CHUNK_HEADER_LEN};
use crate::encode::{Encode, put};
use crate::error::ChunkError;
use crate::number::{Ppid, Ssn, StreamId, Tsn};

/// Length in bytes of the fields before the user data, chunk header excluded.
const FIELDS_LEN: usize = DATA_CHUNK_HEADER_LEN - CHUNK_HEADER_LEN;

const ENDING: u8 = 1;
const BEGINNING: u8 = 1 << 1;
const UNORDERED: u8 = 1 << 2;
const IMMEDIATE: u8 = 1 << 3;

/// Returns the U, B, E and I bits of a chunk's flags.
#[inline]
pub(super) const fn flags_of(flags: u8) -> [bool; 4] {
    [flags & UNORDERED != 0, flags & BEGINNING != 0, flags & ENDING != 0, flags & IMMEDIATE != 0]
}

/// Returns the flags with these U, B, E and I bits.
#[inline]
pub(super) fn flags_to([unordered, beginning, ending, immediate]: [bool; 4]) -> u8 {
    let bit = |set: bool, mask: u8| if set { mask } else { 0 };
    bit(ending, ENDING) | bit(beginning, BEGINNING) | bit(unordered, UNORDERED) | bit(immediate, IMMEDIATE)
}

/// A DATA chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Data<'a> {
    /// TSN of this fragment.
    pub tsn: Tsn,
    /// Stream of the message.
    pub stream: StreamId,
    /// Number of the message within its stream; without meaning if `unordered`.
    pub ssn: Ssn,
    /// Payload Protocol Identifier: the application's label.
    pub ppid: Ppid,
    /// U bit: the message is delivered without regard to order.
    pub unordered: bool,
    /// B bit: this is the first fragment of its message.
    pub beginning: bool,
    /// E bit: this is the last fragment of its message.
    pub ending: bool,
    /// I bit: the sender asks for a SACK without delay.
    pub immediate: bool,
    /// User data. An empty chunk parses, so that its receiver can answer with No User Data.
    pub payload: &'a [u8],
}

impl<'a> Data<'a> {
    /// Returns a chunk that holds a whole ordered message, with payload protocol identifier 0.
    #[inline]
    #[must_use]
    pub const fn whole(tsn: Tsn, stream: StreamId, ssn: Ssn, payload: &'a [u8]) -> Self {
        Self {
            tsn,
            stream,
            ssn,
            ppid: Ppid(0),
            unordered: false,
            beginning: true,
            ending: true,
            immediate: false,
            payload,
        }
    }

    #[inline]
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (fields, payload) = raw.at_least::<FIELDS_LEN>()?;
        let [t0, t1, t2, t3, s0, s1, n0, n1, p0, p1, p2, p3] = *fields;
        let [unordered, beginning, ending, immediate] = flags_of(raw.flags);
        Ok(Self {
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: StreamId(u16::from_be_bytes([s0, s1])),
            ssn: Ssn(u16::from_be_bytes([n0, n1])),
            ppid: Ppid(u32::from_be_bytes([p0, p1, p2, p3])),
            unordered,
            beginning,
            ending,
            immediate,
            payload,
        })
    }
}

impl Encode for Data<'_> {
    #[inline]
    fn kind(&self) -> u8 {
        kind::DATA
    }

    #[inline]
    fn flags(&self) -> u8 {
        flags_to([self.unordered, self.beginning, self.ending, self.immediate])
    }

    #[inline]
    fn value_len(&self) -> usize {
        FIELDS_LEN + self.payload.len()
    }

    #[inline]
    fn encode_value(&self, out: &mut [u8]) {
        let Some((fields, payload)) = out.split_first_chunk_mut::<FIELDS_LEN>() else { return };
        let [t0, t1, t2, t3] = self.tsn.0.to_be_bytes();
        let [s0, s1] = self.stream.0.to_be_bytes();
        let [n0, n1] = self.ssn.0.to_be_bytes();
        let [p0, p1, p2, p3] = self.ppid.0.to_be_bytes();
        *fields = [t0, t1, t2, t3, s0, s1, n0, n1, p0, p1, p2, p3];
        put(payload, self.payload);
    }
}
