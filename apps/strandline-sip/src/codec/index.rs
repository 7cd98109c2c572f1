//! The index of header lines, built in one pass and used by every later lookup.

use super::class;
use super::error::{Error, ErrorKind};
use super::limits::Limits;
use super::name::{HeaderName, NAME_BYTES_MAX, NAMES_LEN};
use super::scan;
use super::top_via::TopVia;

/// One header line. A folded header counts as one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line {
    /// The start of the name.
    pub(crate) start: u32,
    /// The start of the value, after the colon and white space.
    pub(crate) value: u32,
    /// The end of the value: the position of the CRLF.
    pub(crate) end: u32,
    pub(crate) name: HeaderName,
    /// The value spans more than one line.
    pub(crate) folded: bool,
}

/// The positions of a message's headers. The caller passes one index to
/// [`Message::parse`](super::Message::parse) again and again, so that only the first messages allocate: 16
/// bytes for each header line of the longest message so far, for at most [`Limits::header_lines_max`] lines.
#[derive(Debug, Clone)]
pub struct Index {
    lines: Vec<Line>,
    /// For each name, the number of its first line, or [`NONE`].
    first: [u16; NAMES_LEN + 1],
    /// One bit for each name, set if the header occurs more than once.
    repeated: u128,
    /// See [`TopVia`].
    top_via: Option<TopVia>,
    limits: Limits,
}

/// Marks a missing line.
const NONE: u16 = u16::MAX;

/// The initial capacity; few messages have more headers.
const LINES_USUAL: usize = 48;

impl Default for Index {
    fn default() -> Self {
        Self::new()
    }
}

impl Index {
    /// Creates an index with the default limits.
    #[must_use]
    pub fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    /// Creates an index with the given limits.
    #[must_use]
    pub fn with_limits(limits: Limits) -> Self {
        let limits = Limits { header_lines_max: limits.header_lines_max.min(usize::from(NONE)), ..limits };
        let lines = Vec::with_capacity(LINES_USUAL.min(limits.header_lines_max));
        Self { lines, first: [NONE; NAMES_LEN + 1], repeated: 0, top_via: None, limits }
    }

    /// The limits of the index.
    #[must_use]
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.first = [NONE; NAMES_LEN + 1];
        self.repeated = 0;
        self.top_via = None;
    }

    /// Stores the topmost Via for later users.
    #[inline]
    pub(crate) fn keep_top_via(&mut self, via: Option<TopVia>) {
        self.top_via = via;
    }

    /// The topmost Via; `None` if it is missing or malformed.
    #[inline]
    pub(crate) fn top_via(&self) -> Option<&TopVia> {
        self.top_via.as_ref()
    }

    #[inline]
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    #[inline]
    pub(crate) fn is_repeated(&self, name: HeaderName) -> bool {
        self.repeated != 0 && self.repeated & (1 << name as u8) != 0
    }

    /// The number of the first line with this name.
    #[inline]
    pub(crate) fn first(&self, name: HeaderName) -> Option<usize> {
        let first = self.first.get(name as usize).copied();
        first.filter(|first| *first != NONE).map(usize::from)
    }

    /// The number of the next line with this name after line `number`.
    #[inline]
    pub(crate) fn next(&self, name: HeaderName, number: usize) -> Option<usize> {
        if !self.is_repeated(name) {
            return None;
        }
        let rest = self.lines.get(number + 1..)?;
        rest.iter().position(|line| line.name == name).map(|at| number + 1 + at)
    }

    #[inline]
    fn add(&mut self, line: Line) {
        match self.first.get_mut(line.name as usize) {
            Some(first) if *first == NONE => *first = self.lines.len() as u16,
            _ => self.repeated |= 1u128 << line.name as u8,
        }
        self.lines.push(line);
    }

    /// Reads the header lines from `start` to the empty line, and returns the position of the body.
    ///
    /// After an error, the index still holds the lines before it, so that the request can be answered. It
    /// also holds the lines after it, as far as lines can be told apart.
    pub(crate) fn read(&mut self, bytes: &[u8], start: usize) -> core::result::Result<usize, Error> {
        // Offsets have 32 bits, so even an absurd limit must stay below that.
        let bytes_max = self.limits.header_bytes_max.min(u32::MAX as usize / 2);
        let limited = bytes.get(..bytes_max).unwrap_or(bytes);
        let mut at = start;
        let mut fault = None;
        loop {
            match limited.get(at..).unwrap_or(&[]) {
                [b'\r', b'\n', ..] => return fault.map_or(Ok(at + 2), Err),
                [] | [b'\r'] => break,
                _ => {}
            }
            if self.lines.len() >= self.limits.header_lines_max {
                return Err(fault.unwrap_or(Error::new(ErrorKind::TooManyHeaders, at)));
            }
            match read_line(limited, at) {
                Ok(line) => {
                    at = line.end as usize + 2;
                    self.add(line);
                }
                Err(Fault { error, next: Some(next) }) => {
                    fault.get_or_insert(error);
                    at = next;
                }
                Err(Fault { error, next: None }) if error.kind == ErrorKind::HeadersUnterminated => break,
                Err(Fault { error, next: None }) => return Err(fault.unwrap_or(error)),
            }
        }
        let kind = if limited.len() < bytes.len() {
            ErrorKind::HeadersTooLong
        } else {
            ErrorKind::HeadersUnterminated
        };
        Err(fault.unwrap_or(Error::new(kind, limited.len())))
    }
}

