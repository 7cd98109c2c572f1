//! Hosts: names, IPv4 addresses and IPv6 references (RFC 3261 section 25.1).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::codec::class::{self, is};
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;

/// A host in a URI or a Via.
#[derive(Debug, Clone, Copy)]
pub enum Host<'a> {
    /// A name. It may contain underscores, which the grammar forbids but real hosts use.
    Name(&'a [u8]),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address, written in brackets.
    V6(Ipv6Addr),
}

impl<'a> Host<'a> {
    /// Parses a single host.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Host`] if it is malformed.
    ///
    /// ```
    /// use strandline_sip::codec::Host;
    ///
    /// assert_eq!(Host::parse(b"[2001:db8::1]")?.ip(), "2001:db8::1".parse().ok());
    /// assert_eq!(Host::parse(b"Example.COM")?, Host::Name(b"example.com"));
    /// assert!(Host::parse(b"2001:db8::1").is_err());
    /// # Ok::<(), strandline_sip::codec::Error>(())
    /// ```
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        let host = Self::take(&mut cursor)?;
        if cursor.rest().is_empty() { Ok(host) } else { Err(cursor.error(ErrorKind::Host)) }
    }

    #[inline(always)]
    pub(crate) fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        match Self::read(cursor.rest()) {
            Some((host, len)) => {
                cursor.advance(len);
                Ok(host)
            }
            None => Err(cursor.error(ErrorKind::Host)),
        }
    }

    /// The host at the start of `text`, and its length.
    fn read(text: &'a [u8]) -> Option<(Self, usize)> {
        match text.first() {
            Some(b'[') => return reference(text),
            Some(b'0'..=b'9') => {
                if let Some((address, len)) = ipv4(text) {
                    return Some((Self::V4(address), len));
                }
            }
            _ => {}
        }
        let name = text.get(..name_len(text)?)?;
        Some((Self::Name(name), name.len()))
    }

    /// The address; `None` for a name. An IPv4-mapped IPv6 address is returned as the IPv4 address that it stands
    /// for, which sockets of both families can send to.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match *self {
            Self::Name(_) => None,
            Self::V4(address) => Some(IpAddr::V4(address)),
            Self::V6(address) => Some(address.to_canonical()),
        }
    }

    /// Returns false for the broadcast address, multicast and the unspecified address, which a hostile Via
    /// may name (RFC 4475 section 3.3.10). A name is always allowed.
    #[must_use]
    pub fn may_be_sent_to(&self) -> bool {
        match self.ip() {
            None => true,
            Some(IpAddr::V4(address)) => {
                !address.is_broadcast() && !address.is_multicast() && !address.is_unspecified()
            }
            Some(IpAddr::V6(address)) => !address.is_multicast() && !address.is_unspecified(),
        }
    }

    /// Returns true for a name whose final label is `top`, in lowercase, such as those of special use (RFC 6761).
    pub(crate) fn is_in_top_level(&self, top: &str) -> bool {
        let Self::Name(name) = self else { return false };
        let name = name.strip_suffix(b".").unwrap_or(name);
        name.rsplit(|byte| *byte == b'.').next().is_some_and(|last| last.eq_ignore_ascii_case(top.as_bytes()))
    }
}

/// Names are compared without regard to case and to a final dot; addresses are compared by value.
impl PartialEq for Host<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(a), Self::Name(b)) => {
                let (a, b) = (a.strip_suffix(b".").unwrap_or(a), b.strip_suffix(b".").unwrap_or(b));
                a == b || a.eq_ignore_ascii_case(b)
            }
            (Self::V4(a), Self::V4(b)) => a == b,
            (Self::Name(_), _) | (_, Self::Name(_)) => false,
            _ => self.ip() == other.ip(),
        }
    }
}

impl Eq for Host<'_> {}

