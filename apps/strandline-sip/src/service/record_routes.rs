//! Rewrites our Record-Routes in a response so that the caller can use them (RFC 3261 section 16.7, step 8).
//!
//! A request to a SIPS URI gets Record-Routes with SIPS URIs (section 16.6, step 4). A caller that isn't
//! connected over TLS can't use those. In the answer they become SIP URIs, each for the transport of its
//! side.

use crate::codec::{HeaderName, Message};

use super::setup::Setup;
use super::source_validation::ROUTES_MAX;
use super::strict_routers::is_sips;

/// Maximum number of our Record-Routes that are rewritten in one response.
const REWRITTEN_MAX: usize = 4;

impl Setup {
    /// The URIs of our Record-Routes in an answer that its receiver can't use, each with the URI that takes
    /// its place.
    pub(super) fn rewritten_routes<'a>(&self, answer: &Message<'a>) -> Vec<(&'a [u8], Vec<u8>)> {
        let mut rewritten: Vec<(&'a [u8], Vec<u8>)> = Vec::new();
        if !answer.has(HeaderName::RecordRoute) {
            return rewritten;
        }
        let mut last: &[u8] = &[];
        for route in answer.record_routes().take(ROUTES_MAX).flatten() {
            if !is_sips(route.uri_bytes()) || rewritten.len() >= REWRITTEN_MAX {
                continue;
            }
            let Ok(uri) = route.sip_uri() else { continue };
            let Some(user) = uri.user.filter(|_| self.is_ours(&uri)) else { continue };
            let Some(token) = self.tokens.read(user) else { continue };
            let (caller, callee) = (token.caller.flow.protocol, token.callee.flow.protocol);
            if caller.is_secure() {
                continue;
            }
            // Of two entries with the same token, the first faces the callee.
            let side = if last == user { caller } else { callee };
            last = user;
            let Ok(own) = self.own_route((side, false), |out| out.extend_from_slice(user), "lr") else {
                continue;
            };
            let bare = own.strip_prefix(b"<").and_then(|own| own.strip_suffix(b">")).unwrap_or(&own);
            rewritten.push((route.uri_bytes(), bare.to_vec()));
        }
        rewritten
    }
}
