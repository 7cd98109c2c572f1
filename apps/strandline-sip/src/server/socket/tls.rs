//! What TLS needs on connections that are accepted and opened.

use std::rc::Rc;

use strandline_tls::{ClientTls, ServerTls};

#[derive(Clone, Default)]
pub(in crate::server) struct TlsSides {
    pub(in crate::server) server: Option<ServerTls>,
    pub(in crate::server) client: Option<ClientTls>,
    /// Domains whose owners may send requests for other hosts (RFC 5922).
    pub(in crate::server) peers: Rc<[String]>,
}
