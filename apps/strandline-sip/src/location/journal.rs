//! What a store has to write down.

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

    /// Address of record and bindings of each change in `bytes`. Ends at the first thing that is none.
    pub fn read(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
        let mut rest = bytes;
        let mut take = move || {
            let len = u32::from_le_bytes(*rest.first_chunk()?) as usize;
            let text = rest.get(4..4 + len)?;
            rest = rest.get(4 + len..)?;
            Some(text)
        };
        core::iter::from_fn(move || Some((take()?, take()?)))
    }
}
