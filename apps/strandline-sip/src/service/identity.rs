//! Asserted identities (RFC 3325): whose assertions are passed on, and to whom.

use core::net::SocketAddr;

use crate::codec::{Edits, HeaderName, Message};
use crate::transaction::Flow;

use super::connections::ConnectionBook;
use super::setup::Setup;

/// The predecessor of P-Asserted-Identity.
const REMOTE_PARTY_ID: &[u8] = b"Remote-Party-ID";

/// Whether the peer of a flow is in the trust domain (RFC 3325 section 2.3).
pub(super) fn trusts(setup: &Setup, flow: &Flow, connections: &ConnectionBook) -> bool {
    trusts_address(setup, &flow.peer) || connections.is_trusted(flow.connection)
}

fn trusts_address(setup: &Setup, peer: &SocketAddr) -> bool {
    setup.settings.relay.names(peer)
        || setup.settings.trusted.contains(peer)
        || setup.nodes.as_ref().is_some_and(|nodes| nodes.is_node(peer.ip()))
}

/// Removes identities from a message that is forwarded: all that the sender asserts, unless the sender is
/// `trusted` (section 5), and those that are to be kept secret from the receiver `to`, unless that is in the
/// trust domain (section 7).
pub(super) fn edit_identity<'a>(
    setup: &Setup,
    edits: &mut Edits<'a>,
    message: &Message<'a>,
    trusted: bool,
    to: Option<&SocketAddr>,
) {
    if !trusted {
        for name in [HeaderName::PAssertedIdentity, HeaderName::PPreferredIdentity] {
            edits.remove(name);
        }
        edits.remove_named(REMOTE_PARTY_ID);
    } else if message.has(HeaderName::PAssertedIdentity)
        && asks_for_privacy(message)
        && !to.is_some_and(|to| trusts_address(setup, to))
    {
        edits.remove(HeaderName::PAssertedIdentity);
    }
}

/// Whether a message requests that the asserted identity stays in the trust domain: `Privacy: id`.
fn asks_for_privacy(message: &Message<'_>) -> bool {
    let is_id = |value: &[u8]| value.trim_ascii().eq_ignore_ascii_case(b"id");
    message.lines(HeaderName::Privacy).any(|line| line.value().split(|byte| *byte == b';').any(is_id))
}
