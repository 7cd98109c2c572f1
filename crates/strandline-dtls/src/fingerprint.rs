//! Fingerprints of public keys.

use core::fmt;
use core::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;

/// The SHA-256 of a public key (its SubjectPublicKeyInfo). It is written as ssh writes fingerprints:
/// `SHA256:` and 43 characters of base64.
///
/// ```
/// use strandline_dtls::Fingerprint;
/// let text = "SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU";
/// let fingerprint: Fingerprint = text.parse()?;
/// assert_eq!(fingerprint.to_string(), text);
/// # Ok::<(), strandline_dtls::FingerprintError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint([u8; 32]);

/// The text is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not a fingerprint: it is written as SHA256: and 43 characters of base64")]
pub struct FingerprintError;

const PREFIX: &str = "SHA256:";

impl Fingerprint {
    /// Returns the fingerprint of a DER-encoded SubjectPublicKeyInfo.
    #[must_use]
    pub fn of_key(spki_der: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, spki_der).as_ref());
        Self(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", STANDARD_NO_PAD.encode(self.0))
    }
}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let encoded = text.strip_prefix(PREFIX).ok_or(FingerprintError)?;
        let bytes = STANDARD_NO_PAD.decode(encoded.trim_end_matches('=')).map_err(|_| FingerprintError)?;
        bytes.try_into().map(Self).map_err(|_| FingerprintError)
    }
}
