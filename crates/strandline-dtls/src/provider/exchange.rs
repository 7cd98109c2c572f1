//! Key exchange: X25519 and P-256.

use dimpl::crypto::{ActiveKeyExchange, Buf, NamedGroup, SupportedKxGroup};
use dimpl::{CryptoError, CryptoOperation};
use ring::agreement::{self, Algorithm, EphemeralPrivateKey, UnparsedPublicKey};
use ring::rand::SystemRandom;

/// A group: its name and how ring calls it.
struct Group(NamedGroup, &'static Algorithm);

impl core::fmt::Debug for Group {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_tuple("Group").field(&self.0).finish_non_exhaustive()
    }
}

static X25519: Group = Group(NamedGroup::X25519, &agreement::X25519);
static P256: Group = Group(NamedGroup::Secp256r1, &agreement::ECDH_P256);

/// The preferred group first.
pub(super) static GROUPS: &[&dyn SupportedKxGroup] = &[&X25519, &P256];

struct Exchange {
    group: NamedGroup,
    algorithm: &'static Algorithm,
    secret: EphemeralPrivateKey,
    public: Buf,
}

impl core::fmt::Debug for Exchange {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Exchange").field("group", &self.group).finish_non_exhaustive()
    }
}

impl SupportedKxGroup for Group {
    fn name(&self) -> NamedGroup {
        self.0
    }

    fn start_exchange(&self, mut buf: Buf) -> Result<Box<dyn ActiveKeyExchange>, CryptoError> {
        let failed = |_| CryptoError::OperationFailed(CryptoOperation::FillRandom);
        let secret = EphemeralPrivateKey::generate(self.1, &SystemRandom::new()).map_err(failed)?;
        let public = secret.compute_public_key().map_err(failed)?;
        buf.clear();
        buf.extend_from_slice(public.as_ref());
        Ok(Box::new(Exchange { group: self.0, algorithm: self.1, secret, public: buf }))
    }
}

impl ActiveKeyExchange for Exchange {
    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn complete(self: Box<Self>, peer_pub: &[u8], out: &mut Buf) -> Result<(), CryptoError> {
        let Self { group, algorithm, secret, .. } = *self;
        let peer = UnparsedPublicKey::new(algorithm, peer_pub);
        // ring refuses points of low order.
        let agreed = agreement::agree_ephemeral(secret, &peer, |shared| {
            out.clear();
            out.extend_from_slice(shared);
        });
        agreed.map_err(|_| CryptoError::InvalidPublicKey(group))
    }

    fn group(&self) -> NamedGroup {
        self.group
    }
}
