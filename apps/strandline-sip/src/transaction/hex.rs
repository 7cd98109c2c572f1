//! Converts numbers to 16 hexadecimal digits and back, all digits in parallel, because branches and tags are
//! written and read for each message.

/// Sixteen copies of one byte.
const fn each(byte: u8) -> u128 {
    u128::from_be_bytes([byte; 16])
}

/// Formats a number in lowercase hexadecimal, with leading zeros.
pub(crate) fn hex(number: u64) -> [u8; 16] {
    // Spread the digits over the bytes, halving the groups in each step.
    let mut spread = u128::from(number);
    for (shift, mask) in [
        (32, 0xffff_ffff_0000_0000_ffff_ffff),
        (16, 0xffff_0000_ffff_0000_ffff_0000_ffff),
        (8, 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff),
        (4, each(0x0f)),
    ] {
        spread = (spread | spread << shift) & mask;
    }
    // Adding six carries into the upper half of the byte for digits from 10. `a` is 39 code points after the
    // successor of `9`.
    let letters = (spread + each(6)) >> 4 & each(1);
    (spread + each(b'0') + letters * u128::from(b'a' - b'0' - 10)).to_be_bytes()
}

/// Parses a number written by [`hex`]. Returns `None` for any other text.
pub(crate) fn unhex(text: &[u8; 16]) -> Option<u64> {
    let digits = u128::from_be_bytes(*text);
    // Only letters have this bit set, and the lower halves of their codes start at 1.
    let letters = digits >> 6 & each(1);
    let mut number = (digits & each(0x0f)) + letters * 9;
    for (shift, mask) in [
        (4, 0x00ff_00ff_00ff_00ff_00ff_00ff_00ff_00ff),
        (8, 0xffff_0000_ffff_0000_ffff_0000_ffff),
        (16, 0xffff_ffff_0000_0000_ffff_ffff),
        (32, u128::from(u64::MAX)),
    ] {
        number = (number | number >> shift) & mask;
    }
    let number = number as u64;
    (hex(number) == *text).then_some(number)
}

#[cfg(test)]
mod tests;
