//! What can go wrong at the interface with the application; one enum for each operation.

use core::net::IpAddr;

use thiserror::Error;

/// A parameter out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{name} is out of range: it must be {wants}")]
pub struct ConfigError {
    /// The parameter's name.
    pub name: &'static str,
    /// The range that would be right.
    pub wants: &'static str,
}

/// Why `listen` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Somebody of this endpoint listens on the port already.
    #[error(
        "SCTP port {0} is in use in this endpoint: close its listener or choose another port (0 picks one)"
    )]
    PortInUse(u16),
    /// Every ephemeral port is taken.
    #[error("no free SCTP port is left in the ephemeral range")]
    NoPort,
}

/// Why `connect` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No address to connect to.
    #[error("no address to connect to: give at least one address of the peer")]
    NoAddress,
    /// Port 0 is no port.
    #[error("the peer's SCTP port is 0: it must be 1 to 65535")]
    InvalidPort,
    /// Unspecified, broadcast or multicast address.
    #[error("an SCTP peer needs a unicast address")]
    NotUnicast,
    /// A link-local IPv6 address without a zone: it could be on any link (RFC 4007 section 6).
    #[error("{0} is a link-local address, which each link may have: add the interface, as in {0}%eth0")]
    NoZone(IpAddr),
    /// An association with this peer address and these ports exists.
    #[error("an association with this peer address and these ports exists already")]
    AlreadyExists,
    /// `associations_max` reached.
    #[error("the endpoint holds as many associations as it may (associations_max)")]
    TooManyAssociations,
    /// Every ephemeral port is taken towards this peer.
    #[error("no free SCTP port is left in the ephemeral range")]
    NoPort,
    /// The association's parameters are out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Why `send` did not take a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// The send buffer is full: wait for [`Event::Writable`](crate::event::Event::Writable).
    #[error("the send buffer is full: wait until the association is writable")]
    WouldBlock,
    /// The stream's identifier is not below the number of outgoing streams.
    #[error("stream {stream} does not exist: the association has {streams} outgoing streams")]
    InvalidStream {
        /// The stream asked for.
        stream: u16,
        /// Outgoing streams of the association.
        streams: u16,
    },
    /// A message of no bytes cannot be sent: a DATA chunk carries at least one (RFC 9260 section 3.3.1).
    #[error("a message needs at least one byte")]
    Empty,
    /// Larger than `message_size_max`.
    #[error("the message has {size} bytes, more than message_size_max ({limit})")]
    TooLarge {
        /// The message's bytes.
        size: usize,
        /// The limit.
        limit: u32,
    },
    /// The association is shutting down, or has ended.
    #[error("the association is shutting down or has ended")]
    Closed,
}

/// The association does not exist (any more).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no such association: it has ended")]
pub struct UnknownAssociation;

/// Why an operation on a path failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// No such association.
    #[error("no such association: it has ended")]
    UnknownAssociation,
    /// The address is none of the peer's.
    #[error("the address is none of the peer's addresses")]
    UnknownAddress,
    /// The address has not been confirmed yet (RFC 9260 section 5.4).
    #[error("the address is not confirmed yet")]
    Unconfirmed,
    /// DCTCP needs marks that are told exactly, on which both sides agree for the association.
    #[error("DCTCP is for whole associations: choose it by AssociationConfig::congestion on both sides")]
    Dctcp,
}

/// Why `configure` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigureError {
    /// A parameter is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The association does not exist any more.
    #[error(transparent)]
    UnknownAssociation(#[from] UnknownAssociation),
    /// DCTCP goes by explicit congestion notification, on which both sides agree when an association is set up. Nothing has changed.
    #[error(
        "DCTCP needs ECN, which this association did not agree on: set AssociationConfig::ecn, or congestion \
         to Dctcp, on both sides before it is set up"
    )]
    Dctcp,
}
