//! Errors of a TOML document as they are printed: the place, an excerpt of the line, and what is wrong. Their size does
//! not depend on that of the document.

use std::fmt;
use std::ops::Range;

/// Maximum number of characters of a line that are shown before an error, and from it on.
const BEFORE_MAX: usize = 120;
const AFTER_MAX: usize = 80;
/// Maximum number of characters of a message, which may quote the document.
const MESSAGE_MAX: usize = 1000;
/// Number of bytes for which the number of lines is counted once.
const BLOCK_BYTES: usize = 4096;
/// In the place of what is left out.
const CUT: char = '…';

/// A key or a value that is wrong, or text that is no TOML.
#[derive(Debug)]
pub struct Malformed {
    place: Option<Place>,
    message: String,
}

/// Where an error is.
#[derive(Debug)]
struct Place {
    span: Range<usize>,
    /// From 1, as the column.
    line: usize,
    /// In characters.
    column: usize,
    /// The line, or the part of it around the error.
    excerpt: String,
    /// Characters of the excerpt before the error, and those that are marked.
    before: usize,
    marked: usize,
}

impl Malformed {
    pub(crate) fn new(error: &toml::de::Error, lines: &Lines<'_>) -> Self {
        let Some(span) = error.span() else {
            // It names the keys on the way there.
            return Self { place: None, message: cut(error.to_string().trim_end()) };
        };
        Self { place: Some(Place::new(span, lines)), message: cut(error.message()) }
    }

    /// Returns the bytes of the document that it is about, if they are known.
    #[must_use]
    pub fn span(&self) -> Option<Range<usize>> {
        self.place.as_ref().map(|place| place.span.clone())
    }
}

impl Place {
    fn new(span: Range<usize>, lines: &Lines<'_>) -> Self {
        let text = lines.text;
        let at = lines.within(span.start);
        let (head, tail) = text.split_at(at);
        let head = head.rsplit('\n').next().unwrap_or_default();
        let tail = tail.split('\n').next().unwrap_or_default();
        let is_cut = |(start, _): &(usize, char)| *start > 0;
        let from = head.char_indices().rev().nth(BEFORE_MAX - 1).filter(is_cut).map(|(start, _)| start);
        let to = tail.char_indices().nth(AFTER_MAX).map(|(end, _)| end);
        let shown = head.get(from.unwrap_or(0)..).unwrap_or_default();
        let after = tail.get(..to.unwrap_or(tail.len())).unwrap_or_default();
        let cut = |is_cut: bool| if is_cut { CUT.to_string() } else { String::new() };
        let marked = after.char_indices().take_while(|(start, _)| at + start < span.end).count();
        Self {
            line: lines.number(at),
            column: head.chars().count() + 1,
            before: shown.chars().count() + usize::from(from.is_some()),
            marked: marked.max(1),
            excerpt: [cut(from.is_some()), printable(shown), printable(after), cut(to.is_some())].concat(),
            span: at..span.end.max(at),
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column, excerpt, before, marked, .. }) = &self.place {
            let width = line.to_string().len() + 1;
            writeln!(f, "TOML parse error at line {line}, column {column}")?;
            writeln!(f, "{:width$}|", "")?;
            writeln!(f, "{line} | {excerpt}")?;
            writeln!(f, "{:width$}| {:before$}{}", "", "", "^".repeat(*marked))?;
        }
        writeln!(f, "{}", self.message)
    }
}

/// Without control characters, which a terminal would obey.
fn printable(text: &str) -> String {
    text.replace(char::is_control, " ")
}

fn cut(message: &str) -> String {
    // Some name what is expected on a line of its own.
    let mut shown: String = message
        .chars()
        .take(MESSAGE_MAX)
        .map(|char| if char.is_control() && char != '\n' { ' ' } else { char })
        .collect();
    if message.chars().nth(MESSAGE_MAX).is_some() {
        shown.push(CUT);
    }
    shown
}

/// The lines of a document, whose numbers are looked up without counting from its beginning.
#[derive(Debug)]
pub(crate) struct Lines<'a> {
    text: &'a str,
    /// Number of line ends before each block.
    before: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(crate) fn of(text: &'a str) -> Self {
        let mut count = 0;
        let before = text.as_bytes().chunks(BLOCK_BYTES).map(|block| {
            let before = count;
            count += ends(block);
            before
        });
        Self { text, before: before.collect() }
    }

    /// Returns the place at `at`, or the one before it that a line has: the end of a document belongs to its last line.
    pub(crate) fn within(&self, at: usize) -> usize {
        let end = self.text.strip_suffix('\n').unwrap_or(self.text).len();
        (0..=at.min(end)).rev().find(|at| self.text.is_char_boundary(*at)).unwrap_or(0)
    }

    /// Returns the number, from 1, of the line with the byte at `at`.
    pub(crate) fn number(&self, at: usize) -> usize {
        let at = at.min(self.text.len());
        let block = (at / BLOCK_BYTES).min(self.before.len().saturating_sub(1));
        let part = self.text.as_bytes().get(block * BLOCK_BYTES..at).unwrap_or_default();
        self.before.get(block).copied().unwrap_or(0) + ends(part) + 1
    }
}

fn ends(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| **byte == b'\n').count()
}

#[cfg(test)]
mod tests;
