//! TSNs that came twice, for the next SACK (RFC 9260 section 3.3.4).

use crate::number::Tsn;

/// Duplicates remembered for the next SACK. They are only a hint to the sender: what goes beyond is not listed.
pub(super) const DUPLICATES_MAX: usize = 32;

/// The list.
#[derive(Debug)]
pub(super) struct Duplicates {
    len: usize,
    tsns: [Tsn; DUPLICATES_MAX],
}

impl Default for Duplicates {
    fn default() -> Self {
        Self { len: 0, tsns: [Tsn(0); DUPLICATES_MAX] }
    }
}

impl Duplicates {
    pub(super) fn push(&mut self, tsn: Tsn) {
        if let Some(place) = self.tsns.get_mut(self.len) {
            *place = tsn;
            self.len += 1;
        }
    }

    pub(super) fn as_slice(&self) -> &[Tsn] {
        self.tsns.get(..self.len).unwrap_or_default()
    }

    pub(super) const fn clear(&mut self) {
        self.len = 0;
    }
}

#[cfg(test)]
mod tests;
