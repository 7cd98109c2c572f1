//! Why a request or a connection failed, in httperf's classes.

use std::error::Error;
use std::io;

use strandline::{ConnectError, Ended};

use crate::causes::causes;
use crate::streams::ConnectionError;

/// A class of errors. The order is that of [`Class::ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    ClientTimeout,
    SocketTimeout,
    Refused,
    Reset,
    NoDescriptor,
    NoAddress,
    SystemFull,
    Other,
}

impl Class {
    pub(super) const ALL: [Self; 8] = [
        Self::ClientTimeout,
        Self::SocketTimeout,
        Self::Refused,
        Self::Reset,
        Self::NoDescriptor,
        Self::NoAddress,
        Self::SystemFull,
        Self::Other,
    ];

    /// Returns httperf's name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ClientTimeout => "client-timo",
            Self::SocketTimeout => "socket-timo",
            Self::Refused => "connrefused",
            Self::Reset => "connreset",
            Self::NoDescriptor => "fd-unavail",
            Self::NoAddress => "addrunavail",
            Self::SystemFull => "ftab-full",
            Self::Other => "other",
        }
    }
}

/// A failed request.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) class: Class,
    /// Whether it was counted already: once for all requests that waited for a connection that couldn't be set
    /// up, or for a session that had failed.
    pub(super) is_counted: bool,
    pub(super) cause: String,
}

impl Failure {
    pub(super) fn timeout() -> Self {
        Self { class: Class::ClientTimeout, is_counted: false, cause: "--timeout passed".to_owned() }
    }

    /// Classifies the failure of a request on a connection.
    pub(super) fn request(error: &(dyn Error + 'static)) -> Self {
        Self { class: class(error), is_counted: false, cause: causes(error) }
    }

    /// Classifies the failure to set up a TCP connection.
    pub(super) fn connecting(error: &io::Error) -> Self {
        Self { class: class(error), is_counted: true, cause: error.to_string() }
    }

    /// Classifies the failure to set up an association.
    pub(super) fn associating(error: &ConnectError) -> Self {
        let class = match error {
            ConnectError::Ended(Ended::PeerAborted { .. } | Ended::Unreachable) => Class::Refused,
            ConnectError::Ended(Ended::TimedOut) => Class::SocketTimeout,
            ConnectError::Ended(Ended::ShutDown) => Class::Reset,
            // The arguments are valid: all local ports are taken.
            ConnectError::Request(_) => Class::NoAddress,
            _ => Class::Other,
        };
        Self { class, is_counted: true, cause: error.to_string() }
    }

    /// Classifies the failure to open a stream of an established association.
    pub(super) fn opening(error: &ConnectionError) -> Self {
        let class = match error {
            ConnectionError::Ended(Ended::TimedOut) => Class::SocketTimeout,
            ConnectionError::Ended(Ended::ShutDown | Ended::PeerAborted { .. })
            | ConnectionError::ShuttingDown => Class::Reset,
            _ => Class::Other,
        };
        Self { class, is_counted: false, cause: error.to_string() }
    }
}

/// Returns the class of the first error in a chain that tells it.
fn class(error: &(dyn Error + 'static)) -> Class {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref::<io::Error>().and_then(class_of_io) {
            return found;
        }
        let is_cut_off = |error: &hyper::Error| error.is_incomplete_message() || error.is_canceled();
        if error.downcast_ref::<hyper::Error>().is_some_and(is_cut_off) {
            return Class::Reset;
        }
        let is_given_up = |error: &h2::Error| error.is_reset() || error.is_go_away();
        if error.downcast_ref::<h2::Error>().is_some_and(|error| error.is_remote() && is_given_up(error)) {
            return Class::Reset;
        }
        next = error.source();
    }
    Class::Other
}

fn class_of_io(error: &io::Error) -> Option<Class> {
    use rustix::io::Errno;
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::MFILE) => return Some(Class::NoDescriptor),
        Some(Errno::NFILE) => return Some(Class::SystemFull),
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Some(Class::Refused),
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof => {
            Some(Class::Reset)
        }
        io::ErrorKind::TimedOut => Some(Class::SocketTimeout),
        io::ErrorKind::AddrNotAvailable => Some(Class::NoAddress),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
