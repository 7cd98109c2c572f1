//! SHA-2 and HMAC.

use dimpl::CryptoError;
use dimpl::crypto::{Buf, HashAlgorithm, HashContext, HashProvider, HmacProvider};
use ring::{digest, hmac};

#[derive(Debug)]
pub(super) struct Hashes;

#[derive(Debug)]
pub(super) struct Hmacs;

pub(super) static HASHES: Hashes = Hashes;
pub(super) static HMACS: Hmacs = Hmacs;

struct Context(digest::Context);

impl core::fmt::Debug for Context {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Context").field(self.0.algorithm()).finish()
    }
}

impl HashProvider for Hashes {
    fn create_hash(&self, algorithm: HashAlgorithm) -> Box<dyn HashContext> {
        // dimpl asks only for the hashes of the suites that the provider lists.
        let algorithm = if algorithm == HashAlgorithm::SHA384 { &digest::SHA384 } else { &digest::SHA256 };
        Box::new(Context(digest::Context::new(algorithm)))
    }
}

impl HashContext for Context {
    fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn clone_and_finalize(&self, out: &mut Buf) {
        out.clear();
        out.extend_from_slice(self.0.clone().finish().as_ref());
    }
}

impl HmacProvider for Hmacs {
    fn hmac(
        &self,
        hash: HashAlgorithm,
        key: &[u8],
        data: &[u8],
        out: &mut [u8],
    ) -> Result<usize, CryptoError> {
        let algorithm = match hash {
            HashAlgorithm::SHA256 => hmac::HMAC_SHA256,
            HashAlgorithm::SHA384 => hmac::HMAC_SHA384,
            _ => return Err(CryptoError::UnsupportedHmacHash(hash)),
        };
        let tag = hmac::sign(&hmac::Key::new(algorithm, key), data);
        let Some(room) = out.get_mut(..tag.as_ref().len()) else {
            return Err(CryptoError::OperationFailed(dimpl::CryptoOperation::ComputeHmac));
        };
        room.copy_from_slice(tag.as_ref());
        Ok(room.len())
    }
}
