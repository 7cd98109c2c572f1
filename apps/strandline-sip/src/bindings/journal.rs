//! What a store has to write down.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::binding::Binding;

/// Changes that a store has to write down, one after the other: length and text of an address of record, length and text of
/// its bindings, of which there may be none.
#[derive(Debug, Default, Clone)]
pub struct Journal {
    bytes: Vec<u8>,
    changes: usize,
    /// Nobody will write it down.
    off: bool,
}

impl Journal {
    /// One that takes nothing, where there is no store.
    #[must_use]
    pub const fn off() -> Self {
        Self { bytes: Vec::new(), changes: 0, off: true }
    }

    /// Nothing changed.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// How many changes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.changes
    }

    /// All changes as bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes = 0;
    }

    /// Adds what another has.
    pub fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
        self.changes += other.changes;
    }

    /// Notes the bindings that a user has now.
    pub fn record(&mut self, aor: &[u8], bindings: &[Binding]) {
        self.record_with(aor, |out| bindings.iter().for_each(|binding| binding.write(out)));
    }

    /// Notes what a user has now, as `write` writes it.
    pub(crate) fn record_with(&mut self, aor: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if self.off {
            return;
        }
        self.bytes.extend_from_slice(&(aor.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(aor);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        write(&mut self.bytes);
        let len = (self.bytes.len() - at - 4) as u32;
        if let Some(place) = self.bytes.get_mut(at..at + 4) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        self.changes += 1;
    }

    /// Leaves the last change of each user only.
    pub fn compact(&mut self) {
        let mut last = std::collections::HashMap::new();
        for (aor, state) in Self::read(&self.bytes) {
            last.insert(aor, state);
        }
        let mut compacted = Self { off: self.off, ..Self::default() };
        for (aor, state) in last {
            compacted.record_with(aor, |out| out.extend_from_slice(state));
        }
        *self = compacted;
    }

    /// Address of record and bindings of each change in `bytes`. Ends at the first thing that is none, such as a seal;
    /// [`check`](Self::check) tells whether that is the end.
    pub fn read(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        Changes { rest: bytes }
    }

    /// The changes in `bytes` with a seal behind them, as a store keeps them: a checksum, by which [`check`](Self::check)
    /// finds damage.
    #[must_use]
    pub fn sealed(bytes: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(bytes.len() + SEAL_BYTES);
        sealed.extend_from_slice(bytes);
        sealed.extend_from_slice(&SEAL);
        sealed.extend_from_slice(&checksum(bytes).to_le_bytes());
        sealed
    }

    /// Whether `bytes` are changes from the first byte to the last, with a seal that is right, or without one, as versions
    /// before the seal wrote them.
    ///
    /// # Errors
    /// If they are damaged.
    pub fn check(bytes: &[u8]) -> Result<(), Fault> {
        let mut changes = Changes { rest: bytes };
        let count = changes.by_ref().count();
        let whole = bytes.len() - changes.rest.len();
        match changes.rest {
            _ if count == 0 => Err(Fault::Empty),
            [] => Ok(()),
            [a, b, c, d, sum @ ..] if [*a, *b, *c, *d] == SEAL => {
                let is_right = bytes.get(..whole).is_some_and(|whole| *sum == checksum(whole).to_le_bytes());
                if is_right { Ok(()) } else { Err(Fault::Checksum) }
            }
            _ => Err(Fault::Cut { whole: count, at: whole, len: bytes.len() }),
        }
    }
}

/// Stands where the next change would have its length. Versions that know no seal end there.
const SEAL: [u8; 4] = [0xff; 4];
/// The mark and the checksum.
const SEAL_BYTES: usize = 12;

/// Damage is found by it; nobody who means harm is kept out.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Why an entry of a journal isn't whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// There is no change in it.
    #[error("it has no changes: it is empty, or damaged from its first byte on")]
    Empty,
    /// A change isn't there as a whole.
    #[error("it is cut or damaged at byte {at} of {len}: its first {whole} changes are used")]
    Cut {
        /// Changes that are there.
        whole: usize,
        /// Bytes that those take.
        at: usize,
        /// All bytes.
        len: usize,
    },
    /// A byte of it isn't what was written.
    #[error("its checksum is wrong: none of its changes is used")]
    Checksum,
}

impl Fault {
    /// May the changes be used that can be read?
    #[must_use]
    pub const fn leaves_changes(self) -> bool {
        matches!(self, Self::Cut { .. })
    }
}

struct Changes<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Changes<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (aor, rest) = take(self.rest)?;
        let (state, rest) = take(rest)?;
        self.rest = rest;
        Some((aor, state))
    }
}

/// A text with its length before it, and what comes after it.
fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    bytes.get(4..)?.split_at_checked(len)
}

/// The lines of what a user has, and whether the last one is whole: a line that is cut may look like another one.
pub(super) fn lines(state: &[u8]) -> (impl Iterator<Item = &[u8]>, bool) {
    let end = state.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let whole = state.get(..end).unwrap_or(&[]);
    (whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()), end == state.len())
}

#[cfg(test)]
mod tests;
