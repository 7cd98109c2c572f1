//! Why a request isn't passed on, or has no response: statuses of RFC 9110 and error types of RFC 9209.

use std::error::Error;
use std::io;

use hyper::StatusCode;
use hyper_util::client::legacy;
use strandline::Ended;

use crate::causes::causes;

/// An association that failed before it was established, or before anything was sent, after a request had been handed
/// to it.
#[derive(Debug, thiserror::Error)]
#[error("the association failed: {cause}")]
pub(super) struct SetUpFailed {
    /// Whether the request has certainly not left.
    pub(super) is_unsent: bool,
    pub(super) cause: io::Error,
}

/// A request without a response of an upstream server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Failure {
    #[error("the request has {0}")]
    BadRequest(&'static str),
    #[error("{0}")]
    NotForThisProxy(&'static str),
    #[error("{0}")]
    Forbidden(String),
    #[error("this proxy makes no tunnels")]
    NoTunnels,
    #[error("the expectation is unknown: only 100-continue is supported")]
    Expectation,
    #[error("{0}")]
    NotImplemented(&'static str),
    #[error("the request has passed this proxy before: the upstream server leads back to it")]
    Loop,
    #[error("too many requests are in progress")]
    Busy,
    #[error("the client sent nothing of the request's body for too long")]
    SlowClient,
    #[error("the upstream server has no address")]
    Unknown(String),
    #[error("the upstream server refuses connections")]
    Refused(String),
    #[error("can't connect to the upstream server")]
    Unreachable(String),
    #[error("connecting to the upstream server took too long")]
    ConnectTimeout(String),
    #[error("the certificate of the upstream server is not accepted")]
    Certificate(String),
    #[error("the response of the upstream server is malformed")]
    Malformed(String),
    #[error("the upstream server closed the connection before it responded")]
    Terminated(String),
    #[error("the upstream server did not respond in time")]
    ResponseTimeout,
    #[error("the upstream server can't be reached any more")]
    Silent(String),
}

impl Failure {
    /// Returns what exactly went wrong, for the log. It may name addresses, which are none of the client's business.
    pub(super) fn cause(&self) -> Option<&str> {
        match self {
            Self::Unknown(cause)
            | Self::Refused(cause)
            | Self::Unreachable(cause)
            | Self::ConnectTimeout(cause)
            | Self::Certificate(cause)
            | Self::Malformed(cause)
            | Self::Terminated(cause)
            | Self::Silent(cause) => Some(cause),
            _ => None,
        }
    }

    /// Returns the status that the client gets.
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::BadRequest(_) => StatusCode::BAD_REQUEST,
            Self::NotForThisProxy(_) => StatusCode::BAD_REQUEST,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NoTunnels => StatusCode::METHOD_NOT_ALLOWED,
            Self::SlowClient => StatusCode::REQUEST_TIMEOUT,
            Self::Expectation => StatusCode::EXPECTATION_FAILED,
            Self::NotImplemented(_) => StatusCode::NOT_IMPLEMENTED,
            Self::Loop => StatusCode::LOOP_DETECTED,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::ConnectTimeout(_) | Self::ResponseTimeout | Self::Silent(_) => StatusCode::GATEWAY_TIMEOUT,
            Self::Unknown(_)
            | Self::Refused(_)
            | Self::Unreachable(_)
            | Self::Certificate(_)
            | Self::Malformed(_)
            | Self::Terminated(_) => StatusCode::BAD_GATEWAY,
        }
    }

    /// Returns the error type for Proxy-Status (RFC 9209 section 2.3).
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::BadRequest(_) | Self::NotForThisProxy(_) | Self::SlowClient => "http_request_error",
            Self::Forbidden(_) | Self::NoTunnels | Self::Expectation | Self::NotImplemented(_) => {
                "http_request_denied"
            }
            Self::Loop => "proxy_loop_detected",
            Self::Busy => "connection_limit_reached",
            Self::Unknown(_) => "dns_error",
            Self::Refused(_) => "connection_refused",
            Self::Unreachable(_) => "destination_ip_unroutable",
            Self::ConnectTimeout(_) => "connection_timeout",
            Self::Certificate(_) => "tls_certificate_error",
            Self::Malformed(_) => "http_protocol_error",
            Self::Terminated(_) => "connection_terminated",
            Self::ResponseTimeout => "http_response_timeout",
            Self::Silent(_) => "connection_read_timeout",
        }
    }

    /// Classifies an error of hyper's client. Also returns whether the request has certainly not been sent.
    pub(super) fn of(error: &legacy::Error) -> (Self, bool) {
        let text = causes(error);
        if error.is_connect() {
            return (Self::of_connect(error, text), true);
        }
        let inner = find::<io::Error>(error).and_then(io::Error::get_ref);
        if let Some(failed) = inner.and_then(|inner| inner.downcast_ref::<SetUpFailed>()) {
            return (Self::of_connect(error, text), failed.is_unsent);
        }
        if inner.is_some_and(|inner| matches!(inner.downcast_ref(), Some(Ended::TimedOut))) {
            return (Self::Silent(text), false);
        }
        match find::<hyper::Error>(error) {
            Some(error) if error.is_parse() => (Self::Malformed(text), false),
            _ => (Self::Terminated(text), false),
        }
    }

    /// Classifies an error of setting up a connection.
    pub(super) fn of_connect(error: &(dyn Error + 'static), text: String) -> Self {
        let kind = find::<io::Error>(error).map(io::Error::kind);
        match kind {
            _ if text.contains("dns error") || text.contains("lookup") || text.contains("has no address") => {
                Self::Unknown(text)
            }
            Some(io::ErrorKind::ConnectionRefused) => Self::Refused(text),
            Some(io::ErrorKind::TimedOut) => Self::ConnectTimeout(text),
            Some(io::ErrorKind::InvalidData) => Self::Certificate(text),
            _ => Self::Unreachable(text),
        }
    }
}

/// Returns the innermost cause of a type.
fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut found = None;
    let mut next = Some(error);
    while let Some(error) = next {
        found = error.downcast_ref().or(found);
        next = error.source();
    }
    found
}
