//! Encryption and identities: SCTP over DTLS 1.3.
//!
//! A stack with an [`Encryption`] sends and takes only encrypted packets, and authenticates peers by their keys.
//! [`Association::peer_identity`](crate::Association::peer_identity) tells who a peer has proved to be.
//!
//! ```
//! use strandline::encryption::{Encryption, Identity, Trust};
//! use strandline::{Association, Listener, Peer, Stack};
//! # use strandline::memory::Network;
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let network = Network::new();
//! let (server, client) = (Identity::generate("server")?, Identity::generate("client")?);
//! let (server, client) = (Identity::from_pem(&server)?, Identity::from_pem(&client)?);
//! let (server_key, client_key) = (server.fingerprint(), client.fingerprint());
//!
//! let there = Stack::builder()
//!     .encryption(Encryption::new(server, Trust::nobody().pin(client_key)))
//!     .memory(&network, ["10.0.0.2".parse()?])?;
//! let here = Stack::builder()
//!     .encryption(Encryption::new(client, Trust::nobody().pin(server_key)))
//!     .memory(&network, ["10.0.0.1".parse()?])?;
//!
//! let mut listener = Listener::bind(&there, 5060)?;
//! let out = Association::connect(&here, Peer::new([10, 0, 0, 2], 5060)).await?;
//! let accepted = listener.accept().await?;
//! let key_of = |peer: &Association| peer.peer_identity().map(|identity| identity.fingerprint);
//! assert_eq!(key_of(&out), Some(server_key));
//! assert_eq!(key_of(&accepted), Some(client_key));
//! # Ok(()) }
//! ```

use std::sync::Arc;

use strandline_dtls::Config;
pub use strandline_dtls::{
    AuthoritiesError, Fingerprint, FingerprintError, Identity, IdentityError, KnownHost, KnownHosts,
    KnownHostsError, Limits, PeerIdentity, Stats, Trust, TrustError,
};

pub use self::files::{FileError, FileProblem, KnownHostsFile, create_identity, read_identity};
pub use self::options::{Options, OptionsError, default_key, default_known_hosts};

mod files;
mod options;

/// How a stack encrypts and authenticates.
#[derive(Debug, Clone)]
pub struct Encryption {
    pub(crate) config: Config,
    pub(crate) on_learned: Option<Arc<dyn OnLearned>>,
}

/// Is told of servers that became known by first use.
pub trait OnLearned: Send + Sync + core::fmt::Debug {
    /// A server was not known and is from now on. Called while the stack works: it should not take long.
    fn learned(&self, host: &KnownHost);
}

impl Encryption {
    /// Encrypts as `identity`, and trusts the peers that `trust` accepts.
    #[must_use]
    pub fn new(identity: Identity, trust: Trust) -> Self {
        Self { config: Config::new(identity, trust), on_learned: None }
    }

    /// Returns the fingerprint of this side's key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.config.identity.fingerprint()
    }

    /// Returns whether another has the same identity and trust.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let (own, others) = (&self.config, &other.config);
        own.identity == others.identity
            && own.anonymous_clients == others.anonymous_clients
            && own.trust.is_like(&others.trust)
    }

    /// Returns the list of known hosts as it is now, if there is one.
    #[must_use]
    pub fn known_hosts(&self) -> Option<KnownHosts> {
        self.config.trust.known_hosts()
    }

    /// Returns whether no peer can be authenticated: no key is pinned or known, and there is no authority.
    #[must_use]
    pub fn trusts_nobody(&self) -> bool {
        !self.config.anonymous_clients && self.config.trust.is_empty()
    }

    /// Sets whether clients need no certificate. Default false: each peer is authenticated.
    #[must_use]
    pub fn anonymous_clients(mut self, anonymous: bool) -> Self {
        self.config.anonymous_clients = anonymous;
        self
    }

    /// Sets whether other implementations of RFC 8261 may connect, which send DTLS records without connection
    /// IDs. Their addresses can't change. Default true.
    #[must_use]
    pub fn accept_plain_dtls(mut self, accept: bool) -> Self {
        self.config.accepts_plain = accept;
        self
    }

    /// Sets whether to send DTLS records without connection IDs as a client, for servers of other
    /// implementations of RFC
    /// 8261. Default false.
    #[must_use]
    pub fn send_plain_dtls(mut self, send: bool) -> Self {
        self.config.sends_plain = send;
        self
    }

    /// Sets the limits of each shard.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.config.limits = limits;
        self
    }

    /// Sets who is told of servers that became known by first use, to store them.
    #[must_use]
    pub fn on_learned(mut self, on_learned: Arc<dyn OnLearned>) -> Self {
        self.on_learned = Some(on_learned);
        self
    }
}
