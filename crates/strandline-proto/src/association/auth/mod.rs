//! Authentication of chunks (RFC 4895). The parameters of INIT and INIT ACK and the endpoint pair shared keys make the
//! association shared keys. [`check`] verifies AUTH chunks and discards what lacks one; [`seal`] inserts them into
//! finished packets, for which the builders leave room.

mod check;
mod seal;

use strandline_wire::chunk::kind;

pub(crate) use self::check::{
    Admission, admit, admits_cookie, begin_cookie, begin_packet, is_authentic, may_be_ended, of_cookie,
    verified_ahead,
};
pub(crate) use self::seal::{lost_len, reserve, reserve_for, reserve_of, seal, seal_answer};
use super::Association;
use super::context::EndpointContext;
use super::features::Extensions;
use super::keys::{
    Algorithm, CookieParameters, KeyRing, OwnParameters, PeerParameters, Prepared, RANDOM_LEN, concatenate,
};
use crate::authentication::{Authentication, AuthenticationEvent, ChunkTypes, KeyId, SharedKey};
use crate::error::KeyError;
use crate::event::Event;

/// Authentication of an association whose configuration asks for it.
#[derive(Debug)]
pub(crate) struct Auth {
    settings: Authentication,
    /// Our Random Number.
    random: [u8; RANDOM_LEN],
    ring: KeyRing,
    /// Set once both sides have agreed.
    session: Option<Session>,
}

/// What both sides agreed on.
#[derive(Debug)]
struct Session {
    /// Chunk types that the peer accepts only if they are authenticated.
    peer_chunks: ChunkTypes,
    /// The algorithm to send with.
    algorithm: Algorithm,
    /// The key vectors, in the order of the derivation.
    vectors: Vec<u8>,
    /// Association shared keys.
    keys: Vec<(KeyId, Prepared)>,
    /// The key that the peer used last.
    peer_key: KeyId,
    /// The unknown key that was reported last.
    unknown_key: Option<KeyId>,
    packet: PacketState,
}

/// How far the packet being received was authenticated.
#[derive(Debug, Clone, Copy, Default)]
struct PacketState {
    /// The chunks from here on are authenticated.
    verified: bool,
    /// An AUTH chunk was seen.
    has_auth: bool,
    /// The AUTH chunk before the COOKIE ECHO of the next packet to process was verified.
    ahead: bool,
}

impl Auth {
    pub(crate) fn new(settings: Authentication, random: [u8; RANDOM_LEN], ring: KeyRing) -> Self {
        Self { settings, random, ring, session: None }
    }

    /// Returns authentication according to a State Cookie.
    pub(crate) fn of_cookie(settings: Authentication, cookie: &CookieParameters, ring: KeyRing) -> Self {
        let mut auth = Self::new(settings, cookie.random, ring);
        auth.agree(&cookie.peer);
        auth
    }

    /// Returns our parameters for INIT.
    pub(crate) fn own(&self) -> OwnParameters {
        OwnParameters::new(&self.settings, self.random)
    }

    /// Returns what this side demands.
    pub(crate) const fn settings(&self) -> Authentication {
        self.settings
    }

    /// Returns our Random Number.
    pub(crate) const fn random(&self) -> [u8; RANDOM_LEN] {
        self.random
    }

    /// Derives the association shared keys from the peer's parameters.
    pub(crate) fn agree(&mut self, peer: &PeerParameters) {
        let vectors = concatenate(&self.own().vector(), &peer.vector());
        self.session = Some(Session {
            peer_chunks: demanded_by(peer, &self.settings),
            algorithm: peer.algorithm(),
            keys: self.ring.derive(&vectors),
            vectors,
            peer_key: KeyId(0),
            unknown_key: None,
            packet: PacketState::default(),
        });
    }

    /// Takes over what a State Cookie says. The association's own keys stay.
    pub(crate) fn adopt(&mut self, cookie: &CookieParameters) {
        self.random = cookie.random;
        self.agree(&cookie.peer);
    }

    /// Returns the size of what it holds on the heap, in bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        let session = self.session.as_ref();
        let keys = session.map_or(0, |session| session.keys.capacity() * size_of::<(KeyId, Prepared)>());
        keys + session.map_or(0, |session| session.vectors.capacity())
    }
}

