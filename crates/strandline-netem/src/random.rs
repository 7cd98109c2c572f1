//! A source of random decisions with a seed.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A seeded source of random decisions.
#[derive(Debug, Clone)]
pub(crate) struct Random(ChaCha8Rng);

impl Random {
    /// Returns the `stream`-th independent source of `seed`.
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns true with the given probability. Draws nothing if it is 0 or 1, so that disabled faults cost
    /// nothing.
    pub(crate) fn chance(&mut self, probability: f64) -> bool {
        if probability <= 0.0 || probability.is_nan() {
            return false;
        }
        if probability >= 1.0 {
            return true;
        }
        // 53 bits: every value is exact as f64.
        ((self.0.next_u64() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    /// Returns a uniform value in `0..=max`, by multiplication: the bias is below 2^-64 of the range for the
    /// delays used here.
    pub(crate) fn up_to(&mut self, max: u64) -> u64 {
        if max == 0 {
            return 0;
        }
        let wide = u128::from(self.0.next_u64()) * (u128::from(max) + 1);
        (wide >> 64) as u64
    }
}
