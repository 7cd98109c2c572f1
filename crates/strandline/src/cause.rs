//! Error causes by name.

use std::fmt;

/// An error cause: why the peer aborted the association, or what it reports in an ERROR chunk (RFC 9260 section
/// 3.3.10).
///
/// ```
/// use strandline::ErrorCause;
///
/// assert_eq!(ErrorCause::from_code(12), ErrorCause::UserInitiatedAbort);
/// assert_eq!(ErrorCause::UserInitiatedAbort.code(), 12);
/// assert_eq!(ErrorCause::from_code(4711), ErrorCause::Unknown(4711));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorCause {
    /// The chunk has no cause, as in the answer of a host with no listener on the SCTP port.
    None,
    /// DATA arrived on a stream that doesn't exist.
    InvalidStreamIdentifier,
    /// An INIT or INIT ACK lacks a mandatory parameter.
    MissingMandatoryParameter,
    /// The State Cookie has expired.
    StaleCookie,
    /// The peer lacks memory or another resource.
    OutOfResource,
    /// An address in the INIT or INIT ACK can't be resolved, such as a host name.
    UnresolvableAddress,
    /// The peer doesn't recognize a chunk type whose upper bits request a report.
    UnrecognizedChunkType,
    /// A mandatory parameter has a value that is not permitted, such as a number of streams of 0.
    InvalidMandatoryParameter,
    /// The peer doesn't recognize parameters whose types' upper bits request a report.
    UnrecognizedParameters,
    /// A DATA chunk had no user data.
    NoUserData,
    /// The peer was shutting down when it received the COOKIE ECHO.
    CookieReceivedWhileShuttingDown,
    /// A restart that adds addresses, which is not permitted.
    RestartWithNewAddresses,
    /// The peer's application aborted the association.
    UserInitiatedAbort,
    /// The peer found a violation of the protocol.
    ProtocolViolation,
    /// A restart from another UDP port, which is not permitted (draft-ietf-tsvwg-udp-encaps-cons).
    RestartWithNewEncapsulationPort,
    /// ASCONF asked to delete the last address (RFC 5061).
    RequestToDeleteLastAddress,
    /// ASCONF was refused for lack of resources (RFC 5061).
    RefusedForResourceShortage,
    /// ASCONF asked to delete the address that it came from (RFC 5061).
    RequestToDeleteSourceAddress,
    /// An ASCONF-ACK answered no request that was made (RFC 5061).
    IllegalAsconfAck,
    /// ASCONF was refused because the sender is not authorized to request it (RFC 5061).
    RequestNotAuthorized,
    /// The peer doesn't support the HMAC identifier of an AUTH chunk (RFC 4895).
    UnsupportedHmacIdentifier,
    /// A cause code that has no variant here.
    Unknown(u16),
}

/// Every named cause with its code and its description.
const NAMED: [(u16, ErrorCause, &str); 20] = [
    (1, ErrorCause::InvalidStreamIdentifier, "invalid stream identifier"),
    (2, ErrorCause::MissingMandatoryParameter, "missing mandatory parameter"),
    (3, ErrorCause::StaleCookie, "stale cookie"),
    (4, ErrorCause::OutOfResource, "out of resource"),
    (5, ErrorCause::UnresolvableAddress, "unresolvable address"),
    (6, ErrorCause::UnrecognizedChunkType, "unrecognized chunk type"),
    (7, ErrorCause::InvalidMandatoryParameter, "invalid mandatory parameter"),
    (8, ErrorCause::UnrecognizedParameters, "unrecognized parameters"),
    (9, ErrorCause::NoUserData, "no user data"),
    (10, ErrorCause::CookieReceivedWhileShuttingDown, "cookie received while shutting down"),
    (11, ErrorCause::RestartWithNewAddresses, "restart with new addresses"),
    (12, ErrorCause::UserInitiatedAbort, "aborted by its user"),
    (13, ErrorCause::ProtocolViolation, "protocol violation"),
    (14, ErrorCause::RestartWithNewEncapsulationPort, "restart with a new encapsulation port"),
    (160, ErrorCause::RequestToDeleteLastAddress, "request to delete the last address"),
    (161, ErrorCause::RefusedForResourceShortage, "refused for resource shortage"),
    (162, ErrorCause::RequestToDeleteSourceAddress, "request to delete the source address"),
    (163, ErrorCause::IllegalAsconfAck, "illegal ASCONF-ACK"),
    (164, ErrorCause::RequestNotAuthorized, "request not authorized"),
    (261, ErrorCause::UnsupportedHmacIdentifier, "unsupported HMAC identifier"),
];

impl ErrorCause {
    /// Returns the cause with a code; [`None`](Self::None) for 0, which is no cause's code.
    #[must_use]
    pub fn from_code(code: u16) -> Self {
        if code == 0 {
            return Self::None;
        }
        let found = NAMED.iter().find(|(known, ..)| *known == code);
        found.map_or(Self::Unknown(code), |(_, cause, _)| *cause)
    }

    /// Returns the cause's code; 0 for [`None`](Self::None).
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Unknown(code) => code,
            named => NAMED.iter().find(|(_, cause, _)| *cause == named).map_or(0, |(code, ..)| *code),
        }
    }
}

impl fmt::Display for ErrorCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("no reason given"),
            Self::Unknown(code) => write!(f, "unknown cause {code}"),
            named => {
                let name = NAMED.iter().find(|(_, cause, _)| cause == named).map_or("", |(.., name)| name);
                f.write_str(name)
            }
        }
    }
}

#[cfg(test)]
mod tests;
