//! AES-GCM, and the mask of record numbers (RFC 9147 section 4.2.3).

use aes::cipher::{BlockCipherEncrypt, KeyInit};
use dimpl::crypto::{
    Aad, Buf, Cipher, Dtls12CipherSuite, Dtls13CipherSuite, HashAlgorithm, Nonce, SupportedDtls12CipherSuite,
    SupportedDtls13CipherSuite, TmpBuf,
};
use dimpl::{CryptoError, CryptoOperation};
use ring::aead::{self, LessSafeKey, UnboundKey};

const TAG_LEN: usize = 16;
const IV_LEN: usize = 12;

/// A cipher suite of TLS 1.3.
#[derive(Debug)]
struct Suite {
    suite: Dtls13CipherSuite,
    hash: HashAlgorithm,
    key_len: usize,
    algorithm: &'static aead::Algorithm,
    mask: fn(&[u8], &mut [u8; 16]),
}

static AES_128_GCM: Suite = Suite {
    suite: Dtls13CipherSuite::AES_128_GCM_SHA256,
    hash: HashAlgorithm::SHA256,
    key_len: 16,
    algorithm: &aead::AES_128_GCM,
    mask: mask::<aes::Aes128>,
};
static AES_256_GCM: Suite = Suite {
    suite: Dtls13CipherSuite::AES_256_GCM_SHA384,
    hash: HashAlgorithm::SHA384,
    key_len: 32,
    algorithm: &aead::AES_256_GCM,
    mask: mask::<aes::Aes256>,
};

/// The preferred suite first.
pub(super) static SUITES: &[&dyn SupportedDtls13CipherSuite] = &[&AES_128_GCM, &AES_256_GCM];

/// dimpl checks that a provider has a suite of DTLS 1.2, which is never negotiated here.
#[derive(Debug)]
struct Suite12;

static SUITE_12: Suite12 = Suite12;
pub(super) static SUITES_12: &[&dyn SupportedDtls12CipherSuite] = &[&SUITE_12];

#[derive(Debug)]
struct AesGcm(LessSafeKey);

impl AesGcm {
    fn boxed(algorithm: &'static aead::Algorithm, key: &[u8]) -> Result<Box<dyn Cipher>, CryptoError> {
        let key = UnboundKey::new(algorithm, key).map_err(|_| failed(CryptoOperation::CreateCipher))?;
        Ok(Box::new(Self(LessSafeKey::new(key))))
    }
}

fn failed(operation: CryptoOperation) -> CryptoError {
    CryptoError::OperationFailed(operation)
}

impl Cipher for AesGcm {
    fn encrypt(&mut self, plaintext: &mut Buf, aad: Aad, nonce: Nonce) -> Result<(), CryptoError> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce.0);
        let sealed = self.0.seal_in_place_separate_tag(nonce, aead::Aad::from(&aad[..]), plaintext.as_mut());
        let tag = sealed.map_err(|_| failed(CryptoOperation::Encrypt))?;
        plaintext.extend_from_slice(tag.as_ref());
        Ok(())
    }

    fn decrypt(&mut self, ciphertext: &mut TmpBuf<'_>, aad: Aad, nonce: Nonce) -> Result<(), CryptoError> {
        let nonce = aead::Nonce::assume_unique_for_key(nonce.0);
        let opened = self.0.open_in_place(nonce, aead::Aad::from(&aad[..]), ciphertext.as_mut());
        let len = opened.map_err(|_| failed(CryptoOperation::Decrypt))?.len();
        ciphertext.truncate(len);
        Ok(())
    }
}

impl SupportedDtls13CipherSuite for Suite {
    fn suite(&self) -> Dtls13CipherSuite {
        self.suite
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        self.hash
    }

    fn key_len(&self) -> usize {
        self.key_len
    }

    fn iv_len(&self) -> usize {
        IV_LEN
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn create_cipher(&self, key: &[u8]) -> Result<Box<dyn Cipher>, CryptoError> {
        AesGcm::boxed(self.algorithm, key)
    }

    fn encrypt_sn(&self, sn_key: &[u8], sample: &[u8; 16]) -> [u8; 16] {
        let mut block = *sample;
        (self.mask)(sn_key, &mut block);
        block
    }
}

/// Encrypts one block with AES, which ring does not offer. Keys come from dimpl and have the length that the suite
/// names.
fn mask<C: BlockCipherEncrypt<BlockSize = aes::cipher::typenum::U16> + KeyInit>(
    key: &[u8],
    block: &mut [u8; 16],
) {
    if let Ok(cipher) = C::new_from_slice(key) {
        cipher.encrypt_block(block.into());
    }
}

impl SupportedDtls12CipherSuite for Suite12 {
    fn suite(&self) -> Dtls12CipherSuite {
        Dtls12CipherSuite::ECDHE_ECDSA_AES128_GCM_SHA256
    }

    fn hash_algorithm(&self) -> HashAlgorithm {
        HashAlgorithm::SHA256
    }

    fn key_lengths(&self) -> (usize, usize, usize) {
        (0, 16, 4)
    }

    fn explicit_nonce_len(&self) -> usize {
        8
    }

    fn tag_len(&self) -> usize {
        TAG_LEN
    }

    fn create_cipher(&self, key: &[u8]) -> Result<Box<dyn Cipher>, CryptoError> {
        AesGcm::boxed(&aead::AES_128_GCM, key)
    }
}
