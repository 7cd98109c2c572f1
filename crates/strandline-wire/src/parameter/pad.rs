//! PAD: makes an INIT larger and carries nothing (RFC 4820 section 4).
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

/// Type of the Padding parameter.
pub const KIND: u16 = 0x8005;

/// Gives the bytes of padding data.
pub(super) const fn parse(raw: &RawParameter<'_>) -> usize {
    raw.value.len()
}
