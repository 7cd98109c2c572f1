//! Digest hashes (RFC 7616 section 3.4.1).

use md5::Md5;
use sha2::{Sha256, Sha512_256};
use subtle::ConstantTimeEq;

use crate::codec::Digest;

/// A hash algorithm (RFC 8760 section 2.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Algorithm {
    /// MD5, for old phones.
    Md5,
    /// SHA-256.
    Sha256,
    /// SHA-512/256.
    Sha512_256,
}

impl Algorithm {
    /// All algorithms, the preferred ones first.
    pub const ALL: [Self; 3] = [Self::Sha256, Self::Sha512_256, Self::Md5];

    /// The name used in challenges.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Md5 => "MD5",
            Self::Sha256 => "SHA-256",
            Self::Sha512_256 => "SHA-512-256",
        }
    }

    /// Returns the algorithm with this name, in any case.
    #[must_use]
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name().as_bytes().eq_ignore_ascii_case(name))
    }

    /// The number of hexadecimal digits in a hash.
    #[must_use]
    pub const fn digits(self) -> usize {
        match self {
            Self::Md5 => 32,
            Self::Sha256 | Self::Sha512_256 => 64,
        }
    }

    /// The hash of the parts, joined by colons, in hexadecimal.
    #[must_use]
    pub fn hash(self, parts: &[&[u8]]) -> Vec<u8> {
        match self {
            Self::Md5 => joined::<Md5>(parts),
            Self::Sha256 => joined::<Sha256>(parts),
            Self::Sha512_256 => joined::<Sha512_256>(parts),
        }
    }
}

fn joined<H: sha2::Digest>(parts: &[&[u8]]) -> Vec<u8> {
    let mut hash = H::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            hash.update(b":");
        }
        hash.update(part);
    }
    let digit = |value: u8| b"0123456789abcdef".get(usize::from(value)).copied().unwrap_or(b'0');
    hash.finalize().iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The expected response for credentials. `secret` is the hash of user, realm and password. Without `qop` it
/// is computed as in RFC 2069, as old phones do.
#[must_use]
pub fn response(algorithm: Algorithm, secret: &[u8], method: &[u8], digest: &Digest<'_>) -> Vec<u8> {
    let nonce = digest.nonce.unwrap_or(&[]);
    let request = algorithm.hash(&[method, digest.uri.unwrap_or(&[])]);
    match digest.qop {
        None => algorithm.hash(&[secret, nonce, &request]),
        Some(qop) => {
            let (count, client) = (digest.nc.unwrap_or(&[]), digest.cnonce.unwrap_or(&[]));
            algorithm.hash(&[secret, nonce, count, client, qop, &request])
        }
    }
}

/// Compares in constant time.
pub(super) fn same(expected: &[u8], given: &[u8]) -> bool {
    expected.ct_eq(&given.to_ascii_lowercase()).into()
}
