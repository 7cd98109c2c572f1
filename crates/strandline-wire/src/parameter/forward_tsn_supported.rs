//! Forward-TSN-Supported: the sender understands FORWARD TSN (RFC 3758 section 3.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 49152                  │ length = 4                    │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Forward-TSN-Supported.
pub const KIND: u16 = 0xC000;

pub(super) fn parse(raw: &RawParameter<'_>) -> Result<(), ParameterError> {
    raw.exactly::<0>().map(|_| ())
}
