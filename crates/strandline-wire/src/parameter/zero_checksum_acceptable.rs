//! Zero Checksum Acceptable: the sender accepts packets whose checksum is zero, because it detects errors by
//! another method (RFC 9653 section 4). Appears only in INIT and INIT ACK, at most once.
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 32769                  │ length = 8                    │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ error detection method identifier (EDMID): 1 SCTP over DTLS   │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Zero Checksum Acceptable.
pub const KIND: u16 = 0x8001;

/// EDMID of SCTP over DTLS (RFC 9653 section 6). 0 is reserved; no other is assigned.
pub const EDMID_SCTP_OVER_DTLS: u32 = 1;

/// Returns the EDMID, assigned or not.
pub(super) fn parse(raw: &RawParameter<'_>) -> Result<u32, ParameterError> {
    raw.exactly::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}
