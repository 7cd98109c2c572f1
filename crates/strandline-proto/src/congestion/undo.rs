//! The window before a loss, which is restored if the loss turns out to be spurious (RFC 3522, RFC 3708, RFC 5682).

/// The congestion window and ssthresh before the losses of a row, while they can still be undone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Undo(Option<(u32, u32)>);

impl Undo {
    /// Records the values before a loss or time-out. Of several in a row the largest count: those before the first,
    /// unless the window has grown beyond them in between.
    pub(super) fn remember(&mut self, cwnd: u32, ssthresh: u32) {
        let (cwnd_before, ssthresh_before) = self.0.unwrap_or_default();
        self.0 = Some((cwnd_before.max(cwnd), ssthresh_before.max(ssthresh)));
    }

    /// Forgets the values: the losses were real.
    pub(super) const fn forget(&mut self) {
        self.0 = None;
    }

    /// Returns the window and ssthresh to continue with after a spurious loss, and forgets the values before it.
    pub(super) fn restored(&mut self, cwnd: u32, ssthresh: u32) -> (u32, u32) {
        let (cwnd_before, ssthresh_before) = self.0.take().unwrap_or_default();
        (cwnd_before.max(cwnd), ssthresh_before.max(ssthresh))
    }
}

#[cfg(test)]
mod tests;
