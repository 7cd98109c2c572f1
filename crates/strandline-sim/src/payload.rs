//! The content of messages: a function of the message's number, so that a receiver can check every byte, even of a
//! part.

use bytes::Bytes;

/// Returns the content of message `number`, `len` bytes.
#[must_use]
pub fn content(number: u32, len: usize) -> Bytes {
    let mut bytes = Vec::with_capacity(len + 8);
    let mut word = 0;
    while bytes.len() < len {
        bytes.extend_from_slice(&word_of(number, word).to_le_bytes());
        word += 1;
    }
    bytes.truncate(len);
    bytes.into()
}

/// True if `part` is the content of message `number` from `offset` on.
#[must_use]
pub fn matches(number: u32, offset: usize, part: &[u8]) -> bool {
    // Byte by byte up to the next word, then word by word.
    let head_len = ((8 - offset % 8) % 8).min(part.len());
    let (head, rest) = part.split_at(head_len);
    let start = word_of(number, (offset / 8) as u64).to_le_bytes();
    let head_right = head.iter().enumerate().all(|(index, byte)| start[offset % 8 + index] == *byte);
    let first = (offset + head_len) as u64 / 8;
    let (whole, tail) = rest.as_chunks::<8>();
    let mut words = (first..).map(|word| word_of(number, word));
    let whole_right = whole.iter().zip(&mut words).all(|(chunk, word)| u64::from_le_bytes(*chunk) == word);
    let tail_right = words.next().is_some_and(|word| word.to_le_bytes()[..tail.len()] == *tail);
    head_right && whole_right && tail_right
}

// The constants of SplitMix64: its increment, and the factors and shifts that mix each word.
const INCREMENT: u64 = 0x9e37_79b9_7f4a_7c15;
const MIX_FACTORS: [u64; 2] = [0xbf58_476d_1ce4_e5b9, 0x94d0_49bb_1331_11eb];
const MIX_SHIFTS: [u32; 3] = [30, 27, 31];

/// SplitMix64, which can start at any word.
fn word_of(number: u32, word: u64) -> u64 {
    let mut x = (u64::from(number) << 32).wrapping_add(word.wrapping_add(1).wrapping_mul(INCREMENT));
    x = (x ^ (x >> MIX_SHIFTS[0])).wrapping_mul(MIX_FACTORS[0]);
    x = (x ^ (x >> MIX_SHIFTS[1])).wrapping_mul(MIX_FACTORS[1]);
    x ^ (x >> MIX_SHIFTS[2])
}

#[cfg(test)]
mod tests;
