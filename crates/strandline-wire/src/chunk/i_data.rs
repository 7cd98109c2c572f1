//! I-DATA: a fragment of a user message that may be interleaved with others (RFC 8260 section 2.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────┬─┬─┬─┬─┬───────────────────────────────┐
//! │ type = 64     │       │I│U│B│E│ length                        │
//! ├───────────────┴───────┴─┴─┴─┴─┴───────────────────────────────┤
//! │ TSN                                                           │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ stream identifier             │ 0                             │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ message identifier                                            │
//! ├───────────────────────────────────────────────────────────────┤
//! │ B: payload protocol identifier; otherwise: fragment sequence  │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ user data, at least one byte                                  ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::data::{Data, flags_of, flags_to};
use super::kind;
use super::raw::RawChunk;
use crate::consts::{CHUNK_HEADER_LEN, I_DATA_CHUNK_HEADER_LEN};
use crate::encode::{Encode, put};
use crate::error::ChunkError;
use crate::number::{Fsn, Mid, Ppid, Ssn, StreamId, Tsn};

/// Length in bytes of the fields before the user data, chunk header excluded.
const FIELDS_LEN: usize = I_DATA_CHUNK_HEADER_LEN - CHUNK_HEADER_LEN;

/// An I-DATA chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct IData<'a> {
    /// TSN of this fragment.
    pub tsn: Tsn,
    /// Stream of the message.
    pub stream: StreamId,
    /// Number of the message among the ordered ones of its stream, or among the unordered ones.
    pub mid: Mid,
    /// Number of the fragment within its message. The first one has 0, which is not carried.
    pub fsn: Fsn,
    /// Payload Protocol Identifier: the application's label. Carried by the first fragment only, and 0 in others.
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

impl<'a> IData<'a> {
    /// Converts a DATA chunk: the numbers take the place of its SSN.
    #[inline]
    #[must_use]
    pub const fn of(data: Data<'a>, mid: Mid, fsn: Fsn) -> Self {
        let Data { tsn, stream, ppid, unordered, beginning, ending, immediate, payload, .. } = data;
        let (fsn, ppid) = if beginning { (Fsn(0), ppid) } else { (fsn, Ppid(0)) };
        Self { tsn, stream, mid, fsn, ppid, unordered, beginning, ending, immediate, payload }
    }

    /// Returns a chunk that holds a whole ordered message, with payload protocol identifier 0.
    #[must_use]
    pub const fn whole(tsn: Tsn, stream: StreamId, mid: Mid, payload: &'a [u8]) -> Self {
        Self::of(Data::whole(tsn, stream, Ssn(0), payload), mid, Fsn(0))
    }

    #[inline]
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (fields, payload) = raw.at_least::<FIELDS_LEN>()?;
        let [t0, t1, t2, t3, s0, s1, _, _, m0, m1, m2, m3, p0, p1, p2, p3] = *fields;
        let [unordered, beginning, ending, immediate] = flags_of(raw.flags);
        let last = u32::from_be_bytes([p0, p1, p2, p3]);
        let (fsn, ppid) = if beginning { (0, last) } else { (last, 0) };
        Ok(Self {
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            stream: StreamId(u16::from_be_bytes([s0, s1])),
            mid: Mid(u32::from_be_bytes([m0, m1, m2, m3])),
            fsn: Fsn(fsn),
            ppid: Ppid(ppid),
            unordered,
            beginning,
            ending,
            immediate,
            payload,
        })
    }
}

impl Encode for IData<'_> {
    #[inline]
    fn kind(&self) -> u8 {
        kind::I_DATA
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
        let [m0, m1, m2, m3] = self.mid.0.to_be_bytes();
        let last = if self.beginning { self.ppid.0 } else { self.fsn.0 };
        let [p0, p1, p2, p3] = last.to_be_bytes();
        *fields = [t0, t1, t2, t3, s0, s1, 0, 0, m0, m1, m2, m3, p0, p1, p2, p3];
        put(payload, self.payload);
    }
}
