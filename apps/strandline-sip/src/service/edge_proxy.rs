//! The edge proxy: phones register through it at other registrars, and are reached over the flows that they
//! have opened (RFC 5626 section 5, RFC 3327 section 5.2).

use crate::codec::{HeaderName, Message, Method, Token, Uri};

use super::incoming::Incoming;
use super::setup::Setup;

impl Setup {
    /// Whether this is a REGISTER for another registrar, directly from the phone: a Path is added to it.
    pub(super) fn adds_path(&self, incoming: &Incoming<'_>) -> bool {
        if incoming.essentials.cseq.method != Method::Register || self.settings.directory.routes.is_empty() {
            return false;
        }
        let uri = incoming.essentials.routable_uri();
        let to_registrar = matches!(uri, Ok(Uri::Sip(uri)) if self.settings.directory.is_registrar(&uri));
        // Only the first hop knows the phone's flow.
        to_registrar && incoming.message.vias().take(2).count() == 1
    }
}

/// Whether a request requires this extension already.
pub(super) fn requires(message: &Message<'_>, option: &[u8]) -> bool {
    message.values(HeaderName::Require).flatten().any(|token: Token<'_>| token.is(option))
}
