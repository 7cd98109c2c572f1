//! Lists of tokens: Require, Supported, Proxy-Require, Unsupported, Allow, Allow-Events and others (RFC 3261
//! section 20.32 and others); also Call-ID, single numbers, and Resource-Priority.

use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;

use super::values::{Element, sealed};

/// A token of a list, such as an option tag. The header may be empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a>(pub &'a [u8]);

impl Token<'_> {
    /// Returns true if the token equals `text`, in any case.
    #[must_use]
    pub fn is(&self, text: &[u8]) -> bool {
        self.0.eq_ignore_ascii_case(text)
    }
}

impl sealed::Sealed for Token<'_> {}

impl<'a> Element<'a> for Token<'a> {
    const MAY_BE_EMPTY: bool = true;

    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        cursor.token().map(Self)
    }
}

/// A Call-ID: one word, or two words joined by `@`. It is case-sensitive, and no character in it is special.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallId<'a>(pub &'a [u8]);

impl sealed::Sealed for CallId<'_> {}

impl<'a> Element<'a> for CallId<'a> {
    #[inline]
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        cursor.long_some(class::WORD, ErrorKind::Token).map(Self)
    }
}

/// A number that is a header's only value, such as seconds (delta-seconds) or hops: Expires, Min-Expires,
/// Max-Breadth, Flow-Timer, RSeq.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Number(pub u32);

impl sealed::Sealed for Number {}

impl<'a> Element<'a> for Number {
    #[inline]
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        cursor.number(u32::MAX).map(Self)
    }
}

/// A value of Resource-Priority (RFC 4412): `namespace.priority`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourcePriority<'a> {
    /// The namespace, such as `ets`.
    pub namespace: &'a [u8],
    /// The priority, such as `0`.
    pub priority: &'a [u8],
}

impl sealed::Sealed for ResourcePriority<'_> {}

impl<'a> Element<'a> for ResourcePriority<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let start = *cursor;
        let token = cursor.token()?;
        let dot = token.iter().position(|byte| *byte == b'.').ok_or(start.error(ErrorKind::Token))?;
        let (namespace, priority) = (token.get(..dot).unwrap_or(&[]), token.get(dot + 1..).unwrap_or(&[]));
        if namespace.is_empty() || priority.is_empty() {
            return Err(start.error(ErrorKind::Token));
        }
        Ok(Self { namespace, priority })
    }
}
