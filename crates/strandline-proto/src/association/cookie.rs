//! State Cookies (RFC 9260 sections 5.1.3 and 5.1.5): everything needed to build an association, signed with
//! HMAC-SHA256 under a rotating key, so that an INIT leaves no state.
//!
//! ```text
//!  0      1        9          13                                    MAC
//! +------+--------+----------+------------- fields ... ------------+-----------+
//! | gen. | created| lifetime | tags, tie tags, ports, TSNs, ...     | 16 bytes  |
//! +------+--------+----------+--------------------------------------+-----------+
//! ```

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use strandline_wire::number::{Tsn, VerificationTag};
use subtle::ConstantTimeEq;

use super::features::{Extensions, Features, InitialCredit};
use super::keys::{COOKIE_BYTES_MAX, CookieParameters};
use crate::config::PATHS_MAX;
use crate::time::Time;

/// Length of the MAC in bytes: half of the hash, as RFC 2104 section 5 allows. Every packet with data given before
/// the set-up carries it.
const MAC_LEN: usize = 16;
/// Length of HMAC-SHA256 and of its keys in bytes (RFC 2104 section 3).
const HASH_LEN: usize = 32;
/// Bytes before an address in a cookie, for its family.
const NO_ADDRESS: u8 = 0;
const IPV4: u8 = 4;
const IPV6: u8 = 6;
/// A bit of that byte: the peer wants this address to be its primary one.
const PRIMARY: u8 = 0x80;
/// A bit of that byte: this is a local address.
const LOCAL: u8 = 0x40;
/// Maximum length of a cookie in bytes: fixed fields, an adaptation code point, two transport addresses,
/// `PATHS_MAX` IPv6 addresses of each side, the initial credit of streams, and what the keys of RFC 4895 are
/// derived from.
pub(crate) const COOKIE_LEN_MAX: usize =
    66 + 4 + 2 * 20 + 2 * PATHS_MAX * 17 + InitialCredit::LEN + COOKIE_BYTES_MAX + MAC_LEN;

/// The contents of a State Cookie.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Cookie {
    pub(crate) created: Time,
    pub(crate) lifetime_ms: u32,
    pub(crate) local_tag: VerificationTag,
    pub(crate) peer_tag: VerificationTag,
    pub(crate) local_tie_tag: u32,
    pub(crate) peer_tie_tag: u32,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    pub(crate) local_initial_tsn: Tsn,
    pub(crate) peer_initial_tsn: Tsn,
    pub(crate) peer_rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    /// The extensions that both sides agreed on.
    pub(crate) features: Features,
    /// The code point of the peer's Adaptation Layer Indication.
    pub(crate) adaptation: Option<u32>,
    /// The parameters of RFC 4895, if both sides agreed on it.
    pub(crate) auth: Option<Box<CookieParameters>>,
    /// The source of the INIT, to which the INIT ACK went.
    pub(crate) source: SocketAddr,
    /// The local address at which the INIT arrived.
    pub(crate) destination: Option<IpAddr>,
    /// Further addresses of the peer.
    pub(crate) addresses: Vec<IpAddr>,
    /// The one of these that the peer wants to be the primary one (RFC 5061 section 5.4).
    pub(crate) primary: Option<IpAddr>,
    /// The local addresses that the INIT ACK names, if they may change before the cookie comes back.
    pub(crate) named: Vec<IpAddr>,
}

/// Why a cookie was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CookieError {
    /// Forged, altered, or signed with a key that is gone: discarded silently.
    Forged,
    /// Signed by us, but older than its lifetime by this much.
    Stale(Box<Cookie>, Duration),
}

/// A key that the hash has already processed: signing starts from there.
type Key = Hmac<Sha256>;

/// Prepares a key.
fn prepare(key: [u8; HASH_LEN]) -> Key {
    // A key shorter than a block of the hash is padded with zeros (RFC 2104 section 2).
    let mut block = hmac::digest::Key::<Key>::default();
    for (place, byte) in block.iter_mut().zip(key) {
        *place = byte;
    }
    Key::new(&block)
}

