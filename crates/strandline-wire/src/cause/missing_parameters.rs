//! Missing Mandatory Parameter: an INIT or INIT ACK lacks a parameter (RFC 9260 section 3.3.10.2).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ cause code = 2                │ cause length = 8 + 2 * N      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ number of missing parameters = N                              │
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ missing parameter type 1      │ missing parameter type 2      │
//! ├───────────────────────────────┴───────────────────────────────┤
//! ╎ missing parameter types 3 to N                                ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use core::fmt;

use super::raw::RawCause;
use crate::encode::put;
use crate::error::CauseError;
use crate::parameter::kind::{HMAC_ALGO, RANDOM, STATE_COOKIE};

/// Cause code of Missing Mandatory Parameter.
pub const CODE: u16 = 2;

/// Length of the parameter count in bytes.
const COUNT_LEN: usize = 4;

/// Length of one parameter type in bytes.
const ELEMENT_LEN: usize = 2;

/// List of the missing parameters' types.
#[derive(Copy, Clone, PartialEq, Eq)]
pub struct MissingParameters<'a> {
    types: &'a [[u8; ELEMENT_LEN]],
}

impl MissingParameters<'static> {
    /// State Cookie, the only parameter that RFC 9260 makes mandatory (in INIT ACK).
    pub const STATE_COOKIE: Self = Self { types: &[STATE_COOKIE.to_be_bytes()] };
    /// The parameters that every endpoint with authentication sends (RFC 4895 section 6.1).
    pub const AUTHENTICATION: Self = Self { types: &[RANDOM.to_be_bytes(), HMAC_ALGO.to_be_bytes()] };
}

impl<'a> MissingParameters<'a> {
    pub(super) fn parse(raw: &RawCause<'a>) -> Result<Self, CauseError> {
        let (count, list) = raw.at_least::<COUNT_LEN>()?;
        let count = u32::from_be_bytes(*count);
        match list.as_chunks() {
            (types, []) if u32::try_from(types.len()) == Ok(count) => Ok(Self { types }),
            _ => Err(CauseError::Count { count, found: list.len() }),
        }
    }

    /// Returns the parameter types in the order in which they are listed.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u16> + Clone + use<'a> {
        self.types.iter().map(|&bytes| u16::from_be_bytes(bytes))
    }

    pub(super) const fn value_len(&self) -> usize {
        COUNT_LEN + ELEMENT_LEN * self.types.len()
    }

    pub(super) fn encode_value(&self, out: &mut [u8]) {
        let Some((count, list)) = out.split_first_chunk_mut::<COUNT_LEN>() else { return };
        // The list fits into a cause, so its count fits into 16 bits.
        *count = (self.types.len() as u32).to_be_bytes();
        put(list, self.types.as_flattened());
    }
}

impl fmt::Debug for MissingParameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
