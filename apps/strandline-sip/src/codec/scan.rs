//! Searches for bytes, eight at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Sets the high bit of each byte below `limit` (at most 0x80). Only the lowest such bit is exact; those
/// above it may be wrong.
#[inline(always)]
pub(crate) const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * limit as u64) & !word & HIGH
}

/// Sets the high bit of each byte that equals `byte`. Only the lowest such bit is exact.
#[inline(always)]
pub(crate) const fn equal(word: u64, byte: u8) -> u64 {
    below(word ^ (ONES * byte as u64), 1)
}

/// The position of the first byte from `at` for which `found` sets the high bit, or the end. `single` is the
/// same predicate for one byte.
#[inline(always)]
fn find(bytes: &[u8], at: usize, found: impl Fn(u64) -> u64, single: impl Fn(u8) -> bool) -> usize {
    let (eights, rest) = bytes.get(at..).unwrap_or(&[]).as_chunks::<8>();
    let mut at = at;
    for eight in eights {
        let found = found(u64::from_le_bytes(*eight));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    at + rest.iter().position(|byte| single(*byte)).unwrap_or(rest.len())
}

/// The position of the first byte below 0x20 from `at`, or the end.
#[inline(always)]
pub(crate) fn control(bytes: &[u8], at: usize) -> usize {
    // Two words per step, because most of a message goes through here. The first test also matches bytes from
    // 0xa0, which are rare, and costs half as much as an exact one.
    const LIMIT: u64 = ONES * 0x20;
    let (sixteens, _) = bytes.get(at..).unwrap_or(&[]).as_chunks::<16>();
    let mut at = at;
    for sixteen in sixteens {
        let pair = u128::from_le_bytes(*sixteen);
        let (low, high) = (pair as u64, (pair >> 64) as u64);
        if (low.wrapping_sub(LIMIT) | high.wrapping_sub(LIMIT)) & HIGH != 0 {
            let (low, high) = (below(low, 0x20), below(high, 0x20));
            if low != 0 {
                return at + (low.trailing_zeros() / 8) as usize;
            }
            if high != 0 {
                return at + 8 + (high.trailing_zeros() / 8) as usize;
            }
        }
        at += 16;
    }
    control_at_end(bytes, at)
}

/// As [`control`], for the last bytes when less than sixteen are left. They are read as the end of the last
/// sixteen bytes of the text; the zeros shifted in count as the end.
#[inline(never)]
fn control_at_end(bytes: &[u8], at: usize) -> usize {
    let left = bytes.len().saturating_sub(at);
    match bytes.last_chunk::<16>() {
        Some(last) if left > 0 => {
            let pair = u128::from_le_bytes(*last) >> (8 * (16 - left));
            let (low, high) = (below(pair as u64, 0x20), below((pair >> 64) as u64, 0x20));
            let found = if low != 0 { low.trailing_zeros() } else { 64 + high.trailing_zeros() };
            at + (found / 8) as usize
        }
        _ => find(bytes, at, |word| below(word, 0x20), |byte| byte < 0x20),
    }
}

/// The position of the first colon or control character from `at`, or the end.
#[inline]
pub(crate) fn colon(bytes: &[u8], at: usize) -> usize {
    find(bytes, at, |word| equal(word, b':') | below(word, 0x20), |byte| byte == b':' || byte < 0x20)
}

/// The position of the first quote, backslash or control character from `at`, or the end.
#[inline]
pub(crate) fn quote(bytes: &[u8], at: usize) -> usize {
    find(
        bytes,
        at,
        |word| equal(word, b'"') | equal(word, b'\\') | below(word, 0x20),
        |byte| matches!(byte, b'"' | b'\\') || byte < 0x20,
    )
}

/// The position of the first angle bracket, space or control character from `at`, or the end.
#[inline]
pub(crate) fn bracket(bytes: &[u8], at: usize) -> usize {
    // `<` and `>` differ in one bit.
    let brackets = |word: u64| equal(word & !(ONES * 2), b'<');
    find(
        bytes,
        at,
        |word| brackets(word) | below(word, 0x21),
        |byte| matches!(byte, b'<' | b'>') || byte < 0x21,
    )
}

#[cfg(test)]
mod tests;