/// The keys that sign cookies: the current and the previous one.
#[derive(Debug)]
pub(crate) struct CookieKeys {
    current: Key,
    previous: Option<Key>,
    generation: u8,
    rotate_at: Time,
    lifetime: Duration,
}

impl CookieKeys {
    pub(crate) fn new(key: [u8; HASH_LEN], lifetime: Duration, now: Time) -> Self {
        Self { current: prepare(key), previous: None, generation: 0, rotate_at: now + lifetime, lifetime }
    }

    /// True if the next key is due. The caller supplies it, because randomness is an input.
    pub(crate) fn rotation_due(&self, now: Time) -> bool {
        now >= self.rotate_at
    }

    pub(crate) fn rotate(&mut self, key: [u8; HASH_LEN], now: Time) {
        // A key that was not rotated for two lifetimes must not verify anything any more.
        let stale = now.since(self.rotate_at) >= self.lifetime;
        self.previous = (!stale).then(|| self.current.clone());
        self.current = prepare(key);
        self.generation = self.generation.wrapping_add(1);
        self.rotate_at = now + self.lifetime;
    }

    fn mac(key: &Key, body: &[u8]) -> [u8; MAC_LEN] {
        let mut mac = key.clone();
        mac.update(body);
        let whole: [u8; HASH_LEN] = mac.finalize().into_bytes().into();
        let mut half = [0; MAC_LEN];
        half.copy_from_slice(whole.split_at(MAC_LEN).0);
        half
    }

    /// Writes and signs a cookie.
    pub(crate) fn seal(&self, cookie: &Cookie) -> Vec<u8> {
        let mut out = Vec::with_capacity(COOKIE_LEN_MAX);
        out.push(self.generation);
        out.extend_from_slice(&cookie.created.as_nanos().to_be_bytes());
        for word in [
            cookie.lifetime_ms,
            cookie.local_tag.0,
            cookie.peer_tag.0,
            cookie.local_tie_tag,
            cookie.peer_tie_tag,
            cookie.local_initial_tsn.0,
            cookie.peer_initial_tsn.0,
            cookie.peer_rwnd,
        ] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        for half in [
            cookie.local_port,
            cookie.peer_port,
            cookie.outbound_streams,
            cookie.inbound_streams,
            cookie.source.port(),
        ] {
            out.extend_from_slice(&half.to_be_bytes());
        }
        out.extend_from_slice(&cookie.features.to_bytes());
        if let Some(credit) = cookie.features.stream_credit() {
            out.extend_from_slice(&credit.to_bytes());
        }
        if let Some(code_point) = cookie.adaptation {
            out.extend_from_slice(&code_point.to_be_bytes());
        }
        if let Some(auth) = &cookie.auth {
            auth.write(&mut out);
        }
        put_address(&mut out, Some(cookie.source.ip()));
        let scope = if let SocketAddr::V6(v6) = cookie.source { v6.scope_id() } else { 0 };
        out.extend_from_slice(&scope.to_be_bytes());
        put_address(&mut out, cookie.destination);
        for address in cookie.addresses.iter().take(PATHS_MAX) {
            let place = out.len();
            put_address(&mut out, Some(*address));
            if cookie.primary == Some(*address)
                && let Some(family) = out.get_mut(place)
            {
                *family |= PRIMARY;
            }
        }
        for address in cookie.named.iter().take(PATHS_MAX) {
            let place = out.len();
            put_address(&mut out, Some(*address));
            if let Some(family) = out.get_mut(place) {
                *family |= LOCAL;
            }
        }
        // Some stacks return a cookie with the padding of its parameter, so avoid padding.
        out.resize(out.len().next_multiple_of(4), 0);
        let mac = Self::mac(&self.current, &out);
        out.extend_from_slice(&mac);
        out
    }

