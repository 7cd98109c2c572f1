//! Error Cause Indication: the request with this correlation ID was refused (RFC 5061 section 4.2.3).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 0xC003                 │ length = 8 + causes           │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ ASCONF-response correlation ID                                │
//! ├───────────────────────────────────────────────────────────────┤
//! ╎ error causes                                                  ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Error Cause Indication.
pub const KIND: u16 = 0xc003;

/// Returns the correlation ID and the bytes of the causes.
pub(super) fn parse<'a>(raw: &RawParameter<'a>) -> Result<(u32, &'a [u8]), ParameterError> {
    let (id, causes) = raw.at_least::<4>()?;
    Ok((u32::from_be_bytes(*id), causes))
}
