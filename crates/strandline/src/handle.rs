//! What the handles of one association share; when the last is dropped, the association is shut down.

use std::sync::Arc;

use strandline_proto::event::AssociationId as EngineId;

use crate::id::AssociationId;
use crate::shard::core::Shard;
use crate::stack::StackInner;

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) stack: Arc<StackInner>,
    pub(crate) id: AssociationId,
    /// False once the association belongs to somebody else.
    pub(crate) owned: bool,
}

impl Handle {
    pub(crate) fn new(stack: Arc<StackInner>, shard: u16, id: EngineId) -> Self {
        Self { stack, id: AssociationId { shard, id }, owned: true }
    }

    pub(crate) fn shard(&self) -> &Shard {
        self.stack.shard(self.id.shard)
    }

    /// The engine's name for the association.
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
