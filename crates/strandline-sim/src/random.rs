//! Random choices of a run, all derived from its seed.

use core::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

/// A seeded source of random choices.
#[derive(Debug, Clone)]
pub struct Random(ChaCha8Rng);

impl Random {
    /// Creates the source of `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(ChaCha8Rng::seed_from_u64(seed))
    }

    /// Creates the `stream`-th independent source of `seed`. Draws of one part of a run do not change those of
    /// others.
    #[must_use]
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        rng.set_stream(stream);
        Self(rng)
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a uniform number below `end`, which is at least 1.
    pub fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end)) >> 64) as u64
    }

    /// Returns a uniform number from `first` to `last`, inclusive.
    pub fn range(&mut self, first: u64, last: u64) -> u64 {
        first + self.below(last.saturating_sub(first) + 1)
    }

    /// Returns a log-uniform number from `first` to `last`, both at least 1: as often between 1 and 10 as between
    /// 1,000 and 10,000.
    pub fn log_range(&mut self, first: u64, last: u64) -> u64 {
        let (low, high) = ((first as f64).ln(), (last as f64 + 1.0).ln());
        let at = low + (high - low) * self.fraction();
        (at.exp() as u64).clamp(first, last)
    }

    /// Returns a uniform number from 0 to below 1.
    pub fn fraction(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns true with this probability.
    pub fn chance(&mut self, probability: f64) -> bool {
        self.fraction() < probability
    }

    /// Returns a uniform duration between the two.
    pub fn duration(&mut self, first: Duration, last: Duration) -> Duration {
        Duration::from_nanos(self.range(first.as_nanos() as u64, last.as_nanos() as u64))
    }

    /// Returns a uniform duration between the two numbers of milliseconds.
    pub fn millis(&mut self, first: u64, last: u64) -> Duration {
        self.duration(Duration::from_millis(first), Duration::from_millis(last))
    }

    /// Returns one of the given values, of which there is at least one.
    pub fn pick<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize]
    }

    /// Returns a seed for an endpoint.
    pub fn seed(&mut self) -> [u8; 32] {
        let mut seed = [0; 32];
        self.0.fill_bytes(&mut seed);
        seed
    }

    /// Fills a buffer with random bytes.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }
}
