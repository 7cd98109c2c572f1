//! Invalid Stream Identifier: a DATA chunk used a stream that doesn't exist (RFC 9260 section 3.3.10.1).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 1                │ cause length = 8              │
//! ├───────────────────────────────┼───────────────────────────────┤
//! │ stream identifier             │ 0                             │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawCause;
use crate::error::CauseError;
use crate::number::StreamId;

/// Cause code of Invalid Stream Identifier.
pub const CODE: u16 = 1;

pub(super) fn parse(raw: &RawCause<'_>) -> Result<StreamId, CauseError> {
    let [s0, s1, _, _] = *raw.exactly()?;
    Ok(StreamId(u16::from_be_bytes([s0, s1])))
}
