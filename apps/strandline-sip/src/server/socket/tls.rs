//! The TLS settings for accepted and opened connections.

use std::rc::Rc;

use strandline_tls::{ClientTls, ServerTls};

#[derive(Clone, Default)]
pub(in crate::server) struct TlsSides {
    pub(in crate::server) server: Option<ServerTls>,
    pub(in crate::server) client: Option<ClientTls>,
    /// Domains that may relay requests to foreign hosts (RFC 5922).
    pub(in crate::server) peers: Rc<[String]>,
}
