//! Configuration of the layer.

use core::time::Duration;
use std::sync::Arc;

use dimpl::DtlsCertificate;
use dimpl::crypto::NamedGroup;

use crate::identity::Identity;
use crate::provider::ring_provider;
use crate::trust::Trust;

/// Maximum length of a handshake datagram without the outer header, in bytes: with that header and those of
/// UDP and IPv6 it fits the minimum MTU of IPv6, 1,280.
pub(crate) const HANDSHAKE_LEN_MAX: usize = 1150;

/// First interval after which a flight of the handshake is retransmitted: what RFC 9147 section 5.8.2 recommends for
/// real-time protocols. Otherwise a lost handshake message would cost a second.
const FLIGHT_RTO_INITIAL: Duration = Duration::from_millis(400);

/// Maximum number of retransmissions of a flight.
const FLIGHT_RETRANS_MAX: usize = 5;

/// How a layer authenticates itself and its peers, and its limits.
#[derive(Debug, Clone)]
pub struct Config {
    /// Identity of this endpoint.
    pub identity: Identity,
    /// Which peers are trusted.
    pub trust: Trust,
    /// Whether clients need no certificate. Default false.
    pub anonymous_clients: bool,
    /// Whether to take DTLS records without the header of ours too, as of other implementations of RFC 8261. They are
    /// found by their source address. Default true.
    pub accepts_plain: bool,
    /// Whether to send no header of ours as a client. Default false.
    pub sends_plain: bool,
    /// Limits.
    pub limits: Limits,
}

/// Limits of a layer: of each shard if there are several.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Connections at most; each takes about 20 KB. Default 65,536.
    pub connections_max: usize,
    /// Handshakes of clients in progress at most. A further one replaces the oldest of the source with the
    /// most: an IPv4 address, or an IPv6 network of 64 bits. Peers without a header of ours have as many
    /// again. Default 1,024.
    pub half_open_max: usize,
    /// Handshakes that clients may begin per second, in the mean; each takes a server about 0.2 ms. A source
    /// that begins many leaves half of it to others. Default 1,000.
    pub handshakes_per_sec: u32,
    /// Time for a handshake. Default 15 s.
    pub handshake_timeout: Duration,
    /// Time after which a connection without associations is closed. Default 60 s.
    pub idle_timeout: Duration,
    /// Packets that wait for a handshake at most, in each direction of a connection. Default 8.
    pub held_packets_max: usize,
    /// Records sent with one key before it is replaced: between three quarters of it and all. Default 8,388,608.
    pub records_per_key: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 65_536,
            half_open_max: 1024,
            handshakes_per_sec: 1000,
            handshake_timeout: Duration::from_secs(15),
            idle_timeout: Duration::from_secs(60),
            held_packets_max: 8,
            records_per_key: 1 << 23,
        }
    }
}

/// A value of the configuration is out of range.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("encryption: {0}")]
pub struct ConfigError(String);

impl Config {
    /// Returns a configuration with defaults.
    #[must_use]
    pub fn new(identity: Identity, trust: Trust) -> Self {
        Self {
            identity,
            trust,
            anonymous_clients: false,
            accepts_plain: true,
            sends_plain: false,
            limits: Limits::default(),
        }
    }

    pub(crate) fn certificate(&self) -> DtlsCertificate {
        DtlsCertificate {
            certificate: self.identity.certificate.clone(),
            private_key: self.identity.private_key.clone(),
        }
    }

    /// Returns the configuration of dimpl. Its own cookie is for peers without a header of ours.
    pub(crate) fn dtls(&self, cookie: bool) -> Result<Arc<dimpl::Config>, ConfigError> {
        let config = dimpl::Config::builder()
            .with_crypto_provider(ring_provider())
            .mtu(HANDSHAKE_LEN_MAX)
            .require_client_certificate(!self.anonymous_clients)
            .use_server_cookie(cookie)
            .flight_start_rto(FLIGHT_RTO_INITIAL)
            .flight_retries(FLIGHT_RETRANS_MAX)
            .handshake_timeout(self.limits.handshake_timeout)
            .aead_encryption_limit(self.limits.records_per_key)
            .kx_groups(&[NamedGroup::X25519, NamedGroup::Secp256r1])
            .build();
        config.map(Arc::new).map_err(|error| ConfigError(error.to_string()))
    }
}
