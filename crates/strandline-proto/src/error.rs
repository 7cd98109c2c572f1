//! Errors of the application interface: one enum for each operation.

use core::net::IpAddr;

use thiserror::Error;

use crate::authentication::KeyId;

/// A parameter is out of range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("{name} is out of range: it must be {wants}")]
pub struct ConfigError {
    /// The parameter's name.
    pub name: &'static str,
    /// The valid range.
    pub wants: &'static str,
}

/// Errors of `listen`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ListenError {
    /// The port already has a listener of this endpoint.
    #[error(
        "SCTP port {0} is in use in this endpoint: close its listener or choose another port (0 picks one)"
    )]
    PortInUse(u16),
    /// Every ephemeral port is taken.
    #[error("no free SCTP port is left in the ephemeral range")]
    NoPort,
    /// The endpoint does not have the address.
    #[error(
        "{0} is not a local address of this endpoint: bind addresses that it has, or none to use all of them"
    )]
    NotLocal(core::net::IpAddr),
    /// An association has at most 8 local addresses.
    #[error("{0} addresses are too many to bind: an association has at most {max}", max = crate::config::PATHS_MAX)]
    TooManyAddresses(usize),
}

/// Errors of `connect`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// No address to connect to.
    #[error("no address to connect to: give at least one address of the peer")]
    NoAddress,
    /// Port 0 is not valid.
    #[error("the peer's SCTP port is 0: it must be 1 to 65535")]
    InvalidPort,
    /// Unspecified, broadcast or multicast address.
    #[error("an SCTP peer needs a unicast address")]
    NotUnicast,
    /// A link-local IPv6 address without a zone: it could be on any link (RFC 4007 section 6).
    #[error("{0} is a link-local address, which each link may have: add the interface, as in {0}%eth0")]
    NoZone(IpAddr),
    /// The endpoint does not have this local address.
    #[error(
        "{0} is not a local address of this endpoint: connect from addresses that it has, or none to use all of them"
    )]
    NotLocal(IpAddr),
    /// An association has at most 8 local addresses.
    #[error("{0} local addresses are too many: an association has at most {max}", max = crate::config::PATHS_MAX)]
    TooManyAddresses(usize),
    /// An association with this peer address and these ports exists.
    #[error("an association with this peer address and these ports exists already")]
    AlreadyExists,
    /// `associations_max` was reached.
    #[error("the endpoint holds as many associations as it may (associations_max)")]
    TooManyAssociations,
    /// Every ephemeral port is taken towards this peer.
    #[error("no free SCTP port is left in the ephemeral range")]
    NoPort,
    /// The association's parameters are out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// Errors of `send`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SendError {
    /// The send buffer is full: wait for [`Event::Writable`](crate::event::Event::Writable).
    #[error("the send buffer is full: wait until the association is writable")]
    WouldBlock,
    /// The stream waits for credit of the peer, and its part of the send buffer is full: wait for
    /// [`Event::StreamWritable`](crate::event::Event::StreamWritable). Other streams are not concerned.
    #[error("stream {stream} waits for its reader: wait until it is writable")]
    StreamBlocked {
        /// The stream.
        stream: u16,
    },
    /// The stream's identifier is not below the number of outgoing streams.
    #[error("stream {stream} does not exist: the association has {streams} outgoing streams")]
    InvalidStream {
        /// The requested stream.
        stream: u16,
        /// Number of outgoing streams of the association.
        streams: u16,
    },
    /// The message is empty, but a DATA chunk carries at least one byte (RFC 9260 section 3.3.1).
    #[error("a message needs at least one byte")]
    Empty,
    /// Larger than `message_size_max`.
    #[error("the message has {size} bytes, more than message_size_max ({limit})")]
    TooLarge {
        /// Size of the message in bytes.
        size: usize,
        /// The limit in bytes.
        limit: u32,
    },
    /// The association is shutting down, or has ended.
    #[error("the association is shutting down or has ended")]
    Closed,
}

