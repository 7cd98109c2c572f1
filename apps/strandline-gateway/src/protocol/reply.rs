//! The first message of the side that accepts a stream.

use std::fmt;
use std::io;
use std::net::SocketAddr;

use super::fields::{ADDRESS, HeaderReader, HeaderWriter, Malformed, TEXT, read_address, skip};

/// Why there is no connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Reason {
    /// ECONNREFUSED.
    Refused = 1,
    /// EHOSTUNREACH.
    HostUnreachable = 2,
    /// ENETUNREACH.
    NetworkUnreachable = 3,
    /// ETIMEDOUT.
    TimedOut = 4,
    /// The name has no address.
    NameNotFound = 5,
    /// The rules of the far side don't allow the destination.
    NotAllowed = 6,
    /// A limit of the far side is reached.
    Limit = 7,
    /// The far side doesn't understand the request.
    NotSupported = 8,
    /// EADDRINUSE, when listening.
    AddressInUse = 9,
    /// Any other error.
    Other = 10,
    /// No association with the peer. Never sent.
    NoAssociation = 11,
    /// The far side ends, or another process takes its place.
    Ending = 12,
}

const REASONS: [Reason; 11] = [
    Reason::Refused,
    Reason::HostUnreachable,
    Reason::NetworkUnreachable,
    Reason::TimedOut,
    Reason::NameNotFound,
    Reason::NotAllowed,
    Reason::Limit,
    Reason::NotSupported,
    Reason::AddressInUse,
    Reason::Other,
    Reason::Ending,
];

impl Reason {
    /// Returns the reason for which connecting or listening failed.
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::HostUnreachable => Self::HostUnreachable,
            io::ErrorKind::NetworkUnreachable => Self::NetworkUnreachable,
            io::ErrorKind::TimedOut => Self::TimedOut,
            io::ErrorKind::AddrInUse => Self::AddressInUse,
            io::ErrorKind::PermissionDenied => Self::NotAllowed,
            _ => Self::Other,
        }
    }

    /// Returns whether a gateway has refused by itself; otherwise connecting has failed.
    pub(crate) const fn is_of_gateway(self) -> bool {
        match self {
            Self::NotAllowed | Self::Limit | Self::NotSupported | Self::NoAssociation | Self::Ending => true,
            Self::Refused
            | Self::HostUnreachable
            | Self::NetworkUnreachable
            | Self::TimedOut
            | Self::NameNotFound
            | Self::AddressInUse
            | Self::Other => false,
        }
    }

    /// Returns the word for logs and metrics.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::HostUnreachable => "host_unreachable",
            Self::NetworkUnreachable => "network_unreachable",
            Self::TimedOut => "timed_out",
            Self::NameNotFound => "name_not_found",
            Self::NotAllowed => "not_allowed",
            Self::Limit => "limit",
            Self::NotSupported => "not_supported",
            Self::AddressInUse => "address_in_use",
            Self::Other => "failed",
            Self::NoAssociation => "no_association",
            Self::Ending => "ending",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "connection refused",
            Self::HostUnreachable => "no route to host",
            Self::NetworkUnreachable => "network is unreachable",
            Self::TimedOut => "connection timed out",
            Self::NameNotFound => "the name has no address",
            Self::NotAllowed => "the far gateway does not allow this destination",
            Self::Limit => "a limit of the far gateway is reached",
            Self::NotSupported => "the far gateway does not support this request",
            Self::AddressInUse => "address already in use",
            Self::Other => "connecting failed",
            Self::Ending => "the far gateway ends",
            Self::NoAssociation => "no association with the far gateway",
        })
    }
}

/// The answer to an opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    /// There is a connection, or a socket that listens at this address.
    Done { at: Option<SocketAddr> },
    /// There is none; the text is for logs.
    Failed { reason: Reason, text: Box<str> },
}

impl Reply {
    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Done { at } => {
                let mut header = HeaderWriter::new(0, 0);
                if let Some(at) = at {
                    header.address(ADDRESS, *at);
                }
                header.finish(&[])
            }
            Self::Failed { reason, text } => {
                let mut header = HeaderWriter::new(*reason as u8, 0);
                header.field(TEXT, &[text.as_bytes()]);
                header.finish(&[])
            }
        }
    }

    /// Parses a message. Returns the reply and the length of its header. Reasons that this side doesn't know are
    /// [`Reason::Other`].
    ///
    /// # Errors
    /// If the message is malformed, or has something that the receiver must know and doesn't.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(Self, usize), Malformed> {
        let mut header = HeaderReader::new(bytes)?;
        let (mut at, mut text) = (None, "".into());
        while let Some((kind, value)) = header.next()? {
            match kind {
                ADDRESS => at = Some(read_address(kind, value)?),
                TEXT => text = String::from_utf8_lossy(value).into(),
                other => skip(other)?,
            }
        }
        let reply = match header.kind {
            0 => Self::Done { at },
            code => {
                let reason = REASONS.into_iter().find(|reason| *reason as u8 == code);
                Self::Failed { reason: reason.unwrap_or(Reason::Other), text }
            }
        };
        Ok((reply, header.len))
    }
}
