//! The values of headers that may have several, separated by commas in one line or spread over several lines,
//! which is equivalent (RFC 3261 section 7.3.1).

use core::marker::PhantomData;

use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::{Error, ErrorKind};
use crate::codec::index::Index;
use crate::codec::name::HeaderName;

pub(crate) mod sealed {
    /// Keeps [`Element`](super::Element) to the types of this crate.
    pub trait Sealed {}
}

/// A value that can be parsed. Only types of this crate implement it.
pub trait Element<'a>: sealed::Sealed + Sized {
    /// Whether an empty header is valid and has no values, rather than being malformed.
    #[doc(hidden)]
    const MAY_BE_EMPTY: bool = false;

    /// Takes one value and stops at the first character that doesn't belong to it.
    #[doc(hidden)]
    fn take(cursor: &mut Cursor<'a>) -> Result<Self>;

    /// The topmost value of the message, if it was parsed together with the message, and the position of the
    /// next value.
    #[doc(hidden)]
    #[inline(always)]
    fn parsed(_bytes: &'a [u8], _index: &Index) -> Option<(Self, usize)> {
        None
    }

    /// Parses a single value.
    ///
    /// # Errors
    /// Returns an error if the value is malformed or followed by anything.
    ///
    /// ```
    /// use strandline_sip::codec::{Element, Transport, Via};
    ///
    /// let via = Via::parse(b"SIP / 2.0 / TCP client.example.com:5062 ;branch=z9hG4bK74;rport")?;
    /// assert_eq!(via.transport, Transport::Tcp);
    /// assert_eq!(via.branch_id(), Some(&b"74"[..]));
    /// assert_eq!(via.rport, Some(None));
    /// # Ok::<(), strandline_sip::codec::Error>(())
    /// ```
    fn parse(bytes: &'a [u8]) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, 0);
        Self::parse_whole(&mut cursor)
    }

    /// Takes one value, which must be the only one in its line.
    #[doc(hidden)]
    #[inline]
    fn parse_whole(cursor: &mut Cursor<'a>) -> Result<Self> {
        cursor.skip_space();
        let value = Self::take(cursor)?;
        cursor.finish()?;
        Ok(value)
    }
}

/// Iterator over all values of a header, across all its lines. It ends after an error.
#[derive(Debug, Clone)]
pub struct Values<'a, T> {
    bytes: &'a [u8],
    index: &'a Index,
    name: HeaderName,
    /// The current line.
    line: Option<usize>,
    /// The position in the current line; `None` before its first value.
    cursor: Option<Cursor<'a>>,
    kind: PhantomData<T>,
}

impl<'a, T> Values<'a, T> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], index: &'a Index, name: HeaderName) -> Self {
        Self { bytes, index, name, line: index.first(name), cursor: None, kind: PhantomData }
    }
}

impl<'a, T: Element<'a>> Values<'a, T> {
    #[inline]
    fn step(&mut self) -> Result<Option<T>> {
        loop {
            let Some(number) = self.line else { return Ok(None) };
            let begun = self.cursor.is_some();
            if !begun
                && self.index.first(self.name) == Some(number)
                && let Some((value, after)) = T::parsed(self.bytes, self.index)
            {
                let end = self.index.lines().get(number).map_or(after, |line| line.end as usize);
                self.cursor = Some(Cursor::new(self.bytes.get(..end).unwrap_or(&[]), after));
                return Ok(Some(value));
            }
            let Some(mut cursor) = self.cursor.or_else(|| line_cursor(self.bytes, self.index, number)) else {
                return Ok(None);
            };
            if !begun {
                cursor.skip_space();
            }
            if cursor.peek().is_none() {
                self.line = self.index.next(self.name, number);
                self.cursor = None;
                if begun || T::MAY_BE_EMPTY {
                    continue;
                }
                return Err(cursor.error(ErrorKind::Token));
            }
            let value = T::take(&mut cursor)?;
            cursor.finish_element()?;
            self.cursor = Some(cursor);
            return Ok(Some(value));
        }
    }
}

/// A cursor at the value of a line.
#[inline]
pub(crate) fn line_cursor<'a>(bytes: &'a [u8], index: &Index, number: usize) -> Option<Cursor<'a>> {
    let line = index.lines().get(number)?;
    Some(Cursor::new(bytes.get(..line.end as usize)?, line.value as usize))
}

impl<'a, T: Element<'a>> Iterator for Values<'a, T> {
    type Item = core::result::Result<T, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // Most headers that are queried are absent.
        self.line?;
        let step = self.step().map_err(|error| error.in_header(self.name)).transpose();
        if !matches!(step, Some(Ok(_))) {
            self.line = None;
        }
        step
    }
}

impl<'a, T: Element<'a>> core::iter::FusedIterator for Values<'a, T> {}
