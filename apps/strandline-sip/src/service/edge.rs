//! An edge proxy: phones register through here at registrars elsewhere, and are reached over the flows that they have opened
//! (RFC 5626 section 5, RFC 3327 section 5.2).

use crate::codec::{HeaderName, Message, Method, StatusCode, Token, Uri};
use crate::registrar::supports;
use crate::transaction::Time;

use super::Service;
use super::incoming::Incoming;

impl Service {
    /// Is this a REGISTER for a registrar elsewhere, from the phone itself, to which a Path is added?
    pub(super) fn adds_path(&self, incoming: &Incoming<'_>) -> bool {
        if incoming.essentials.cseq.method != Method::Register || self.settings.directory.routes.is_empty() {
            return false;
        }
        let uri = incoming.essentials.routable_uri();
        let to_registrar = matches!(uri, Ok(Uri::Sip(uri)) if self.settings.directory.is_registrar(&uri));
        // Who isn't the first hop knows nothing of the phone's flow.
        to_registrar && incoming.message.vias().take(2).count() == 1
    }

    /// A phone that registers elsewhere has to know of Path, as it would not be reached without: refused with 421 if it doesn't
    /// (RFC 3327 section 5.2).
    pub(super) fn lacks_path(&mut self, now: Time, incoming: &Incoming<'_>) -> bool {
        if !self.adds_path(incoming) || supports(&incoming.message, b"path") {
            return false;
        }
        let extra = Some((HeaderName::Require, &b"path"[..]));
        self.answer_last(now, incoming, StatusCode::EXTENSION_REQUIRED, None, extra);
        true
    }

    /// A registrar elsewhere has taken a phone: its connection is kept, and it is known when there is too much to do.
    pub(super) fn is_registered(&mut self, now: Time, slot: u32) {
        let Some(flow) = self.contexts.get(slot).and_then(|context| context.registers) else { return };
        self.known.insert(now, &flow);
        if self.connections.contains(&flow.connection) {
            self.edges.insert(flow.connection);
        }
    }
}

/// Does the sender require this extension already?
pub(super) fn requires(message: &Message<'_>, option: &[u8]) -> bool {
    message.values(HeaderName::Require).flatten().any(|token: Token<'_>| token.is(option))
}
