//! Flow tokens (RFC 5626 section 5.2): the ways to both ends of a dialog, in the user part of a Record-Route, sealed so that
//! nobody else can make one. So a dialog needs no state here, and lives as long as its flows.

use core::hash::Hasher;
use core::net::{IpAddr, SocketAddr};

use siphasher::sip::SipHasher24;

use crate::transaction::{Flow, Protocol};

/// The ways to both ends of a dialog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    /// Who sent the request that began the dialog.
    pub caller: Flow,
    /// Who it was sent to.
    pub callee: Flow,
    /// Of the caller's tag: requests in which it is From's come from the caller.
    tag: u16,
}

/// Seals and opens tokens.
#[derive(Debug, Clone)]
pub struct Tokens {
    hasher: SipHasher24,
}

const SEAL_LEN: usize = 8;
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl Tokens {
    /// With a key, which must be random and the same after a restart if dialogs are to survive it.
    #[must_use]
    pub fn new(key: [u8; 16]) -> Self {
        Self { hasher: SipHasher24::new_with_key(&key) }
    }

    fn tag_mark(&self, tag: &[u8]) -> u16 {
        let mut hasher = self.hasher;
        hasher.write(b"tag");
        hasher.write(tag);
        hasher.finish() as u16
    }

    fn seal(&self, bytes: &[u8]) -> [u8; SEAL_LEN] {
        let mut hasher = self.hasher;
        hasher.write(b"token");
        hasher.write(bytes);
        hasher.finish().to_le_bytes()
    }

    /// Appends a token as text: letters, digits, `-` and `_`.
    pub fn write(&self, caller: &Flow, callee: &Flow, caller_tag: &[u8], out: &mut Vec<u8>) {
        let mut bytes = [0u8; 80];
        let mut len = 0;
        let mut put = |part: &[u8]| {
            if let Some(place) = bytes.get_mut(len..len + part.len()) {
                place.copy_from_slice(part);
                len += part.len();
            }
        };
        put(&self.tag_mark(caller_tag).to_le_bytes());
        for flow in [caller, callee] {
            let v6 = matches!(flow.peer.ip(), IpAddr::V6(_));
            let connected = flow.connection != 0;
            put(&[flow.protocol as u8 | u8::from(v6) << 4 | u8::from(connected) << 5]);
            if connected {
                put(&flow.connection.to_le_bytes());
            }
            match flow.peer.ip() {
                IpAddr::V4(address) => put(&address.octets()),
                IpAddr::V6(address) => put(&address.octets()),
            }
            put(&flow.peer.port().to_le_bytes());
        }
        let seal = self.seal(bytes.get(..len).unwrap_or(&[]));
        if let Some(place) = bytes.get_mut(len..len + SEAL_LEN) {
            place.copy_from_slice(&seal);
        }
        encode(bytes.get(..len + SEAL_LEN).unwrap_or(&[]), out);
    }

    /// Opens a token; `None` if it isn't one of ours.
    #[must_use]
    pub fn read(&self, text: &[u8]) -> Option<Token> {
        let mut bytes = [0u8; 90];
        let len = decode(text, &mut bytes)?;
        let (body, seal) = bytes.get(..len)?.split_at_checked(len.checked_sub(SEAL_LEN)?)?;
        // The seal isn't compared in constant time: with 64 bits of SipHash there is nothing to learn from it.
        if self.seal(body) != *seal {
            return None;
        }
        let mut rest = body;
        let tag = u16::from_le_bytes(take(&mut rest)?);
        let caller = take_flow(&mut rest)?;
        let callee = take_flow(&mut rest)?;
        Some(Token { caller, callee, tag })
    }

    /// The end that a request with this tag in From goes to.
    #[must_use]
    pub fn far_end(&self, token: &Token, from_tag: &[u8]) -> Flow {
        if self.tag_mark(from_tag) == token.tag { token.callee } else { token.caller }
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (first, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*first)
}

fn take_flow(rest: &mut &[u8]) -> Option<Flow> {
    let [flags] = take(rest)?;
    let protocol = Protocol::ALL.into_iter().find(|protocol| *protocol as u8 == flags & 15)?;
    let connection = if flags & 32 != 0 { u64::from_le_bytes(take(rest)?) } else { 0 };
    let address: IpAddr = if flags & 16 != 0 { take::<16>(rest)?.into() } else { take::<4>(rest)?.into() };
    let port = u16::from_le_bytes(take(rest)?);
    Some(Flow { protocol, connection, peer: SocketAddr::new(address, port) })
}

/// Base64 for URLs, without padding (RFC 4648 section 5).
fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            let value = (word >> (18 - 6 * digit)) & 63;
            out.push(DIGITS.get(value as usize).copied().unwrap_or(b'A'));
        }
    }
}

/// The length of what `text` stands for, which is in `out`.
fn decode(text: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    for four in text.chunks(4) {
        let mut word = 0u32;
        for digit in four {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * (4 - four.len());
        for byte in 0..four.len().saturating_sub(1) {
            *out.get_mut(len)? = (word >> (16 - 8 * byte)) as u8;
            len += 1;
        }
    }
    Some(len)
}
