//! A position in a text, and the smallest steps of the grammar.

use super::class::{self, is};
use super::error::{Error, ErrorKind};
use super::scan;

/// A position in `bytes`, small enough to be kept in registers; functions that are not inlined take it by
/// value for that reason. `bytes` starts at the point from which the offsets of errors count, and ends where
/// the value ends.
#[derive(Debug, Clone, Copy)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// A number of decimal digits that always fits into 64 bits: 2^64 has 20 digits.
const U64_DIGITS: usize = 19;

/// The start and the end of a range in a text.
pub(crate) type Span = (usize, usize);

pub(crate) type Result<T> = core::result::Result<T, Error>;

impl<'a> Cursor<'a> {
    #[inline]
    pub(crate) fn new(bytes: &'a [u8], at: usize) -> Self {
        Self { bytes, at }
    }

    #[inline(always)]
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    #[inline(always)]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline(always)]
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or(&[])
    }

    /// The text between `start` and the cursor.
    #[inline(always)]
    pub(crate) fn since(&self, start: usize) -> &'a [u8] {
        self.bytes.get(start..self.at).unwrap_or(&[])
    }

    #[inline(always)]
    pub(crate) fn advance(&mut self, count: usize) {
        self.at = (self.at + count).min(self.bytes.len());
    }

    #[inline(always)]
    pub(crate) fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    #[inline]
    pub(crate) fn error(&self, kind: ErrorKind) -> Error {
        Error::new(kind, self.at)
    }

    /// SWS: skips white space. Returns true if there was any.
    #[inline(always)]
    pub(crate) fn skip_space(&mut self) -> bool {
        match self.peek() {
            Some(byte) if byte <= b' ' => {
                let start = self.at;
                self.at = self.after_space();
                self.at != start
            }
            _ => false,
        }
    }

    /// The position after the white space at the cursor.
    fn after_space(self) -> usize {
        let space = |byte: &&u8| is(**byte, class::SPACE);
        self.at + self.rest().iter().take_while(space).count()
    }

    /// Takes the longest run of a class, which may be empty. Best for runs that are usually short.
    #[inline(always)]
    pub(crate) fn run(&mut self, class: u16) -> &'a [u8] {
        let rest = self.rest();
        let len = rest.iter().position(|byte| !is(*byte, class)).unwrap_or(rest.len());
        self.at += len;
        rest.get(..len).unwrap_or(&[])
    }

    /// Takes the longest run of a class, which may be empty. Best for runs that are usually long.
    #[inline(always)]
    pub(crate) fn long_run(&mut self, class: u16) -> &'a [u8] {
        let rest = self.rest();
        let len = run_len(rest, class);
        self.at += len;
        rest.get(..len).unwrap_or(&[])
    }

    /// Takes a run of a class, of at least one byte.
    #[inline(always)]
    pub(crate) fn some(&mut self, class: u16, kind: ErrorKind) -> Result<&'a [u8]> {
        let run = self.run(class);
        if run.is_empty() { Err(self.error(kind)) } else { Ok(run) }
    }

    #[inline(always)]
    pub(crate) fn token(&mut self) -> Result<&'a [u8]> {
        self.some(class::TOKEN, ErrorKind::Token)
    }

    /// Takes a run of a class, of at least one byte. Best for runs that are usually long.
    #[inline(always)]
    pub(crate) fn long_some(&mut self, class: u16, kind: ErrorKind) -> Result<&'a [u8]> {
        let run = self.long_run(class);
        if run.is_empty() { Err(self.error(kind)) } else { Ok(run) }
    }

    /// Takes a run of a class in which `%` starts an escape of two hexadecimal digits.
    #[inline(always)]
    pub(crate) fn escaped(&mut self, class: u16) -> Result<&'a [u8]> {
        let start = self.at;
        let run = self.run(class);
        // Few texts contain an escape.
        if self.peek() != Some(b'%') {
            return Ok(run);
        }
        self.at = self.after_escapes(class)?;
        Ok(self.since(start))
    }

    /// The end of a run that continues with an escape at the cursor.
    #[cold]
    fn after_escapes(mut self, class: u16) -> Result<usize> {
        while self.peek() == Some(b'%') {
            match self.rest() {
                [_, high, low, ..] if is(*high, class::HEX) && is(*low, class::HEX) => self.at += 3,
                _ => return Err(self.error(ErrorKind::Uri)),
            }
            self.run(class);
        }
        Ok(self.at)
    }

    /// Takes a decimal number up to `max`.
    #[inline]
    pub(crate) fn number(&mut self, max: u32) -> Result<u32> {
        let start = self.at;
        let (mut value, mut len) = (0u64, 0);
        for byte in self.rest() {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            // On overflow, the number of digits decides (below).
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
            len += 1;
        }
        if len == 0 {
            return Err(self.error(ErrorKind::Number));
        }
        self.at += len;
        if value > u64::from(max) || len > U64_DIGITS && !starts_with_zeros(self.since(start)) {
            return Err(Error::new(ErrorKind::TooLarge, start));
        }
        Ok(value as u32)
    }

    /// Takes a quoted string and returns the text between the quotes, with its escapes. The cursor must be at
    /// the opening quote.
    #[inline]
    pub(crate) fn quoted(&mut self) -> Result<&'a [u8]> {
        let (inside, after) = self.take_quoted()?;
        self.at = after;
        Ok(inside)
    }

    fn take_quoted(mut self) -> Result<(&'a [u8], usize)> {
        let open = self.at;
        self.at += 1;
        loop {
            self.at = scan::quote(self.bytes, self.at);
            match self.rest() {
                [b'"', ..] => {
                    return Ok((self.since(open + 1), self.at + 1));
                }
                [b'\\', next, ..] if *next != b'\r' && *next != b'\n' && next.is_ascii() => self.at += 2,
                // LWS, possibly folded.
                [b'\t' | b'\r' | b'\n', ..] => self.at += 1,
                _ => return Err(Error::new(ErrorKind::Quoted, open)),
            }
        }
    }

    /// Takes a URI in angle brackets and its `>`. The cursor must be after the `<`. Only white space, which
    /// is forbidden here (RFC 4475 section 3.1.2.14), is checked; the URI's parser checks the other
    /// characters.
    #[inline]
    pub(crate) fn bracketed(&mut self) -> Result<&'a [u8]> {
        let start = self.at;
        self.at = scan::bracket(self.bytes, start);
        let inside = self.since(start);
        if inside.is_empty() || !self.eat(b'>') {
            return Err(self.error(ErrorKind::Brackets));
        }
        Ok(inside)
    }

    /// Takes a comment in parentheses and returns the text between the outer ones. The cursor must be at the
    /// opening parenthesis.
    pub(crate) fn comment(&mut self) -> Result<&'a [u8]> {
        let open = self.at;
        let mut depth = 0u32;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'(' => depth += 1,
                b')' if depth == 1 => {
                    return Ok(self.bytes.get(open + 1..self.at - 1).unwrap_or(&[]));
                }
                b')' => depth -= 1,
                b'\\' => self.advance(1),
                _ => {}
            }
        }
        Err(Error::new(ErrorKind::Comment, open))
    }

    /// Checks that nothing but white space follows.
    #[inline]
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.skip_space();
        if self.at >= self.bytes.len() { Ok(()) } else { Err(self.error(ErrorKind::Trailing)) }
    }

    /// Checks that the value ends here, or steps over the comma that separates it from the next value.
    #[inline]
    pub(crate) fn finish_element(&mut self) -> Result<()> {
        self.skip_space();
        match self.peek() {
            None => Ok(()),
            Some(b',') => {
                self.at += 1;
                self.skip_space();
                if self.peek().is_none() { Err(self.error(ErrorKind::Token)) } else { Ok(()) }
            }
            Some(_) => Err(self.error(ErrorKind::Trailing)),
        }
    }
}

/// Returns true if all digits before the last [`U64_DIGITS`] are zeros. A number with more significant digits
/// may not fit into 64 bits.
#[cold]
fn starts_with_zeros(digits: &[u8]) -> bool {
    digits.iter().rev().skip(U64_DIGITS).all(|digit| *digit == b'0')
}

/// The number of leading bytes that belong to the class. It takes four bytes per step, because most of a
/// header value goes through here.
#[inline(always)]
fn run_len(bytes: &[u8], class: u16) -> usize {
    let (fours, rest) = bytes.as_chunks::<4>();
    let mut len = 0;
    for [a, b, c, d] in fours {
        if !is(*a, class) {
            return len;
        }
        if !is(*b, class) {
            return len + 1;
        }
        if !is(*c, class) {
            return len + 2;
        }
        if !is(*d, class) {
            return len + 3;
        }
        len += 4;
    }
    len + rest.iter().position(|byte| !is(*byte, class)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests;
