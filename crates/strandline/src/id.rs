//! Identifiers of associations.

use std::fmt;

use strandline_proto::event::AssociationId as EngineId;

/// Identifies an association within its stack. An identifier is never reused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AssociationId {
    pub(crate) shard: u16,
    pub(crate) id: EngineId,
}

impl AssociationId {
    /// Returns the shard that the association is on, numbered from 0.
    #[must_use]
    pub fn shard(&self) -> usize {
        self.shard.into()
    }
}

impl fmt::Debug for AssociationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "association {self}")
    }
}

impl fmt::Display for AssociationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.shard, self.id.slot, self.id.generation)
    }
}
