//! Why connections fail.

use crate::fingerprint::Fingerprint;
use crate::trust::TrustError;

/// Why there is no connection with a peer, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The peer's identity is not trusted.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Nothing listens at the server's address and port.
    #[error("port unreachable")]
    Unreachable,
    /// This host can't send to the server.
    #[error("no route")]
    NoRoute,
    /// The handshake took too long.
    #[error("the DTLS handshake timed out")]
    TimedOut,
    /// The peer does something that DTLS forbids, or has nothing in common.
    #[error("DTLS: {0}")]
    Dtls(String),
    /// The connection IDs were changed on the way.
    #[error("connection ID mismatch: handshake tampered with")]
    Confirmation,
    /// The peer does not trust the key of this side.
    #[error("the peer does not trust the key of this host, {0}: run there: strandline trust add NAME {0}")]
    Refused(Fingerprint),
    /// The peer runs SCTP without encryption.
    #[error(
        "the peer does not encrypt: give it a key (strandline keygen) and let it encrypt, or connect without encryption"
    )]
    NotEncrypted,
    /// The peer has lost the connection, as by a new start.
    #[error("the peer has restarted")]
    Reset,
    /// The peer has closed the connection.
    #[error("the peer has closed the DTLS connection")]
    Closed,
}

impl Failure {
    /// Returns whether an association ends with its connection, by whether its INIT was answered. If not, the engine
    /// may set it up over another connection, or has ended it.
    pub(crate) fn ends(&self, is_answered: bool) -> bool {
        match self {
            Self::TimedOut | Self::NoRoute => false,
            Self::Reset => is_answered,
            _ => true,
        }
    }

    pub(crate) fn of(error: dimpl::Error) -> Self {
        match error {
            dimpl::Error::Timeout(_) => Self::TimedOut,
            other => Self::Dtls(other.to_string()),
        }
    }
}
