//! Changes of endpoint pair shared keys (RFC 4895, RFC 6458 sections 8.1.18 and 8.3.3 to 8.3.5).

use super::Endpoint;
use crate::association::auth;
use crate::authentication::{KeyId, SharedKey};
use crate::error::KeyError;
use crate::event::AssociationId;

/// A change of the shared keys of an association, or of those that new associations begin with.
///
/// At first there is the null key with identifier 0, and it is the active one. To protect associations
/// against attackers who see their set-up, set another key, activate it, then deactivate and delete key 0.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyChange {
    /// Adds a key, or replaces the one with this identifier.
    Set(KeyId, SharedKey),
    /// Makes a key the one to send with, also for what is retransmitted from now on.
    Activate(KeyId),
    /// Excludes a key from sending. It still verifies what the peer sends. The active key cannot be deactivated.
    Deactivate(KeyId),
    /// Deletes a deactivated key.
    Delete(KeyId),
}

impl KeyChange {
    /// Changes the keys of an association.
    ///
    /// # Errors
    /// Fails if the association has ended or was configured without authentication, if the key does not exist, and if
    /// it is in use.
    pub fn apply(self, endpoint: &mut Endpoint, id: AssociationId) -> Result<(), KeyError> {
        let (association, cx) = endpoint.live(id)?;
        match self {
            Self::Set(key, secret) => auth::set_key(association, key, secret),
            Self::Activate(key) => auth::activate_key(association, key),
            Self::Deactivate(key) => auth::deactivate_key(association, cx, key),
            Self::Delete(key) => auth::delete_key(association, key),
        }
    }

    /// Changes the keys that new associations begin with, those that are being accepted included.
    ///
    /// # Errors
    /// Fails if the key does not exist, or is in use.
    pub fn apply_to_new(self, endpoint: &mut Endpoint) -> Result<(), KeyError> {
        let keys = &mut endpoint.context.keys;
        match self {
            Self::Set(key, secret) => keys.set(key, secret),
            Self::Activate(key) => keys.activate(key),
            Self::Deactivate(key) => keys.deactivate(key).map(|_| ()),
            Self::Delete(key) => keys.delete(key),
        }
    }
}
