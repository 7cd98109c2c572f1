//! The changes that a store has to persist.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

use super::binding::Binding;

/// A sequence of changes for a store. Each consists of the length and text of an address of record, and the
/// length and text of its bindings, which may be empty.
#[derive(Debug, Default, Clone)]
pub struct Journal {
    bytes: Vec<u8>,
    changes: usize,
    /// True if there is no store, so that nothing is recorded.
    off: bool,
}

impl Journal {
    /// Creates a journal that records nothing, for servers without a store.
    #[must_use]
    pub const fn off() -> Self {
        Self { bytes: Vec::new(), changes: 0, off: true }
    }

    /// Returns true if there are no changes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.changes == 0
    }

    /// The number of changes.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.changes
    }

    /// The encoded changes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Removes all changes.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.changes = 0;
    }

    /// Appends the changes of another journal.
    pub fn append(&mut self, other: &Self) {
        self.bytes.extend_from_slice(&other.bytes);
        self.changes += other.changes;
    }

    /// Records the current bindings of a user.
    pub fn record(&mut self, aor: &[u8], bindings: &[Binding]) {
        self.record_with(aor, |out| bindings.iter().for_each(|binding| binding.write(out)));
    }

    /// Records the current state of a user, which `write` appends.
    pub(crate) fn record_with(&mut self, aor: &[u8], write: impl FnOnce(&mut Vec<u8>)) {
        if self.off {
            return;
        }
        self.bytes.extend_from_slice(&(aor.len() as u32).to_le_bytes());
        self.bytes.extend_from_slice(aor);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; LEN_BYTES]);
        write(&mut self.bytes);
        let len = (self.bytes.len() - at - LEN_BYTES) as u32;
        if let Some(place) = self.bytes.get_mut(at..at + LEN_BYTES) {
            place.copy_from_slice(&len.to_le_bytes());
        }
        self.changes += 1;
    }

    /// Keeps only the last change of each user.
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

    /// Iterates over the addresses of record and bindings in `bytes`. It ends at the first malformed change,
    /// or at a seal; [`check`](Self::check) tells the two apart.
    pub fn read(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        Changes { rest: bytes }
    }

    /// Returns the changes in `bytes` followed by a seal, as a store keeps them. The seal is a checksum with
    /// which [`check`](Self::check) detects damage.
    #[must_use]
    pub fn sealed(bytes: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(bytes.len() + SEAL_BYTES);
        sealed.extend_from_slice(bytes);
        sealed.extend_from_slice(&SEAL);
        sealed.extend_from_slice(&checksum(bytes).to_le_bytes());
        sealed
    }

    /// Returns a checksum of a user's state, as a store keeps it beside the state. It covers the user's name.
    #[must_use]
    pub fn checksum_of(aor: &[u8], state: &[u8]) -> i64 {
        let mut hasher = SipHasher13::new();
        hasher.write_u64(aor.len() as u64);
        hasher.write(aor);
        hasher.write(state);
        hasher.finish().cast_signed()
    }

    /// Checks that `bytes` consists of changes with a valid seal. Without the seal, changes may be missing at
    /// the end.
    ///
    /// # Errors
    /// Returns an error if they are damaged.
    pub fn check(bytes: &[u8]) -> Result<(), Fault> {
        let mut changes = Changes { rest: bytes };
        let count = changes.by_ref().count();
        let whole = bytes.len() - changes.rest.len();
        match changes.rest {
            _ if count == 0 => Err(Fault::Empty),
            [a, b, c, d, sum @ ..] if [*a, *b, *c, *d] == SEAL => {
                let is_right = bytes.get(..whole).is_some_and(|whole| *sum == checksum(whole).to_le_bytes());
                if is_right { Ok(()) } else { Err(Fault::Checksum) }
            }
            _ => Err(Fault::Cut { whole: count, at: whole, len: bytes.len() }),
        }
    }
}

/// The size of a length field, in bytes.
const LEN_BYTES: usize = size_of::<u32>();
/// Marks the seal, in place of the length of another change.
const SEAL: [u8; LEN_BYTES] = [0xff; LEN_BYTES];
/// The length of the marker and the checksum, in bytes.
const SEAL_BYTES: usize = SEAL.len() + size_of::<u64>();

/// The checksum detects accidental damage. It does not protect against tampering.
fn checksum(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Why a journal entry is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The entry contains no change.
    #[error("no changes: the entry is empty or damaged from its first byte")]
    Empty,
    /// The entry is truncated or damaged.
    #[error("truncated or damaged after byte {at} of {len}: the first {whole} changes are used")]
    Cut {
        /// Number of intact changes.
        whole: usize,
        /// Length of the intact changes, in bytes.
        at: usize,
        /// Length of the entry, in bytes.
        len: usize,
    },
    /// A byte differs from what was written.
    #[error("wrong checksum: none of the changes is used")]
    Checksum,
}

impl Fault {
    /// Returns true if the readable changes may be used.
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

/// Takes a text that is preceded by its length, and returns it with the rest.
fn take(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    bytes.get(LEN_BYTES..)?.split_at_checked(len)
}

/// The lines of a user's state, and whether the last line is complete. An incomplete line is left out,
/// because it may look like a different one.
pub(super) fn lines(state: &[u8]) -> (impl Iterator<Item = &[u8]>, bool) {
    let end = state.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let whole = state.get(..end).unwrap_or(&[]);
    (whole.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()), end == state.len())
}

#[cfg(test)]
mod tests;
