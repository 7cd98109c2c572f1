//! Which peers are trusted.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, TrustAnchor, UnixTime};
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::fingerprint::Fingerprint;
use crate::identity::PeerIdentity;
use crate::known_hosts::{Found, KnownHost, KnownHosts, names_of};

/// Certificates of authorities that are read at most.
const AUTHORITIES_MAX: usize = 1024;

/// Which peers are trusted: those with a pinned key, those in a list of known hosts, and those whose certificate an
/// authority vouches for. By default there are none.
///
/// A client looks a server up by its address, and by the name that it was given. A server accepts each client whose key
/// is pinned or stands in the list, whatever its name there.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    pins: Vec<Fingerprint>,
    hosts: Option<Hosts>,
    authorities: Arc<Vec<TrustAnchor<'static>>>,
}

/// A list of known hosts, shared by the clones of a [`Trust`].
#[derive(Debug, Clone)]
struct Hosts {
    list: Arc<Mutex<KnownHosts>>,
    /// Whether unknown servers are added to the list.
    first_use: bool,
}

/// Why a peer is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TrustError {
    /// The peer has no certificate that can be read.
    #[error("the peer has no readable certificate")]
    NoCertificate,
    /// Nobody vouches for the client's key.
    #[error(
        "the client's key is unknown: {0}. If `strandline keygen --show` prints it there: strandline trust add NAME {0}"
    )]
    UnknownClient(Fingerprint),
    /// Nobody vouches for the server's key.
    #[error(
        "the key of {name} is unknown: {presented}. If `strandline keygen --show` prints it there: \
         strandline trust add {name} {presented}"
    )]
    UnknownServer {
        /// The name that the user gave, or the address.
        name: String,
        /// The key that it has.
        presented: Fingerprint,
    },
    /// The list of known hosts has other keys for this host.
    #[error(
        "THE KEY OF {name} HAS CHANGED: it is {presented}, and the known hosts have {}. Somebody may be in the middle, or it has \
         a new key; if so: strandline trust remove {name}, then strandline trust add {name} {presented}",
        keys(.expected)
    )]
    Changed {
        /// The name under which it is listed.
        name: String,
        /// The key that it has now.
        presented: Fingerprint,
        /// The keys that it is listed with; none if its line can't be read.
        expected: Vec<Fingerprint>,
    },
    /// An authority's certificates are demanded, and this one is not valid.
    #[error(
        "the peer's certificate is not valid: {reason}. Its key is {presented}; to trust this key whatever its certificate says: \
         --trust {presented}"
    )]
    Certificate {
        /// The key that it has.
        presented: Fingerprint,
        /// What is wrong with the certificate.
        reason: String,
    },
}

/// Returns the first of the keys as text.
fn keys(keys: &[Fingerprint]) -> String {
    match keys {
        [] => "a line without a readable key".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} and {} more", rest.len()),
    }
}

/// The text has no usable certificates of authorities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("no certificate of an authority in PEM format that can be read")]
pub struct AuthoritiesError;

/// The part that the peer plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Peer<'a> {
    /// The server at an address, by the name that the user gave.
    Server {
        address: SocketAddr,
        name: Option<&'a str>,
    },
    Client,
}

/// A trusted peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) identity: PeerIdentity,
    /// Set if the peer was not known before, and is from now on.
    pub(crate) learned: Option<KnownHost>,
}

impl Trust {
    /// Trusts nobody.
    #[must_use]
    pub fn nobody() -> Self {
        Self::default()
    }

    /// Also trusts peers with this key.
    #[must_use]
    pub fn pin(mut self, fingerprint: Fingerprint) -> Self {
        self.pins.push(fingerprint);
        self
    }

    /// Trusts the hosts of a list, instead of those of an earlier one. With `first_use`, a server that is not
    /// listed under any of its names is trusted and added to the list, which
    /// [`known_hosts`](Self::known_hosts) returns: whoever answers first is believed.
    #[must_use]
    pub fn hosts(mut self, hosts: KnownHosts, first_use: bool) -> Self {
        self.hosts = Some(Hosts { list: Arc::new(Mutex::new(hosts)), first_use });
        self
    }