/// The association does not exist, or no longer exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no such association: it has ended")]
pub struct UnknownAssociation;

/// Errors of operations on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// No such association.
    #[error("no such association: it has ended")]
    UnknownAssociation,
    /// The address is not one of the peer's.
    #[error("the address is not one of the peer's addresses")]
    UnknownAddress,
    /// The address is not confirmed yet (RFC 9260 section 5.4).
    #[error("the address is not confirmed yet")]
    Unconfirmed,
    /// The association is not established, or is shutting down.
    #[error("the association is not established")]
    NotEstablished,
    /// No other address is confirmed, and an association needs one.
    #[error("it is the last confirmed address of the association")]
    LastAddress,
    /// The association has 8 paths, or more than 8 local addresses were given.
    #[error("an association has at most {} addresses on each side", crate::config::PATHS_MAX)]
    TooMany,
    /// The address is unspecified, multicast or broadcast.
    #[error("{address} is not a unicast address")]
    NotUnicast {
        /// The address.
        address: core::net::IpAddr,
    },
    /// The address belongs to another association with the same ports.
    #[error("another association with the same ports has the address")]
    InUse,
    /// DCTCP needs exact reports of marks, which both sides negotiate for the whole association.
    #[error("DCTCP applies to whole associations: set AssociationConfig::congestion on both sides")]
    Dctcp,
}

/// Errors of `configure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConfigureError {
    /// A parameter is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The association no longer exists.
    #[error(transparent)]
    UnknownAssociation(#[from] UnknownAssociation),
    /// DCTCP needs ECN, which both sides negotiate when an association is set up. Nothing was changed.
    #[error(
        "DCTCP requires ECN, which this association did not negotiate: set AssociationConfig::ecn, or congestion \
         to Dctcp, on both sides before it is set up"
    )]
    Dctcp,
}

/// Errors of `reset_streams`, `reset_association` and `add_streams`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReconfigureError {
    /// The association no longer exists.
    #[error(transparent)]
    UnknownAssociation(#[from] UnknownAssociation),
    /// The association is not established, or is shutting down.
    #[error("the association is not established")]
    NotEstablished,
    /// The peer or this side does not support the reconfiguration of streams (RFC 6525).
    #[error("reconfiguration of streams was not negotiated: both sides must have stream_reconfiguration set")]
    NotSupported,
    /// Another request is in progress, of either side.
    #[error("another reconfiguration is in progress: wait for its outcome")]
    InProgress,
    /// The stream does not exist.
    #[error("stream {stream} does not exist: the association has {streams} of this direction")]
    InvalidStream {
        /// The requested stream.
        stream: u16,
        /// Number of streams.
        streams: u16,
    },
    /// The stream is opened and closed at run time, or all streams were listed and this one is: its end is its reset.
    #[error("stream {stream} is a dynamic stream: finish or reset it instead")]
    Dynamic {
        /// The stream.
        stream: u16,
    },
    /// The list has no stream, or more than [`STREAMS_LISTED_MAX`](crate::reconfiguration::STREAMS_LISTED_MAX).
    #[error(
        "{listed} streams are listed: list 1 to {}, or reset all",
        crate::reconfiguration::STREAMS_LISTED_MAX
    )]
    Count {
        /// Number of streams in the list.
        listed: usize,
    },
    /// There would be more than 65,535 streams, or more incoming ones than `inbound_streams_max`, or none was
    /// asked for.
    #[error("the number of streams to add must be at least 1, and the sum within the limits")]
    TooManyStreams,
    /// All numbers were reset less than 30 seconds ago (RFC 6525 section 5.1.4).
    #[error("all numbers were reset less than 30 seconds ago")]
    TooSoon,
}

