//! Keys: endpoint pair shared keys of an endpoint or association, and the association shared keys that are derived from
//! them (RFC 4895 section 6.1).

use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;
use strandline_wire::parameter::{HMAC_SHA1, HMAC_SHA256};
use subtle::ConstantTimeEq;

use crate::authentication::{KEYS_MAX, KeyId, SharedKey};
use crate::error::KeyError;

/// Length of the longest MAC in bytes.
pub(in crate::association) const MAC_LEN_MAX: usize = 32;

/// An algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::association) enum Algorithm {
    Sha1,
    Sha256,
}

impl Algorithm {
    /// Returns the algorithm of an HMAC Identifier.
    pub(in crate::association) const fn of(identifier: u16) -> Option<Self> {
        match identifier {
            HMAC_SHA1 => Some(Self::Sha1),
            HMAC_SHA256 => Some(Self::Sha256),
            _ => None,
        }
    }

    pub(in crate::association) const fn identifier(self) -> u16 {
        match self {
            Self::Sha1 => HMAC_SHA1,
            Self::Sha256 => HMAC_SHA256,
        }
    }

    /// Returns the length of its MACs in bytes.
    pub(in crate::association) const fn mac_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => MAC_LEN_MAX,
        }
    }
}

/// A key of a ring.
#[derive(Debug, Clone)]
struct Key {
    id: KeyId,
    secret: SharedKey,
    /// Not used for sending any more.
    deactivated: bool,
}

/// Endpoint pair shared keys. At first there is only the null key, with identifier 0.
#[derive(Debug, Clone)]
pub(crate) struct KeyRing {
    keys: Vec<Key>,
    active: KeyId,
}

impl Default for KeyRing {
    fn default() -> Self {
        let null = Key { id: KeyId(0), secret: SharedKey::default(), deactivated: false };
        Self { keys: vec![null], active: KeyId(0) }
    }
}

impl KeyRing {
    /// Returns the key to send with.
    pub(crate) fn active(&self) -> KeyId {
        self.active
    }

    fn find(&mut self, id: KeyId) -> Result<&mut Key, KeyError> {
        self.keys.iter_mut().find(|key| key.id == id).ok_or(KeyError::UnknownKey(id))
    }

    /// Adds a key, or replaces one (RFC 6458 section 8.3.3).
    pub(crate) fn set(&mut self, id: KeyId, secret: SharedKey) -> Result<(), KeyError> {
        let key = Key { id, secret, deactivated: false };
        if let Ok(place) = self.find(id) {
            *place = key;
            return Ok(());
        }
        if self.keys.len() >= KEYS_MAX {
            return Err(KeyError::TooMany);
        }
        self.keys.push(key);
        Ok(())
    }

    /// Makes a key the one to send with (RFC 6458 section 8.1.18).
    pub(crate) fn activate(&mut self, id: KeyId) -> Result<(), KeyError> {
        if self.find(id)?.deactivated {
            return Err(KeyError::Deactivated(id));
        }
        self.active = id;
        Ok(())
    }

    /// Excludes a key from sending (RFC 6458 section 8.3.4). Returns false if it was deactivated before.
    pub(crate) fn deactivate(&mut self, id: KeyId) -> Result<bool, KeyError> {
        let active = self.active;
        let key = self.find(id)?;
        if id == active {
            return Err(KeyError::InUse(id));
        }
        Ok(!core::mem::replace(&mut key.deactivated, true))
    }

    /// Removes a deactivated key (RFC 6458 section 8.3.5).
    pub(crate) fn delete(&mut self, id: KeyId) -> Result<(), KeyError> {
        if !self.find(id)?.deactivated {
            return Err(KeyError::InUse(id));
        }
        self.keys.retain(|key| key.id != id);
        Ok(())
    }

    /// Derives the association shared keys.
    pub(in crate::association) fn derive(&self, vectors: &[u8]) -> Vec<(KeyId, Prepared)> {
        let derive = |key: &Key| (key.id, Prepared::new(key.secret.as_bytes(), vectors));
        self.keys.iter().map(derive).collect()
    }
}

/// An association shared key that both hashes have already processed.
#[derive(Clone)]
pub(in crate::association) struct Prepared {
    sha1: Hmac<Sha1>,
    sha256: Hmac<Sha256>,
}

/// Does not show the key.
impl core::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Prepared")
    }
}

impl Prepared {
    /// Derives the key from an endpoint pair shared key and both key vectors, which [`concatenate`] has put in order.
    fn new(secret: &[u8], vectors: &[u8]) -> Self {
        let key = [secret, vectors].concat();
        Self { sha1: prepare(&key), sha256: prepare(&key) }
    }

    /// Computes the MAC of an AUTH chunk and what follows it: `fields` are the chunk's bytes before the MAC. The MAC
    /// counts as zeros (section 6.2).
    pub(in crate::association) fn mac(
        &self,
        algorithm: Algorithm,
        fields: &[u8],
        rest: &[u8],
    ) -> [u8; MAC_LEN_MAX] {
        let zeros = [0; MAC_LEN_MAX];
        let parts = [fields, zeros.split_at(algorithm.mac_len()).0, rest];
        let mut mac = [0; MAC_LEN_MAX];
        match algorithm {
            Algorithm::Sha1 => finish(&self.sha1, parts, &mut mac),
            Algorithm::Sha256 => finish(&self.sha256, parts, &mut mac),
        }
        mac
    }

    /// True if the MAC is right. The time does not depend on where it is wrong.
    pub(in crate::association) fn verifies(
        &self,
        algorithm: Algorithm,
        fields: &[u8],
        mac: &[u8],
        rest: &[u8],
    ) -> bool {
        let right = self.mac(algorithm, fields, rest);
        bool::from(right.split_at(algorithm.mac_len()).0.ct_eq(mac))
    }
}

/// Gives a key of any length to a hash (RFC 2104 section 2).
fn prepare<M: KeyInit>(key: &[u8]) -> M {
    match M::new_from_slice(key) {
        Ok(mac) => mac,
        // Every length is valid.
        Err(_) => M::new(&hmac::digest::Key::<M>::default()),
    }
}

fn finish<M: Mac + Clone>(key: &M, parts: [&[u8]; 3], out: &mut [u8]) {
    let mut mac = key.clone();
    for part in parts {
        mac.update(part);
    }
    for (place, byte) in out.iter_mut().zip(mac.finalize().into_bytes()) {
        *place = byte;
    }
}

/// Concatenates the key vectors of both sides: the numerically smaller one first, and of equal numbers the shorter one.
pub(in crate::association) fn concatenate(one: &[u8], other: &[u8]) -> Vec<u8> {
    let rank = |vector: &[u8]| {
        let zeros = vector.iter().take_while(|byte| **byte == 0).count();
        (vector.len() - zeros, vector.split_at(zeros).1.to_vec(), vector.len())
    };
    if rank(one) <= rank(other) { [one, other].concat() } else { [other, one].concat() }
}

#[cfg(test)]
mod tests;
