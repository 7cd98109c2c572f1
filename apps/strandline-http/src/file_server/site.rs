//! What is served, whatever the transport.

use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ALT_SVC, DATE, HeaderValue, SERVER};
use hyper::{Request, Response, StatusCode, Version};

use crate::files::{FileBody, Files};
use crate::front::log::{AccessLog, Line, LoggedBody, Sender, Transport};
use crate::front::{Handler, log_refused};

/// The files, the access log, and the header that announces SCTP.
#[derive(Debug)]
pub(super) struct Site {
    pub(super) files: Files,
    pub(super) log: Option<Arc<AccessLog>>,
    pub(super) alt_svc: Option<HeaderValue>,
}

impl Handler for Site {
    type Body = LoggedBody<FileBody>;

    async fn answer(self: Arc<Self>, request: Request<Incoming>, sender: Sender) -> Response<Self::Body> {
        let response = self.files.answer(&request);
        let mut response =
            LoggedBody::respond(response, request.method(), Line::begin(&request, sender, self.log.as_ref()));
        let headers = response.headers_mut();
        headers.insert(SERVER, HeaderValue::from_static("strandline"));
        // SCTP has no TLS here, so it is no alternative to https.
        if let Some(alt_svc) = self.alt_svc.as_ref().filter(|_| sender.transport == Transport::Tcp) {
            headers.insert(ALT_SVC, alt_svc.clone());
        }
        debug_assert!(!headers.contains_key(DATE), "hyper inserts it");
        response
    }

    fn refused(&self, status: StatusCode, version: Version, sender: Sender) {
        log_refused(status, version, sender, self.log.as_ref());
    }

    fn access_log(&self) -> Option<&Arc<AccessLog>> {
        self.log.as_ref()
    }
}
