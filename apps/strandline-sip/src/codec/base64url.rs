//! Base64 for URLs (RFC 4648 section 5).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends bytes as text of letters, digits, `-` and `_`, without padding.
pub(crate) fn base64url(bytes: &[u8], out: &mut Vec<u8>) {
    for three in bytes.chunks(3) {
        let word =
            three.iter().fold(0u32, |word, byte| word << 8 | u32::from(*byte)) << (8 * (3 - three.len()));
        for digit in 0..=three.len() {
            let value = (word >> (18 - 6 * digit)) & 63;
            out.push(DIGITS.get(value as usize).copied().unwrap_or(b'A'));
        }
    }
}

/// The length of what `text` stands for, which is in `out`.
pub(crate) fn base64url_decode(text: &[u8], out: &mut [u8]) -> Option<usize> {
    let mut len = 0;
    for four in text.chunks(4) {
        let mut word = 0u32;
        for digit in four {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'-' => 62,
                b'_' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        word <<= 6 * (4 - four.len());
        for byte in 0..four.len().saturating_sub(1) {
            *out.get_mut(len)? = (word >> (16 - 8 * byte)) as u8;
            len += 1;
        }
    }
    Some(len)
}
