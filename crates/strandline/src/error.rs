//! Errors, one enum for each operation. Their messages say what to do about them.

use std::sync::Arc;

use bytes::Bytes;
use strandline_dtls::FAILURE_CAUSE;
use strandline_proto::error::{
    ConfigError, ConnectError as Refusal, ListenError, SendError as EngineSendError,
};
use strandline_proto::event::CloseReason;
use thiserror::Error;

use crate::cause::ErrorCause;

/// How an association ended. Part of errors, and reported by
/// [`Association::closed`](crate::Association::closed) and
/// [`Notification::Closed`](crate::Notification::Closed).
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Ended {
    /// It was shut down gracefully.
    #[error("the association was shut down")]
    ShutDown,
    /// This side aborted it.
    #[error("the association was aborted by this side")]
    Aborted,
    /// The peer aborted it.
    #[error("the peer aborted the association: {}", describe_abort(*.cause, .reason))]
    PeerAborted {
        /// The first error cause in the ABORT (RFC 9260 section 3.3.10).
        cause: ErrorCause,
        /// The reason given by the peer's application, or the contents of the cause; up to 512 bytes.
        reason: Bytes,
    },
    /// There is no encrypted connection with the peer, or no longer.
    #[error("no encrypted connection: {0}")]
    NotEncrypted(String),
    /// The peer stopped answering.
    #[error(
        "the peer does not answer: check that it runs SCTP at this address and encapsulation port, and that no \
         firewall drops the packets"
    )]
    TimedOut,
    /// An ICMP message reported that nothing at the peer's address speaks SCTP.
    #[error("no SCTP stack responds there: is the peer's stack running, and is this its encapsulation port?")]
    Unreachable,
    /// This host can't send to any of the peer's addresses.
    #[error(
        "this host can't send to the peer: is there a route to its address, does the stack's socket have that address \
         family, and does a local firewall let the packets out?"
    )]
    NoRoute,
    /// The peer violated the protocol.
    #[error("the peer violated the protocol: {0}")]
    ProtocolViolation(&'static str),
    /// The stack's driver task is gone, usually because its tokio runtime was shut down.
    #[error("the SCTP stack is gone: was its tokio runtime shut down?")]
    StackClosed,
}

impl Ended {
    pub(crate) fn of(reason: &CloseReason) -> Self {
        match reason {
            CloseReason::Shutdown => Self::ShutDown,
            CloseReason::Aborted => Self::Aborted,
            // Made by the layer of encryption on this side: the reason is its text.
            CloseReason::PeerAborted { code: FAILURE_CAUSE, reason } => {
                Self::NotEncrypted(String::from_utf8_lossy(reason).replace(char::is_control, " "))
            }
            CloseReason::PeerAborted { code, reason } => {
                Self::PeerAborted { cause: ErrorCause::from_code(*code), reason: reason.clone() }
            }
            CloseReason::TimedOut => Self::TimedOut,
            CloseReason::Unreachable => Self::Unreachable,
            CloseReason::NoRoute => Self::NoRoute,
            CloseReason::ProtocolViolation(what) => Self::ProtocolViolation(what),
        }
    }
}

/// Formats the cause, with the reason if it is printable.
fn describe_abort(cause: ErrorCause, reason: &Bytes) -> String {
    let text = String::from_utf8_lossy(reason);
    let printable =
        !text.is_empty() && !text.chars().any(|c| c.is_control() || c == char::REPLACEMENT_CHARACTER);
    match cause {
        _ if printable => format!("{cause} ({text})"),
        ErrorCause::Unknown(_) => cause.to_string(),
        named => format!("{named} (cause {})", named.code()),
    }
}

