//! What is served, whatever the transport.

use std::sync::Arc;

use hyper::header::{ALT_SVC, DATE, HeaderValue, SERVER};
use hyper::{Request, Response};

use super::log::{AccessLog, LoggedBody, Sender, Transport};
use crate::files::Files;

/// The files, the access log, and the header that announces SCTP.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) files: Files,
    pub(super) log: Option<Arc<AccessLog>>,
    pub(super) alt_svc: Option<HeaderValue>,
}

impl Site {
    /// Answers a request.
    pub(super) fn answer<B>(&self, request: &Request<B>, sender: Sender) -> Response<LoggedBody> {
        let response = self.files.answer(request);
        let mut response = LoggedBody::respond(request, sender, response, self.log.as_ref());
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("strandline"));
        // SCTP has no TLS here, so it is no alternative to https.
        if let Some(alt_svc) = self.alt_svc.as_ref().filter(|_| sender.transport == Transport::Tcp) {
            headers.insert(ALT_SVC, alt_svc.clone());
        }
        debug_assert!(!headers.contains_key(DATE), "hyper inserts it");
        response
    }
}

/// Returns the value of Alt-Svc (RFC 7838) that announces HTTP/1.1 over SCTP streams.
pub(super) fn alt_svc(sctp_port: u16, udp_port: Option<u16>) -> Option<HeaderValue> {
    let udp = udp_port.map_or(String::new(), |port| format!("; udp={port}"));
    HeaderValue::from_str(&format!("h1-sctp=\":{sctp_port}\"{udp}; ma=86400")).ok()
}
