//! Hosts: names, IPv4 addresses, IPv6 references (RFC 3261 section 25.1).

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::{Error, ErrorKind};

/// A host as it stands in URIs and in Via.
#[derive(Debug, Clone, Copy)]
pub enum Host<'a> {
    /// A name. Underscores are taken, though the grammar has none: machines are called so.
    Name(&'a [u8]),
    /// An IPv4 address.
    V4(Ipv4Addr),
    /// An IPv6 address, which stands in brackets.
    V6(Ipv6Addr),
}

impl<'a> Host<'a> {
    /// Parses a host alone.
    ///
    /// # Errors
    /// [`ErrorKind::Host`] if it is malformed.
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

    #[inline]
    pub(crate) fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        if cursor.peek() == Some(b'[') {
            return reference(cursor);
        }
        let start = cursor.at();
        let top = labels(cursor)?;
        let name = cursor.since(start);
        if top.is_ascii_digit() {
            return ipv4(name).map(Self::V4).ok_or(Error::new(ErrorKind::Host, start));
        }
        Ok(Self::Name(name))
    }

    /// The address, if it is one.
    #[must_use]
    pub const fn ip(&self) -> Option<IpAddr> {
        match *self {
            Self::Name(_) => None,
            Self::V4(address) => Some(IpAddr::V4(address)),
            Self::V6(address) => Some(IpAddr::V6(address)),
        }
    }

    /// May a message be sent there? Not to the broadcast address, multicast or the unspecified address, which a hostile
    /// Via may name (RFC 4475 section 3.3.10). A name may.
    #[must_use]
    pub fn may_be_sent_to(&self) -> bool {
        match self {
            Self::Name(_) => true,
            Self::V4(address) => {
                !address.is_broadcast() && !address.is_multicast() && !address.is_unspecified()
            }
            Self::V6(address) => !address.is_multicast() && !address.is_unspecified(),
        }
    }
}

/// Names are compared without case and without the dot at their end, addresses as addresses.
impl PartialEq for Host<'_> {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Name(a), Self::Name(b)) => {
                let (a, b) = (a.strip_suffix(b".").unwrap_or(a), b.strip_suffix(b".").unwrap_or(b));
                a.eq_ignore_ascii_case(b)
            }
            (Self::V4(a), Self::V4(b)) => a == b,
            (Self::V6(a), Self::V6(b)) => a == b,
            _ => false,
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

/// Four numbers up to 255 of one to three digits, leading zeros or not: they are decimal all the same.
fn ipv4(text: &[u8]) -> Option<Ipv4Addr> {
    let mut octets = [0u8; 4];
    let mut number = 0usize;
    let (mut value, mut digits) = (0u32, 0u32);
    for byte in text {
        if *byte == b'.' {
            *octets.get_mut(number).filter(|_| digits > 0)? = u8::try_from(value).ok()?;
            number += 1;
            (value, digits) = (0, 0);
        } else {
            value = value * 10 + char::from(*byte).to_digit(10)?;
            digits += 1;
            if digits > 3 {
                return None;
            }
        }
    }
    if number != 3 || digits == 0 {
        return None;
    }
    *octets.last_mut()? = u8::try_from(value).ok()?;
    Some(Ipv4Addr::from(octets))
}

/// Labels of letters, digits and `-` with dots between them and perhaps at the end; none is empty or starts or ends with
/// `-`. What comes back is the first character of the last one, which is a digit in an IPv4 address only.
#[inline]
fn labels(cursor: &mut Cursor<'_>) -> Result<u8> {
    let error = cursor.error(ErrorKind::Host);
    let mut top = None;
    loop {
        let Some(first) = cursor.run(class::LABEL).first() else {
            // After a dot at the end.
            return top.ok_or(error);
        };
        while cursor.peek() == Some(b'-') {
            cursor.advance(1);
            if cursor.run(class::LABEL).is_empty() && cursor.peek() != Some(b'-') {
                return Err(error);
            }
        }
        top = Some(*first);
        if !cursor.eat(b'.') {
            return top.ok_or(error);
        }
        if matches!(cursor.peek(), Some(b'.' | b'-')) {
            return Err(error);
        }
    }
}

/// `[address]`. One colon too many before an IPv4 part, which the grammar of RFC 3261 wrongly asks for, is overlooked (RFC
/// 5118 section 4.10).
fn reference<'a>(cursor: &mut Cursor<'a>) -> Result<Host<'a>> {
    let error = cursor.error(ErrorKind::Host);
    let inside = cursor.rest().get(1..).unwrap_or(&[]);
    let len = inside.iter().take(64).position(|byte| *byte == b']').ok_or(error)?;
    let address = ipv6(inside.get(..len).unwrap_or(&[])).ok_or(error)?;
    cursor.advance(len + 2);
    Ok(Host::V6(address))
}

/// An IPv6 address without its brackets.
pub(crate) fn ipv6(text: &[u8]) -> Option<Ipv6Addr> {
    let text = core::str::from_utf8(text).ok()?;
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (before, after) = text.split_once(":::")?;
    if !after.contains('.') || text.len() > 48 {
        return None;
    }
    let mended = format!("{before}::{after}");
    mended.parse().ok()
}