/// Errors of requests to change addresses (RFC 5061).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// The association no longer exists.
    #[error(transparent)]
    UnknownAssociation(#[from] UnknownAssociation),
    /// The association is not established, or has sent SHUTDOWN.
    #[error("the association is not established")]
    NotEstablished,
    /// The peer or this side does not support dynamic addresses, or the peer did not know this kind of request.
    #[error("dynamic addresses were not negotiated: both sides must have dynamic_addresses set")]
    NotSupported,
    /// The address is multicast or broadcast, or of a family that the peer cannot be reached by.
    #[error("{address} is not a unicast address")]
    NotUnicast {
        /// The address.
        address: core::net::IpAddr,
    },
    /// The address to add is a local address of the association, or is about to be removed.
    #[error("{address} is a local address of the association already")]
    AlreadyLocal {
        /// The address.
        address: core::net::IpAddr,
    },
    /// The address to delete or to prefer is no local address of the association, or is about to be removed.
    #[error("{address} is not a local address of the association")]
    NotLocal {
        /// The address.
        address: core::net::IpAddr,
    },
    /// The association would have no local address left.
    #[error("{address} is the last local address of the association")]
    LastAddress {
        /// The address.
        address: core::net::IpAddr,
    },
    /// It is not known which local addresses the association has: nothing has arrived since it was set up.
    /// Requests with the unspecified address are possible.
    #[error("the local addresses of the association are not known yet")]
    LocalUnknown,
    /// The association would have more than 8 local addresses, or more than
    /// [`REQUESTS_MAX`](crate::dynamic_addresses::REQUESTS_MAX) requests would wait.
    #[error(
        "an association has at most {} local addresses, and at most {} requests wait for the peer",
        crate::config::PATHS_MAX,
        crate::dynamic_addresses::REQUESTS_MAX
    )]
    TooMany,
}

/// Errors of changes of the local addresses that new associations list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LocalAddressError {
    /// The address is multicast, broadcast, or unspecified.
    #[error("{address} is not a unicast address")]
    NotUnicast {
        /// The address.
        address: core::net::IpAddr,
    },
    /// The address to add is listed already.
    #[error("{address} is a local address already")]
    AlreadyLocal {
        /// The address.
        address: core::net::IpAddr,
    },
    /// The address to remove is not listed.
    #[error("{address} is not a local address")]
    NotLocal {
        /// The address.
        address: core::net::IpAddr,
    },
    /// A listener that is bound to addresses needs at least one.
    #[error("{address} is the last address that the listener is bound to")]
    LastAddress {
        /// The address.
        address: core::net::IpAddr,
    },
    /// The listener is not bound to addresses of its own: it has those of its stack.
    #[error("the socket is not bound to addresses: change those of the stack")]
    NotBound,
    /// An association has at most 8 local addresses.
    #[error("an association has at most {} local addresses", crate::config::PATHS_MAX)]
    TooMany,
}

/// Errors of changes of shared keys (RFC 4895, RFC 6458 section 8.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The association no longer exists.
    #[error(transparent)]
    UnknownAssociation(#[from] UnknownAssociation),
    /// The association was configured without authentication.
    #[error(
        "the association has no authentication: set ExtensionsConfig::authentication before it is set up"
    )]
    NotSupported,
    /// There is no key with this identifier.
    #[error("there is no key {}", .0.0)]
    UnknownKey(KeyId),
    /// The key is the active one, or has not been deactivated.
    #[error("key {} is in use: activate another one, and deactivate it before it is deleted", .0.0)]
    InUse(KeyId),
    /// The key was deactivated.
    #[error("key {} was deactivated: set it again before it is activated", .0.0)]
    Deactivated(KeyId),
    /// There would be more than [`KEYS_MAX`](crate::authentication::KEYS_MAX) keys.
    #[error("there are {} keys already", crate::authentication::KEYS_MAX)]
    TooMany,
}

/// Errors of setting or reading the priority or weight of a stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum StreamValueError {
    /// The association no longer exists.
    #[error(transparent)]
    UnknownAssociation(#[from] UnknownAssociation),
    /// The stream's identifier is not below the number of outgoing streams.
    #[error("stream {stream} does not exist: the association has {streams} outgoing streams")]
    InvalidStream {
        /// The requested stream.
        stream: u16,
        /// Number of outgoing streams of the association.
        streams: u16,
    },
}
