//! Events, session timers, retry: values of a token or a number with parameters that have a meaning.

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
    /// The package with its templates, such as `presence.winfo`. Compare it with case.
    pub package: &'a [u8],
    /// Parameters.
    pub params: Params<'a>,
}

impl<'a> Event<'a> {
    /// `id`, which tells subscriptions of one dialog apart.
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
    /// The seconds.
    pub seconds: u32,
    /// Parameters.
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
    /// After how many seconds to try again.
    pub seconds: u32,
    /// What stands in parentheses.
    pub comment: Option<&'a [u8]>,
    /// Parameters.
    pub params: Params<'a>,
}

impl RetryAfter<'_> {
    /// `duration`: for how many seconds after that the callee can be reached.
    ///
    /// # Errors
    /// If it is no number of 32 bits.
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

/// Replaces (RFC 3891): a dialog by its Call-ID and tags. Target-Dialog (RFC 4538) and Join (RFC 3911) are alike.
#[derive(Debug, Clone, Copy)]
pub struct Replaces<'a> {
    /// The Call-ID.
    pub call_id: &'a [u8],
    /// Parameters.
    pub params: Params<'a>,
}

impl<'a> Replaces<'a> {
    /// `to-tag`
    #[must_use]
    pub fn to_tag(&self) -> Option<&'a [u8]> {
        self.params.value(b"to-tag")
    }

    /// `from-tag`
    #[must_use]
    pub fn from_tag(&self) -> Option<&'a [u8]> {
        self.params.value(b"from-tag")
    }

    /// `early-only`: only a dialog that is not confirmed yet.
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
    /// Three digits.
    pub code: u16,
    /// Who warns: a host with or without port, or a pseudonym.
    pub agent: &'a [u8],
    /// The text between the quotes, escapes untouched.
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
