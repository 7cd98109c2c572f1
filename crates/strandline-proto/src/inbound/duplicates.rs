//! TSNs that arrived twice, for the next SACK (RFC 9260 section 3.3.4).

use crate::number::Tsn;

/// Maximum number of duplicates in a SACK. They are only a hint to the sender, so further ones are not listed.
pub(super) const DUPLICATES_MAX: usize = 32;

/// The list of duplicates.
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
