//! Headers and their fields.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

/// Why the first message of a stream can't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(crate) enum Malformed {
    #[error("the message is too short or has a wrong length")]
    Length,
    #[error("version {0} is unknown")]
    Version(u8),
    #[error("kind or code {0} is unknown")]
    Kind(u8),
    #[error("field {0} is unknown, malformed or missing")]
    Field(u8),
}

/// The version that this side speaks.
const VERSION: u8 = 1;
const HEADER_LEN: usize = 4;
/// Largest header that is read: more than all known fields have.
pub(crate) const HEADER_MAX: usize = 1 << 10;

/// Fields from this type on are skipped if they are unknown.
const OPTIONAL: u8 = 128;

pub(super) const ADDRESS: u8 = 1;
pub(super) const NAME: u8 = 2;
pub(super) const SOURCE: u8 = 3;
pub(super) const TOKEN: u8 = 4;
pub(super) const LISTENER: u8 = 5;
pub(super) const TEXT: u8 = 128;
pub(super) const STATES: u8 = 129;

/// Writes a header, field by field.
pub(super) struct HeaderWriter(Vec<u8>);

impl HeaderWriter {
    /// Begins a header, with room for `data_len` bytes behind it.
    pub(super) fn new(kind: u8, data_len: usize) -> Self {
        let mut bytes = Vec::with_capacity(64 + data_len);
        bytes.extend_from_slice(&[VERSION, kind, 0, 0]);
        Self(bytes)
    }

    /// Appends a field, cut to 255 bytes.
    pub(super) fn field(&mut self, kind: u8, parts: &[&[u8]]) {
        let len = parts.iter().map(|part| part.len()).sum::<usize>().min(255);
        self.0.extend_from_slice(&[kind, len as u8]);
        let end = self.0.len() + len;
        parts.iter().for_each(|part| self.0.extend_from_slice(part));
        self.0.truncate(end);
    }

    pub(super) fn address(&mut self, kind: u8, address: SocketAddr) {
        let port = address.port().to_be_bytes();
        match address.ip() {
            IpAddr::V4(ip) => self.field(kind, &[&ip.octets(), &port]),
            IpAddr::V6(ip) => self.field(kind, &[&ip.octets(), &port]),
        }
    }

    /// Completes the header, and appends the data.
    pub(super) fn finish(mut self, data: &[u8]) -> Vec<u8> {
        // At most a handful of fields of 257 bytes.
        let len = (self.0.len() as u16).to_be_bytes();
        if let Some(place) = self.0.get_mut(2..4) {
            place.copy_from_slice(&len);
        }
        self.0.extend_from_slice(data);
        self.0
    }
}

/// Returns the length of a header of which this is the beginning: that of what is known of all headers while
/// it is less.
pub(crate) fn header_len(beginning: &[u8]) -> usize {
    match *beginning {
        [_, _, high, low, ..] => usize::from(u16::from_be_bytes([high, low])).max(HEADER_LEN),
        _ => HEADER_LEN,
    }
}

/// Reads a header, field by field.
pub(super) struct HeaderReader<'a> {
    pub(super) kind: u8,
    /// Length of the header in bytes.
    pub(super) len: usize,
    rest: &'a [u8],
}

impl<'a> HeaderReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let [version, kind, high, low, ..] = *bytes else { return Err(Malformed::Length) };
        if version != VERSION {
            return Err(Malformed::Version(version));
        }
        let len = usize::from(u16::from_be_bytes([high, low]));
        let rest = bytes.get(HEADER_LEN..len).ok_or(Malformed::Length)?;
        Ok(Self { kind, len, rest })
    }

    /// Returns the type and value of the next field.
    pub(super) fn next(&mut self) -> Result<Option<(u8, &'a [u8])>, Malformed> {
        let [kind, len, rest @ ..] = self.rest else {
            return if self.rest.is_empty() { Ok(None) } else { Err(Malformed::Length) };
        };
        let (value, rest) = rest.split_at_checked(usize::from(*len)).ok_or(Malformed::Length)?;
        self.rest = rest;
        Ok(Some((*kind, value)))
    }
}

/// Returns an error if a field that isn't known must not be skipped.
pub(super) fn skip(kind: u8) -> Result<(), Malformed> {
    if kind >= OPTIONAL { Ok(()) } else { Err(Malformed::Field(kind)) }
}

pub(super) fn read_address(kind: u8, value: &[u8]) -> Result<SocketAddr, Malformed> {
    let (ip, port) = value.split_last_chunk::<2>().ok_or(Malformed::Field(kind))?;
    let ip: IpAddr = match ip.len() {
        4 => <[u8; 4]>::try_from(ip).map_err(|_| Malformed::Field(kind))?.into(),
        16 => <[u8; 16]>::try_from(ip).map_err(|_| Malformed::Field(kind))?.into(),
        _ => return Err(Malformed::Field(kind)),
    };
    Ok(SocketAddr::new(ip, u16::from_be_bytes(*port)))
}

pub(super) fn read_number(kind: u8, value: &[u8]) -> Result<u32, Malformed> {
    value.try_into().map(u32::from_be_bytes).map_err(|_| Malformed::Field(kind))
}
