//! Parts of files (RFC 9110 section 14), and what shows that they are of the same file.

use hyper::header::{CONTENT_RANGE, DATE, ETAG, HeaderMap, HeaderValue, LAST_MODIFIED};

use super::failure::Failure;

/// The part of a file that a response holds (RFC 9110 section 14.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentRange {
    pub(super) first: u64,
    last: u64,
    /// The length of the file; `None` if it is unknown.
    len: Option<u64>,
}

impl ContentRange {
    /// Reads the Content-Range of a 206. `None` if there is none, as in one with several parts, or it is invalid.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let (unit, range) = headers.get(CONTENT_RANGE)?.to_str().ok()?.split_once(' ')?;
        let (first, rest) = range.split_once('-')?;
        let (last, len) = rest.split_once('/')?;
        let len = if len == "*" { None } else { Some(number(len)?) };
        let range = Self { first: number(first)?, last: number(last)?, len };
        let is_valid = range.first <= range.last && range.len.is_none_or(|len| range.last < len);
        (unit.eq_ignore_ascii_case("bytes") && is_valid).then_some(range)
    }

    /// Returns the number of bytes.
    pub(super) const fn bytes(self) -> u64 {
        (self.last - self.first).saturating_add(1)
    }

    /// Checks that so many bytes have arrived, and that the part reaches to the end of the file.
    pub(super) fn check_end(self, bytes: u64) -> Result<(), Failure> {
        let received = self.first.saturating_add(bytes);
        let partial = |cause| Err(Failure::Partial { received, cause });
        if bytes != self.bytes() {
            return partial(format!("the server announced {} bytes and sent {bytes}", self.bytes()));
        }
        match self.len.filter(|len| *len != received) {
            Some(len) => partial(format!("the server sent only a part of {len} bytes")),
            None => Ok(()),
        }
    }
}

/// Parses digits alone, without a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// Returns the length of the file that a 416 names.
pub(super) fn complete_length(headers: &HeaderMap) -> Option<u64> {
    number(headers.get(CONTENT_RANGE)?.to_str().ok()?.strip_prefix("bytes */")?)
}

/// Returns what shows later that a file is the same (RFC 9110 section 13.1.5): its strong entity tag, or its date if it
/// is at least a second older than the response, so that it can't have changed since.
pub(super) fn validator(headers: &HeaderMap) -> Option<HeaderValue> {
    let strong = |tag: &&HeaderValue| tag.as_bytes().starts_with(b"\"");
    if let Some(tag) = headers.get(ETAG) {
        return Some(tag).filter(strong).cloned();
    }
    let time = |name| httpdate::parse_http_date(headers.get(name)?.to_str().ok()?).ok();
    let age = time(&DATE)?.duration_since(time(&LAST_MODIFIED)?).ok()?;
    headers.get(LAST_MODIFIED).filter(|_| age.as_secs() >= 1).cloned()
}

/// Returns whether a part is of the file that a validator names, as far as its headers say.
pub(super) fn is_of(headers: &HeaderMap, known: &HeaderValue) -> bool {
    let other =
        if known.as_bytes().starts_with(b"\"") { headers.get(ETAG) } else { headers.get(LAST_MODIFIED) };
    other.is_none_or(|other| other == known)
}

/// Reads the headers of a response with a part: what is read of them is consistent.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(headers: &HeaderMap) {
    if let Some(range) = ContentRange::of(headers) {
        assert!(range.first <= range.last && range.len.is_none_or(|len| range.last < len));
        let reaches_end = range.len.is_none_or(|len| range.last + 1 == len);
        assert_eq!(range.check_end(range.bytes()).is_ok(), reaches_end);
        assert!(range.check_end(range.bytes() - 1).is_err(), "it is too short");
    }
    let _ = complete_length(headers);
    if let Some(known) = validator(headers) {
        assert!(!known.as_bytes().starts_with(b"W/"), "weak validators don't join parts");
        assert!(is_of(headers, &known), "it is of the same file as itself");
    }
}

#[cfg(test)]
mod tests;
