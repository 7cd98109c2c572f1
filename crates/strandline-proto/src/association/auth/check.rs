//! Verification of AUTH chunks, and what happens to chunks without (RFC 4895 section 6.3).

use strandline_wire::chunk::{Auth as AuthChunk, Chunk, kind};
use strandline_wire::{CHUNK_HEADER_LEN, Packet, RawChunk};

use super::{Auth, Session, auth_mut, auth_of};
use crate::association::Association;
use crate::association::context::EndpointContext;
use crate::association::features::Extensions;
use crate::association::keys::{Algorithm, CookieParameters, identifiers};
use crate::authentication::{AuthenticationEvent, KeyId};
use crate::event::Event;

/// Length of an AUTH chunk before its MAC in bytes.
pub(super) const FIELDS_LEN: usize = CHUNK_HEADER_LEN + 4;

/// What becomes of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is processed.
    Process,
    /// It has no further effect, and the rest of the packet is processed.
    Skip,
    /// It and the rest of the packet are discarded.
    Discard,
    /// As `Discard`, and the HMAC Identifier is reported as unsupported.
    Unsupported(u16),
}

/// What an AUTH chunk turned out to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Right(KeyId),
    Wrong,
    UnknownKey(KeyId),
    UnsupportedHmac(u16),
}

impl Auth {
    /// Verifies an AUTH chunk. `covered` begins with it and ends with the packet.
    fn verify(&self, chunk: &AuthChunk<'_>, covered: &[u8]) -> Verdict {
        let Some(session) = &self.session else { return Verdict::Wrong };
        let listed = identifiers(self.settings.hmacs).iter().any(|hmac| hmac == chunk.hmac);
        let Some(algorithm) = Algorithm::of(chunk.hmac).filter(|_| listed) else {
            return Verdict::UnsupportedHmac(chunk.hmac);
        };
        let id = KeyId(chunk.key);
        let Some((_, key)) = session.keys.iter().find(|(known, _)| *known == id) else {
            return Verdict::UnknownKey(id);
        };
        let Some((fields, rest)) = covered.split_at_checked(FIELDS_LEN) else { return Verdict::Wrong };
        // The lengths of all MACs are multiples of four, so there is no padding.
        let Some((mac, rest)) = rest.split_at_checked(algorithm.mac_len()) else { return Verdict::Wrong };
        let fits = chunk.mac.len() == algorithm.mac_len();
        if fits && key.verifies(algorithm, fields, mac, rest) { Verdict::Right(id) } else { Verdict::Wrong }
    }

    /// True if the packet has an AUTH chunk that is right before its first chunk of this type.
    fn precedes(&self, packet: &Packet<'_>, wanted: u8) -> bool {
        let mut chunks = packet.chunks().map_while(Result::ok);
        let before = chunks.by_ref().find(|raw| raw.kind == kind::AUTH || raw.kind == wanted);
        match before.map(|raw| raw.parse()) {
            Some(Ok(Chunk::Auth(chunk))) => {
                let verdict = packet.from_chunk(kind::AUTH).map(|covered| self.verify(&chunk, covered));
                matches!(verdict, Some(Verdict::Right(_)))
            }
            _ => false,
        }
    }
}

/// Returns the session of an association in which both sides have agreed.
fn session(association: &mut Association) -> Option<&mut Session> {
    auth_mut(association)?.session.as_mut()
}

/// Begins a packet of an association in which both sides have agreed.
#[cold]
pub(crate) fn begin_packet(association: &mut Association) {
    if let Some(session) = session(association) {
        let ahead = core::mem::take(&mut session.packet.ahead);
        session.packet.verified = ahead;
        session.packet.has_auth = false;
    }
}

/// Decides about a chunk of an association in which both sides have agreed.
#[cold]
pub(crate) fn admit(
    association: &mut Association,
    cx: &mut EndpointContext,
    packet: &Packet<'_>,
    raw: &RawChunk<'_>,
) -> Admission {
    let Some(auth) = auth_mut(association) else { return Admission::Process };
    let Some(session) = auth.session.as_mut() else { return Admission::Process };
    if raw.kind != kind::AUTH {
        let lacks = auth.settings.chunks.contains(raw.kind) && !session.packet.verified;
        return match raw.kind {
            // RFC 5061 section 5.2 rule D5.
            kind::ASCONF | kind::ASCONF_ACK if lacks => Admission::Discard,
            _ if lacks => Admission::Skip,
            _ => Admission::Process,
        };
    }
    // A second one must not be sent (section 5.1).
    if core::mem::replace(&mut session.packet.has_auth, true) {
        return Admission::Discard;
    }
    if session.packet.verified {
        return Admission::Skip; // With the COOKIE ECHO after it.
    }
    let (Ok(Chunk::Auth(chunk)), Some(covered)) = (raw.parse(), packet.from_chunk(kind::AUTH)) else {
        return Admission::Discard;
    };
    match auth.verify(&chunk, covered) {
        Verdict::Right(id) => {
            on_verified(association, cx, id);
            Admission::Skip
        }
        Verdict::Wrong => Admission::Discard,
        Verdict::UnknownKey(id) => {
            on_unknown_key(association, cx, id);
            Admission::Discard
        }
        Verdict::UnsupportedHmac(hmac) => Admission::Unsupported(hmac),
    }
}

