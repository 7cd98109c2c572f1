//! The cryptography of DTLS 1.3 by ring: AES-GCM, X25519 and P-256, ECDSA P-256.

mod aead;
mod digest;
mod exchange;
mod sign;

use dimpl::CryptoError;
use dimpl::crypto::{CryptoProvider, SecureRandom};
use ring::rand::SecureRandom as _;

/// Returns what dimpl is given instead of its own backends.
pub(crate) fn ring_provider() -> CryptoProvider {
    CryptoProvider {
        kx_groups: exchange::GROUPS,
        signature_verification: &sign::VERIFIER,
        key_provider: &sign::KEYS,
        secure_random: &RANDOM,
        hash_provider: &digest::HASHES,
        hmac_provider: &digest::HMACS,
        cipher_suites: aead::SUITES_12,
        dtls13_cipher_suites: aead::SUITES,
    }
}

#[derive(Debug)]
struct Random;

static RANDOM: Random = Random;

impl SecureRandom for Random {
    fn fill(&self, buf: &mut [u8]) -> Result<(), CryptoError> {
        let filled = ring::rand::SystemRandom::new().fill(buf);
        filled.map_err(|_| CryptoError::OperationFailed(dimpl::CryptoOperation::FillRandom))
    }
}
