//! Keyed hashes of requests: of their routing, for loop detection, and of their calls; and the tags of our
//! responses.

use core::hash::Hasher;
use core::net::IpAddr;

use siphasher::sip::SipHasher13;

use crate::codec::{HeaderName, Message};
use crate::transaction::{Flow, ServerId, hex};

use super::context::Destination;
use super::incoming::Incoming;
use super::token::Tokens;

/// A tag as text.
pub(super) type Tag = [u8; 16];

/// Maximum number of parent domains of a name that are compared with a hash.
const LABELS_MAX: usize = 16;

/// Makes the hashes and tags of requests.
#[derive(Debug)]
pub(super) struct Hashes {
    hasher: SipHasher13,
}

impl Hashes {
    /// `hasher` must have a random key.
    pub(super) const fn new(hasher: SipHasher13) -> Self {
        Self { hasher }
    }

    /// A hash of everything that determines the routing of a request.
    pub(super) fn routing_hash(&self, incoming: &Incoming<'_>) -> u64 {
        let Incoming { message, essentials, .. } = incoming;
        let mut hasher = self.hasher;
        let mut part = |part: &[u8]| {
            hasher.write_u32(part.len() as u32);
            hasher.write(part);
        };
        part(message.request_line().map_or(&[], |line| line.uri));
        part(essentials.from.tag.unwrap_or(&[]));
        part(essentials.to.tag.unwrap_or(&[]));
        part(essentials.call_id);
        for name in [HeaderName::Route, HeaderName::ProxyRequire, HeaderName::ProxyAuthorization] {
            if message.has(name) {
                message.lines(name).for_each(|line| part(line.value()));
            }
        }
        hasher.write_u32(essentials.cseq.number);
        hasher.finish()
    }

    /// A seed that is the same for all requests of a call, so that all go to the same one of several servers.
    pub(super) fn call_seed(&self, incoming: &Incoming<'_>) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(incoming.essentials.call_id);
        hasher.finish()
    }

    /// The branch of a request that is forwarded without a transaction. It is the same for each
    /// retransmission (RFC 3261 section 16.11).
    pub(super) fn stateless_branch(&self, incoming: &Incoming<'_>) -> u64 {
        let mut hasher = self.hasher;
        hasher.write(incoming.essentials.via.branch.unwrap_or(&[]));
        hasher.write(incoming.essentials.call_id);
        hasher.finish()
    }

    /// The To tag of responses to a request. It is the same for each retransmission and for the ACK (section
    /// 8.2.7), although that has another method. Only a receiver at the address of `flow` knows it.
    pub(super) fn tag(&self, request: &Message<'_>, flow: &Flow) -> Tag {
        let mut hasher = self.hasher;
        // No other hash has input of this form.
        match flow.peer.ip().to_canonical() {
            IpAddr::V4(address) => {
                hasher.write(b"tag4");
                hasher.write_u32(address.to_bits());
            }
            IpAddr::V6(address) => {
                hasher.write(b"tag6");
                hasher.write(&address.octets());
            }
        }
        for name in [HeaderName::CallId, HeaderName::From] {
            hasher.write(request.first_value(name));
        }
        let cseq = request.first_value(HeaderName::CSeq);
        hasher.write(cseq.split(u8::is_ascii_whitespace).next().unwrap_or(&[]));
        hex(hasher.finish())
    }

    /// The To tag of responses to a request that is no longer stored. It is unique to the transaction.
    pub(super) fn tag_of(&self, server: ServerId) -> Tag {
        let mut hasher = self.hasher;
        hasher.write(b"server");
        hasher.write_u32(server.slot);
        hasher.write_u32(server.generation);
        hex(hasher.finish())
    }
}

impl Tokens {
    /// The hash of an address, as [`Tokens::host_hash`] makes of a name.
    pub(super) fn address_hash(&self, address: IpAddr) -> u32 {
        self.host_hash(address.to_canonical().to_string().as_bytes())
    }

    /// Whether a hash is that of a destination's name or address, or of a parent domain of the name.
    pub(super) fn has_hash(&self, place: &Destination, hash: u32) -> bool {
        if hash == 0 {
            return false;
        }
        let has_this = |name: &str| self.host_hash(name.as_bytes()) == hash;
        match place {
            Destination::Flow(flow) => has_this(&flow.peer.ip().to_canonical().to_string()),
            Destination::Name(question) => {
                let name = Some(&*question.name);
                let mut names = core::iter::successors(name, |name| Some(name.split_once('.')?.1));
                names.by_ref().take(LABELS_MAX).any(has_this)
            }
        }
    }
}
