//! Congestion avoidance of RFC 5681 section 3.1, by bytes: the window grows by a packet when a window was acknowledged.

/// Bytes acknowledged since the window last grew.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Additive(u32);

impl Additive {
    /// So many bytes were acknowledged while `window` was full: the window as it is from now on.
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
