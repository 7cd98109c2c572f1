//! Why connections fail.

use crate::trust::TrustError;

/// Why there is no connection with a peer, or no longer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// The peer is not who it should be.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// Nobody listens at the server's address and port.
    #[error("nobody listens at that address and UDP port")]
    Unreachable,
    /// The handshake took too long.
    #[error("the DTLS handshake timed out")]
    TimedOut,
    /// The peer does something that DTLS forbids, or has nothing in common.
    #[error("DTLS: {0}")]
    Dtls(String),
    /// Somebody changed the connection IDs on the way.
    #[error("the connection IDs of both sides differ")]
    Confirmation,
    /// The peer does not trust the key of this side.
    #[error("the peer does not trust this side's key")]
    Refused,
    /// The peer has closed the connection.
    #[error("the peer has closed the DTLS connection")]
    Closed,
}

impl Failure {
    pub(crate) fn of(error: dimpl::Error) -> Self {
        match error {
            dimpl::Error::Timeout(_) => Self::TimedOut,
            other => Self::Dtls(other.to_string()),
        }
    }
}
