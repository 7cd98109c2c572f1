//! Parameters of header values (`generic-param`, RFC 3261 section 25.1) and quoted strings.

use crate::codec::as_sent::as_sent;
use crate::codec::class;
use crate::codec::cursor::{Cursor, Result, Span};
use crate::codec::error::ErrorKind;

/// The parameters of a header value: `;name`, `;name=token` or `;name="quoted string"`, with white space
/// around the separators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Params<'a> {
    raw: &'a [u8],
}

/// The value of a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamValue<'a> {
    /// A token or host.
    Token(&'a [u8]),
    /// The text between the quotes, with its escapes: see [`unquote`].
    Quoted(&'a [u8]),
}

impl<'a> ParamValue<'a> {
    /// The value without its quotes, and with its escapes.
    #[must_use]
    pub const fn as_bytes(&self) -> &'a [u8] {
        match self {
            Self::Token(text) | Self::Quoted(text) => text,
        }
    }

    /// Returns true if the unquoted value equals `text`.
    #[must_use]
    pub fn is(&self, text: &[u8]) -> bool {
        match self {
            Self::Token(token) => *token == text,
            Self::Quoted(quoted) => unquote(quoted).eq(text.iter().copied()),
        }
    }

    #[inline(always)]
    pub(crate) fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        if cursor.peek() == Some(b'"') {
            cursor.quoted().map(Self::Quoted)
        } else {
            cursor.long_some(class::VALUE, ErrorKind::Parameter).map(Self::Token)
        }
    }
}

/// Removes the backslash escapes of a quoted string.
///
/// ```
/// use strandline_sip::codec::unquote;
///
/// assert!(unquote(br#"J Rosenberg \\\""#).eq(*br#"J Rosenberg \""#));
/// ```
pub fn unquote(inside: &[u8]) -> impl Iterator<Item = u8> + '_ {
    let mut bytes = inside.iter().copied();
    core::iter::from_fn(move || match bytes.next()? {
        b'\\' => bytes.next().or(Some(b'\\')),
        byte => Some(byte),
    })
}

as_sent!(Params, "All as they were sent, with the `;` before each.");

impl<'a> Params<'a> {
    /// Takes all parameters and the white space after them, and passes each one to `see`. The resulting list
    /// is well-formed: a final `;` without a parameter, which some phones write, is skipped and not part of
    /// it.
    #[inline(always)]
    pub(crate) fn take(
        cursor: &mut Cursor<'a>,
        mut see: impl FnMut(&'a [u8], Option<ParamValue<'a>>) -> core::result::Result<(), ErrorKind>,
    ) -> Result<Self> {
        Self::take_placed(cursor, |name, value, _| see(name, value)).map(|(params, _)| params)
    }

    /// As [`take`](Self::take), but also passes the range of each parameter to `see`, and returns that of
    /// all. A range starts at the end of what precedes the parameter.
    #[inline(always)]
    pub(crate) fn take_placed(
        cursor: &mut Cursor<'a>,
        mut see: impl FnMut(&'a [u8], Option<ParamValue<'a>>, Span) -> core::result::Result<(), ErrorKind>,
    ) -> Result<(Self, Span)> {
        let start = cursor.at();
        let mut end = *cursor;
        cursor.skip_space();
        while cursor.peek() == Some(b';') {
            let at = *cursor;
            let (name, value) = match take_param(cursor) {
                Ok(param) => param,
                Err(error) => {
                    *cursor = after_empty_param(at).ok_or(error)?;
                    break;
                }
            };
            see(name, value, (end.at(), cursor.at())).map_err(|kind| at.error(kind))?;
            end = *cursor;
            cursor.skip_space();
        }
        Ok((Self { raw: end.since(start) }, (start, end.at())))
    }

    /// Wraps parameters that were taken before.
    #[inline]
    pub(crate) const fn taken(raw: &'a [u8]) -> Self {
        Self { raw }
    }

    /// Takes parameters without interpreting any.
    pub(crate) fn take_any(cursor: &mut Cursor<'a>) -> Result<Self> {
        Self::take(cursor, |_, _| Ok(()))
    }

    /// Iterates over names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], Option<ParamValue<'a>>)> + use<'a> {
        let mut cursor = Cursor::new(self.raw, 0);
        core::iter::from_fn(move || {
            cursor.skip_space();
            if cursor.peek() == Some(b';') { take_param(&mut cursor).ok() } else { None }
        })
    }

    /// The parameter with this name, in any case: `None` if it is missing, `Some(None)` if it has no value.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<Option<ParamValue<'a>>> {
        self.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of a parameter, without quotes and with its escapes.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.get(name).flatten().map(|value| value.as_bytes())
    }

    /// Returns true if the parameter is present, with or without a value.
    #[must_use]
    pub fn has(&self, name: &[u8]) -> bool {
        self.get(name).is_some()
    }

    /// The value of a numeric parameter.
    ///
    /// # Errors
    /// Returns an error if it is present but not a number of 32 bits.
    pub fn number(&self, name: &[u8]) -> Result<Option<u32>> {
        self.value(name).map(whole_number).transpose()
    }
}

/// The end of the value, if nothing but white space follows the `;` at the cursor.
#[cold]
fn after_empty_param(mut cursor: Cursor<'_>) -> Option<Cursor<'_>> {
    cursor.advance(1);
    cursor.skip_space();
    matches!(cursor.peek(), None | Some(b',')).then_some(cursor)
}

/// A header or a value without the `;` that may end it.
#[inline]
pub(crate) fn without_empty_param(text: &[u8]) -> &[u8] {
    let text = text.trim_ascii_end();
    text.strip_suffix(b";").map_or(text, <[u8]>::trim_ascii_end)
}

/// Takes one parameter. The cursor must be at its `;`.
#[inline(always)]
pub(crate) fn take_param<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [u8], Option<ParamValue<'a>>)> {
    cursor.advance(1);
    cursor.skip_space();
    let name = cursor.some(class::TOKEN, ErrorKind::Parameter)?;
    let end = *cursor;
    cursor.skip_space();
    if !cursor.eat(b'=') {
        *cursor = end;
        return Ok((name, None));
    }
    cursor.skip_space();
    ParamValue::take(cursor).map(|value| (name, Some(value)))
}

/// Parses a number of 32 bits that nothing follows.
pub(crate) fn whole_number(text: &[u8]) -> Result<u32> {
    let mut cursor = Cursor::new(text, 0);
    let number = cursor.number(u32::MAX)?;
    cursor.finish()?;
    Ok(number)
}

/// Compares names without regard to case. Most are lowercase, so equality is tried first.
#[inline(always)]
pub(crate) fn same<const N: usize>(name: &[u8], known: &[u8; N]) -> bool {
    name == known || name.eq_ignore_ascii_case(known)
}
