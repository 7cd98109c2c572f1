//! INIT: asks for an association (RFC 9260 section 3.3.2). INIT ACK has the same fields: see
//! [`InitAck`](super::InitAck).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 1      │ 0             │ length = 20 + parameters      │
//! ├───────────────┴───────────────┴───────────────────────────────┤
//! │ initiate tag, not 0                                           │
//! ├───────────────────────────────────────────────────────────────┤
//! │ advertised receiver window credit (a_rwnd), at least 1,500    │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ number of outbound streams    │ number of inbound streams     │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ initial TSN                                                   │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ parameters                                                    ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::encode::{Encode, put};
use crate::error::ChunkError;
use crate::number::{Tsn, VerificationTag};
use crate::parameter::Parameters;

/// Length of the fixed fields in bytes, chunk header excluded.
const FIELDS_LEN: usize = 16;

/// The content of INIT and INIT ACK. Values that RFC 9260 forbids (tag 0, no streams, a small window) parse,
/// because the answer to them depends on the association's state.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Init<'a> {
    /// Verification Tag that every packet to the sender of this chunk must carry.
    pub initiate_tag: VerificationTag,
    /// The sender's receive buffer in bytes.
    pub a_rwnd: u32,
    /// Number of streams that the sender wants to send on.
    pub outbound_streams: u16,
    /// Number of streams that the sender allows its peer to send on.
    pub inbound_streams: u16,
    /// TSN of the sender's first DATA chunk.
    pub initial_tsn: Tsn,
    /// Optional and variable-length parameters.
    pub parameters: Parameters<'a>,
}

impl<'a> Init<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let (fields, parameters) = raw.at_least::<FIELDS_LEN>()?;
        let [t0, t1, t2, t3, a0, a1, a2, a3, o0, o1, i0, i1, n0, n1, n2, n3] = *fields;
        Ok(Self {
            initiate_tag: VerificationTag(u32::from_be_bytes([t0, t1, t2, t3])),
            a_rwnd: u32::from_be_bytes([a0, a1, a2, a3]),
            outbound_streams: u16::from_be_bytes([o0, o1]),
            inbound_streams: u16::from_be_bytes([i0, i1]),
            initial_tsn: Tsn(u32::from_be_bytes([n0, n1, n2, n3])),
            parameters: Parameters::new(parameters),
        })
    }
}

/// Encodes an INIT. Wrap the value in [`InitAck`](super::InitAck) to encode an INIT ACK.
impl Encode for Init<'_> {
    fn kind(&self) -> u8 {
        kind::INIT
    }

    fn value_len(&self) -> usize {
        FIELDS_LEN + self.parameters.as_bytes().len()
    }

    fn encode_value(&self, out: &mut [u8]) {
        let Some((fields, parameters)) = out.split_first_chunk_mut::<FIELDS_LEN>() else { return };
        let [t0, t1, t2, t3] = self.initiate_tag.0.to_be_bytes();
        let [a0, a1, a2, a3] = self.a_rwnd.to_be_bytes();
        let [o0, o1] = self.outbound_streams.to_be_bytes();
        let [i0, i1] = self.inbound_streams.to_be_bytes();
        let [n0, n1, n2, n3] = self.initial_tsn.0.to_be_bytes();
        *fields = [t0, t1, t2, t3, a0, a1, a2, a3, o0, o1, i0, i1, n0, n1, n2, n3];
        put(parameters, self.parameters.as_bytes());
    }
}
