//! Tests of authenticated chunks (RFC 4895) common to usrsctp and the kernel.

use std::collections::BTreeSet;

use strandline_proto::authentication::{Authentication, HmacAlgorithms, KeyId, SharedKey};
use strandline_proto::config::AssociationConfig;
use strandline_proto::endpoint::KeyChange;

use strandline_wire::chunk::kind;

use crate::driver::Driver;
use crate::session::{LOSS_PER_MILLE, Session};
use crate::traffic::plan;

/// The shared key with identifier 7.
pub const SECRET: &str = "known-to-both";

/// HMAC Identifiers (section 3.3).
pub const SHA_1: u16 = 1;
/// See [`SHA_1`].
pub const SHA_256: u16 = 3;

/// Chunk types of other extensions: RE-CONFIG and FORWARD TSN.
pub const OF_EXTENSIONS: [u8; 2] = [kind::RE_CONFIG, kind::FORWARD_TSN];

/// Which algorithms each side accepts, the preferred one first, and which one each uses then: the other's first one.
/// HMAC-SHA-1 must be among them (section 3.3).
#[derive(Debug, Clone, Copy)]
pub struct Algorithms {
    /// This side's.
    pub ours: HmacAlgorithms,
    /// The peer's option `-H`.
    pub theirs: &'static str,
    /// What the peer uses.
    pub received: u16,
    /// What this side uses.
    pub sent: u16,
}

/// The cases of a peer that has both algorithms.
pub const ALGORITHMS: [Algorithms; 4] = [
    Algorithms { ours: HmacAlgorithms::Sha1Only, theirs: "3,1", received: SHA_1, sent: SHA_256 },
    Algorithms { ours: HmacAlgorithms::Sha1, theirs: "3,1", received: SHA_1, sent: SHA_256 },
    Algorithms { ours: HmacAlgorithms::Sha256, theirs: "1", received: SHA_256, sent: SHA_1 },
    Algorithms { ours: HmacAlgorithms::Sha256, theirs: "3,1", received: SHA_256, sent: SHA_256 },
];

/// Demands that the peer authenticates these chunk types.
pub fn demand(association: &mut AssociationConfig, chunks: &[u8], hmacs: HmacAlgorithms) {
    let chunks = chunks.iter().copied().collect();
    association.extensions.authentication = Some(Authentication { chunks, required: true, hmacs });
}

/// Replaces the null key of new associations by one with identifier 7.
///
/// # Panics
/// If the endpoint has none.
pub fn share_key(driver: &mut Driver, secret: &str) {
    let key = KeyId(7);
    let changes = [
        KeyChange::Set(key, SharedKey::new(secret.as_bytes())),
        KeyChange::Activate(key),
        KeyChange::Deactivate(KeyId(0)),
        KeyChange::Delete(KeyId(0)),
    ];
    for change in changes {
        change.apply_to_new(&mut driver.endpoint).expect("the keys exist");
    }
}

/// Returns the options of a peer that demands authentication of these chunk types.
#[must_use]
pub fn options(chunks: &[u8], secret: Option<&str>) -> String {
    let list: Vec<_> = chunks.iter().map(u8::to_string).collect();
    let key = secret.map(|secret| format!("-k {secret}")).unwrap_or_default();
    format!("-a {} {key}", list.join(","))
}

impl Session {
    /// Asserts that the peer's chunks are authenticated if both sides demand it: with the key with identifier 7 if
    /// there is a secret, else with the null key.
    pub fn is_authenticated(&self, demanded: bool, secret: Option<&str>) {
        assert_eq!(self.agreed().authentication, demanded);
        let key = if secret.is_some() { 7 } else { 0 };
        let keys: Vec<u16> = self.driver.keys_received.iter().copied().collect();
        assert_eq!(keys, if demanded { vec![key] } else { Vec::new() });
    }

    /// Both sides change their key while messages are exchanged: each accepts the old one until the other has
    /// changed. The peer echoes, and both have the key [`SECRET`].
    ///
    /// # Panics
    /// If a message doesn't return.
    pub fn change_keys_under_losses(mut self) {
        let id = self.id;
        let apply = |session: &mut Self, change: KeyChange| {
            change.apply(&mut session.driver.endpoint, id).expect("the keys exist");
        };
        self.exchange(&plan(100, 2000, 7));
        self.driver.lose(LOSS_PER_MILLE);
        apply(&mut self, KeyChange::Set(KeyId(8), SharedKey::new(b"the-second-one")));
        self.peer.tell("key 8 the-second-one");
        self.expect("KEY 8");
        // The peer sends with the new key, and this side still with the old one.
        self.exchange(&plan(100, 2000, 7));
        apply(&mut self, KeyChange::Activate(KeyId(8)));
        self.exchange(&plan(100, 2000, 7));
        apply(&mut self, KeyChange::Deactivate(KeyId(7)));
        self.exchange(&plan(100, 2000, 7));
        assert_eq!(self.driver.keys_received, BTreeSet::from([7, 8]));
        self.driver.lose(0);
        self.shut_down();
    }

    /// Exchanges messages with a peer that echoes, or echoes 200 of its messages, and checks with which
    /// algorithm each side has authenticated its chunks.
    ///
    /// # Panics
    /// If it was another one.
    pub fn uses_algorithms(mut self, peer_echoes: bool, received: u16, sent: u16) {
        self.driver.lose(LOSS_PER_MILLE);
        if peer_echoes {
            self.exchange(&plan(100, 2000, 7));
        } else {
            self.echo(200);
        }
        assert_eq!(self.driver.hmacs_received, BTreeSet::from([received]));
        assert_eq!(self.driver.hmacs_sent, BTreeSet::from([sent]));
        self.driver.lose(0);
        self.shut_down();
    }
}
