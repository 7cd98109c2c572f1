//! Identities: a private key with a certificate, and what is known of a peer's.

use rcgen::{CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use webpki::EndEntityCert;

use crate::fingerprint::Fingerprint;

/// Identity of this endpoint: a private key on P-256 and a certificate for it.
#[derive(Clone, PartialEq, Eq)]
pub struct Identity {
    pub(crate) certificate: Vec<u8>,
    /// PKCS #8, DER.
    pub(crate) private_key: Vec<u8>,
    fingerprint: Fingerprint,
}

/// Why an identity can't be made or read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityError {
    /// There is no certificate in the text.
    #[error("no certificate in PEM format (-----BEGIN CERTIFICATE-----)")]
    NoCertificate,
    /// There is no private key in the text.
    #[error("no private key in PEM format (-----BEGIN PRIVATE KEY-----)")]
    NoKey,
    /// The key is not one that is supported.
    #[error("the private key is not an ECDSA key on P-256 in PKCS #8 format")]
    UnsupportedKey,
    /// The certificate can't be read.
    #[error("the certificate can't be read: X.509 version 3 is expected")]
    BadCertificate,
    /// The certificate is for another key.
    #[error("certificate does not match the private key")]
    OtherKey,
    /// A key or certificate could not be made.
    #[error("generating a key failed: {0}")]
    Generate(String),
}

impl Identity {
    /// Makes a key and a self-signed certificate with a name, which is only informative. Returns the identity
    /// as text: the key and the certificate in PEM format, to be kept secret.
    ///
    /// # Errors
    /// If the system has no randomness, or the name can't stand in a certificate.
    pub fn generate(name: &str) -> Result<String, IdentityError> {
        let failed = |error: rcgen::Error| IdentityError::Generate(error.to_string());
        let key = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(failed)?;
        let mut parameters = CertificateParams::new([]).map_err(failed)?;
        parameters.distinguished_name.push(rcgen::DnType::CommonName, name);
        // Pins and known hosts name the key: the certificate's dates are not checked.
        parameters.not_after = rcgen::date_time_ymd(4096, 1, 1);
        let certificate = parameters.self_signed(&key).map_err(failed)?;
        Ok(key.serialize_pem() + &certificate.pem())
    }

    /// Reads the key and its certificate, the first of each, from text in PEM format.
    ///
    /// # Errors
    /// If one is missing, is of an unsupported kind, or does not belong to the other.
    pub fn from_pem(text: &str) -> Result<Self, IdentityError> {
        let certificate =
            CertificateDer::from_pem_slice(text.as_bytes()).map_err(|_| IdentityError::NoCertificate)?;
        let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|_| IdentityError::NoKey)?;
        let PrivateKeyDer::Pkcs8(key) = key else { return Err(IdentityError::UnsupportedKey) };
        let private_key = key.secret_pkcs8_der().to_vec();
        let pair = ring::signature::EcdsaKeyPair::from_pkcs8(
            &ring::signature::ECDSA_P256_SHA256_ASN1_SIGNING,
            &private_key,
            &ring::rand::SystemRandom::new(),
        );
        let pair = pair.map_err(|_| IdentityError::UnsupportedKey)?;
        let spki = spki_of(&certificate).ok_or(IdentityError::BadCertificate)?;
        let public = ring::signature::KeyPair::public_key(&pair);
        if !spki.ends_with(public.as_ref()) {
            return Err(IdentityError::OtherKey);
        }
        let fingerprint = Fingerprint::of_key(&spki);
        Ok(Self { certificate: certificate.to_vec(), private_key, fingerprint })
    }

    /// Returns the fingerprint of the public key, which peers pin.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl core::fmt::Debug for Identity {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

/// The identity that a peer has proved.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeerIdentity {
    /// The fingerprint of its public key.
    pub fingerprint: Fingerprint,
    /// The DNS names in its certificate. Nobody vouches for them unless certificates are verified by an authority.
    pub names: Vec<String>,
}

impl PeerIdentity {
    /// Reads the certificate of a peer. `None` if it can't be read.
    pub(crate) fn of_certificate(der: &[u8]) -> Option<Self> {
        /// Names kept of a certificate, and bytes of each.
        const NAMES_MAX: usize = 16;
        let certificate = CertificateDer::from(der);
        let parsed = EndEntityCert::try_from(&certificate).ok()?;
        let names = parsed.valid_dns_names().take(NAMES_MAX).map(str::to_owned).collect();
        Some(Self { fingerprint: Fingerprint::of_key(&spki_of(&certificate)?), names })
    }
}

fn spki_of(certificate: &CertificateDer<'_>) -> Option<Vec<u8>> {
    let parsed = EndEntityCert::try_from(certificate).ok()?;
    Some(parsed.subject_public_key_info().to_vec())
}

#[cfg(test)]
mod tests;
