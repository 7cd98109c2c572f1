//! ECDSA: signatures with the own key, and verification with the key of a certificate.

use dimpl::crypto::{
    Buf, HashAlgorithm, KeyProvider, NamedGroup, SignatureAlgorithm, SignatureVerifier, SigningKey,
};
use dimpl::{CryptoError, CryptoOperation};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls_pki_types::{CertificateDer, SignatureVerificationAlgorithm};
use webpki::EndEntityCert;

#[derive(Debug)]
pub(super) struct Verifier;

#[derive(Debug)]
pub(super) struct Keys;

pub(super) static VERIFIER: Verifier = Verifier;
pub(super) static KEYS: Keys = Keys;

/// A key on P-256, the only curve of our own identities.
#[derive(Debug)]
struct Key(EcdsaKeyPair);

impl SignatureVerifier for Verifier {
    fn verify_signature(
        &self,
        cert_der: &[u8],
        data: &[u8],
        signature: &[u8],
        hash_alg: HashAlgorithm,
        sig_alg: SignatureAlgorithm,
    ) -> Result<(), CryptoError> {
        // In TLS 1.3 the hash names the curve (RFC 8446 section 4.2.3); webpki checks the certificate's.
        let (algorithm, group): (&dyn SignatureVerificationAlgorithm, _) = match (sig_alg, hash_alg) {
            (SignatureAlgorithm::ECDSA, HashAlgorithm::SHA384) => {
                (webpki::ring::ECDSA_P384_SHA384, NamedGroup::Secp384r1)
            }
            _ => (webpki::ring::ECDSA_P256_SHA256, NamedGroup::Secp256r1),
        };
        let failed =
            |_| CryptoError::SignatureVerificationFailed { signature: sig_alg, hash: hash_alg, group };
        let certificate = CertificateDer::from(cert_der);
        let certificate = EndEntityCert::try_from(&certificate).map_err(failed)?;
        certificate.verify_signature(algorithm, data, signature).map_err(failed)
    }
}

impl KeyProvider for Keys {
    fn load_private_key(&self, key_der: &[u8]) -> Result<Box<dyn SigningKey>, CryptoError> {
        let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key_der, &SystemRandom::new());
        let key = key.map_err(|_| CryptoError::OperationFailed(CryptoOperation::LoadPrivateKey))?;
        Ok(Box::new(Key(key)))
    }
}

impl SigningKey for Key {
    fn sign(&mut self, data: &[u8], hash_alg: HashAlgorithm, out: &mut Buf) -> Result<(), CryptoError> {
        if hash_alg != HashAlgorithm::SHA256 {
            return Err(CryptoError::OperationFailed(CryptoOperation::Sign));
        }
        let signed = self.0.sign(&SystemRandom::new(), data);
        let signed = signed.map_err(|_| CryptoError::OperationFailed(CryptoOperation::Sign))?;
        out.clear();
        out.extend_from_slice(signed.as_ref());
        Ok(())
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::SHA256
    }

    fn supported_hash_algorithms(&self) -> &[HashAlgorithm] {
        &[HashAlgorithm::SHA256]
    }
}
