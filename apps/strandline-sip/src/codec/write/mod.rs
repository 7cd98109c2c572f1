//! Writing: messages built anew, responses to requests, and edits of a message on its way through a proxy. All goes into
//! one buffer of the caller's; nothing else is allocated.

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
    /// A line break in a text that was to be written, and no blank after it that has the value go on: what follows it would be a
    /// header of its own.
    #[error("line break in a value")]
    LineBreak,
    /// A name that is no token.
    #[error("the name of a header or a method is not a token")]
    Name,
    /// More edits than [`Edits::EDITS_MAX`](super::Edits::EDITS_MAX).
    #[error("too many edits of one message")]
    TooManyEdits,
    /// Two edits of the same bytes.
    #[error("edits overlap")]
    Overlap,
    /// The header to be edited is not there or malformed.
    #[error("the header to be edited is missing or malformed")]
    Target,
}

/// A text that goes into a line must not end it.
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

/// A text that goes into a header's value must not end the line, but may go on in the next one, as values do that were read (RFC
/// 3261 section 7.3.1); and what may be quoted in those may be here.
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

/// Names of headers that are known are tokens; another has none here.
pub(crate) fn check_known(name: HeaderName) -> Result<(), WriteError> {
    if name == HeaderName::Other { Err(WriteError::Name) } else { Ok(()) }
}

pub(crate) fn check_name(name: &[u8]) -> Result<(), WriteError> {
    if class::all(name, class::TOKEN) { Ok(()) } else { Err(WriteError::Name) }
}

#[cfg(test)]
mod tests;
