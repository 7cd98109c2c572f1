//! An application's limits of messages (RFC 3758, RFC 7496).

use core::time::Duration;

use strandline_proto::reliability::Reliability;

use crate::random::Random;

/// How an application limits its messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct LimitPlan {
    /// Seed of its choices.
    pub(crate) seed: u64,
    /// Probability that a message has a limit.
    pub(crate) share: f64,
    /// Which kinds of limits it uses.
    pub(crate) kinds: Kinds,
    pub(crate) lifetime_max: Duration,
    pub(crate) retransmissions_max: u16,
}

/// The kinds of limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    Lifetimes,
    Retransmissions,
    Priorities,
    All,
}

impl LimitPlan {
    /// Draws a plan.
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self {
            seed: random.bits(),
            share: random.pick(&[0.1, 0.5, 0.9, 1.0]),
            kinds: random.pick(&[Kinds::Lifetimes, Kinds::Retransmissions, Kinds::Priorities, Kinds::All]),
            lifetime_max: Duration::from_millis(random.log_range(1, 20_000)),
            retransmissions_max: random.pick(&[0, 0, 1, 5]),
        }
    }
}

/// The state of one application.
#[derive(Debug)]
pub(crate) struct Limits {
    random: Random,
    plan: LimitPlan,
}

impl Limits {
    pub(crate) fn new(plan: LimitPlan) -> Self {
        Self { random: Random::new(plan.seed), plan }
    }

    /// Returns the limit of the next message.
    pub(crate) fn next(&mut self) -> Reliability {
        let Self { random, plan } = self;
        if !random.chance(plan.share) {
            return Reliability::FULL;
        }
        let kind = match plan.kinds {
            Kinds::All => random.pick(&[Kinds::Lifetimes, Kinds::Retransmissions, Kinds::Priorities]),
            kind => kind,
        };
        match kind {
            Kinds::Lifetimes => Reliability::lifetime(random.duration(Duration::ZERO, plan.lifetime_max)),
            Kinds::Retransmissions => {
                let max = random.range(0, u64::from(plan.retransmissions_max)) as u16;
                Reliability::retransmissions(max)
            }
            Kinds::Priorities | Kinds::All => Reliability::priority(random.below(4) as u32),
        }
    }
}