/// Why a stack could not be started.
///
/// ```
/// use strandline::{AssociationConfig, ConfigError, Stack, StackError};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// let config = AssociationConfig { outbound_streams: 0, ..AssociationConfig::default() };
/// let stack = Stack::builder().association(config).memory(&network, ["10.0.0.1".parse()?]);
/// assert!(matches!(stack, Err(StackError::Config(ConfigError { name: "outbound_streams", .. }))));
/// # Ok(()) }
/// ```
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StackError {
    /// A parameter is out of range.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The call was not made from within a tokio runtime.
    #[error("a stack needs a tokio runtime with time and I/O enabled: call this from async code")]
    NoRuntime,
    /// A value of the encryption's configuration is out of range, or the identity can't be used.
    #[error("{0}")]
    Encryption(String),
    /// The socket could not be opened.
    #[error(transparent)]
    Open(#[from] strandline_io::OpenError),
    /// On raw IP: no ports for outgoing associations could be reserved.
    #[error(transparent)]
    Lock(#[from] strandline_io::LockError),
    /// The address is already used in the in-memory network.
    #[error("{0} is in use in this network: give each stack its own addresses")]
    AddressInUse(std::net::IpAddr),
    /// No address was given.
    #[error("a stack needs at least one address")]
    NoAddress,
    /// A system call failed.
    #[error("{doing}: {cause}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The system's error. Not also the error's source: printing the chain of sources would repeat it.
        cause: std::io::Error,
    },
}

/// Why a port could not be bound.
///
/// ```
/// use strandline::{BindError, ListenError, Listener, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let stack = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// let first = Listener::bind(&stack, 5060)?;
/// let second = Listener::bind(&stack, 5060);
/// assert!(matches!(second, Err(BindError::Port(ListenError::PortInUse(5060)))));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, Error)]
#[non_exhaustive]
pub enum BindError {
    /// The port is already bound, or no port is left.
    #[error(transparent)]
    Port(#[from] ListenError),
    /// On raw IP: another process of this host uses the port, or the system refused to reserve it.
    #[error(transparent)]
    Lock(Arc<strandline_io::LockError>),
    /// On raw IP: the system refused to receive on the port.
    #[error("receiving on SCTP port {port}: {cause}")]
    Filter {
        /// The SCTP port.
        port: u16,
        /// The system's error.
        cause: Arc<std::io::Error>,
    },
    /// The stack is gone.
    #[error("the SCTP stack is gone: was its tokio runtime shut down?")]
    StackClosed,
}

/// Why `accept` failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AcceptError {
    /// The stack is gone.
    #[error("the SCTP stack is gone: was its tokio runtime shut down?")]
    StackClosed,
    /// The stack has no shard with this index.
    #[error("the stack has no shard {0}: they are numbered from 0")]
    NoSuchShard(usize),
    /// The listener [stopped accepting](crate::Listener::stop_accepting), and no association is waiting any
    /// more.
    #[error("the listener has stopped accepting associations")]
    Stopped,
}

/// Why `try_accept` returned no association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryAcceptError {
    /// No association is waiting.
    #[error("no association is waiting: await `accept`, or try again once the listener is readable")]
    Empty,
    /// No more associations will come.
    #[error(transparent)]
    Accept(#[from] AcceptError),
}

/// Why an association could not be set up.
///
/// ```
/// use strandline::{Association, ConnectError, ConnectRequestError, Peer, Stack};
/// # use strandline::memory::Network;
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let network = Network::new();
/// # let stack = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
/// let refused = Association::connect(&stack, Peer::new([10, 0, 0, 2], 0)).await;
/// assert!(matches!(refused, Err(ConnectError::Request(ConnectRequestError::InvalidPort))));
/// # Ok(()) }
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// The request is invalid or a limit was reached.
    #[error(transparent)]
    Request(#[from] Refusal),
    /// The association ended before it was established: the peer refused it, didn't answer, or doesn't exist.
    #[error("not connected: {}", refusal(.0))]
    // Not also the error's source: printing the chain of sources would repeat it.
    Ended(Ended),
    /// The endpoint is [shutting down](crate::Endpoint::shutdown_all).
    #[error("the endpoint is shutting down: it takes no new associations")]
    ShuttingDown,
}

impl From<Ended> for ConnectError {
    fn from(ended: Ended) -> Self {
        Self::Ended(ended)
    }
}

fn refusal(ended: &Ended) -> String {
    match ended {
        Ended::PeerAborted { cause: ErrorCause::None, .. } => {
            "the peer refused: nothing listens on that SCTP port".to_owned()
        }
        other => other.to_string(),
    }
}

/// Why a message could not be sent.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SendError {
    /// The stream does not exist.
    #[error(
        "stream {stream} does not exist: the association has {streams} outgoing streams, numbered from 0"
    )]
    InvalidStream {
        /// The requested stream.
        stream: u16,
        /// Number of outgoing streams of the association.
        streams: u16,
    },
    /// The message is empty, which SCTP doesn't allow.
    #[error("a message needs at least one byte")]
    Empty,
    /// The message is larger than `message_size_max`.
    #[error(
        "the message has {size} bytes, more than message_size_max ({limit}): raise the limit or cut the message"
    )]
    TooLarge {
        /// The message's size, bytes.
        size: usize,
        /// The limit, bytes.
        limit: u32,
    },
    /// The association is shutting down, or is gone, and takes no new messages. Senders waiting for room fail
    /// with this error as soon as either side begins the shutdown.
    #[error("the association is shutting down or has ended: it takes no new messages")]
    ShuttingDown,
    /// The association has ended.
    #[error(transparent)]
    Ended(#[from] Ended),
    /// The stream was [finished](crate::SendStream::finish) or is closed.
    #[error("the stream is finished: nothing more can be sent on it")]
    Finished,
    /// The peer has [asked to stop](crate::RecvStream::stop) sending on the stream. What was not delivered is
    /// discarded.
    #[error("the peer reads no more of the stream")]
    Stopped,
    /// The stream was lost because the peer restarted, or all sequence numbers were reset.
    #[error("the stream was lost: the peer restarted or all sequence numbers were reset")]
    Lost,
    /// The stream is a dynamic one: only a writer from [`open_stream`](crate::Association::open_stream) or
    /// [`accept_stream`](crate::Association::accept_stream) sends on it.
    #[error("stream {0} is a dynamic stream: send on one from open_stream or accept_stream")]
    Dynamic(u16),
    /// Only a stream that was [opened](crate::Association::open_stream) or
    /// [accepted](crate::Association::accept_stream) can be finished.
    #[error("only streams of open_stream and accept_stream can be finished")]
    NotDynamic,
    /// Sending to a peer required setting up an association, which failed.
    #[error(transparent)]
    Connect(#[from] Refusal),
}

impl SendError {
    /// Converts the engine's error; `None` if the sender only has to wait.
    pub(crate) fn of(error: EngineSendError) -> Option<Self> {
        Some(match error {
            EngineSendError::WouldBlock | EngineSendError::StreamBlocked { .. } => return None,
            EngineSendError::InvalidStream { stream, streams } => Self::InvalidStream { stream, streams },
            EngineSendError::Empty => Self::Empty,
            EngineSendError::TooLarge { size, limit } => Self::TooLarge { size, limit },
            EngineSendError::Closed => Self::ShuttingDown,
        })
    }
}

/// Why a `try_send` function did not send a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TrySendError {
    /// The send buffer is full, or the stream waits for its reader and has used up its part of it.
    #[error("the send buffer is full: await `send`, or try again once earlier messages were acknowledged")]
    Full,
    /// The message can't be sent.
    #[error(transparent)]
    Send(#[from] SendError),
}

/// Why nothing more can be received.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RecvError {
    /// The stack has no shard with this index.
    #[error("the stack has no shard {0}: they are numbered from 0")]
    NoSuchShard(usize),
    /// The peer lost its state and set up the association anew, so what was received before may be incomplete.
    /// Reported once, after the data from before the restart; the next call returns data of the new
    /// association.
    #[error("the peer restarted: the rest of what it was sending is lost")]
    Restarted,
    /// The stream was reset (RFC 6525), so what follows has nothing to do with what was received before. Reported once,
    /// after the data from before the reset.
    #[error("the stream was reset: what follows begins anew")]
    Reset,
    /// The peer did not finish the stream: it [reset](crate::SendStream::reset) it, or shut the association
    /// down before. Data may be missing.
    #[error("the peer did not finish the stream: data may be missing")]
    Unfinished,
    /// The peer gave up the message of which a part was received last (RFC 3758), so the rest of it is lost. Reported
    /// once, after that part. The reader of a byte stream gets it for messages that are missing as a whole, too.
    #[error("the peer gave up a message: data is missing here")]
    Abandoned,
    /// The association did not end gracefully.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// Why a `try_recv` function did not return a message.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TryRecvError {
    /// No message has arrived.
    #[error("no message has arrived: await `recv`, or try again once the socket is readable")]
    Empty,
    /// Nothing more can be received.
    #[error(transparent)]
    Recv(#[from] RecvError),
}

impl From<Ended> for TryRecvError {
    fn from(ended: Ended) -> Self {
        Self::Recv(ended.into())
    }
}

/// No notification is waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no notification is waiting: await `next`, or try again later")]
pub struct NoNotification;

/// Why a stream could not be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenStreamError {
    /// This direction of the stream already has a handle.
    #[error("stream {0} has a reader already: only one handle reads a stream")]
    InUse(u16),
    /// The association was negotiated with fewer streams.
    #[error(
        "stream {stream} does not exist: the association has {streams} in this direction, numbered from 0"
    )]
    NoSuchStream {
        /// The requested stream.
        stream: u16,
        /// Number of the association's streams in that direction.
        streams: u16,
    },
    /// [`Association::set_dynamic_streams`](crate::Association::set_dynamic_streams) was not called.
    #[error("the association has no dynamic streams: call set_dynamic_streams first")]
    NotDynamic,
    /// The peer does not support the reconfiguration of streams (RFC 6525), so that streams can't be closed.
    #[error("streams can't be closed: both sides must have stream_reconfiguration set")]
    NotSupported,
    /// The stream is a dynamic one, which is opened by [`Association::open_stream`](crate::Association::open_stream).
    #[error("stream {0} is a dynamic stream: use open_stream or accept_stream")]
    Dynamic(u16),
    /// Dynamic streams were set before, or one of them has a reader already.
    #[error("dynamic streams were set before, or one of them has a reader already")]
    AlreadyOpen,
    /// The association has ended, or is shutting down.
    #[error("the association has ended or is shutting down")]
    Ended,
}

/// Why it is not certain that the peer has everything of a stream.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FinishError {
    /// The peer has asked to stop sending.
    #[error("the peer reads no more of the stream")]
    Stopped,
    /// The peer has refused to close the stream, though it has all of it.
    #[error("the peer has refused to close the stream")]
    Refused,
    /// The stream was lost because the peer restarted, or all sequence numbers were reset.
    #[error("the stream was lost: the peer restarted or all sequence numbers were reset")]
    Lost,
    /// Only a stream that was opened or accepted can be finished.
    #[error("only streams of open_stream and accept_stream can be finished")]
    NotDynamic,
    /// The association ended before.
    #[error(transparent)]
    Ended(#[from] Ended),
}

/// The association doesn't belong to this endpoint, or no longer does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no such association at this endpoint: it has ended or was peeled off")]
pub struct UnknownAssociation;

#[cfg(test)]
mod tests;
