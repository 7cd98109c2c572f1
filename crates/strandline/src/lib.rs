//! SCTP sockets for tokio (RFC 9260): messages on many streams, several addresses on either side, over UDP
//! encapsulation (RFC 6951), which needs no privilege, or raw IP.
//!
//! A [`Stack`] owns one carrier and any number of SCTP ports on it. It offers the two kinds of sockets of RFC
//! 6458:
//!
//! - one-to-one: a [`Listener`] accepts associations and [`Association::connect`] sets them up; each
//!   [`Association`] is a handle to one peer;
//! - one-to-many: an [`Endpoint`] holds any number of associations on one port and returns each message
//!   together with its [`AssociationId`].
//!
//! [`Endpoint::peel_off`] takes an association out of a one-to-many socket as a one-to-one handle. A [`Stream`]
//! reads and writes a single stream of an association as bytes.
//!
//! ```
//! use strandline::memory::Network;
//! use strandline::{Association, Listener, Peer, SendInfo, Stack};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let network = Network::new(); // instead: Stack::builder().udp("0.0.0.0:9899".parse()?)?
//! let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
//! let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
//!
//! let listener = Listener::bind(&there, 5060)?;
//! let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 5060)).await?;
//! let server = listener.accept().await?;
//!
//! client.send(b"first", SendInfo::default()).await?;
//! client.send(b"second", SendInfo::default()).await?;
//! assert_eq!(server.recv().await?.ok_or("end")?.data, "first");
//! assert_eq!(server.recv().await?.ok_or("end")?.data, "second");
//!
//! client.shutdown().await;
//! assert_eq!(server.recv().await?, None);
//! # Ok(()) }
//! ```
//!
//! # Back-pressure
//!
//! `send` waits while the association's send buffer is full. Messages that the application has not received
//! stay in the association's receive buffer. The free space in that buffer is the receive window (a_rwnd)
//! advertised to the peer, so a slow reader slows down only its own peer.
//!
//! # Congestion control
//!
//! Each path has its own congestion controller, an [`Algorithm`]. It can be chosen for all associations of a
//! stack, for one association at any time, or for the path to one of the peer's addresses. docs/congestion.md
//! says which controller suits which network.
//!
//! ```
//! use strandline::memory::Network;
//! use strandline::{Algorithm, Association, AssociationConfig, Listener, Peer, Stack};
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let network = Network::new();
//! # let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?, "10.0.1.2".parse()?])?;
//! # let listener = Listener::bind(&there, 5060)?;
//! // All associations of a stack begin with this one.
//! let config = AssociationConfig { congestion: Algorithm::Bbr, ..AssociationConfig::default() };
//! let here = Stack::builder()
//!     .association(config.clone())
//!     .memory(&network, ["10.0.0.1".parse()?, "10.0.1.1".parse()?])?;
//! let client = Association::connect(&here, Peer::new([10, 0, 0, 2], 5060)).await?;
//! # let _server = listener.accept().await?;
//! let names = || client.paths().iter().map(|path| path.congestion).collect::<Vec<_>>();
//! assert_eq!(names(), ["bbr", "bbr"]);
//!
//! // One association, while it lasts.
//! client.control().configure(AssociationConfig { congestion: Algorithm::Cubic, ..config })?;
//! assert_eq!(names(), ["cubic", "cubic"]);
//!
//! // The path to one address; `None` gives it the association's again.
//! client.control().set_path_congestion([10, 0, 1, 2], Some(Algorithm::Swift))?;
//! assert_eq!(names(), ["cubic", "swift"]);
//! # Ok(()) }
//! ```
//!
//! # Without waiting
//!
//! [`Association::try_recv`], [`Association::try_send`], [`Endpoint::try_recv_from`] and
//! [`Listener::try_accept`] return at once. [`Readiness`] waits until they have a result, in a future or by poll
//! functions for other event loops than tokio's.
//!
//! # Cancelling
//!
//! Every future in this crate can be dropped at any time without losing messages, so all of them can be used in
//! `tokio::select!`. The section "Cancel safety" of each says what dropping it does.
#![forbid(unsafe_code)]

pub mod encryption;
pub mod memory;

mod address;
mod association;
mod bind;
mod bound;
mod builder;
mod bursts;
mod capture;
mod carrier;
mod cause;
mod clock;
mod control;
mod dynamic_streams;
mod endpoint;
mod engine;
mod error;
mod events;
mod handle;
mod host;
mod id;
mod join;
mod listener;
mod notification;
mod notifications;
mod observe;
mod peer;
mod ports;
mod readiness;
mod shard;
mod stack;
mod stream;
mod wait;

pub use self::address::{Address, ParseAddressError, socket_address};
pub use self::association::Association;
pub use self::bind::Bind;
pub use self::builder::{OutgoingPorts, StackBuilder};
pub use self::capture::Capture;
pub use self::cause::ErrorCause;
pub use self::control::Control;
pub use self::dynamic_streams::{DynamicStreams, Parity};
pub use self::endpoint::Endpoint;
pub use self::error::{
    AcceptError, BindError, ConnectError, Ended, FinishError, NoNotification, OpenStreamError, RecvError,
    SendError, StackError, TryAcceptError, TryRecvError, TrySendError, UnknownAssociation,
};
pub use self::events::Events;
pub use self::id::AssociationId;
pub use self::join::{EndpointJoiner, JoinError, Joiner};
pub use self::listener::Listener;
pub use self::notification::Notification;
pub use self::notifications::Notifications;
pub use self::observe::{
    Direction, ObservedAssociation, ObservedData, ObservedPacket, ObservedSack, PacketObserver,
};
pub use self::peer::Peer;
pub use self::readiness::Readiness;
pub use self::stack::{ShardStats, Stack};
pub use self::stream::{RecvStream, SendStream, Stream};
pub use strandline_io::{LockError, OpenError, Owner, RawOptions, UdpGroup, UdpOptions};
pub use strandline_proto::authentication::{
    Authentication, AuthenticationEvent, ChunkTypes, HmacAlgorithms, KeyId, SharedKey,
};
pub use strandline_proto::config::{
    AssociationConfig, EndpointConfig, ErrorDetectionMethod, ExtensionsConfig, FastRetransmit, Multipath,
    Recovery, SackFrequency, StreamCredit, StreamScheduler,
};
pub use strandline_proto::congestion::{Algorithm, UnknownAlgorithm};
pub use strandline_proto::dynamic_addresses::{AddressOutcome, AddressRequest};
pub use strandline_proto::endpoint::KeyChange;
pub use strandline_proto::error::{
    AddressError, ConfigError, ConfigureError, ConnectError as ConnectRequestError, KeyError, ListenError,
    LocalAddressError, PathError, ReconfigureError, StreamValueError,
};
pub use strandline_proto::event::{FailedMessage, FailureCause, Message, PathChange, SendInfo};
pub use strandline_proto::memory::{MemoryAccount, TakenBytes, TakenBytesGuard};
pub use strandline_proto::number::{Ppid, Ssn, StreamId, Tsn};
pub use strandline_proto::reconfiguration::{Outcome, PeerRequests, StreamDirection, Streams};
pub use strandline_proto::reliability::{Limit, Reliability};
pub use strandline_proto::stats::{
    AbandonedByPolicy, AbandonedCounts, AbandonedStats, AssociationState, AssociationStats, Buffers,
    EndpointStats, MemoryReport, PathStatus, Reachability, SentAgain, Status,
};
