//! Base64 for URLs (RFC 4648 section 5).

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
/// Marks a byte that is not a digit.
const NONE: u8 = 0x80;

static VALUES: [u8; 256] = values();

const fn values() -> [u8; 256] {
    let mut values = [NONE; 256];
    let mut value = 0;
    while value < DIGITS.len() {
        values[DIGITS[value] as usize] = value as u8;
        value += 1;
    }
    values
}

/// Encodes three bytes as four digits.
#[inline(always)]
fn digits(three: [u8; 3]) -> [u8; 4] {
    let [a, b, c] = three;
    let word = u32::from_be_bytes([0, a, b, c]);
    [18, 12, 6, 0].map(|shift| DIGITS.get((word >> shift & 63) as usize).copied().unwrap_or(b'A'))
}

/// Decodes four digits into three bytes. The second value has the bit [`NONE`] set if any of the four is not
/// a digit.
#[inline(always)]
fn bytes(four: [u8; 4]) -> ([u8; 3], u8) {
    let [a, b, c, d] = four.map(|digit| VALUES.get(usize::from(digit)).copied().unwrap_or(NONE));
    ([a << 2 | b >> 4, b << 4 | c >> 2, c << 6 | d], a | b | c | d)
}

/// Appends `bytes` as letters, digits, `-` and `_`, without padding.
pub(crate) fn base64url(bytes: &[u8], out: &mut Vec<u8>) {
    let (threes, rest) = bytes.as_chunks::<3>();
    out.reserve(bytes.len().div_ceil(3) * 4);
    threes.iter().for_each(|three| out.extend_from_slice(&digits(*three)));
    let last = match rest {
        [a] => digits([*a, 0, 0]),
        [a, b] => digits([*a, *b, 0]),
        _ => return,
    };
    out.extend_from_slice(last.get(..=rest.len()).unwrap_or(&[]));
}

/// Decodes `text` into `out` and returns the number of bytes written. Returns `None` if `text` is not the
/// output of [`base64url`] or `out` is too short.
pub(crate) fn base64url_decode(text: &[u8], out: &mut [u8]) -> Option<usize> {
    let (fours, rest) = text.as_chunks::<4>();
    let (whole, last) = out.split_at_mut_checked(fours.len() * 3)?;
    let mut seen = 0;
    for (four, three) in fours.iter().zip(whole.as_chunks_mut().0) {
        let (decoded, values) = bytes(*four);
        *three = decoded;
        seen |= values;
    }
    let count = match *rest {
        [] => 0,
        [_] => return None,
        [a, b, ref more @ ..] => {
            let (decoded, values) = bytes([a, b, more.first().copied().unwrap_or(b'A'), b'A']);
            seen |= values;
            let (decoded, unused) = decoded.split_at_checked(rest.len() - 1)?;
            // Unused bits must be 0, so that no two texts decode to the same bytes.
            if unused.iter().any(|byte| *byte != 0) {
                return None;
            }
            last.get_mut(..decoded.len())?.copy_from_slice(decoded);
            decoded.len()
        }
    };
    (seen & NONE == 0).then_some(whole.len() + count)
}

#[cfg(test)]
mod tests;
