//! Flow tokens (RFC 5626 section 5.2): the ways to both ends of a dialog, in the user part of a Record-Route,
//! sealed so that only this server can make one. A dialog therefore needs no state here, and works as long as
//! its flows.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr, SocketAddrV6};

use siphasher::sip::SipHasher24;

use crate::bindings::SealFlow;
use crate::codec::{base64url, base64url_decode};
use crate::transaction::{Flow, Protocol, hex};

/// An end of a dialog, as seen from here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct End {
    /// The flow to it.
    pub flow: Flow,
    /// The hash of the name that led there (see [`Tokens::host_hash`]); 0 for none.
    pub host: u32,
}

/// The flows to both ends of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// The sender of the request that began the dialog.
    pub caller: End,
    /// The receiver of that request.
    pub callee: End,
    /// A hash of the caller's tag: requests with it in From come from the caller.
    tag: u32,
}

/// Seals and opens tokens.
#[derive(Debug, Clone)]
pub struct Tokens {
    hasher: SipHasher24,
}

const SEAL_LEN: usize = 8;
/// A tag, two ends of 35 bytes each, and the seal.
const BODY_MAX: usize = 4 + 2 * 35 + SEAL_LEN;
/// Period for which a proof stays the same, as a power of two.
const PROOF_SECS_LOG2: u32 = 10;
/// Replaces the domain number of a flow in a token: it is meaningless after a restart.
pub(super) const NAMED: u32 = u32::MAX;

impl Tokens {
    /// `key` must be random, and the same after a restart if dialogs are to survive it.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self { hasher: SipHasher24::new_with_key(&key) }
    }

    /// Long enough to avoid collisions: with 16 bits the tags of two parties would collide in one call of
    /// 65,536, and its ends would be mixed up.
    fn tag_hash(&self, tag: &[u8]) -> u32 {
        let mut hasher = self.hasher;
        hasher.write(b"tag");
        hasher.write(tag);
        hasher.finish() as u32
    }

    /// A keyed hash of a host name, in lower case and without the dot at its end. Without the key, collisions
    /// can't be predicted. Never 0.
    #[must_use]
    pub fn host_hash(&self, name: &[u8]) -> u32 {
        let mut hasher = self.hasher;
        hasher.write(b"host");
        name.strip_suffix(b".")
            .unwrap_or(name)
            .iter()
            .for_each(|byte| hasher.write_u8(byte.to_ascii_lowercase()));
        (hasher.finish() as u32).max(1)
    }

    /// Separates the kinds of tokens.
    fn seal(&self, kind: &[u8], bytes: &[u8]) -> [u8; SEAL_LEN] {
        let mut hasher = self.hasher;
        hasher.write(kind);
        hasher.write(bytes);
        hasher.finish().to_le_bytes()
    }

    fn open<'a>(&self, kind: &[u8], text: &[u8], room: &'a mut [u8; BODY_MAX]) -> Option<&'a [u8]> {
        let len = base64url_decode(text, room)?;
        let (body, seal) = room.get(..len)?.split_at_checked(len.checked_sub(SEAL_LEN)?)?;
        // The comparison need not take constant time: a 64-bit SipHash can't be guessed step by step over the
        // network.
        (self.seal(kind, body) == *seal).then_some(body)
    }

    /// Appends a token as text: letters, digits, `-` and `_`.
    pub fn write(&self, caller: &End, callee: &End, caller_tag: &[u8], out: &mut Vec<u8>) {
        let mut body = Body::default();
        body.put(&self.tag_hash(caller_tag).to_le_bytes());
        body.put_flow(&caller.flow, caller.host);
        body.put_flow(&callee.flow, callee.host);
        self.finish(b"token", body, out);
    }

    fn finish(&self, kind: &[u8], mut body: Body, out: &mut Vec<u8>) {
        let seal = self.seal(kind, body.bytes());
        body.put(&seal);
        base64url(body.bytes(), out);
    }

    /// Opens a token; `None` if it isn't one of ours.
    #[must_use]
    pub fn read(&self, text: &[u8]) -> Option<Token> {
        let mut room = [0; BODY_MAX];
        let mut rest = self.open(b"token", text, &mut room)?;
        let tag = u32::from_le_bytes(take(&mut rest)?);
        let caller = take_end(&mut rest)?;
        let callee = take_end(&mut rest)?;
        Some(Token { caller, callee, tag })
    }

    /// Opens a token that names a flow to other nodes; `None` if it isn't one of ours.
    #[must_use]
    pub fn read_flow(&self, text: &[u8]) -> Option<Flow> {
        let mut room = [0; BODY_MAX];
        Some(take_end(&mut self.open(b"flow", text, &mut room)?)?.flow)
    }

    /// Appends the token that names, in a Path, the flow of a phone that registers elsewhere (RFC 5626
    /// section 5.1).
    pub fn write_path(&self, flow: &Flow, out: &mut Vec<u8>) {
        let mut body = Body::default();
        body.put_flow(flow, 0);
        self.finish(b"path", body, out);
    }

    /// Opens a token of a Path; `None` if it isn't one of ours.
    #[must_use]
    pub fn read_path(&self, text: &[u8]) -> Option<Flow> {
        let mut room = [0; BODY_MAX];
        Some(take_end(&mut self.open(b"path", text, &mut room)?)?.flow)
    }

    /// A proof that only the receiver at this address learns. It is valid for 17 to 34 minutes.
    pub(super) fn proof(&self, address: IpAddr, unix_secs: u64) -> [u8; 16] {
        let mut body = Body::default();
        match address.to_canonical() {
            IpAddr::V4(address) => body.put(&address.octets()),
            IpAddr::V6(address) => body.put(&address.octets()),
        }
        body.put(&(unix_secs >> PROOF_SECS_LOG2).to_le_bytes());
        hex(u64::from_le_bytes(self.seal(b"proof", body.bytes())))
    }

    /// Whether this proof was recently sent to that address.
    pub(super) fn is_proof(&self, text: &[u8], address: IpAddr, unix_secs: u64) -> bool {
        [unix_secs, unix_secs.saturating_sub(1 << PROOF_SECS_LOG2)]
            .iter()
            .any(|secs| self.proof(address, *secs) == text)
    }

    /// The end that a request with this tag in From goes to.
    #[must_use]
    pub fn far_end(&self, token: &Token, from_tag: &[u8]) -> End {
        if self.tag_hash(from_tag) == token.tag { token.callee } else { token.caller }
    }

    /// The end that a request with this tag in From comes from.
    pub(super) fn near_end(&self, token: &Token, from_tag: &[u8]) -> End {
        if self.tag_hash(from_tag) == token.tag { token.caller } else { token.callee }
    }
}

