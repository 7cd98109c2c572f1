//! Error causes of ERROR and ABORT chunks (RFC 9260 section 3.3.10): one file for each code, with its
//! diagram.

pub mod code;
mod cookie_while_shutting_down;
mod delete_last_address;
mod delete_source_address;
mod illegal_asconf_ack;
mod invalid_mandatory_parameter;
mod invalid_stream;
mod missing_parameters;
mod no_authorization;
mod no_user_data;
mod out_of_resource;
mod protocol_violation;
mod raw;
mod resource_shortage;
mod restart_with_new_addresses;
mod restart_with_new_encapsulation_port;
mod stale_cookie;
mod unrecognised_chunk;
mod unrecognised_parameters;
mod unresolvable_address;
mod unsupported_hmac;
mod user_initiated_abort;

pub use missing_parameters::MissingParameters;
pub use raw::{CauseIter, Causes, RawCause};

use crate::encode::{EncodeTlv, put};
use crate::error::CauseError;
use crate::number::{StreamId, Tsn};
use crate::parameter::Parameters;

/// An error cause: its content if the code is known, otherwise its raw form.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Cause<'a> {
    /// A DATA chunk used a stream that doesn't exist.
    InvalidStream {
        /// Stream identifier of the DATA chunk.
        stream: StreamId,
    },
    /// An INIT or INIT ACK lacks parameters.
    MissingParameters(MissingParameters<'a>),
    /// The cookie is genuine but has expired.
    StaleCookie {
        /// Time since the cookie expired, in microseconds; 0 if the sender doesn't report it.
        staleness_us: u32,
    },
    /// The sender lacks the resources for the association.
    OutOfResource,
    /// A whole address parameter (type, length and value) that the sender can't use.
    UnresolvableAddress(&'a [u8]),
    /// A whole chunk (type, flags, length and value) of a type that the sender doesn't know.
    UnrecognisedChunk(&'a [u8]),
    /// A field of an INIT or INIT ACK has a forbidden value.
    InvalidMandatoryParameter,
    /// Parameters of an INIT ACK that the sender of this cause doesn't know.
    UnrecognisedParameters(Parameters<'a>),
    /// A DATA chunk carried no user data.
    NoUserData {
        /// TSN of the DATA chunk.
        tsn: Tsn,
    },
    /// A COOKIE ECHO arrived for an association in SHUTDOWN-ACK-SENT.
    CookieWhileShuttingDown,
    /// Addresses that the refused INIT would have added to the association.
    RestartWithNewAddresses(Parameters<'a>),
    /// The application aborted the association. Holds its reason, which may be any bytes.
    UserInitiatedAbort(&'a [u8]),
    /// The peer broke a rule that has no cause of its own. Holds additional information, which may be any
    /// bytes.
    ProtocolViolation(&'a [u8]),
    /// An INIT came from a different encapsulation port than the packets of the association that it would
    /// restart.
    RestartWithNewEncapsulationPort {
        /// UDP encapsulation port of the association; 0 without encapsulation.
        current: u16,
        /// UDP encapsulation port of the INIT; 0 without encapsulation.
        new: u16,
    },
    /// An AUTH chunk used an algorithm that its receiver has not listed.
    UnsupportedHmac {
        /// The HMAC Identifier of the AUTH chunk.
        hmac: u16,
    },
    /// An ASCONF asked to delete the only address of its sender: the refused parameter.
    DeleteLastAddress(Parameters<'a>),
    /// The sender lacks the resources for what an ASCONF asked for: the refused parameter.
    ResourceShortage(Parameters<'a>),
    /// An ASCONF asked to delete the address that it came from: the refused parameter.
    DeleteSourceAddress(Parameters<'a>),
    /// The sender does not allow what an ASCONF asked for: the refused parameter.
    NoAuthorization(Parameters<'a>),
    /// An ASCONF-ACK answered nothing that was sent.
    IllegalAsconfAck,
    /// A cause whose code this crate doesn't know.
    Unknown(RawCause<'a>),
}

impl<'a> RawCause<'a> {
    /// Parses the cause's content.
    ///
    /// # Errors
    /// If the length of the cause-specific information isn't the one that the code prescribes.
    pub fn parse(&self) -> Result<Cause<'a>, CauseError> {
        Ok(match self.code {
            code::INVALID_STREAM => Cause::InvalidStream { stream: invalid_stream::parse(self)? },
            code::MISSING_PARAMETERS => Cause::MissingParameters(MissingParameters::parse(self)?),
            code::STALE_COOKIE => Cause::StaleCookie { staleness_us: stale_cookie::parse(self)? },
            code::OUT_OF_RESOURCE => {
                out_of_resource::parse(self)?;
                Cause::OutOfResource
            }
            code::UNRESOLVABLE_ADDRESS => Cause::UnresolvableAddress(unresolvable_address::parse(self)),
            code::UNRECOGNISED_CHUNK => Cause::UnrecognisedChunk(unrecognised_chunk::parse(self)),
            code::INVALID_MANDATORY_PARAMETER => {
                invalid_mandatory_parameter::parse(self)?;
                Cause::InvalidMandatoryParameter
            }
            code::UNRECOGNISED_PARAMETERS => {
                Cause::UnrecognisedParameters(unrecognised_parameters::parse(self))
            }
            code::NO_USER_DATA => Cause::NoUserData { tsn: no_user_data::parse(self)? },
            code::COOKIE_WHILE_SHUTTING_DOWN => {
                cookie_while_shutting_down::parse(self)?;
                Cause::CookieWhileShuttingDown
            }
            code::RESTART_WITH_NEW_ADDRESSES => {
                Cause::RestartWithNewAddresses(restart_with_new_addresses::parse(self))
            }
            code::USER_INITIATED_ABORT => Cause::UserInitiatedAbort(user_initiated_abort::parse(self)),
            code::PROTOCOL_VIOLATION => Cause::ProtocolViolation(protocol_violation::parse(self)),
            code::RESTART_WITH_NEW_ENCAPSULATION_PORT => {
                let (current, new) = restart_with_new_encapsulation_port::parse(self)?;
                Cause::RestartWithNewEncapsulationPort { current, new }
            }
            code::UNSUPPORTED_HMAC => Cause::UnsupportedHmac { hmac: unsupported_hmac::parse(self)? },
            code::DELETE_LAST_ADDRESS => Cause::DeleteLastAddress(delete_last_address::parse(self)),
            code::RESOURCE_SHORTAGE => Cause::ResourceShortage(resource_shortage::parse(self)),
            code::DELETE_SOURCE_ADDRESS => Cause::DeleteSourceAddress(delete_source_address::parse(self)),
            code::NO_AUTHORIZATION => Cause::NoAuthorization(no_authorization::parse(self)),
            code::ILLEGAL_ASCONF_ACK => {
                illegal_asconf_ack::parse(self)?;
                Cause::IllegalAsconfAck
            }
            _ => Cause::Unknown(*self),
        })
    }
}

impl EncodeTlv for Cause<'_> {
    fn kind(&self) -> u16 {
        match self {
            Self::InvalidStream { .. } => code::INVALID_STREAM,
            Self::MissingParameters(_) => code::MISSING_PARAMETERS,
            Self::StaleCookie { .. } => code::STALE_COOKIE,
            Self::OutOfResource => code::OUT_OF_RESOURCE,
            Self::UnresolvableAddress(_) => code::UNRESOLVABLE_ADDRESS,
            Self::UnrecognisedChunk(_) => code::UNRECOGNISED_CHUNK,
            Self::InvalidMandatoryParameter => code::INVALID_MANDATORY_PARAMETER,
            Self::UnrecognisedParameters(_) => code::UNRECOGNISED_PARAMETERS,
            Self::NoUserData { .. } => code::NO_USER_DATA,
            Self::CookieWhileShuttingDown => code::COOKIE_WHILE_SHUTTING_DOWN,
            Self::RestartWithNewAddresses(_) => code::RESTART_WITH_NEW_ADDRESSES,
            Self::UserInitiatedAbort(_) => code::USER_INITIATED_ABORT,
            Self::ProtocolViolation(_) => code::PROTOCOL_VIOLATION,
            Self::RestartWithNewEncapsulationPort { .. } => code::RESTART_WITH_NEW_ENCAPSULATION_PORT,
            Self::UnsupportedHmac { .. } => code::UNSUPPORTED_HMAC,
            Self::DeleteLastAddress(_) => code::DELETE_LAST_ADDRESS,
            Self::ResourceShortage(_) => code::RESOURCE_SHORTAGE,
            Self::DeleteSourceAddress(_) => code::DELETE_SOURCE_ADDRESS,
            Self::NoAuthorization(_) => code::NO_AUTHORIZATION,
            Self::IllegalAsconfAck => code::ILLEGAL_ASCONF_ACK,
            Self::Unknown(raw) => raw.code,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Self::InvalidStream { .. }
            | Self::StaleCookie { .. }
            | Self::NoUserData { .. }
            | Self::RestartWithNewEncapsulationPort { .. } => 4,
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieWhileShuttingDown
            | Self::IllegalAsconfAck => 0,
            Self::UnsupportedHmac { .. } => 2,
            Self::MissingParameters(missing) => missing.value_len(),
            Self::UnrecognisedParameters(parameters)
            | Self::RestartWithNewAddresses(parameters)
            | Self::DeleteLastAddress(parameters)
            | Self::ResourceShortage(parameters)
            | Self::DeleteSourceAddress(parameters)
            | Self::NoAuthorization(parameters) => parameters.as_bytes().len(),
            Self::UnresolvableAddress(bytes)
            | Self::UnrecognisedChunk(bytes)
            | Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes) => bytes.len(),
            Self::Unknown(raw) => raw.value.len(),
        }
    }

    fn encode_value(&self, out: &mut [u8]) {
        match self {
            Self::InvalidStream { stream } => {
                let [s0, s1] = stream.0.to_be_bytes();
                put(out, &[s0, s1, 0, 0]);
            }
            Self::StaleCookie { staleness_us } => put(out, &staleness_us.to_be_bytes()),
            Self::NoUserData { tsn } => put(out, &tsn.0.to_be_bytes()),
            Self::UnsupportedHmac { hmac } => put(out, &hmac.to_be_bytes()),
            Self::RestartWithNewEncapsulationPort { current, new } => {
                let ([c0, c1], [n0, n1]) = (current.to_be_bytes(), new.to_be_bytes());
                put(out, &[c0, c1, n0, n1]);
            }
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieWhileShuttingDown
            | Self::IllegalAsconfAck => {}
            Self::MissingParameters(missing) => missing.encode_value(out),
            Self::UnrecognisedParameters(parameters)
            | Self::RestartWithNewAddresses(parameters)
            | Self::DeleteLastAddress(parameters)
            | Self::ResourceShortage(parameters)
            | Self::DeleteSourceAddress(parameters)
            | Self::NoAuthorization(parameters) => {
                put(out, parameters.as_bytes());
            }
            Self::UnresolvableAddress(bytes)
            | Self::UnrecognisedChunk(bytes)
            | Self::UserInitiatedAbort(bytes)
            | Self::ProtocolViolation(bytes) => put(out, bytes),
            Self::Unknown(raw) => put(out, raw.value),
        }
    }
}

#[cfg(test)]
mod tests;
