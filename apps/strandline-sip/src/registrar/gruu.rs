//! GRUUs (RFC 5627 section 5.4): URIs that lead to one instance of a user's phones.
//!
//! A public GRUU is the address of record with the instance in `gr`, and needs no memory. A temporary GRUU
//! reveals neither: its user part consists of a random distinguisher, the encrypted number of the instance,
//! and a seal. So there may be one for each refresh, with only one number stored for all of them.

use core::cell::Cell;
use core::hash::Hasher;
use std::io::Write as _;

use hmac::{Hmac, KeyInit, Mac};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_encode};
use sha2::{Digest as _, Sha256};
use siphasher::sip::SipHasher24;

use crate::codec::{SipUri, base64url, base64url_decode};

/// The prefix of the user part of temporary GRUUs.
const PREFIX: &[u8] = b"tgruu.";
const DISTINGUISHER_LEN: usize = 10;
const NUMBER_LEN: usize = 8;
const SEAL_LEN: usize = 10;
const LEN: usize = DISTINGUISHER_LEN + NUMBER_LEN + SEAL_LEN;

/// Creates GRUUs, and decodes temporary ones.
#[derive(Clone)]
pub struct Gruus {
    /// A keyed hash, copied for each use.
    encrypt: Hmac<Sha256>,
    seal: Hmac<Sha256>,
    fresh: SipHasher24,
    made: Cell<u64>,
}

impl core::fmt::Debug for Gruus {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Gruus")
    }
}

impl Gruus {
    /// Creates a generator. `shared` is a random key that is the same after a restart and at all nodes. `own`
    /// is random and never reused.
    #[must_use]
    pub fn new(shared: &[u8], own: &[u8]) -> Self {
        let keyed = |name: &[u8]| {
            let key = Sha256::new().chain_update(name).chain_update(shared).finalize();
            let mut block = hmac::digest::Key::<Hmac<Sha256>>::default();
            block.iter_mut().zip(key).for_each(|(place, byte)| *place = byte);
            Hmac::new(&block)
        };
        let fresh = Sha256::new().chain_update(b"gruu fresh").chain_update(own).finalize();
        Self {
            encrypt: keyed(b"gruu encrypt"),
            seal: keyed(b"gruu seal"),
            fresh: SipHasher24::new_with_key(fresh.first_chunk().unwrap_or(&[0; 16])),
            made: Cell::new(0),
        }
    }

    /// A number that never repeats and can't be predicted.
    fn fresh(&self, kind: u8) -> u64 {
        self.made.set(self.made.get() + 1);
        let mut hasher = self.fresh;
        hasher.write_u8(kind);
        hasher.write_u64(self.made.get());
        hasher.finish()
    }

    /// A number for an instance, other than 0. It is odd if it invalidates the earlier numbers of the
    /// instance.
    pub(super) fn number(&self, ends_others: bool) -> u64 {
        (self.fresh(0) | 2) & !1 | u64::from(ends_others)
    }

    /// Encrypts or decrypts a number.
    fn mask(&self, distinguisher: &[u8], number: [u8; NUMBER_LEN]) -> [u8; NUMBER_LEN] {
        let pad = self.encrypt.clone().chain_update(distinguisher).finalize().into_bytes();
        let mut masked = number;
        masked.iter_mut().zip(pad).for_each(|(byte, pad)| *byte ^= pad);
        masked
    }

    /// Appends the user part of a temporary GRUU for a number. It differs each time.
    fn write_user(&self, number: u64, out: &mut Vec<u8>) {
        let mut whole = Vec::with_capacity(LEN);
        whole.extend_from_slice(&self.fresh(1).to_le_bytes());
        whole.extend_from_slice(&(self.fresh(1) as u16).to_le_bytes());
        let masked = self.mask(&whole, number.to_le_bytes());
        whole.extend_from_slice(&masked);
        let seal = self.seal.clone().chain_update(&whole).finalize().into_bytes();
        whole.extend(seal.into_iter().take(SEAL_LEN));
        out.extend_from_slice(PREFIX);
        base64url(&whole, out);
    }

    /// Decodes the number in the user part of a temporary GRUU. `None` if this server didn't create it.
    #[must_use]
    pub fn read(&self, user: &[u8]) -> Option<u64> {
        let mut room = [0; LEN + 3];
        let len = base64url_decode(user.strip_prefix(PREFIX)?, &mut room)?;
        let (body, seal) = room.get(..len)?.split_at_checked(LEN - SEAL_LEN)?;
        let own = self.seal.clone().chain_update(body);
        own.verify_truncated_left(seal).ok().filter(|()| seal.len() == SEAL_LEN)?;
        let (distinguisher, masked) = body.split_at_checked(DISTINGUISHER_LEN)?;
        Some(u64::from_le_bytes(self.mask(distinguisher, masked.try_into().ok()?)))
    }

    /// `;pub-gruu="..."`, and `;temp-gruu="..."` if the instance has a number.
    pub(super) fn params(&self, to: &SipUri<'_>, instance: &[u8], number: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(240);
        let Some(user) = to.user else { return out };
        out.extend_from_slice(b";pub-gruu=\"");
        address(to, |out| out.extend_from_slice(user), &mut out);
        out.extend_from_slice(b";gr=");
        escape(instance, &mut out);
        out.push(b'"');
        if number != 0 {
            out.extend_from_slice(b";temp-gruu=\"");
            address(to, |out| self.write_user(number, out), &mut out);
            out.extend_from_slice(b";gr\"");
        }
        out
    }
}

/// `sip:user@domain`
fn address(to: &SipUri<'_>, user: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    out.extend_from_slice(if to.secure { b"sips:" } else { b"sip:" });
    user(out);
    // Writing to a growable buffer does not fail.
    let _ = write!(out, "@{}", to.host);
    if let Some(port) = to.port {
        let _ = write!(out, ":{port}");
    }
}

/// Bytes that need an escape in the value of a URI parameter (RFC 3261 section 25.1, `pvalue`).
const PVALUE: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'!')
    .remove(b'~')
    .remove(b'*')
    .remove(b'\'')
    .remove(b'(')
    .remove(b')')
    .remove(b'[')
    .remove(b']')
    .remove(b'/')
    .remove(b':')
    .remove(b'&')
    .remove(b'+')
    .remove(b'$');

/// Escapes the value of a URI parameter.
fn escape(text: &[u8], out: &mut Vec<u8>) {
    percent_encode(text, PVALUE).for_each(|part| out.extend_from_slice(part.as_bytes()));
}

#[cfg(test)]
mod tests;
