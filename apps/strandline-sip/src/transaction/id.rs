//! Identifiers of transactions, and the matching of messages to transactions (RFC 3261 sections 17.1.3 and
//! 17.2.3).

use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::hex::{hex, unhex};
use crate::codec::{Essentials, Method};

/// Identifies a server transaction. Slots are reused, but identifiers are not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Identifies a client transaction. The identifier is part of the transaction's branch and can't be guessed
/// by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId {
    pub(crate) slot: u32,
    pub(crate) nonce: u64,
}

/// The text after the magic cookie in this server's Vias: the identifier of the transaction, and a hash for
/// loop detection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViaBranch {
    /// The transaction; `None` if the request is forwarded statelessly.
    pub client: Option<ClientId>,
    /// A hash of what determined the request's routing (RFC 5393 section 4.2.1).
    pub routing_hash: u64,
}

/// Maximum number of workers of one server that branches can distinguish.
pub const WORKERS_MAX: u8 = 64;

/// The worker that numbered a connection.
#[must_use]
pub const fn worker_of(connection: u64) -> u8 {
    (connection % WORKERS_MAX as u64) as u8
}

impl ClientId {
    /// The worker that owns the transaction, if the server has several. It is encoded in every branch.
    #[must_use]
    pub const fn worker(self) -> u8 {
        (self.nonce % WORKERS_MAX as u64) as u8
    }
}

/// The slot that stands for a stateless branch.
const STATELESS: u32 = u32::MAX;

/// A branch as text: 24 digits of the identifier, a dot, and 16 digits of the hash.
pub type ViaBranchText = [u8; 41];

impl ViaBranch {
    /// Formats the branch without its magic cookie. For a stateless branch, `nonce` must be the same for all
    /// retransmissions of a request and differ between requests (section 16.11).
    #[must_use]
    pub fn write(&self, nonce: u64) -> ViaBranchText {
        let mut text = [b'.'; 41];
        let id = self.client.unwrap_or(ClientId { slot: STATELESS, nonce });
        let (name, routing_hash) = text.split_at_mut(24);
        // A slot has 32 bits, so the upper half of its 16 digits is zero and is left out.
        copy(name, hex(id.slot.into()).split_at(8).1);
        copy(name.split_at_mut(8).1, &hex(id.nonce));
        copy(routing_hash.split_at_mut(1).1, &hex(self.routing_hash));
        text
    }

    /// Parses a branch without its magic cookie. Returns `None` if it can't be one of this server's.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let text: &ViaBranchText = text.try_into().ok()?;
        let (slot, rest) = text.split_first_chunk::<8>()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let routing_hash = unhex(rest.strip_prefix(b".")?.try_into().ok()?)?;
        let mut whole = [b'0'; 16];
        copy(whole.split_at_mut(8).1, slot);
        let id = ClientId { slot: unhex(&whole)? as u32, nonce: unhex(nonce)? };
        Some(Self { client: Some(id).filter(|id| id.slot != STATELESS), routing_hash })
    }
}

/// Copies as many bytes as fit.
fn copy(place: &mut [u8], text: &[u8]) {
    place.iter_mut().zip(text).for_each(|(place, byte)| *place = *byte);
}

/// Identifies a server transaction by a keyed hash. The key prevents deliberate collisions, and the length
/// accidental ones.
pub(crate) type Key = u128;

/// Computes keys.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    hasher: SipHasher13,
}

impl Keys {
    pub(crate) fn new(seed: &[u8; 16]) -> Self {
        Self { hasher: SipHasher13::new_with_key(seed) }
    }

    /// The key of the transaction to which a request belongs. An ACK and a CANCEL have the key of their
    /// INVITE.
    pub(crate) fn of_request(&self, essentials: &Essentials<'_>, uri: &[u8]) -> Key {
        let mut hash = Parts(self.hasher);
        let method = match essentials.cseq.method {
            Method::Ack | Method::Cancel => Method::Invite,
            method => method,
        };
        hash.part(method.as_bytes());
        let via = &essentials.via;
        match &via.host {
            crate::codec::Host::Name(name) => hash.lower(name),
            crate::codec::Host::V4(address) => hash.part(&address.octets()),
            crate::codec::Host::V6(address) => hash.part(&address.octets()),
        }
        hash.number(via.port.map_or(0, |port| u32::from(port) + 1));
        match via.branch_id() {
            Some(branch) => hash.part(branch),
            None => {
                // RFC 2543: all of these together. The tag of To is left out for INVITE, because that of its
                // ACK is new.
                hash.part(b"2543");
                hash.part(via.branch.unwrap_or(&[]));
                hash.part(via.params.as_bytes());
                hash.part(uri);
                hash.part(essentials.from.tag.unwrap_or(&[]));
                hash.part(essentials.call_id);
                hash.number(essentials.cseq.number);
                if method != Method::Invite {
                    hash.part(essentials.to.tag.unwrap_or(&[]));
                }
            }
        }
        hash.finish()
    }

    /// The key that copies of one request share if they arrive by different paths (section 8.2.2.2).
    pub(crate) fn of_merged(&self, essentials: &Essentials<'_>) -> Key {
        let mut hash = Parts(self.hasher);
        hash.part(b"merged");
        hash.part(essentials.from.tag.unwrap_or(&[]));
        hash.part(essentials.call_id);
        hash.number(essentials.cseq.number);
        hash.part(essentials.cseq.method.as_bytes());
        hash.finish()
    }
}

struct Parts(SipHasher13);

impl Parts {
    /// Hashes a part together with its length, so that different lists of parts never hash the same input.
    fn part(&mut self, part: &[u8]) {
        self.number(part.len() as u32);
        self.0.write(part);
    }

    fn lower(&mut self, part: &[u8]) {
        self.number(part.len() as u32);
        for some in part.chunks(64) {
            let mut room = [0; 64];
            copy(&mut room, some);
            room.make_ascii_lowercase();
            self.0.write(room.get(..some.len()).unwrap_or(&[]));
        }
    }

    fn number(&mut self, number: u32) {
        self.0.write_u32(number);
    }

    fn finish(self) -> Key {
        self.0.finish128().as_u128()
    }
}
