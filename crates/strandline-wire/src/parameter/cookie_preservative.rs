//! Cookie Preservative: asks for a longer cookie lifetime after a stale cookie (RFC 9260 section 3.3.2.1.3).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 9                      │ length = 8                    │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ suggested increment of the cookie's life-span in ms           │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Cookie Preservative.
pub const KIND: u16 = 9;

/// Returns the increment in milliseconds.
pub(super) fn parse(raw: &RawParameter<'_>) -> Result<u32, ParameterError> {
    raw.exactly::<4>().map(|bytes| u32::from_be_bytes(*bytes))
}