fn on_verified(association: &mut Association, cx: &mut EndpointContext, id: KeyId) {
    let Some(session) = session(association) else { return };
    session.packet.verified = true;
    session.unknown_key = None;
    if core::mem::replace(&mut session.peer_key, id) != id {
        cx.event_if_room(association.id, Event::Authentication(AuthenticationEvent::NewKey(id)));
    }
}

fn on_unknown_key(association: &mut Association, cx: &mut EndpointContext, id: KeyId) {
    let Some(session) = session(association) else { return };
    if session.unknown_key.replace(id) != Some(id) {
        cx.event_if_room(association.id, Event::Authentication(AuthenticationEvent::UnknownKey(id)));
    }
}

/// True if a packet that is not processed chunk by chunk may have the effect of its chunk of this type.
#[cold]
pub(crate) fn is_authentic(association: &Association, packet: &Packet<'_>, wanted: u8) -> bool {
    if !association.features.has(Extensions::AUTHENTICATION) {
        return true;
    }
    let Some(auth) = auth_of(association) else { return true };
    !auth.settings.chunks.contains(wanted) || auth.precedes(packet, wanted)
}

/// True if a malformed chunk may end the association: a peer whose ABORT must be authenticated must not be
/// able to end it by something else without authentication (section 6.3).
#[cold]
pub(crate) fn may_be_ended(association: &Association) -> bool {
    if !association.features.has(Extensions::AUTHENTICATION) {
        return true;
    }
    let Some(auth) = auth_of(association) else { return true };
    let verified = auth.session.as_ref().is_none_or(|session| session.packet.verified);
    verified || !auth.settings.chunks.contains(kind::ABORT)
}

/// Decides about the COOKIE ECHO of a packet, which follows an AUTH chunk if `has_auth`. Keys are those of the existing
/// association, or of the cookie if there is none or its set-up is not complete. Returns whether the packet was
/// authenticated; `None` if it is discarded.
pub(crate) fn admits_cookie(
    cx: &EndpointContext,
    existing: Option<&Association>,
    cookie: Option<&CookieParameters>,
    packet: &Packet<'_>,
    has_auth: bool,
) -> Option<bool> {
    let agreed = |association: &Association| {
        association.features.has(Extensions::AUTHENTICATION) && !association.state.in_setup()
    };
    if let Some(auth) = existing.filter(|association| agreed(association)).and_then(auth_of) {
        return judge(auth, packet, has_auth);
    }
    match of_cookie(cx, existing, cookie) {
        Some(auth) => judge(&auth, packet, has_auth),
        // AUTH is unknown then: the rest is discarded.
        None => (!has_auth).then_some(false),
    }
}

/// Returns the authentication that a State Cookie has agreed on with its peer, if it has. `existing` is the
/// association of the peer's address.
pub(crate) fn of_cookie(
    cx: &EndpointContext,
    existing: Option<&Association>,
    cookie: Option<&CookieParameters>,
) -> Option<Auth> {
    let config = existing.map_or(&cx.config.association, |association| &association.config);
    let settings = config.extensions.demanded_authentication().unwrap_or_default();
    cookie.map(|parameters| Auth::of_cookie(settings, parameters, cx.keys.clone()))
}

fn judge(auth: &Auth, packet: &Packet<'_>, has_auth: bool) -> Option<bool> {
    match has_auth {
        true => auth.precedes(packet, kind::COOKIE_ECHO).then_some(true),
        false => (!auth.settings.chunks.contains(kind::COOKIE_ECHO)).then_some(false),
    }
}

/// Notes whether the AUTH chunk before a COOKIE ECHO was verified that is about to be processed.
pub(crate) fn begin_cookie(association: &mut Association, verified: bool) {
    if let Some(session) = session(association) {
        session.packet.verified = verified;
    }
}

/// Notes whether the AUTH chunk before the COOKIE ECHO of the next packet was verified.
pub(crate) fn verified_ahead(association: &mut Association, verified: bool) {
    if let Some(session) = session(association) {
        session.packet.ahead = verified;
    }
}
