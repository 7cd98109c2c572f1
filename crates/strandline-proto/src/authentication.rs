//! Authentication of chunks (RFC 4895): what an endpoint demands of its peers, keys, and notifications.

use core::fmt;
use std::sync::Arc;

use strandline_wire::chunk::kind;

/// Chunk types whose authentication cannot be demanded (section 3.2).
const FORBIDDEN: [u8; 4] = [kind::INIT, kind::INIT_ACK, kind::SHUTDOWN_COMPLETE, kind::AUTH];

/// Maximum number of shared keys of an endpoint or association.
pub const KEYS_MAX: usize = 256;

/// A set of chunk types.
///
/// ```
/// use strandline_proto::authentication::ChunkTypes;
///
/// let types = ChunkTypes::NONE.with(0).with(193);
/// assert!(types.contains(193) && !types.contains(3));
/// assert_eq!(types.iter().collect::<Vec<_>>(), [0, 193]);
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChunkTypes([u64; 4]);

impl ChunkTypes {
    /// No chunk type.
    pub const NONE: Self = Self([0; 4]);

    /// Adds a chunk type.
    #[must_use]
    pub const fn with(mut self, kind: u8) -> Self {
        self.0[(kind >> 6) as usize] |= 1 << (kind & 63);
        self
    }

    /// True if the chunk type is in the set.
    #[must_use]
    pub const fn contains(self, kind: u8) -> bool {
        self.0[(kind >> 6) as usize] & (1 << (kind & 63)) != 0
    }

    /// True if there is none.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// True if all of them are among `kinds`.
    pub(crate) fn is_within(self, kinds: &[u8]) -> bool {
        let all = kinds.iter().copied().collect::<Self>();
        self.0.iter().zip(all.0).all(|(own, all)| own & !all == 0)
    }

    /// Returns the chunk types in ascending order.
    pub fn iter(self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(move |kind| self.contains(*kind))
    }

    /// True if the set has none whose authentication cannot be demanded: INIT, INIT ACK, SHUTDOWN COMPLETE, AUTH.
    pub(crate) fn may_be_demanded(self) -> bool {
        !FORBIDDEN.iter().any(|kind| self.contains(*kind))
    }

    /// Returns the set of a peer's CHUNKS parameter. Types that must not be listed are ignored (section 3.2).
    pub(crate) fn of_peer(list: &[u8]) -> Self {
        let listed = list.iter().filter(|kind| !FORBIDDEN.contains(kind));
        listed.fold(Self::NONE, |set, kind| set.with(*kind))
    }
}

impl FromIterator<u8> for ChunkTypes {
    fn from_iter<T: IntoIterator<Item = u8>>(kinds: T) -> Self {
        kinds.into_iter().fold(Self::NONE, Self::with)
    }
}

/// The algorithms that an endpoint accepts, the preferred one first. HMAC-SHA-1 always is among them (section 3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HmacAlgorithms {
    /// HMAC-SHA-256, otherwise HMAC-SHA-1.
    #[default]
    Sha256,
    /// HMAC-SHA-1, otherwise HMAC-SHA-256.
    Sha1,
    /// HMAC-SHA-1 only.
    Sha1Only,
}

/// What an endpoint demands of its peers. With [`Default`] it demands nothing, and authenticates what a peer demands.
///
/// ```
/// use strandline_proto::authentication::{Authentication, ChunkTypes};
/// use strandline_proto::config::{AssociationConfig, ExtensionsConfig};
///
/// // DATA (0) and ABORT (6) of peers need authentication.
/// let authentication = Authentication { chunks: ChunkTypes::NONE.with(0).with(6), ..Authentication::default() };
/// let extensions = ExtensionsConfig { authentication: Some(authentication), ..ExtensionsConfig::default() };
/// let config = AssociationConfig { extensions, ..AssociationConfig::default() };
/// assert!(config.validate().is_ok());
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Authentication {
    /// Chunk types that are accepted only if they are authenticated. INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH cannot
    /// be listed. With COOKIE ECHO, a peer that has lost its state cannot restart the association (section 6.3). With
    /// ABORT, it takes longer to detect that a peer has lost its state.
    pub chunks: ChunkTypes,
    /// The accepted algorithms. A peer may use any of them.
    pub hmacs: HmacAlgorithms,
    /// Refuses peers without authentication. Otherwise associations with them are not authenticated at all.
    pub required: bool,
}

/// Shared Key Identifier.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KeyId(pub u16);

/// An endpoint pair shared key: bytes that both endpoints know. Without bytes it is the null key.
///
/// The null key protects only against attackers who have not seen the set-up of the association.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey(Arc<[u8]>);

impl SharedKey {
    /// Returns the key with these bytes.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl Default for SharedKey {
    fn default() -> Self {
        Self::new(&[])
    }
}

/// Does not show the key.
impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey({} bytes)", self.0.len())
    }
}

/// Notifications about keys (RFC 6458 section 6.1.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthenticationEvent {
    /// The peer uses this key from now on.
    NewKey(KeyId),
    /// The key is deactivated, and nothing will be sent with it any more.
    FreeKey(KeyId),
    /// The peer used a key that this side does not have. What it authenticated is discarded. Reported once for a key
    /// in a row.
    UnknownKey(KeyId),
    /// The peer does not support authentication.
    NotSupported,
}

#[cfg(test)]
mod tests;
