//! Why a URL could not be fetched, with curl's exit codes.

use std::io;
use std::time::Duration;

/// A failed fetch.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// The URL is malformed.
    #[error("malformed URL: {0}")]
    Url(String),
    /// The URL has a scheme that isn't supported.
    #[error("unsupported scheme {0}: http://, https:// and http+sctp:// are supported")]
    Scheme(String),
    /// The host has no address.
    #[error("can't resolve the host: {0}")]
    Host(String),
    /// No connection could be set up.
    #[error("can't connect: {0}")]
    Connect(String),
    /// The TLS handshake failed.
    #[error("TLS failed: {0}")]
    Tls(String),
    /// The server's certificate is not accepted.
    #[error("the certificate is not accepted: {0}")]
    Certificate(String),
    /// The trusted authorities can't be read.
    #[error("reading the trusted authorities failed: {0}")]
    Authorities(String),
    /// The response ended early.
    #[error("the response ended after {received} bytes: {cause}")]
    Partial {
        /// Bytes of the body that arrived.
        received: u64,
        /// What happened.
        cause: String,
    },
    /// The server answered with an error.
    #[error("the server answered {0}")]
    Status(u16),
    /// The file can't be written.
    #[error("{file}: {cause}")]
    Write {
        /// The file.
        file: String,
        /// What happened.
        cause: io::Error,
    },
    /// The time is over.
    #[error("not done in time")]
    Timeout,
    /// There is no connection in time.
    #[error("no connection within {} s", .0.as_secs_f64())]
    ConnectTimeout(Duration),
    /// Nothing has been received for some time.
    #[error("nothing was received for {} s", .0.as_secs_f64())]
    Stalled(Duration),
    /// The server sends another part of the file than the one asked for.
    #[error("can't continue the file: {0}")]
    Range(String),
    /// The file is larger than permitted.
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    /// Everything that a page loads is together larger than permitted.
    #[error("all that the pages load is too large")]
    Budget,
    /// The directory for files is missing.
    #[error("{0} is no directory: --create-dirs creates it")]
    Directory(String),
    /// Too many redirections.
    #[error("more than {0} redirections")]
    Redirections(u32),
    /// The server closed the connection instead of answering.
    #[error("the server closed the connection without a response")]
    Empty,
    /// The connection failed before the response, or the response is malformed.
    #[error("the connection failed: {0}")]
    Receive(String),
}

impl Failure {
    /// Returns the code with which curl reports it.
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Self::Scheme(_) => 1,
            Self::Url(_) => 3,
            Self::Host(_) => 6,
            Self::Connect(_) => 7,
            Self::Partial { .. } => 18,
            Self::Status(_) => 22,
            Self::Write { .. } | Self::Directory(_) => 23,
            Self::Timeout | Self::ConnectTimeout(_) | Self::Stalled(_) => 28,
            Self::Range(_) => 33,
            Self::Tls(_) => 35,
            Self::Redirections(_) => 47,
            Self::Empty => 52,
            Self::Certificate(_) => 60,
            Self::TooLarge(_) | Self::Budget => 63,
            Self::Authorities(_) => 77,
            Self::Receive(_) => 56,
        }
    }

    /// Returns whether another attempt may succeed.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            Self::Connect(_) | Self::Partial { .. } | Self::Empty | Self::Receive(_) => true,
            Self::ConnectTimeout(_) | Self::Stalled(_) => true,
            Self::Status(status) => matches!(status, 408 | 429 | 500 | 502..=504),
            _ => false,
        }
    }
}
