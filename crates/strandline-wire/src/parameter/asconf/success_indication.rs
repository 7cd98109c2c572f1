//! Success Indication: the request with this correlation ID was performed (RFC 5061 section 4.2.5).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 0xC005                 │ length = 8                    │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ ASCONF-response correlation ID                                │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Success Indication.
pub const KIND: u16 = 0xc005;

/// Returns the correlation ID.
pub(super) fn parse(raw: &RawParameter<'_>) -> Result<u32, ParameterError> {
    raw.exactly::<4>().map(|id| u32::from_be_bytes(*id))
}