impl SealFlow for Tokens {
    fn seal(&self, flow: &Flow, out: &mut Vec<u8>) {
        let mut body = Body::default();
        body.put_flow(flow, 0);
        self.finish(b"flow", body, out);
    }
}

/// The contents of a token.
struct Body {
    bytes: [u8; BODY_MAX],
    len: usize,
}

impl Default for Body {
    fn default() -> Self {
        Self { bytes: [0; BODY_MAX], len: 0 }
    }
}

impl Body {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }

    fn put(&mut self, part: &[u8]) {
        if let Some(place) = self.bytes.get_mut(self.len..self.len + part.len()) {
            place.copy_from_slice(part);
            self.len += part.len();
        }
    }

    /// A flag for each optional part.
    fn put_flow(&mut self, flow: &Flow, host: u32) {
        let v6 = matches!(flow.peer.ip(), IpAddr::V6(_));
        let connected = flow.connection != 0;
        let zone = flow.zone();
        self.put(&[flow.protocol as u8
            | u8::from(zone != 0) << 3
            | u8::from(v6) << 4
            | u8::from(connected) << 5
            | u8::from(flow.domain != 0) << 6
            | u8::from(host != 0) << 7]);
        if connected {
            self.put(&flow.connection.to_le_bytes());
        }
        match flow.peer.ip() {
            IpAddr::V4(address) => self.put(&address.octets()),
            IpAddr::V6(address) => self.put(&address.octets()),
        }
        if zone != 0 {
            self.put(&zone.to_le_bytes());
        }
        self.put(&flow.peer.port().to_le_bytes());
        if host != 0 {
            self.put(&host.to_le_bytes());
        }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

fn take_end(rest: &mut &[u8]) -> Option<End> {
    let [flags] = take(rest)?;
    let protocol = Protocol::ALL.into_iter().find(|protocol| *protocol as u8 == flags & 7)?;
    let connection = if flags & 32 != 0 { u64::from_le_bytes(take(rest)?) } else { 0 };
    let address: IpAddr = if flags & 16 != 0 { take::<16>(rest)?.into() } else { take::<4>(rest)?.into() };
    let zone = if flags & 8 != 0 { u32::from_le_bytes(take(rest)?) } else { 0 };
    let port = u16::from_le_bytes(take(rest)?);
    let peer = match address {
        IpAddr::V6(v6) => SocketAddrV6::new(v6, port, 0, zone).into(),
        IpAddr::V4(_) => SocketAddr::new(address, port),
    };
    let domain = if flags & 64 != 0 { NAMED } else { 0 };
    let host = if flags & 128 != 0 { u32::from_le_bytes(take(rest)?) } else { 0 };
    Some(End { flow: Flow { protocol, connection, peer, domain }, host })
}

#[cfg(test)]
mod tests;
