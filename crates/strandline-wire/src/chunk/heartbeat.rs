//! HEARTBEAT: probes whether a path works (RFC 9260 section 3.3.5). HEARTBEAT ACK has the same content: see
//! [`HeartbeatAck`](super::HeartbeatAck).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────┬───────────────┬───────────────────────────────┐
//! │ type = 4      │ 0             │ length = 8 + info             │
//! ├───────────────┴───────────────┼───────────────────────────────┤
//! │ parameter type = 1            │ parameter length = 4 + bytes  │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ info: only its sender understands it                          ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::kind;
use super::raw::RawChunk;
use crate::consts::TLV_HEADER_LEN;
use crate::encode::{Encode, put};
use crate::error::{ChunkError, FramingError};
use crate::parameter::kind::HEARTBEAT_INFO;
use crate::tlv::Tlvs;

/// The content of HEARTBEAT and HEARTBEAT ACK.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Heartbeat<'a> {
    /// Value of the Heartbeat Info parameter; at most 65,527 bytes.
    pub info: &'a [u8],
}

impl<'a> Heartbeat<'a> {
    pub(crate) fn parse(raw: &RawChunk<'a>) -> Result<Self, ChunkError> {
        let kind = raw.kind;
        let missing = Err(FramingError::HeaderTruncated { remaining: 0 });
        let parameter = Tlvs::new(raw.value)
            .next()
            .unwrap_or(missing)
            .map_err(|error| ChunkError::Framing { kind, error })?;
        if parameter.kind != HEARTBEAT_INFO {
            return Err(ChunkError::NotHeartbeatInfo { kind, parameter: parameter.kind });
        }
        Ok(Self { info: parameter.value })
    }
}

/// Encodes a HEARTBEAT. Wrap the value in [`HeartbeatAck`](super::HeartbeatAck) to encode a HEARTBEAT ACK.
impl Encode for Heartbeat<'_> {
    fn kind(&self) -> u8 {
        kind::HEARTBEAT
    }

    fn value_len(&self) -> usize {
        TLV_HEADER_LEN + self.info.len()
    }

    fn encode_value(&self, out: &mut [u8]) {
        let Some((header, info)) = out.split_first_chunk_mut::<TLV_HEADER_LEN>() else { return };
        let [k0, k1] = HEARTBEAT_INFO.to_be_bytes();
        // The chunk's length is four more than this and fits into 16 bits: the builder has checked it.
        let [l0, l1] = (self.value_len() as u16).to_be_bytes();
        *header = [k0, k1, l0, l1];
        put(info, self.info);
    }
}
