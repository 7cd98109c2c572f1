//! SCTP over DTLS 1.3 (RFC 8261, RFC 9147): encryption and identities, between carrier and engine. No clock, socket or
//! thread.
//!
//! [`Layer`] is the state machine. It holds one DTLS connection with each peer, over all of the peer's
//! addresses, and finds it by connection IDs in a header of its own (docs/encryption.md). An [`Identity`] is
//! a key with a certificate, [`Trust`] decides about those of peers.
//!
//! Modules, from the bottom: `header`, `control` and `token` are the bytes on the wire, `fingerprint`,
//! `identity`, `known_hosts` and `trust` are about keys, `provider` is the cryptography, `sources` limits
//! handshakes, `paths` and `tags` are the parts of a connection's state that DTLS does not know, `connection`
//! is one connection, and `layer` all of them.

mod abort;
mod config;
mod connection;
mod control;
mod failure;
mod fingerprint;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
mod header;
mod identity;
mod inbox;
mod known_hosts;
mod layer;
mod packets;
mod paths;
mod provider;
mod sources;
mod tags;
mod token;
mod trust;

pub use abort::FAILURE_CAUSE;
pub use config::{Config, ConfigError, Limits};
pub use connection::PeerSide;
pub use failure::Failure;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use identity::{Identity, IdentityError, PeerIdentity};
pub use known_hosts::{KnownHost, KnownHosts, KnownHostsError, LineError};
pub use layer::{Affected, Burst, Event, IcmpReport, Layer, Sealed, Shard, Stats, answer_to_hello};
pub use packets::{Arrival, InitOf, Outgoing, Packets, Train};
pub use rustls_pki_types::UnixTime;
pub use tags::PacketStart;
pub use trust::{AuthoritiesError, Trust, TrustError};
