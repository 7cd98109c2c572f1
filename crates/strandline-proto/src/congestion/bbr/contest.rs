//! Detects competing flows that keep a standing queue.

#[cfg(test)]
mod tests;

/// Minimum number of rounds needed to judge a cruise.
const ROUNDS_MIN: u32 = 2;

/// Eighths of the rounds with a queue from which on there is competition, and below which it has ended.
const BEGIN_EIGHTHS: u32 = 7;
const END_EIGHTHS: u32 = 4;

/// Queue observations of a cruise. A sender that has drained its own queue and sends no faster than the path sees no
/// queue. If it sees one all the time, other flows keep it, such as CUBIC or BBR version 1.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Contest {
    rounds: u32,
    queued: u32,
    contested: bool,
}

impl Contest {
    /// Records a round of a cruise. `queued` is true if all its packets met a queue.
    pub(super) fn note(&mut self, queued: bool) {
        self.rounds += 1;
        self.queued += u32::from(queued);
    }

    /// Judges the cruise that has ended and begins a new count.
    pub(super) fn judge(&mut self) {
        if self.rounds >= ROUNDS_MIN {
            let (rounds, queued) = (self.rounds, self.queued);
            let eighths = if self.contested { END_EIGHTHS } else { BEGIN_EIGHTHS };
            self.contested = queued * 8 >= rounds * eighths;
        }
        (self.rounds, self.queued) = (0, 0);
    }

    pub(super) fn contested(self) -> bool {
        self.contested
    }
}
