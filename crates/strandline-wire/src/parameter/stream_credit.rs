//! Stream Credit: the sender grants credit for each stream, and the peer's initial one (docs/stream-credit.md section
//! 3.1). Appears only in INIT and INIT ACK, at most once.
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 48220                  │ length = 8                    │
//! ├───────────────────────────────┼───────────────────────────────┤
//! │ initial credit, units of 1 KiB│ 0                             │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of Stream Credit.
pub const KIND: u16 = 0xBC5C;

/// Returns the initial credit in units of 1,024 bytes. The reserved field is ignored.
pub(super) fn parse(raw: &RawParameter<'_>) -> Result<u16, ParameterError> {
    raw.exactly::<4>().map(|[high, low, _, _]| u16::from_be_bytes([*high, *low]))
}
