//! Hashing of numbers that are given here, one after the other: nobody else chooses them, so they need no key.

use core::hash::{BuildHasherDefault, Hasher};

/// For maps by the numbers of connections.
pub type Numbers = BuildHasherDefault<OfNumber>;

/// The hash of one number.
#[derive(Debug, Default, Clone, Copy)]
pub struct OfNumber(u64);

impl Hasher for OfNumber {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    /// Tables use the upper bits and the lower ones.
    fn write_u64(&mut self, number: u64) {
        let product = u128::from(self.0 ^ number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}
