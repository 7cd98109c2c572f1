//! Supported Extensions: chunk types of extensions that the sender supports (RFC 5061 section 4.2.7).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 32776                  │ length = 4 + number of types  │
//! ├───────────────┬───────────────┼───────────────┬───────────────┤
//! │ chunk type 1  │ chunk type 2  │ ...           │ padding       │
//! └───────────────┴───────────────┴───────────────┴───────────────┘
//! ```

use super::raw::RawParameter;

/// Parameter type of Supported Extensions.
pub const KIND: u16 = 0x8008;

pub(super) const fn parse<'a>(raw: &RawParameter<'a>) -> &'a [u8] {
    raw.value
}
