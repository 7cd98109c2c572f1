//! Whether others keep a queue that this sender doesn't.

#[cfg(test)]
mod tests;

/// Rounds of a cruise that say something.
const ROUNDS_MIN: u32 = 2;

/// What the round trips of a cruise showed. A sender that has drained its own queue and goes no faster than the path finds
/// none; if one is there all the time, others hold it: CUBIC, or BBR of the first version.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Contest {
    rounds: u32,
    queued: u32,
    contested: bool,
}

impl Contest {
    /// A round of a cruise has ended, in which all packets found a queue or some found none.
    pub(super) fn note(&mut self, queued: bool) {
        self.rounds += 1;
        self.queued += u32::from(queued);
    }

    /// The cruise has ended.
    pub(super) fn judge(&mut self) {
        if self.rounds >= ROUNDS_MIN {
            let (rounds, queued) = (self.rounds, self.queued);
            self.contested = if self.contested { queued * 2 >= rounds } else { queued * 8 >= rounds * 7 };
        }
        (self.rounds, self.queued) = (0, 0);
    }

    pub(super) fn contested(self) -> bool {
        self.contested
    }
}
