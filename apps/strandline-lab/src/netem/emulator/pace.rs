//! Detection of dense traffic.

/// Length of the counting window.
const WINDOW_NS: u64 = 1_000_000;
/// Packets handled in a window above which traffic is dense: a wake-up for each would use most of a processor.
const DENSE: u64 = 48;

/// Decides whether packets are so dense that they are better handled in batches.
#[derive(Debug, Default)]
pub(super) struct Pace {
    window_start_ns: u64,
    handled_before: u64,
    dense: bool,
}

impl Pace {
    /// Returns whether traffic is dense; `handled` counts all packets since the start.
    pub(super) fn is_dense(&mut self, now_ns: u64, handled: u64) -> bool {
        let elapsed_ns = now_ns.saturating_sub(self.window_start_ns);
        if elapsed_ns >= WINDOW_NS {
            let count = handled - self.handled_before;
            self.dense =
                u128::from(count) * u128::from(WINDOW_NS) >= u128::from(DENSE) * u128::from(elapsed_ns);
            self.window_start_ns = now_ns;
            self.handled_before = handled;
        }
        self.dense
    }
}

#[cfg(test)]
mod tests;
