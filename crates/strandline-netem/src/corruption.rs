//! Corruption of packets by flipped bits.

use crate::random::Random;

/// The bits of a packet that the link flips. The same value always flips the same bits of a packet of the
/// same length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Corruption {
    seed: u64,
    flips: u8,
}

impl Corruption {
    /// Draws one to eight random bits.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let seed = random.next_u64();
        Self { seed, flips: (seed >> 61) as u8 + 1 }
    }

    /// Flips the bits. A bit that is drawn twice is flipped once, so a packet of at least one byte always
    /// changes.
    ///
    /// ```
    /// use strandline_netem::{Link, LinkConfig, Verdict};
    /// let mut link = Link::new(LinkConfig { corruption: 1.0, ..LinkConfig::default() }, 7);
    /// let Verdict::Delivered(copies) = link.offer(0, 100) else { return Err("it drops nothing") };
    /// let mut packet = vec![0u8; 100];
    /// copies.first.corruption.ok_or("it damages every packet")?.apply(&mut packet);
    /// let flipped: u32 = packet.iter().map(|byte| byte.count_ones()).sum();
    /// assert!((1..=8).contains(&flipped));
    /// # Ok::<(), &str>(())
    /// ```
    pub fn apply(&self, packet: &mut [u8]) {
        let bits = packet.len() as u64 * 8;
        if bits == 0 {
            return;
        }
        let mut state = self.seed;
        let mut done = [u64::MAX; 8];
        for slot in done.iter_mut().take(usize::from(self.flips)) {
            // A linear congruential step is random enough for positions within a packet.
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            *slot = ((u128::from(state) * u128::from(bits)) >> 64) as u64;
        }
        for (index, &bit) in done.iter().enumerate() {
            let drawn_before = done.iter().take(index).any(|&other| other == bit);
            if bit != u64::MAX
                && !drawn_before
                && let Some(byte) = packet.get_mut((bit / 8) as usize)
            {
                *byte ^= 1 << (bit % 8);
            }
        }
    }
}
