//! Escapes in URIs, such as `%41`. They are decoded once, never twice (RFC 4475 section 3.1.1.3).

use percent_encoding::{PercentDecode, percent_decode};

/// Decodes the escapes of a part of a URI. Invalid escapes are kept.
///
/// ```
/// use strandline_sip::codec::unescape;
///
/// assert!(unescape(b"I%20have%20spaces").eq(*b"I have spaces"));
/// assert!(unescape(b"value%25%34%31").eq(*b"value%41"));
/// assert!(unescape(b"null-%00-null").eq(*b"null-\0-null"));
/// ```
#[must_use]
pub fn unescape(text: &[u8]) -> PercentDecode<'_> {
    percent_decode(text)
}

/// Returns true if both texts are equal after decoding.
pub(crate) fn same(a: &[u8], b: &[u8]) -> bool {
    a == b || unescape(a).eq(unescape(b))
}

/// Returns true if both texts are equal after decoding, in any case.
pub(crate) fn same_any_case(a: &[u8], b: &[u8]) -> bool {
    let lower = |byte: u8| byte.to_ascii_lowercase();
    a.eq_ignore_ascii_case(b) || unescape(a).map(lower).eq(unescape(b).map(lower))
}