    /// Checks the signature and the age, and reads the cookie.
    pub(crate) fn open(&self, bytes: &[u8], now: Time) -> Result<Cookie, CookieError> {
        let split = bytes.len().checked_sub(MAC_LEN).ok_or(CookieError::Forged)?;
        if bytes.len() > COOKIE_LEN_MAX {
            return Err(CookieError::Forged);
        }
        let (body, mac) = bytes.split_at(split);
        let generation = *body.first().ok_or(CookieError::Forged)?;
        let key = match self.generation.wrapping_sub(generation) {
            0 => &self.current,
            1 => self.previous.as_ref().ok_or(CookieError::Forged)?,
            _ => return Err(CookieError::Forged),
        };
        if !bool::from(Self::mac(key, body).ct_eq(mac)) {
            return Err(CookieError::Forged);
        }
        let cookie = read(body).ok_or(CookieError::Forged)?;
        let age = now.since(cookie.created);
        let lifetime = Duration::from_millis(u64::from(cookie.lifetime_ms));
        if age > lifetime {
            return Err(CookieError::Stale(Box::new(cookie), age - lifetime));
        }
        Ok(cookie)
    }
}

fn put_address(out: &mut Vec<u8>, address: Option<IpAddr>) {
    match address {
        None => out.push(NO_ADDRESS),
        Some(IpAddr::V4(v4)) => {
            out.push(IPV4);
            out.extend_from_slice(&v4.octets());
        }
        Some(IpAddr::V6(v6)) => {
            out.push(IPV6);
            out.extend_from_slice(&v6.octets());
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*head)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn address(&mut self) -> Option<Option<IpAddr>> {
        let [family] = self.take::<1>()?;
        match family & !(PRIMARY | LOCAL) {
            NO_ADDRESS => Some(None),
            IPV4 => Some(Some(IpAddr::V4(Ipv4Addr::from(self.take::<4>()?)))),
            IPV6 => Some(Some(IpAddr::V6(Ipv6Addr::from(self.take::<16>()?)))),
            _ => None,
        }
    }
}

fn read(body: &[u8]) -> Option<Cookie> {
    let mut r = Reader(body);
    let _generation = r.take::<1>()?;
    let created = Time::from_nanos(u64::from_be_bytes(r.take()?));
    let lifetime_ms = r.u32()?;
    let (local_tag, peer_tag) = (VerificationTag(r.u32()?), VerificationTag(r.u32()?));
    let (local_tie_tag, peer_tie_tag) = (r.u32()?, r.u32()?);
    let (local_initial_tsn, peer_initial_tsn) = (Tsn(r.u32()?), Tsn(r.u32()?));
    let peer_rwnd = r.u32()?;
    let (local_port, peer_port) = (r.u16()?, r.u16()?);
    let (outbound_streams, inbound_streams) = (r.u16()?, r.u16()?);
    let port = r.u16()?;
    let mut features = Features::from_bytes(r.take()?);
    if features.has(Extensions::STREAM_CREDIT) {
        features.set_credit(InitialCredit::from_bytes(r.take()?));
    }
    let adaptation = if features.has(Extensions::ADAPTATION) { Some(r.u32()?) } else { None };
    let mut auth = None;
    if features.has(Extensions::AUTHENTICATION) {
        let (parameters, rest) = CookieParameters::read(r.0)?;
        auth = Some(Box::new(parameters));
        r = Reader(rest);
    }
    let ip = r.address()??;
    let scope = r.u32()?;
    let source = match ip {
        IpAddr::V4(_) => SocketAddr::new(ip, port),
        IpAddr::V6(v6) => core::net::SocketAddrV6::new(v6, port, 0, scope).into(),
    };
    let destination = r.address()?;
    let (mut addresses, mut primary, mut named) = (Vec::new(), None, Vec::new());
    while let [family, ..] = *r.0 {
        let address = r.address()?;
        if family & LOCAL != 0 {
            named.extend(address)
        } else {
            addresses.extend(address)
        }
        primary = primary.or(address.filter(|_| family & PRIMARY != 0));
    }
    Some(Cookie {
        created,
        lifetime_ms,
        local_tag,
        peer_tag,
        local_tie_tag,
        peer_tie_tag,
        local_port,
        peer_port,
        local_initial_tsn,
        peer_initial_tsn,
        peer_rwnd,
        outbound_streams,
        inbound_streams,
        features,
        adaptation,
        auth,
        source,
        destination,
        addresses,
        primary,
        named,
    })
}

#[cfg(test)]
mod tests;
