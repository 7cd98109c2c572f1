//! The state shared by the handles of one association. Dropping the last handle shuts the association down.

use std::sync::Arc;

use strandline_proto::event::AssociationId as EngineId;

use crate::id::AssociationId;
use crate::shard::core::Shard;
use crate::stack::StackInner;

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) stack: Arc<StackInner>,
    pub(crate) id: AssociationId,
    /// False once the association has another owner.
    pub(crate) owned: bool,
}

impl Handle {
    pub(crate) fn new(stack: Arc<StackInner>, shard: u16, id: EngineId) -> Self {
        Self { stack, id: AssociationId { shard, id }, owned: true }
    }

    pub(crate) fn shard(&self) -> &Shard {
        self.stack.shard(self.id.shard)
    }

    /// Returns the engine's identifier of the association.
    pub(crate) fn id(&self) -> EngineId {
        self.id.id
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.owned {
            let id = self.id();
            self.shard().with(|state, now| state.orphan(now, id));
        }
    }
}
