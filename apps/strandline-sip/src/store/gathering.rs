//! Whether a commit waits for more. Of phones that register now and then each would cost a commit of its own, with two threads
//! that are woken and a wait for the disk.

use std::time::Duration;

/// How long it waits: much less than the 500 ms after which a phone asks again, and in a city two or three come meanwhile.
pub(super) const GATHER: Duration = Duration::from_millis(20);
/// With so many answers it doesn't wait any longer: what comes at such a rate gathers while the commit before is on its way.
pub(super) const ENOUGH: usize = 8;
/// So often nobody came before it is given up.
const ALONE_MAX: u32 = 4;
/// So many commits don't wait then: who registers phone after phone would wait for nobody each time.
const AT_ONCE: u32 = 128;

#[derive(Debug, Default)]
pub(super) struct Gathering {
    /// So often in a row nobody else came.
    alone: u32,
    /// So many commits don't wait.
    at_once: u32,
}

impl Gathering {
    /// Somebody came while nothing was under way: does the commit wait for others?
    pub(super) fn waits(&mut self) -> bool {
        let waits = self.at_once == 0;
        self.at_once = self.at_once.saturating_sub(1);
        waits
    }

    /// It has waited, and has so many answers to give.
    pub(super) fn waited(&mut self, answers: usize) {
        if answers > 1 {
            self.alone = 0;
            return;
        }
        self.alone += 1;
        if self.alone == ALONE_MAX {
            (self.alone, self.at_once) = (0, AT_ONCE);
        }
    }
}

#[cfg(test)]
mod tests;
