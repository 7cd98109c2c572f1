//! Addresses: From, To, Contact, Route, Record-Route, Path, Service-Route, Reply-To, Refer-To and similar
//! headers (RFC 3261 section 20.10 and others).

use crate::codec::class::{self, is};
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::{Error, ErrorKind};
use crate::codec::uri::Uri;
use crate::codec::uri::sip::{SipUri, scheme};

use super::params::{Params, same, whole_number, without_empty_param};
use super::values::{Element, sealed};

/// `"display name" <uri>;parameters`, or a URI without brackets, whose parameters then belong to the header.
#[derive(Debug, Clone, Copy)]
pub struct Address<'a> {
    /// The display name as it was sent: tokens, or a quoted string with its quotes.
    pub display: Option<&'a [u8]>,
    /// True if the URI is in angle brackets.
    pub bracketed: bool,
    /// The parameters of the header.
    pub params: Params<'a>,
    /// The `tag` of From and To.
    pub tag: Option<&'a [u8]>,
    /// The `expires` of Contact: see [`expires`](Self::expires).
    expires: Option<&'a [u8]>,
    /// The text up to the end of the URI.
    text: &'a [u8],
    /// The position of the URI in `text`.
    uri_at: usize,
}

impl<'a> Address<'a> {
    /// The URI as it was sent. A SIP URI in brackets is without a final `;`, which has no meaning there.
    #[must_use]
    pub fn uri_bytes(&self) -> &'a [u8] {
        self.text.get(self.uri_at..).unwrap_or(&[])
    }

    /// Parses the URI, of which only the character set has been checked so far.
    ///
    /// # Errors
    /// Returns an error if it is malformed.
    pub fn uri(&self) -> Result<Uri<'a>> {
        Uri::parse_at(self.text, self.uri_at)
    }

    /// Parses the URI, which must be a SIP or SIPS URI.
    ///
    /// # Errors
    /// Returns an error if it is malformed or has another scheme.
    pub fn sip_uri(&self) -> Result<SipUri<'a>> {
        match scheme(self.text, self.uri_at) {
            Some((cursor, secure)) => SipUri::take(cursor, secure),
            None => self.uri().and(Err(Error::new(ErrorKind::NotSip, self.uri_at))),
        }
    }

    /// The `expires` of a Contact, in seconds.
    ///
    /// # Errors
    /// Returns an error if it is present but not a number of 32 bits. A registrar may then use its default
    /// (RFC 3261 section 10.2.1.1).
    pub fn expires(&self) -> Result<Option<u32>> {
        self.expires.map(whole_number).transpose()
    }

    /// The `q` of a Contact, in thousandths.
    ///
    /// # Errors
    /// Returns an error if it is present but not a number from 0 to 1 with at most three decimals.
    pub fn q(&self) -> Result<Option<u16>> {
        self.params.value(b"q").map(quality).transpose()
    }

    /// The `reg-id` of a Contact (RFC 5626 section 4.2), at least 1.
    ///
    /// # Errors
    /// Returns an error if it is present but 0 or not a number of 31 bits.
    pub fn reg_id(&self) -> Result<Option<u32>> {
        match self.params.number(b"reg-id")? {
            Some(0) => Err(Error::new(ErrorKind::Number, 0)),
            Some(id) if id > i32::MAX as u32 => Err(Error::new(ErrorKind::TooLarge, 0)),
            id => Ok(id),
        }
    }

    /// The `+sip.instance` of a Contact (RFC 5626 section 4.1) without its angle brackets, such as
    /// `urn:uuid:...`.
    #[must_use]
    pub fn instance(&self) -> Option<&'a [u8]> {
        let value = self.params.value(b"+sip.instance")?;
        Some(value.strip_prefix(b"<").and_then(|inside| inside.strip_suffix(b">")).unwrap_or(value))
    }

    /// The `pub-gruu` of a Contact (RFC 5627).
    #[must_use]
    pub fn public_gruu(&self) -> Option<&'a [u8]> {
        self.params.value(b"pub-gruu")
    }

    /// The `temp-gruu` of a Contact (RFC 5627).
    #[must_use]
    pub fn temporary_gruu(&self) -> Option<&'a [u8]> {
        self.params.value(b"temp-gruu")
    }
}

/// Maximum number of decimals in a `qvalue` (RFC 3261 section 25.1).
const Q_DECIMALS_MAX: usize = 3;

/// The largest `qvalue`, which is also the default, in thousandths.
pub(crate) const Q_MAX: u16 = 1000;

/// Parses a `qvalue`, in thousandths.
pub(crate) fn quality(text: &[u8]) -> Result<u16> {
    let error = Error::new(ErrorKind::Number, 0);
    let (whole, decimals) = match text {
        [whole] => (whole, &[][..]),
        [whole, b'.', decimals @ ..] if decimals.len() <= Q_DECIMALS_MAX => (whole, decimals),
        _ => return Err(error),
    };
    let mut value = u16::from(whole.wrapping_sub(b'0'));
    for place in 0..Q_DECIMALS_MAX {
        let digit = decimals.get(place).unwrap_or(&b'0');
        if !digit.is_ascii_digit() {
            return Err(error);
        }
        value = value.saturating_mul(10).saturating_add(u16::from(digit - b'0'));
    }
    if value <= Q_MAX { Ok(value) } else { Err(error) }
}

