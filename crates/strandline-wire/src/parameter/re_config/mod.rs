//! Parameters of a RE-CONFIG chunk (RFC 6525 section 4): one file for each, with its diagram. They occur in no other
//! chunk, so that [`Parameter`](super::Parameter) leaves them unknown.

mod add_incoming_streams;
mod add_outgoing_streams;
mod combination;
mod incoming_ssn_reset;
mod outgoing_ssn_reset;
mod response;
mod ssn_tsn_reset;
mod stream_list;

pub use add_incoming_streams::AddIncomingStreams;
pub use add_outgoing_streams::AddOutgoingStreams;
pub use combination::{Combination, CombinationError};
pub use incoming_ssn_reset::IncomingSsnReset;
pub use outgoing_ssn_reset::OutgoingSsnReset;
pub use response::{NextTsns, Response, ResultCode};
pub use ssn_tsn_reset::SsnTsnReset;
pub use stream_list::StreamList;

use super::raw::RawParameter;
use crate::encode::EncodeTlv;
use crate::error::ParameterError;
use crate::number::RequestNumber;

/// Parameter types of a RE-CONFIG chunk (RFC 6525 section 4, table 2).
pub mod kind {
    pub use super::add_incoming_streams::KIND as ADD_INCOMING_STREAMS;
    pub use super::add_outgoing_streams::KIND as ADD_OUTGOING_STREAMS;
    pub use super::incoming_ssn_reset::KIND as INCOMING_SSN_RESET;
    pub use super::outgoing_ssn_reset::KIND as OUTGOING_SSN_RESET;
    pub use super::response::KIND as RESPONSE;
    pub use super::ssn_tsn_reset::KIND as SSN_TSN_RESET;
}

/// A parameter of a RE-CONFIG chunk.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum ReConfigParameter<'a> {
    /// The sender resets some or all of its outgoing streams.
    OutgoingSsnReset(OutgoingSsnReset<'a>),
    /// Asks the receiver to reset some or all of its outgoing streams.
    IncomingSsnReset(IncomingSsnReset<'a>),
    /// Asks for a reset of the TSNs and of the SSNs of all streams in both directions.
    SsnTsnReset(SsnTsnReset),
    /// Answers a request.
    Response(Response),
    /// The sender adds outgoing streams.
    AddOutgoingStreams(AddOutgoingStreams),
    /// Asks the receiver to add outgoing streams.
    AddIncomingStreams(AddIncomingStreams),
}

impl<'a> RawParameter<'a> {
    /// Parses the content of a parameter of a RE-CONFIG chunk. Returns `None` for any other type.
    ///
    /// # Errors
    /// If the length of the value isn't one that the type prescribes.
    pub fn parse_re_config(&self) -> Option<Result<ReConfigParameter<'a>, ParameterError>> {
        Some(match self.kind {
            kind::OUTGOING_SSN_RESET => {
                OutgoingSsnReset::parse(self).map(ReConfigParameter::OutgoingSsnReset)
            }
            kind::INCOMING_SSN_RESET => {
                IncomingSsnReset::parse(self).map(ReConfigParameter::IncomingSsnReset)
            }
            kind::SSN_TSN_RESET => SsnTsnReset::parse(self).map(ReConfigParameter::SsnTsnReset),
            kind::RESPONSE => Response::parse(self).map(ReConfigParameter::Response),
            kind::ADD_OUTGOING_STREAMS => {
                AddOutgoingStreams::parse(self).map(ReConfigParameter::AddOutgoingStreams)
            }
            kind::ADD_INCOMING_STREAMS => {
                AddIncomingStreams::parse(self).map(ReConfigParameter::AddIncomingStreams)
            }
            _ => return None,
        })
    }
}

impl ReConfigParameter<'_> {
    /// Returns the Re-configuration Request Sequence Number of a request; `None` for a response.
    #[must_use]
    pub const fn request(&self) -> Option<RequestNumber> {
        match self {
            Self::OutgoingSsnReset(reset) => Some(reset.request),
            Self::IncomingSsnReset(reset) => Some(reset.request),
            Self::SsnTsnReset(reset) => Some(reset.request),
            Self::AddOutgoingStreams(add) => Some(add.request),
            Self::AddIncomingStreams(add) => Some(add.request),
            Self::Response(_) => None,
        }
    }

    /// Calls `f` with the parameter as the type that encodes it.
    fn with<R>(&self, f: impl FnOnce(&dyn EncodeTlv) -> R) -> R {
        match self {
            Self::OutgoingSsnReset(parameter) => f(parameter),
            Self::IncomingSsnReset(parameter) => f(parameter),
            Self::SsnTsnReset(parameter) => f(parameter),
            Self::Response(parameter) => f(parameter),
            Self::AddOutgoingStreams(parameter) => f(parameter),
            Self::AddIncomingStreams(parameter) => f(parameter),
        }
    }
}

impl EncodeTlv for ReConfigParameter<'_> {
    fn kind(&self) -> u16 {
        self.with(|parameter| parameter.kind())
    }
    fn value_len(&self) -> usize {
        self.with(|parameter| parameter.value_len())
    }
    fn encode_value(&self, out: &mut [u8]) {
        self.with(|parameter| parameter.encode_value(out));
    }
}

/// Writes `numbers` one after another, and `rest` behind them.
fn put_numbers(out: &mut [u8], numbers: &[u32], rest: &[u8]) {
    let at = 4 * numbers.len();
    if let Some((head, tail)) = out.split_at_mut_checked(at) {
        for (place, number) in head.as_chunks_mut().0.iter_mut().zip(numbers) {
            *place = number.to_be_bytes();
        }
        crate::encode::put(tail, rest);
    }
}

#[cfg(test)]
mod tests;
