//! Chunk List (CHUNKS): chunk types that the sender accepts only if they are authenticated (RFC 4895 section 3.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 32771                  │ length = 4 + number of types  │
//! ├───────────────┬───────────────┼───────────────┬───────────────┤
//! │ chunk type 1  │ chunk type 2  │ ...           │ padding       │
//! └───────────────┴───────────────┴───────────────┴───────────────┘
//! ```

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Chunk List.
pub const KIND: u16 = 0x8003;

/// Maximum number of chunk types: the parameter has at most 260 bytes.
pub const TYPES_MAX: usize = 256;

/// Returns the chunk types as listed.
pub(super) const fn parse<'a>(raw: &RawParameter<'a>) -> Result<&'a [u8], ParameterError> {
    if raw.value.len() > TYPES_MAX {
        return Err(ParameterError::TooLong { kind: raw.kind, maximum: TYPES_MAX, found: raw.value.len() });
    }
    Ok(raw.value)
}