/// Takes the display name, up to the `<` of the URI. Takes nothing if there is no `<`.
fn display(mut cursor: Cursor<'_>) -> Result<(Option<&[u8]>, Cursor<'_>)> {
    let start = cursor;
    let mut end = start;
    if cursor.peek() == Some(b'"') {
        cursor.quoted()?;
        end = cursor;
        cursor.skip_space();
    } else {
        // Tokens, also directly before the bracket (RFC 4475 section 3.1.1.6).
        while !cursor.run(class::TOKEN).is_empty() {
            end = cursor;
            cursor.skip_space();
        }
    }
    if cursor.peek() != Some(b'<') {
        return if end.at() > start.at() {
            Err(cursor.error(ErrorKind::Brackets))
        } else {
            Ok((None, cursor))
        };
    }
    Ok((Some(end.since(start.at())).filter(|name| !name.is_empty()), cursor))
}

/// Takes a URI without brackets. It ends where a parameter, a header or the next value starts.
fn take_bare(mut cursor: Cursor<'_>) -> Result<Cursor<'_>> {
    let start = cursor;
    let rest = cursor.rest();
    let ends = |byte: &u8| matches!(*byte, b';' | b',' | b'?') || !is(*byte, class::URI);
    let len = rest.iter().position(ends).unwrap_or(rest.len());
    cursor.advance(len);
    match cursor.peek() {
        // A URI with `?` must be in brackets (RFC 3261 section 20).
        Some(b'?') => Err(cursor.error(ErrorKind::Brackets)),
        _ if !cursor.since(start.at()).contains(&b':') => Err(start.error(ErrorKind::Uri)),
        _ => Ok(cursor),
    }
}

impl<'a> Address<'a> {
    /// Takes what precedes the parameters. Returns the display name, the text up to the end of the URI, the
    /// position of the URI in that text, and whether it is in brackets.
    #[inline(always)]
    fn name_addr(cursor: &mut Cursor<'a>) -> Result<(Option<&'a [u8]>, &'a [u8], usize, bool)> {
        // A bare URI starts with a token too, but a colon follows it.
        let mut name = None;
        if cursor.peek() != Some(b'<') {
            let mut ahead = *cursor;
            ahead.run(class::TOKEN);
            if ahead.at() > cursor.at() && ahead.peek() == Some(b':') {
                let uri_at = cursor.at();
                *cursor = take_bare(*cursor)?;
                return Ok((None, cursor.since(0), uri_at, false));
            }
            (name, *cursor) = display(*cursor)?;
        }
        if !cursor.eat(b'<') {
            return Err(cursor.error(ErrorKind::Uri));
        }
        let uri_at = cursor.at();
        let uri = cursor.bracketed()?;
        let mut text = cursor.since(0).get(..uri_at + uri.len()).unwrap_or(&[]);
        if let Some(before) = text.strip_suffix(b";")
            && !before.ends_with(b";")
            && scheme(text, uri_at).is_some()
        {
            text = before;
        }
        Ok((name, text, uri_at, true))
    }
}

impl sealed::Sealed for Address<'_> {}

impl<'a> Element<'a> for Address<'a> {
    #[inline]
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        // A local copy can stay in registers.
        let mut place = *cursor;
        let (display, text, uri_at, bracketed) = Self::name_addr(&mut place)?;
        let (mut tag, mut expires) = (None, None);
        let params = Params::take(&mut place, |name, value| {
            match name.len() {
                3 if same(name, b"tag") => {
                    let value = value.ok_or(ErrorKind::Parameter)?;
                    if tag.replace(value.as_bytes()).is_some() {
                        return Err(ErrorKind::ParameterRepeated);
                    }
                }
                // If a parameter is repeated, the first one counts, as everywhere else.
                7 if same(name, b"expires") => expires = expires.or(value.map(|value| value.as_bytes())),
                _ => {}
            }
            Ok(())
        })?;
        *cursor = place;
        Ok(Self { display, bracketed, params, tag, expires, text, uri_at })
    }
}

/// A value of Route, Record-Route, Path or Service-Route, whose URI must be in brackets.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// The address.
    pub address: Address<'a>,
    text: &'a [u8],
}

impl sealed::Sealed for Route<'_> {}

impl<'a> Element<'a> for Route<'a> {
    #[inline]
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let start = *cursor;
        let address = Address::take(cursor)?;
        if !address.bracketed {
            return Err(start.error(ErrorKind::Brackets));
        }
        let text = without_empty_param(cursor.since(start.at()));
        Ok(Self { address, text })
    }
}

impl<'a> Route<'a> {
    /// The value as it was sent, with its brackets and parameters, without a final `;`.
    #[must_use]
    pub fn text(&self) -> &'a [u8] {
        self.text
    }
}

impl<'a> core::ops::Deref for Route<'a> {
    type Target = Address<'a>;

    fn deref(&self) -> &Address<'a> {
        &self.address
    }
}
