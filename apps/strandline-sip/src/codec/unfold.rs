//! Unfolds header values (RFC 3261 section 7.3.1).

use std::borrow::Cow;

/// Joins a folded value into one line: each line end and the white space after it become one space. Few
/// values are folded; the others are borrowed.
///
/// ```
/// use strandline_sip::codec::unfold;
///
/// assert_eq!(*unfold(b";q=0.5\r\n\t ;x=\"a\r\n b\""), *b";q=0.5 ;x=\"a b\"");
/// ```
#[must_use]
pub fn unfold(value: &[u8]) -> Cow<'_, [u8]> {
    if !value.contains(&b'\n') {
        return value.into();
    }
    let mut lines = value.split(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let mut out = Vec::with_capacity(value.len());
    out.extend_from_slice(lines.next().unwrap_or(&[]));
    for line in lines {
        let blanks = line.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        out.push(b' ');
        out.extend_from_slice(line.get(blanks..).unwrap_or(&[]));
    }
    out.into()
}
