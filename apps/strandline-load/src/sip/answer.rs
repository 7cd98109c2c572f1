//! A minimal SIP parser for user agents, which searches for the parts that they need.

use std::sync::LazyLock;

use memchr::{memchr, memmem, memrchr};

use super::keep_alive::ANSWER;

/// A received message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Came<'a> {
    pub(super) bytes: &'a [u8],
}

impl<'a> Came<'a> {
    /// Returns the status code of a response; `None` for a request.
    pub(super) fn status(&self) -> Option<u16> {
        let digits = self.bytes.strip_prefix(b"SIP/2.0 ")?.get(..3)?;
        core::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Returns the method of a request.
    pub(super) fn method(&self) -> &'a [u8] {
        self.bytes.split(|byte| *byte == b' ').next().unwrap_or(&[])
    }

    /// Returns the lines of the header, without line ends.
    pub(super) fn lines(&self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = memchr(b'\n', self.bytes).and_then(|end| self.bytes.get(end + 1..)).unwrap_or(&[]);
        std::iter::from_fn(move || {
            let end = memchr(b'\n', rest)?;
            let (line, after) = (rest.get(..end)?, rest.get(end + 1..)?);
            rest = after;
            Some(line.strip_suffix(b"\r").unwrap_or(line)).filter(|line| !line.is_empty())
        })
    }

    /// Returns the values of a header field, one for each line.
    pub(super) fn values(&self, name: &'static str) -> impl Iterator<Item = &'a [u8]> {
        self.lines().filter_map(move |line| value_of(line, name))
    }

    /// Returns the first value of a header field, or an empty one.
    pub(super) fn value(&self, name: &'static str) -> &'a [u8] {
        self.values(name).next().unwrap_or(&[])
    }

    /// Returns the operation that a response belongs to, from its branch.
    pub(super) fn branch(&self) -> Option<Mark> {
        let mut parameters = self.value("Via").split(|byte| *byte == b';');
        Mark::read(parameters.find_map(|one| one.strip_prefix(b"branch=z9hG4bK"))?)
    }

    /// Returns the operation that a request belongs to, from its Call-ID.
    pub(super) fn call(&self) -> Option<Mark> {
        Mark::read(self.value("Call-ID"))
    }

    /// Returns the URI in the angle brackets of a value.
    pub(super) fn uri(value: &'a [u8]) -> &'a [u8] {
        let inside = value.split(|byte| *byte == b'<').nth(1).unwrap_or(value);
        inside.split(|byte| *byte == b'>').next().unwrap_or(inside)
    }
}

/// The identifier of an operation in messages: `KIND SLOT . GENERATION . ATTEMPT`, as in `i17.3.1`; in
/// Call-IDs without the attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) kind: u8,
    pub(super) slot: usize,
    pub(super) generation: u32,
    /// The attempt, from 1; 0 if not given.
    pub(super) attempt: u32,
}

impl Mark {
    fn read(text: &[u8]) -> Option<Self> {
        let (kind, rest) = text.split_first()?;
        let (slot, rest) = number(rest)?;
        let (generation, rest) = number(rest.strip_prefix(b".")?)?;
        let attempt = rest.strip_prefix(b".").and_then(number).map_or(0, |(attempt, _)| attempt);
        Some(Self { kind: *kind, slot: slot as usize, generation, attempt })
    }
}

/// Parses a number; returns it and the rest.
fn number(text: &[u8]) -> Option<(u32, &[u8])> {
    let (mut number, mut rest) = (None, text);
    while let [digit @ b'0'..=b'9', after @ ..] = rest {
        number = Some(number.unwrap_or(0u32).checked_mul(10)?.checked_add(u32::from(digit - b'0'))?);
        rest = after;
    }
    Some((number?, rest))
}

/// Returns the value of a header line if it has this name.
pub(super) fn value_of<'a>(line: &'a [u8], name: &str) -> Option<&'a [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    let value = value.strip_prefix(b":")?;
    found.eq_ignore_ascii_case(name.as_bytes()).then(|| value.trim_ascii())
}

/// Returns the position of a text.
pub(super) fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    memmem::find(text, what)
}

/// The message at the start of received data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Length of the message in bytes.
    pub(crate) len: usize,
    /// Status code; `None` for a request.
    pub(crate) status: Option<u16>,
}

/// Returns the first message of a stream, once it is complete.
pub(crate) fn whole_message(stream: &[u8]) -> Option<Answer> {
    first_message(stream).map(|len| Answer { len, status: Came { bytes: stream }.status() })
}

/// Finds the end of a header.
static END_OF_HEADER: LazyLock<memmem::Finder<'static>> = LazyLock::new(|| memmem::Finder::new(b"\r\n\r\n"));

/// Returns the length of the first message of a stream, once it is complete.
pub(super) fn first_message(stream: &[u8]) -> Option<usize> {
    let end = END_OF_HEADER.find(stream)?;
    let header = stream.get(..end)?;
    // Most implementations write Content-Length last.
    let last = memrchr(b'\n', header).and_then(|at| value_of(header.get(at + 1..)?, "Content-Length"));
    let length = last.unwrap_or_else(|| Came { bytes: stream }.value("Content-Length"));
    let body = number(length).map_or(0, |(body, _)| body as usize);
    Some(end + 4 + body).filter(|whole| *whole <= stream.len())
}

/// Returns the length of the first message of a stream, or of the answer to a keep-alive, once it is
/// complete.
pub(super) fn first_of(stream: &[u8]) -> Option<usize> {
    if stream.starts_with(ANSWER) { Some(ANSWER.len()) } else { first_message(stream) }
}

#[cfg(test)]
mod tests;