/// Returns the chunk types that are sent with authentication: those that the peer lists, and the chunks of RFC 5061
/// whether it lists them or not (section 4.1).
fn demanded_by(peer: &PeerParameters, settings: &Authentication) -> ChunkTypes {
    let listed = peer.chunk_types();
    match settings.chunks.contains(kind::ASCONF) {
        true => listed.with(kind::ASCONF).with(kind::ASCONF_ACK),
        false => listed,
    }
}

/// Returns the authentication of an association, if its configuration asks for it.
#[inline]
pub(crate) fn auth_of(association: &Association) -> Option<&Auth> {
    association.extras.as_deref()?.auth.as_ref()
}

#[inline]
pub(crate) fn auth_mut(association: &mut Association) -> Option<&mut Auth> {
    association.extras.as_deref_mut()?.auth.as_mut()
}

/// Returns authentication for an association that this side sets up, if its configuration asks for it.
pub(super) fn offered(settings: Option<Authentication>, cx: &mut EndpointContext) -> Option<Auth> {
    let settings = settings?;
    Some(Auth::new(settings, cx.random_number(), cx.keys.clone()))
}

/// Returns authentication for an association that a State Cookie creates.
pub(super) fn accepted(
    settings: Option<Authentication>,
    cookie: Option<&CookieParameters>,
    cx: &EndpointContext,
) -> Option<Auth> {
    Some(Auth::of_cookie(settings.unwrap_or_default(), cookie?, cx.keys.clone()))
}

/// Takes over what the State Cookie of a restart or collision says.
pub(super) fn adopt(association: &mut Association, cx: &EndpointContext, cookie: Option<&CookieParameters>) {
    let Some(cookie) = cookie else { return };
    if let Some(auth) = auth_mut(association) {
        return auth.adopt(cookie);
    }
    // The peer did not support it before.
    let settings = association.config.extensions.demanded_authentication();
    association.extras.get_or_insert_default().auth = accepted(settings, Some(cookie), cx);
}

/// Reports that the peer does not support the authentication that this side asks for.
pub(super) fn report_support(association: &Association, cx: &mut EndpointContext) {
    let wanted = association.config.extensions.demanded_authentication().is_some();
    if wanted && !association.features.has(Extensions::AUTHENTICATION) {
        cx.event(association.id, Event::Authentication(AuthenticationEvent::NotSupported));
    }
}

/// Sets a key of an association.
pub(crate) fn set_key(association: &mut Association, id: KeyId, secret: SharedKey) -> Result<(), KeyError> {
    let auth = auth_mut(association).ok_or(KeyError::NotSupported)?;
    auth.ring.set(id, secret)?;
    derive_again(auth);
    Ok(())
}

/// Makes a key of an association the one to send with. Packets that are queued have the earlier one.
pub(crate) fn activate_key(association: &mut Association, id: KeyId) -> Result<(), KeyError> {
    auth_mut(association).ok_or(KeyError::NotSupported)?.ring.activate(id)
}

/// Deactivates a key of an association. It still verifies what the peer sends.
pub(crate) fn deactivate_key(
    association: &mut Association,
    cx: &mut EndpointContext,
    id: KeyId,
) -> Result<(), KeyError> {
    let auth = auth_mut(association).ok_or(KeyError::NotSupported)?;
    if auth.ring.deactivate(id)? {
        // Whatever is retransmitted is authenticated again, with the active key.
        cx.event(association.id, Event::Authentication(AuthenticationEvent::FreeKey(id)));
    }
    Ok(())
}

/// Deletes a key of an association.
pub(crate) fn delete_key(association: &mut Association, id: KeyId) -> Result<(), KeyError> {
    let auth = auth_mut(association).ok_or(KeyError::NotSupported)?;
    auth.ring.delete(id)?;
    derive_again(auth);
    Ok(())
}

fn derive_again(auth: &mut Auth) {
    if let Some(session) = &mut auth.session {
        session.keys = auth.ring.derive(&session.vectors);
    }
}
