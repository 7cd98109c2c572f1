//! A hash for numbers assigned sequentially by this process. Peers can't choose them, so no key is needed.

use core::hash::{BuildHasherDefault, Hasher};

/// Hasher for maps keyed by connection numbers.
pub type Numbers = BuildHasherDefault<OfNumber>;

/// 2^64 divided by the golden ratio: an odd factor that mixes the bits well.
const FACTOR: u128 = 0x9e37_79b9_7f4a_7c15;

/// Hashes a single number.
#[derive(Debug, Default, Clone, Copy)]
pub struct OfNumber(u64);

impl Hasher for OfNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    /// Hash tables use both the upper and the lower bits.
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * FACTOR;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
