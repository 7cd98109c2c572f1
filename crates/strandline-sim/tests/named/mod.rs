//! Seeds that found a fault when they were first run, or that find it again when its repair is taken back.

/// The seed, and what it found.
pub const SEEDS: &[(u64, &str)] = &[];
