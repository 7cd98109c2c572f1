//! Finding bytes eight at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

#[inline(always)]
fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let eight: [u8; 8] = bytes.get(at..)?.first_chunk().copied()?;
    Some(u64::from_le_bytes(eight))
}

/// The high bit of the lowest byte below `limit` (at most 0x80) is right; those above it may be wrong.
#[inline(always)]
const fn below(word: u64, limit: u8) -> u64 {
    word.wrapping_sub(ONES * limit as u64) & !word & HIGH
}

/// The first byte below 0x20 from `at` on, or the end.
#[inline]
pub(crate) fn control(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = word(bytes, at) {
        let found = below(word, 0x20);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or(&[]);
    at + rest.iter().position(|byte| *byte < 0x20).unwrap_or(rest.len())
}

/// The first colon or control character from `at` on, or the end.
#[inline]
pub(crate) fn colon(bytes: &[u8], mut at: usize) -> usize {
    while let Some(word) = word(bytes, at) {
        let found = below(word ^ (ONES * b':' as u64), 1) | below(word, 0x20);
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let rest = bytes.get(at..).unwrap_or(&[]);
    at + rest.iter().position(|byte| *byte == b':' || *byte < 0x20).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_found_wherever_it_stands() {
        for len in 0..40 {
            for at in 0..=len {
                for byte in [0, 1, b'\t', b'\n', b'\r', 0x1f] {
                    let mut bytes = vec![0x20; len];
                    bytes.extend([byte, 0xff, 0, b':', 0x80]);
                    bytes[at..len].iter_mut().for_each(|byte| *byte = 0xff);
                    assert_eq!(control(&bytes, at.min(3)), len);
                    assert_eq!(colon(&bytes, 0), len);
                }
                let mut bytes = vec![b';'; len];
                bytes.push(b':');
                assert_eq!(colon(&bytes, at), len);
                assert_eq!(control(&bytes, at), len + 1);
            }
        }
        assert_eq!(control(b"abc", 9), 9);
    }
}
