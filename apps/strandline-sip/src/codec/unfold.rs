//! Values over several lines, in one (RFC 3261 section 7.3.1).

use std::borrow::Cow;

/// The value in one line: a line end and the white space that the next line begins with are one blank. Few values are folded;
/// the others stay where they are.
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
