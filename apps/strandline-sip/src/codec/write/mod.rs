//! Writing: new messages, responses to requests, and edits of a message that passes through a proxy.
//! Everything is written to one buffer of the caller; nothing else is allocated.

pub(crate) mod build;
pub(crate) mod edit;
pub(crate) mod respond;
pub(crate) mod source;
pub(crate) mod via;

use super::class;
use super::name::HeaderName;
use super::scan;

/// Why nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// A text contains a line break that doesn't continue the value with white space. The text after it would
    /// be a header of its own.
    #[error("a header value contains a line break")]
    LineBreak,
    /// The name of a header or a method is not a token.
    #[error("a header name or method is not a token")]
    Name,
    /// The message has more edits than [`Edits::EDITS_MAX`](super::Edits::EDITS_MAX).
    #[error("too many edits to one message")]
    TooManyEdits,
    /// Two edits overlap.
    #[error("edits overlap")]
    Overlap,
    /// The header to be edited is missing or malformed.
    #[error("the header to be edited is missing or malformed")]
    Target,
}

/// Checks that a text to be written into a line doesn't end it.
pub(crate) fn check_text(text: &[u8]) -> Result<(), WriteError> {
    let mut at = scan::control(text, 0);
    while let Some(byte) = text.get(at) {
        if matches!(byte, b'\r' | b'\n' | 0) {
            return Err(WriteError::LineBreak);
        }
        at = scan::control(text, at + 1);
    }
    Ok(())
}

/// Checks that a text to be written into a header value doesn't end it. Folding (RFC 3261 section 7.3.1) and
/// quoted control characters are allowed, as in values that are read.
pub(crate) fn check_value(text: &[u8]) -> Result<(), WriteError> {
    let mut at = scan::control(text, 0);
    while let Some(after) = text.get(at..) {
        at += match after {
            [] => break,
            [b'\r', b'\n', b' ' | b'\t', ..] => 3,
            [0, ..] if at > 0 && text.get(at - 1) == Some(&b'\\') => 1,
            [b'\r' | b'\n' | 0, ..] => return Err(WriteError::LineBreak),
            _ => 1,
        };
        at = scan::control(text, at);
    }
    Ok(())
}

/// Checks that the header has a name, which is then a token. [`HeaderName::Other`] has none.
pub(crate) fn check_known(name: HeaderName) -> Result<(), WriteError> {
    if name == HeaderName::Other { Err(WriteError::Name) } else { Ok(()) }
}

pub(crate) fn check_name(name: &[u8]) -> Result<(), WriteError> {
    if class::all(name, class::TOKEN) { Ok(()) } else { Err(WriteError::Name) }
}

#[cfg(test)]
mod tests;
