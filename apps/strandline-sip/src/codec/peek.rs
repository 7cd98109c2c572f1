//! Looks at headers before a message is indexed, to sort waiting messages. Nothing is validated.

use super::method::Method;
use super::scan;
use super::start_line::{skip_line_ends, starts_like_a_status};

/// The length of the longest method that is searched for, in bytes.
const METHOD_MAX: usize = 32;

/// The method of a request and the text after its space. `None` for a response, or if no space follows within
/// a reasonable length.
///
/// ```
/// use strandline_sip::codec::{Method, method_and_rest};
///
/// let (method, rest) = method_and_rest(b"\r\nBYE sip:a@example.com SIP/2.0\r\n").ok_or("a response")?;
/// assert_eq!((method, rest), (Method::Bye, &b"sip:a@example.com SIP/2.0\r\n"[..]));
/// assert!(method_and_rest(b"SIP/2.0 200 OK\r\n").is_none());
/// # Ok::<(), &str>(())
/// ```
#[must_use]
pub fn method_and_rest(bytes: &[u8]) -> Option<(Method<'_>, &[u8])> {
    let line = bytes.get(skip_line_ends(bytes)..)?;
    if starts_like_a_status(line) {
        return None;
    }
    let end = line.iter().take(METHOD_MAX).position(|byte| *byte <= b' ')?;
    let (name, rest) = line.split_at_checked(end)?;
    Some((Method::from_bytes(name), rest.strip_prefix(b" ")?))
}

/// Iterates over the header lines of a message as names and values; a folded value includes its continuation
/// lines. It ends with the headers, or at a line without a colon.
///
/// ```
/// use strandline_sip::codec::header_lines;
///
/// let bytes = b"BYE sip:a@example.com SIP/2.0\r\nTo : <sip:a@example.com>\r\n ;tag=7\r\nl:0\r\n\r\nbody: 1\r\n";
/// let lines: Vec<_> = header_lines(bytes).collect();
/// assert_eq!(lines, [(&b"To"[..], &b" <sip:a@example.com>\r\n ;tag=7"[..]), (&b"l"[..], &b"0"[..])]);
/// ```
pub fn header_lines(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let (_, mut at) = line(bytes, 0);
    core::iter::from_fn(move || {
        let start = at;
        let (mut end, mut next) = line(bytes, start);
        if end == start {
            return None;
        }
        while matches!(bytes.get(next), Some(b' ' | b'\t')) {
            (end, next) = line(bytes, next);
        }
        at = next;
        let line = bytes.get(start..end)?;
        let colon = line.iter().position(|byte| *byte == b':')?;
        let (name, value) = line.split_at_checked(colon)?;
        Some((name.trim_ascii_end(), value.get(1..)?))
    })
}

/// The end of a line and the start of the next one.
fn line(bytes: &[u8], from: usize) -> (usize, usize) {
    let mut at = from;
    loop {
        at = scan::control(bytes, at);
        match bytes.get(at..).unwrap_or(&[]) {
            [] => return (at, at),
            [b'\r', b'\n', ..] => return (at, at + 2),
            [b'\n', ..] => return (at, at + 1),
            _ => at += 1,
        }
    }
}
