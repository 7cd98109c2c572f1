//! tel URIs (RFC 3966).

use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;

use super::params::UriParams;

/// `tel:+1-201-555-0123` or `tel:7042;phone-context=example.com`
#[derive(Debug, Clone, Copy)]
pub struct TelUri<'a> {
    /// The number with its visual separators, and with its `+` if it is global.
    pub number: &'a [u8],
    /// The parameters.
    pub params: UriParams<'a>,
}

impl<'a> TelUri<'a> {
    /// Parses the text after `tel:`, up to the end.
    pub(crate) fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let start = cursor.at();
        let global = cursor.eat(b'+');
        let mut digits = 0;
        while let Some(byte) = cursor.peek() {
            let digit = byte.is_ascii_digit()
                || !global && (byte.is_ascii_hexdigit() || byte == b'*' || byte == b'#');
            if !digit && !is_separator(byte) {
                break;
            }
            digits += usize::from(digit);
            cursor.advance(1);
        }
        let number = cursor.since(start);
        if digits == 0 {
            return Err(cursor.error(ErrorKind::Uri));
        }
        let params = UriParams::take(cursor)?;
        if !cursor.rest().is_empty() {
            return Err(cursor.error(ErrorKind::Uri));
        }
        Ok(Self { number, params })
    }

    /// Returns true if the number is a global (E.164) number, which starts with `+`.
    #[must_use]
    pub fn is_global(&self) -> bool {
        self.number.first() == Some(&b'+')
    }

    /// The characters of the number, without visual separators.
    ///
    /// ```
    /// use strandline_sip::codec::Uri;
    ///
    /// let uri = Uri::parse(b"tel:+1-201-555-0123;ext=7")?;
    /// let Uri::Tel(uri) = uri else { return Err("another scheme".into()) };
    /// assert!(uri.digits().eq(*b"+12015550123"));
    /// assert_eq!(uri.params.value(b"ext"), Some(&b"7"[..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn digits(&self) -> impl Iterator<Item = u8> + use<'a> {
        self.number.iter().copied().filter(|byte| !is_separator(*byte))
    }

    /// `phone-context`, which gives a local number its meaning.
    #[must_use]
    pub fn phone_context(&self) -> Option<&'a [u8]> {
        self.params.value(b"phone-context")
    }
}

fn is_separator(byte: u8) -> bool {
    matches!(byte, b'-' | b'.' | b'(' | b')')
}

/// Takes the name of a scheme and its colon.
pub(crate) fn scheme<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let start = cursor.at();
    let name = cursor.run(class::SCHEME);
    let letter = name.first().is_some_and(u8::is_ascii_alphabetic);
    if letter && cursor.eat(b':') {
        return Ok(name);
    }
    Err(Cursor::new(cursor.since(start), start).error(ErrorKind::Uri))
}
