//! ECN Capable: the sender supports ECNE and CWR (RFC 4960 appendix A; RFC 9260 reserves the type).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 32768                  │ length = 4                    │
//! └───────────────────────────────┴───────────────────────────────┘
//! ```

use super::raw::RawParameter;
use crate::error::ParameterError;

/// Parameter type of ECN Capable.
pub const KIND: u16 = 0x8000;

pub(super) fn parse(raw: &RawParameter<'_>) -> Result<(), ParameterError> {
    raw.exactly::<0>().map(|_| ())
}
