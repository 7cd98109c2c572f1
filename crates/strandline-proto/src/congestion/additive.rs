//! Congestion avoidance with byte counting (RFC 5681 section 3.1): the window grows by one packet for each full
//! window that is acknowledged.

/// Bytes acknowledged since the window last grew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Additive(u32);

impl Additive {
    /// Returns the new window after `acked_bytes` were acknowledged while `window` was full.
    pub(super) const fn grown(&mut self, window: u32, acked_bytes: u32, pmdcs: u32) -> u32 {
        self.0 = self.0.saturating_add(acked_bytes);
        if self.0 < window {
            return window;
        }
        self.0 -= window;
        window.saturating_add(pmdcs)
    }
}

#[cfg(test)]
mod tests;
