//! PAD: makes an INIT longer and carries nothing (RFC 4820 section 4).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 32773                  │ length = 4 + padding data     │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ padding data, zeros here, any from a peer                     ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::raw::RawParameter;

/// Parameter type of Padding.
pub const KIND: u16 = 0x8005;

/// Returns the length of the padding data in bytes.
pub(super) const fn parse(raw: &RawParameter<'_>) -> usize {
    raw.value.len()
}
