//! Content-Type, Accept, Accept-Encoding and Accept-Language (RFC 3261 sections 20.1 to 20.3 and 20.15).

use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;

use super::address::{Q_MAX, quality};
use super::params::Params;
use super::values::{Element, sealed};

/// `type/subtype;parameters`: a Content-Type, or a value of Accept, in which `*` matches any type.
#[derive(Debug, Clone, Copy)]
pub struct MediaType<'a> {
    /// The type, such as `application`; case-insensitive.
    pub kind: &'a [u8],
    /// The subtype, such as `sdp`; case-insensitive.
    pub subtype: &'a [u8],
    /// The parameters.
    pub params: Params<'a>,
}

impl<'a> MediaType<'a> {
    /// Returns true if this is the given type, ignoring its parameters.
    #[must_use]
    pub fn is(&self, kind: &[u8], subtype: &[u8]) -> bool {
        self.kind.eq_ignore_ascii_case(kind) && self.subtype.eq_ignore_ascii_case(subtype)
    }

    /// Returns true if this range of Accept includes the given type.
    ///
    /// ```
    /// use strandline_sip::codec::{Element, MediaType};
    ///
    /// let range = MediaType::parse(b"text/*;q=0.5")?;
    /// assert!(range.covers(b"text", b"plain") && !range.covers(b"application", b"sdp"));
    /// assert_eq!(range.q()?, 500);
    /// # Ok::<(), strandline_sip::codec::Error>(())
    /// ```
    #[must_use]
    pub fn covers(&self, kind: &[u8], subtype: &[u8]) -> bool {
        let covers = |range: &[u8], text: &[u8]| range == b"*" || range.eq_ignore_ascii_case(text);
        covers(self.kind, kind) && covers(self.subtype, subtype)
    }

    /// `q` in thousandths; 1000 if it is missing.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn q(&self) -> Result<u16> {
        self.params.value(b"q").map_or(Ok(Q_MAX), quality)
    }

    /// The `boundary` of a multipart type.
    #[must_use]
    pub fn boundary(&self) -> Option<&'a [u8]> {
        self.params.value(b"boundary")
    }
}

impl sealed::Sealed for MediaType<'_> {}

impl<'a> Element<'a> for MediaType<'a> {
    const MAY_BE_EMPTY: bool = true;

    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let kind = cursor.token()?;
        cursor.skip_space();
        if !cursor.eat(b'/') {
            return Err(cursor.error(ErrorKind::Token));
        }
        cursor.skip_space();
        let subtype = cursor.token()?;
        let params = Params::take_any(cursor)?;
        Ok(Self { kind, subtype, params })
    }
}

/// A token with parameters: a value of Accept-Encoding, Accept-Language, Content-Disposition, Reason or
/// Privacy.
#[derive(Debug, Clone, Copy)]
pub struct Choice<'a> {
    /// The token, or `*`.
    pub token: &'a [u8],
    /// The parameters.
    pub params: Params<'a>,
}

impl Choice<'_> {
    /// `q` in thousandths; 1000 if it is missing.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn q(&self) -> Result<u16> {
        self.params.value(b"q").map_or(Ok(Q_MAX), quality)
    }
}

impl sealed::Sealed for Choice<'_> {}

impl<'a> Element<'a> for Choice<'a> {
    const MAY_BE_EMPTY: bool = true;

    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let token = cursor.some(class::TOKEN, ErrorKind::Token)?;
        let params = Params::take_any(cursor)?;
        Ok(Self { token, params })
    }
}
