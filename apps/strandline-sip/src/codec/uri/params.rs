//! Parameters and headers of URIs (RFC 3261 section 19.1.1).

use crate::codec::as_sent::as_sent;
use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;

use super::escape;

/// The parameters of a SIP or tel URI, `;name` or `;name=value`, with their escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UriParams<'a> {
    raw: &'a [u8],
}

as_sent!(UriParams, "All as they were sent, each with the `;` before it.");

impl<'a> UriParams<'a> {
    /// Takes all parameters. The resulting list is well-formed: a final `;` without a parameter, which some
    /// phones write, is skipped and not part of it.
    #[inline(always)]
    pub(crate) fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let start = cursor.at();
        while cursor.eat(b';') {
            let name = cursor.escaped(class::PARAM)?;
            if name.is_empty() && matches!(cursor.peek(), None | Some(b'?')) {
                let taken = cursor.since(start);
                return Ok(Self { raw: taken.strip_suffix(b";").unwrap_or(taken) });
            }
            let valued = cursor.eat(b'=');
            if name.is_empty() || valued && cursor.escaped(class::PARAM)?.is_empty() {
                return Err(cursor.error(ErrorKind::Parameter));
            }
        }
        Ok(Self { raw: cursor.since(start) })
    }

    /// Iterates over names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        self.raw.split(|byte| *byte == b';').skip(1).map(|param| split(param))
    }

    /// The value of a parameter: `None` if it is missing, `Some(None)` if it has no value. The name is
    /// matched after decoding, in any case.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Option<&'a [u8]>> {
        self.iter().find(|(found, _)| escape::same_any_case(found, name)).map(|(_, value)| value)
    }

    /// The value of a parameter; `None` if it is missing or has no value.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.get(name).flatten()
    }

    /// Returns true if the parameter is present, with or without a value.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }
}

/// The headers of a SIP URI, `?name=value&name=value`, with their escapes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UriHeaders<'a> {
    raw: &'a [u8],
}

as_sent!(UriHeaders, "All as they were sent, with the `?` before them.");

impl<'a> UriHeaders<'a> {
    /// Takes all headers. The resulting list is well-formed.
    #[inline(always)]
    pub(crate) fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        if cursor.peek() != Some(b'?') {
            return Ok(Self::default());
        }
        let headers = Self::read(*cursor)?;
        cursor.advance(headers.raw.len());
        Ok(headers)
    }

    #[cold]
    fn read(mut cursor: Cursor<'a>) -> Result<Self> {
        let start = cursor.at();
        cursor.advance(1);
        loop {
            let name = cursor.escaped(class::HNV)?;
            if name.is_empty() || !cursor.eat(b'=') {
                return Err(cursor.error(ErrorKind::Uri));
            }
            cursor.escaped(class::HNV)?;
            if !cursor.eat(b'&') {
                break;
            }
        }
        Ok(Self { raw: cursor.since(start) })
    }

    /// Names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], &'a [u8])> + use<'a> {
        let raw = self.raw.strip_prefix(b"?");
        let headers = raw.into_iter().flat_map(|raw| raw.split(|byte| *byte == b'&'));
        headers.map(|header| {
            let (name, value) = split(header);
            (name, value.unwrap_or(&[]))
        })
    }
}

fn split(pair: &[u8]) -> (&[u8], Option<&[u8]>) {
    match pair.iter().position(|byte| *byte == b'=') {
        Some(at) => (pair.get(..at).unwrap_or(&[]), pair.get(at + 1..)),
        None => (pair, None),
    }
}
