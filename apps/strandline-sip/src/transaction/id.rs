//! Names of transactions, and how messages are matched to them (RFC 3261 sections 17.1.3 and 17.2.3).

use core::hash::Hasher;

use siphasher::sip128::{Hasher128, SipHasher13};

use super::hex::{hex, unhex};
use crate::codec::{Essentials, Method};

/// A server transaction. Its slot is used again, but not the whole name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ServerId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// A client transaction. The name stands in its branch, and nobody can guess another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientId {
    pub(crate) slot: u32,
    pub(crate) nonce: u64,
}

/// What stands after the magic cookie in a Via of ours: the transaction's name, and a mark by which a loop is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ViaBranch {
    /// The transaction; none for what is forwarded without one.
    pub client: Option<ClientId>,
    /// What the request was forwarded by (RFC 5393 section 4.2.1).
    pub mark: u64,
}

/// How many workers of one server branches can tell apart.
pub const WORKERS_MAX: u8 = 64;

/// The worker that gave a connection its number.
#[must_use]
pub const fn worker_of(connection: u64) -> u8 {
    (connection % WORKERS_MAX as u64) as u8
}

impl ClientId {
    /// The worker whose transaction it is, where a server has several: all of its branches say so.
    #[must_use]
    pub const fn worker(self) -> u8 {
        (self.nonce % WORKERS_MAX as u64) as u8
    }
}

/// The slot of what has no transaction.
const STATELESS: u32 = u32::MAX;

/// A branch as text: 24 digits of the name, a dot, 16 of the mark.
pub type ViaBranchText = [u8; 41];

impl ViaBranch {
    /// The branch without its magic cookie. Without a transaction, `nonce` must be the same for each retransmission of a
    /// request and differ between requests (section 16.11).
    #[must_use]
    pub fn write(&self, nonce: u64) -> ViaBranchText {
        let mut text = [b'.'; 41];
        let id = self.client.unwrap_or(ClientId { slot: STATELESS, nonce });
        let (name, mark) = text.split_at_mut(24);
        // The upper half of a slot is always empty, and left out.
        copy(name, hex(id.slot.into()).split_at(8).1);
        copy(name.split_at_mut(8).1, &hex(id.nonce));
        copy(mark.split_at_mut(1).1, &hex(self.mark));
        text
    }

    /// Reads a branch that stands without its magic cookie, if it can be ours.
    #[must_use]
    pub fn read(text: &[u8]) -> Option<Self> {
        let text: &ViaBranchText = text.try_into().ok()?;
        let (slot, rest) = text.split_first_chunk::<8>()?;
        let (nonce, rest) = rest.split_first_chunk()?;
        let mark = unhex(rest.strip_prefix(b".")?.try_into().ok()?)?;
        let mut whole = [b'0'; 16];
        copy(whole.split_at_mut(8).1, slot);
        let id = ClientId { slot: unhex(&whole)? as u32, nonce: unhex(nonce)? };
        Some(Self { client: Some(id).filter(|id| id.slot != STATELESS), mark })
    }
}

/// Copies as much as there is room for.
fn copy(place: &mut [u8], text: &[u8]) {
    place.iter_mut().zip(text).for_each(|(place, byte)| *place = *byte);
}

/// What identifies a server transaction: a keyed hash, so that nobody can make two requests meet, and so long that none do
/// by chance.
pub(crate) type Key = u128;

/// Makes keys.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    hasher: SipHasher13,
}

impl Keys {
    pub(crate) fn new(seed: &[u8; 16]) -> Self {
        Self { hasher: SipHasher13::new_with_key(seed) }
    }

    /// The key of the transaction that a request belongs to: an ACK and a CANCEL belong to their INVITE's.
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
                // RFC 2543: everything together. To's tag is left out of INVITE, because that of its ACK is new.
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

    /// What two copies of one request have in common that came on two ways (section 8.2.2.2).
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
    /// With its length, so that no two lists of parts are alike.
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
