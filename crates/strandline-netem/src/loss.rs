//! Models of packet loss.

use crate::random::Random;

/// A model of loss. Probabilities are from 0 to 1; values outside count as the nearer bound.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Loss {
    /// No packet is lost.
    #[default]
    None,
    /// Every n-th packet is lost: the n-th, the 2n-th and so on. 0 loses none.
    EveryNth(u32),
    /// Each packet is lost independently with this probability.
    Random(f64),
    /// Gilbert-Elliott: the link alternates between a good and a bad state, both of geometric length.
    Bursts {
        /// Mean length of the good state in packets, at least 1.
        good_packets_mean: f64,
        /// Mean length of the bad state in packets, at least 1.
        bad_packets_mean: f64,
        /// Probability that a packet is lost in the good state.
        good_loss: f64,
        /// Probability that a packet is lost in the bad state.
        bad_loss: f64,
    },
}

impl Loss {
    /// Returns bursts in which every packet is lost, with no loss between them: the simple Gilbert model.
    ///
    /// ```
    /// use strandline_netem::Loss;
    /// // On average 4 packets in a row are lost, after 96 in a row that were not: 4 % in all.
    /// assert!((Loss::bursts(96.0, 4.0).mean() - 0.04).abs() < 1e-9);
    /// ```
    #[must_use]
    pub fn bursts(good_packets_mean: f64, bad_packets_mean: f64) -> Self {
        Self::Bursts { good_packets_mean, bad_packets_mean, good_loss: 0.0, bad_loss: 1.0 }
    }

    /// Returns the fraction of packets lost in the long run.
    #[must_use]
    pub fn mean(&self) -> f64 {
        match *self {
            Self::None | Self::EveryNth(0) => 0.0,
            Self::EveryNth(n) => 1.0 / f64::from(n),
            Self::Random(probability) => probability.clamp(0.0, 1.0),
            Self::Bursts { good_packets_mean, bad_packets_mean, good_loss, bad_loss } => {
                let (good, bad) = (good_packets_mean.max(1.0), bad_packets_mean.max(1.0));
                (good * good_loss.clamp(0.0, 1.0) + bad * bad_loss.clamp(0.0, 1.0)) / (good + bad)
            }
        }
    }
}

/// The state of a loss model, which decides about the next packet. It has its own random source, so the same
/// packets are lost whatever the other parameters are.
#[derive(Debug, Clone)]
pub(crate) struct LossState {
    random: Random,
    counted: u32,
    bad: bool,
}

impl LossState {
    pub(crate) fn new(random: Random) -> Self {
        Self { random, counted: 0, bad: false }
    }

    /// Resets the packet count and the burst state; the random source continues.
    pub(crate) fn reset(&mut self) {
        self.counted = 0;
        self.bad = false;
    }

    /// Returns whether the next packet is lost.
    pub(crate) fn takes(&mut self, loss: &Loss) -> bool {
        match *loss {
            Loss::None | Loss::EveryNth(0) => false,
            Loss::EveryNth(n) => {
                self.counted += 1;
                let lost = self.counted >= n;
                if lost {
                    self.counted = 0;
                }
                lost
            }
            Loss::Random(probability) => self.random.chance(probability),
            Loss::Bursts { good_packets_mean, bad_packets_mean, good_loss, bad_loss } => {
                let (lost, mean) = if self.bad {
                    (self.random.chance(bad_loss), bad_packets_mean)
                } else {
                    (self.random.chance(good_loss), good_packets_mean)
                };
                if self.random.chance(1.0 / mean.max(1.0)) {
                    self.bad = !self.bad;
                }
                lost
            }
        }
    }
}
