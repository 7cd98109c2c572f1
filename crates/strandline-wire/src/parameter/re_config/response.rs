//! Re-configuration Response: answers a request (RFC 6525 section 4.4).
//!
//! ```text
//!  0               8               16              24           31
//! ┌───────────────────────────────┬───────────────────────────────┐
//! │ type = 16                     │ length = 12 or 20             │
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ re-configuration response sequence number                     │
//! ├───────────────────────────────────────────────────────────────┤
//! │ result                                                        │
//! ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤
//! ╎ sender's next TSN                                             ╎
//! ├╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤
//! ╎ receiver's next TSN                                           ╎
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::super::raw::RawParameter;
use super::put_numbers;
use crate::encode::EncodeTlv;
use crate::error::ParameterError;
use crate::number::{RequestNumber, Tsn};

/// Parameter type of Re-configuration Response.
pub const KIND: u16 = 16;

/// The Result field (table 3). A peer may send any number.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct ResultCode(pub u32);

impl ResultCode {
    /// Success: there was nothing to do.
    pub const NOTHING_TO_DO: Self = Self(0);
    /// Success: the request was performed.
    pub const PERFORMED: Self = Self(1);
    /// The peer does not want to perform the request.
    pub const DENIED: Self = Self(2);
    /// Error: wrong SSN, which peers send for streams that do not exist.
    pub const WRONG_SSN: Self = Self(3);
    /// Error: another request is already in progress.
    pub const ALREADY_IN_PROGRESS: Self = Self(4);
    /// Error: bad sequence number.
    pub const BAD_SEQUENCE_NUMBER: Self = Self(5);
    /// The request is in progress: another response follows.
    pub const IN_PROGRESS: Self = Self(6);

    /// Returns the RFC's description, or `None` for a number that it doesn't list.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::NOTHING_TO_DO => "nothing to do",
            Self::PERFORMED => "performed",
            Self::DENIED => "denied",
            Self::WRONG_SSN => "wrong SSN",
            Self::ALREADY_IN_PROGRESS => "request already in progress",
            Self::BAD_SEQUENCE_NUMBER => "bad sequence number",
            Self::IN_PROGRESS => "in progress",
            _ => return None,
        })
    }

    /// Returns whether the request succeeded.
    #[must_use]
    pub const fn is_success(self) -> bool {
        matches!(self, Self::NOTHING_TO_DO | Self::PERFORMED)
    }
}

/// The TSNs after a reset of SSNs and TSNs.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct NextTsns {
    /// The TSN of the next DATA chunk of the response's sender.
    pub sender: Tsn,
    /// The TSN of the next DATA chunk of the response's receiver.
    pub receiver: Tsn,
}

/// A Re-configuration Response parameter.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub struct Response {
    /// Sequence number of the request that this answers.
    pub response: RequestNumber,
    /// What became of the request.
    pub result: ResultCode,
    /// The next TSNs; only in a response to an SSN/TSN Reset Request.
    pub next_tsns: Option<NextTsns>,
}

impl Response {
    /// Returns a response without TSNs.
    #[must_use]
    pub const fn new(response: RequestNumber, result: ResultCode) -> Self {
        Self { response, result, next_tsns: None }
    }

    pub(super) fn parse(raw: &RawParameter<'_>) -> Result<Self, ParameterError> {
        let numbers = |response, result| {
            Self::new(RequestNumber(u32::from_be_bytes(response)), ResultCode(u32::from_be_bytes(result)))
        };
        match *raw.value {
            [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p] => {
                let sender = Tsn(u32::from_be_bytes([i, j, k, l]));
                let receiver = Tsn(u32::from_be_bytes([m, n, o, p]));
                let next_tsns = Some(NextTsns { sender, receiver });
                Ok(Self { next_tsns, ..numbers([a, b, c, d], [e, f, g, h]) })
            }
            _ => {
                let &[a, b, c, d, e, f, g, h] = raw.exactly::<8>()?;
                Ok(numbers([a, b, c, d], [e, f, g, h]))
            }
        }
    }
}

impl EncodeTlv for Response {
    fn kind(&self) -> u16 {
        KIND
    }
    fn value_len(&self) -> usize {
        if self.next_tsns.is_some() { 16 } else { 8 }
    }
    fn encode_value(&self, out: &mut [u8]) {
        match self.next_tsns {
            None => put_numbers(out, &[self.response.0, self.result.0], &[]),
            Some(NextTsns { sender, receiver }) => {
                put_numbers(out, &[self.response.0, self.result.0, sender.0, receiver.0], &[]);
            }
        }
    }
}