/// What is wrong with a line, and the start of the next line if it can be found.
pub(crate) struct Fault {
    pub(crate) error: Error,
    next: Option<usize>,
}

/// Reads the header line that starts at `start`.
#[inline]
pub(crate) fn read_line(bytes: &[u8], start: usize) -> core::result::Result<Line, Fault> {
    let rest = bytes.get(start..).unwrap_or(&[]);
    let known = match rest.first_chunk::<NAME_BYTES_MAX>() {
        Some(window) => HeaderName::before_colon(window),
        None => HeaderName::before_colon(&last_window(rest)),
    };
    let (name, colon) = match known {
        (name, length) if length > 0 => (name, start + length),
        _ => unusual_name(bytes, start)?,
    };
    let mut value = colon + 1;
    while let Some(b' ' | b'\t') = bytes.get(value) {
        value += 1;
    }
    let end = scan::control(bytes, value);
    let (end, folded) = match bytes.get(end..end + 3) {
        Some([b'\r', b'\n', next]) if !matches!(next, b' ' | b'\t') => (end, false),
        _ => value_end(bytes, value)?,
    };
    Ok(Line { start: start as u32, value: value as u32, end: end as u32, name, folded })
}

/// The last bytes of a message, padded with zeros, which occur in no name.
#[inline(never)]
fn last_window(rest: &[u8]) -> [u8; NAME_BYTES_MAX] {
    let mut window = [0; NAME_BYTES_MAX];
    for (place, byte) in window.iter_mut().zip(rest) {
        *place = *byte;
    }
    window
}

/// Reads a name that is unknown, has white space before its colon, or is malformed. Returns the name and the
/// position of its colon.
#[cold]
fn unusual_name(bytes: &[u8], start: usize) -> core::result::Result<(HeaderName, usize), Fault> {
    let mut colon = scan::colon(bytes, start);
    while bytes.get(colon) == Some(&b'\t') {
        colon = scan::colon(bytes, colon + 1);
    }
    let name = bytes.get(start..colon).unwrap_or(&[]).trim_ascii_end();
    if bytes.get(colon) == Some(&b':') && class::all(name, class::TOKEN) {
        return Ok((HeaderName::from_bytes(name), colon));
    }
    let (end, _) = value_end(bytes, start)?;
    Err(Fault { error: Error::new(ErrorKind::HeaderName, start), next: Some(end + 2) })
}

/// The end of the value that starts at `start`, and whether it is folded.
pub(crate) fn value_end(bytes: &[u8], start: usize) -> core::result::Result<(usize, bool), Fault> {
    let mut at = start;
    let mut folded = false;
    let mut control = None;
    loop {
        at = scan::control(bytes, at);
        let kind = match bytes.get(at..).unwrap_or(&[]) {
            [b'\r', b'\n', b' ' | b'\t', ..] => {
                folded = true;
                at += 3;
                continue;
            }
            [b'\r', b'\n', ..] => {
                return match control {
                    None => Ok((at, folded)),
                    Some(place) => {
                        let error = Error::new(ErrorKind::Control, place);
                        Err(Fault { error, next: Some(at + 2) })
                    }
                };
            }
            [] | [b'\r'] => ErrorKind::HeadersUnterminated,
            [b'\r' | b'\n', ..] => ErrorKind::LineEnd,
            [byte, ..] => {
                // A control character may be quoted (RFC 4475 section 3.1.1.2).
                let quoted = at > start && bytes.get(at - 1) == Some(&b'\\');
                if *byte != b'\t' && !quoted {
                    control.get_or_insert(at);
                }
                at += 1;
                continue;
            }
        };
        return Err(Fault { error: Error::new(kind, at), next: None });
    }
}
