//! Adaptation Layer Indication: which protocol stands between SCTP and the application (RFC 5061 section
//! 4.2.6). Appears only in INIT and INIT ACK.
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 0xC006                 │ length = 8                    │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ adaptation code point                                         │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Adaptation Layer Indication.
pub const KIND: u16 = 0xc006;

/// Returns the code point.
pub(super) fn parse(raw: &RawParameter<'_>) -> Result<u32, ParameterError> {
    raw.exactly::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}
