//! Base64 for URLs (RFC 4648 section 5), without padding.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Appends `bytes` as letters, digits, `-` and `_`, without padding.
pub(crate) fn base64url(bytes: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    out.resize(at + base64::encoded_len(bytes.len(), false).unwrap_or_default(), 0);
    let room = out.get_mut(at..).unwrap_or_default();
    let written = URL_SAFE_NO_PAD.encode_slice(bytes, room).unwrap_or_default();
    out.truncate(at + written);
}

/// Decodes `text` into `out` and returns the number of bytes written. Returns `None` if `text` is not the
/// output of [`base64url`] or `out` is too short.
pub(crate) fn base64url_decode(text: &[u8], out: &mut [u8]) -> Option<usize> {
    URL_SAFE_NO_PAD.decode_slice(text, out).ok()
}

#[cfg(test)]
mod tests;
