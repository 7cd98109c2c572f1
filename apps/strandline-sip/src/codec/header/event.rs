//! Event, session timers, Retry-After, Replaces, Warning: a token or a number, with parameters that have a
//! meaning.

use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;
use crate::codec::uri::host::Host;
use crate::codec::uri::sip::port;

use super::params::Params;
use super::token::CallId;
use super::values::{Element, sealed};

/// Event (RFC 6665 section 8.2.1): `package.template;id=...`
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// The package with its templates, such as `presence.winfo`. It is case-sensitive.
    pub package: &'a [u8],
    /// The parameters.
    pub params: Params<'a>,
}

impl<'a> Event<'a> {
    /// `id`, which distinguishes the subscriptions of one dialog.
    #[must_use]
    pub fn id(&self) -> Option<&'a [u8]> {
        self.params.value(b"id")
    }
}

impl sealed::Sealed for Event<'_> {}

impl<'a> Element<'a> for Event<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let package = cursor.token()?;
        Ok(Self { package, params: Params::take_any(cursor)? })
    }
}

/// A number of seconds with parameters: Session-Expires and Min-SE (RFC 4028 sections 4 and 5).
#[derive(Debug, Clone, Copy)]
pub struct Seconds<'a> {
    /// The number of seconds.
    pub seconds: u32,
    /// The parameters.
    pub params: Params<'a>,
}

impl<'a> Seconds<'a> {
    /// `refresher`: `uac` or `uas`.
    #[must_use]
    pub fn refresher(&self) -> Option<&'a [u8]> {
        self.params.value(b"refresher")
    }
}

impl sealed::Sealed for Seconds<'_> {}

impl<'a> Element<'a> for Seconds<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let seconds = cursor.number(u32::MAX)?;
        Ok(Self { seconds, params: Params::take_any(cursor)? })
    }
}

/// Retry-After (RFC 3261 section 20.33): `seconds (comment);duration=seconds`
#[derive(Debug, Clone, Copy)]
pub struct RetryAfter<'a> {
    /// The number of seconds after which to try again.
    pub seconds: u32,
    /// The text in parentheses.
    pub comment: Option<&'a [u8]>,
    /// The parameters.
    pub params: Params<'a>,
}

impl RetryAfter<'_> {
    /// `duration`: how many seconds the callee will then be available.
    ///
    /// # Errors
    /// Returns an error if it is not a number of 32 bits.
    pub fn duration(&self) -> Result<Option<u32>> {
        self.params.number(b"duration")
    }
}

impl sealed::Sealed for RetryAfter<'_> {}

impl<'a> Element<'a> for RetryAfter<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let seconds = cursor.number(u32::MAX)?;
        let after = *cursor;
        cursor.skip_space();
        let comment = if cursor.peek() == Some(b'(') {
            Some(cursor.comment()?)
        } else {
            *cursor = after;
            None
        };
        Ok(Self { seconds, comment, params: Params::take_any(cursor)? })
    }
}

/// Replaces (RFC 3891), which identifies a dialog by its Call-ID and tags. Target-Dialog (RFC 4538) and Join
/// (RFC 3911) have the same format.
#[derive(Debug, Clone, Copy)]
pub struct Replaces<'a> {
    /// The Call-ID.
    pub call_id: &'a [u8],
    /// The parameters.
    pub params: Params<'a>,
}

impl<'a> Replaces<'a> {
    /// The `to-tag` parameter.
    #[must_use]
    pub fn to_tag(&self) -> Option<&'a [u8]> {
        self.params.value(b"to-tag")
    }

    /// The `from-tag` parameter.
    #[must_use]
    pub fn from_tag(&self) -> Option<&'a [u8]> {
        self.params.value(b"from-tag")
    }

    /// `early-only`: only a dialog that is not yet confirmed is replaced.
    #[must_use]
    pub fn is_early_only(&self) -> bool {
        self.params.has(b"early-only")
    }
}

impl sealed::Sealed for Replaces<'_> {}

impl<'a> Element<'a> for Replaces<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let CallId(call_id) = CallId::take(cursor)?;
        Ok(Self { call_id, params: Params::take_any(cursor)? })
    }
}

/// A value of Warning (RFC 3261 section 20.43): `code agent "text"`
#[derive(Debug, Clone, Copy)]
pub struct Warning<'a> {
    /// The host that adds the warning, with or without port, or a pseudonym.
    pub code: u16,
    /// The host that adds the warning, with or without port, or a pseudonym.
    pub agent: &'a [u8],
    /// The text between the quotes, with its escapes.
    pub text: &'a [u8],
}

impl sealed::Sealed for Warning<'_> {}

impl<'a> Element<'a> for Warning<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let start = *cursor;
        let code = cursor.number(999)?;
        if cursor.at() - start.at() != 3 || !cursor.skip_space() {
            return Err(start.error(ErrorKind::Number));
        }
        let at = *cursor;
        if Host::take(cursor).and_then(|_| port(cursor)).is_err() {
            *cursor = at;
            cursor.some(class::TOKEN, ErrorKind::Token)?;
        }
        let agent = cursor.since(at.at());
        if !cursor.skip_space() || cursor.peek() != Some(b'"') {
            return Err(cursor.error(ErrorKind::Quoted));
        }
        Ok(Self { code: code as u16, agent, text: cursor.quoted()? })
    }
}