impl fmt::Display for Host<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => fmt::Display::fmt(&name.escape_ascii(), f),
            Self::V4(address) => address.fmt(f),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// Parses an IPv4 address at the start of `text`: four numbers up to 255 of one to three digits. Leading
/// zeros are allowed, and the numbers are decimal nevertheless. Returns the address and its length, or `None`
/// if it continues as a name.
#[inline]
fn ipv4(text: &[u8]) -> Option<(Ipv4Addr, usize)> {
    let (first, rest) = octet(text)?;
    let (second, rest) = octet(rest.strip_prefix(b".")?)?;
    let (third, rest) = octet(rest.strip_prefix(b".")?)?;
    let (fourth, rest) = octet(rest.strip_prefix(b".")?)?;
    if rest.first().is_some_and(|byte| is(*byte, class::LABEL) || matches!(byte, b'.' | b'-')) {
        return None;
    }
    Some((Ipv4Addr::new(first, second, third, fourth), text.len() - rest.len()))
}

/// Parses a number of one to three digits up to 255, and returns it with the rest of the text.
#[inline(always)]
fn octet(text: &[u8]) -> Option<(u8, &[u8])> {
    let digit = |at: usize| text.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10);
    let first = digit(0)?;
    let Some(second) = digit(1) else { return Some((first, text.get(1..)?)) };
    let two = first * 10 + second;
    let Some(third) = digit(2) else { return Some((two, text.get(2..)?)) };
    let three = u16::from(two) * 10 + u16::from(third);
    Some((u8::try_from(three).ok()?, text.get(3..)?))
}

/// The length of the host name at the start of `text`: labels of letters, digits and `-`, separated by dots,
/// with an optional final dot. No label is empty or starts or ends with `-`, and the last label doesn't start
/// with a digit.
#[inline]
fn name_len(text: &[u8]) -> Option<usize> {
    let mut cursor = Cursor::new(text, 0);
    let mut top = None;
    loop {
        let [first, ..] = cursor.run(class::LABEL) else {
            // A label is required before the first dot and optional after the last.
            let ends = top.is_some() && !matches!(cursor.peek(), Some(b'.' | b'-'));
            return if ends { name_end(&cursor, top) } else { None };
        };
        top = Some(*first);
        while cursor.eat(b'-') {
            if cursor.run(class::LABEL).is_empty() && cursor.peek() != Some(b'-') {
                return None;
            }
        }
        if !cursor.eat(b'.') {
            return name_end(&cursor, top);
        }
    }
}

/// The end of the name, unless its last label starts with a digit. `top` is the first byte of that label.
#[inline(always)]
fn name_end(cursor: &Cursor<'_>, top: Option<u8>) -> Option<usize> {
    if top.is_some_and(|top| top.is_ascii_digit()) { None } else { Some(cursor.at()) }
}

/// How far the `]` of an IPv6 reference is searched for, in bytes; no address is that long.
const REFERENCE_BYTES_MAX: usize = 64;

/// Maximum length of an IPv6 address with an IPv4 part and an extra colon, in bytes: the longest has 46.
const MENDED_BYTES_MAX: usize = 48;

/// Parses `[address]`. An extra colon before an IPv4 part, which the grammar of RFC 3261 wrongly requires, is
/// accepted (RFC 5118 section 4.10).
fn reference(text: &[u8]) -> Option<(Host<'_>, usize)> {
    let inside = text.get(1..)?;
    let len = inside.iter().take(REFERENCE_BYTES_MAX).position(|byte| *byte == b']')?;
    let address = ipv6(inside.get(..len)?)?;
    Some((Host::V6(address), len + 2))
}

/// Parses an IPv6 address without brackets.
pub(crate) fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    let text = core::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (before, after) = text.split_once(":::")?;
    if !after.contains('.') || text.len() > MENDED_BYTES_MAX {
        return None;
    }
    let mended = format!("{before}::{after}");
    mended.parse().ok()
}

#[cfg(test)]
mod tests;
