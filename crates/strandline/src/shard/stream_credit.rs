//! Credit of streams with their own readers.

use strandline_proto::endpoint::StreamCredits;
use strandline_proto::event::AssociationId;

use super::cell::Cell;
use crate::engine::Engine;

/// Lets readers of single streams say what was read, if streams have credit: they may be registered before the set-up.
pub(crate) fn begin_credit(engine: &mut Engine, cell: &mut Cell, id: AssociationId) {
    let Some(routes) = &mut cell.routes else { return };
    if engine.status(id).is_some_and(|status| status.extensions.stream_credit) {
        let mut credits = StreamCredits::of(engine, id);
        credits.report_reads();
        routes.begin_credit(credits.unread_max());
    }
}