    /// Also trusts peers whose certificate was signed by one of these authorities, for the use as a client or
    /// server, and for the server's name or address. Peers send no intermediate certificates: name those as
    /// authorities too.
    ///
    /// # Errors
    /// If there is none in the text, or one of them can't be read.
    pub fn authorities(mut self, pem: &str) -> Result<Self, AuthoritiesError> {
        let mut anchors = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()).take(AUTHORITIES_MAX) {
            let certificate = certificate.map_err(|_| AuthoritiesError)?;
            let anchor = anchor_from_trusted_cert(&certificate).map_err(|_| AuthoritiesError)?;
            anchors.push(anchor.to_owned());
        }
        if anchors.is_empty() {
            return Err(AuthoritiesError);
        }
        Arc::make_mut(&mut self.authorities).extend(anchors);
        Ok(self)
    }

    /// Returns whether another trusts the same peers for the same reasons.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let uses_first = |trust: &Self| trust.hosts.as_ref().map(|hosts| hosts.first_use);
        self.pins == other.pins
            && self.authorities == other.authorities
            && uses_first(self) == uses_first(other)
            && self.known_hosts() == other.known_hosts()
    }

    /// Returns whether no peer is trusted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let has_hosts = |hosts: &Hosts| hosts.first_use || hosts.lock().hosts().next().is_some();
        self.pins.is_empty() && self.authorities.is_empty() && !self.hosts.as_ref().is_some_and(has_hosts)
    }

    /// Returns the list of known hosts as it is now.
    #[must_use]
    pub fn known_hosts(&self) -> Option<KnownHosts> {
        self.hosts.as_ref().map(|hosts| hosts.lock().clone())
    }

    /// Decides about a peer by its certificate.
    pub(crate) fn verify(
        &self,
        peer: Peer<'_>,
        certificate: &[u8],
        now: UnixTime,
    ) -> Result<Verified, TrustError> {
        let identity = PeerIdentity::of_certificate(certificate).ok_or(TrustError::NoCertificate)?;
        let fingerprint = identity.fingerprint;
        let known = Verified { identity, learned: None };
        if self.pins.contains(&fingerprint) {
            return Ok(known);
        }
        let learned = match (&self.hosts, peer) {
            (Some(hosts), Peer::Client) if hosts.lock().has_key(fingerprint) => return Ok(known),
            (Some(hosts), Peer::Server { address, name }) => match hosts.check(address, name, fingerprint)? {
                Listed::Yes => return Ok(known),
                Listed::Unknown(host) => host,
            },
            _ => None,
        };
        if !self.authorities.is_empty() {
            let verified = self.verify_chain(peer, certificate, now);
            return match verified {
                Ok(()) => Ok(known),
                Err(reason) => Err(TrustError::Certificate { presented: fingerprint, reason }),
            };
        }
        match (learned, &self.hosts) {
            (Some(host), Some(hosts)) => {
                hosts.lock().add(host.clone());
                Ok(Verified { learned: Some(host), ..known })
            }
            _ => Err(match peer {
                Peer::Client => TrustError::UnknownClient(fingerprint),
                Peer::Server { address, name } => {
                    TrustError::UnknownServer { name: shown(address, name), presented: fingerprint }
                }
            }),
        }
    }

    /// Checks the certificate of a peer against the authorities. The error says what is wrong.
    fn verify_chain(&self, peer: Peer<'_>, certificate: &[u8], now: UnixTime) -> Result<(), String> {
        const ALGORITHMS: &[&dyn SignatureVerificationAlgorithm] = &[
            webpki::ring::ECDSA_P256_SHA256,
            webpki::ring::ECDSA_P256_SHA384,
            webpki::ring::ECDSA_P384_SHA256,
            webpki::ring::ECDSA_P384_SHA384,
            webpki::ring::ED25519,
            webpki::ring::RSA_PKCS1_2048_8192_SHA256,
            webpki::ring::RSA_PKCS1_2048_8192_SHA384,
            webpki::ring::RSA_PKCS1_2048_8192_SHA512,
        ];
        let invalid = |error: webpki::Error| error.to_string();
        let der = CertificateDer::from(certificate);
        let parsed = EndEntityCert::try_from(&der).map_err(invalid)?;
        let usage = match peer {
            Peer::Client => KeyUsage::client_auth(),
            Peer::Server { .. } => KeyUsage::server_auth(),
        };
        parsed
            .verify_for_usage(ALGORITHMS, &self.authorities, &[], now, usage, None, None)
            .map_err(invalid)?;
        let Peer::Server { address, name } = peer else { return Ok(()) };
        let name = match name {
            Some(name) => {
                ServerName::try_from(name.to_owned()).map_err(|_| format!("{name} is not a host name"))?
            }
            None => ServerName::IpAddress(address.ip().to_canonical().into()),
        };
        parsed.verify_is_valid_for_subject_name(&name).map_err(invalid)
    }
}

/// What a list says of a server's key.
enum Listed {
    Yes,
    /// The server is not listed. The line that would list it, if it may be added.
    Unknown(Option<KnownHost>),
}

/// Returns the name under which the user knows a server: the given one, or the address.
fn shown(address: SocketAddr, name: Option<&str>) -> String {
    let [_, plain] = names_of(address);
    name.map_or(plain, str::to_owned)
}

impl Hosts {
    fn lock(&self) -> MutexGuard<'_, KnownHosts> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check(
        &self,
        address: SocketAddr,
        name: Option<&str>,
        fingerprint: Fingerprint,
    ) -> Result<Listed, TrustError> {
        match self.lock().look_up(address, name, fingerprint) {
            Found::Listed => Ok(Listed::Yes),
            Found::Other { name, expected } => {
                Err(TrustError::Changed { name, presented: fingerprint, expected })
            }
            Found::Nothing => {
                let host = KnownHost { name: shown(address, name), fingerprint, comment: String::new() };
                Ok(Listed::Unknown(self.first_use.then_some(host)))
            }
        }
    }
}

#[cfg(test)]
mod tests;
