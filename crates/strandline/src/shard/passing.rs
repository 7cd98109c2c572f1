//! Messages that need not wait for those of other streams, and the reason why one waits.

use std::task::Poll;

use strandline_proto::event::AssociationId;
use strandline_proto::number::StreamId;

use super::place::Place;
use super::state::State;
use crate::wait::Line;

fn line(state: &State, id: AssociationId) -> Option<&Line> {
    Some(&state.table.get(id)?.cell.as_deref()?.write)
}

/// Returns whether a message waits for room on its stream, which its reader makes.
pub(crate) fn waits_for_reader(state: &State, id: AssociationId, stream: StreamId) -> bool {
    line(state, id).is_some_and(|line| line.is_behind(None, stream))
}

/// Tries for a sender that is not queued and will not wait. Pending if others wait, unless its stream has
/// nothing queued, and so room of its own.
pub(crate) fn try_in_turn<T>(
    state: &mut State,
    id: AssociationId,
    (stream, len): (StreamId, usize),
    run: impl FnOnce(&mut State) -> Poll<T>,
) -> Poll<T> {
    let is_turn = state.is_turn(Place::Write(id, stream), None);
    let passes = || {
        let waits = line(state, id).is_some_and(|line| line.has(stream));
        !waits && state.engine.fits_reserve(id, stream, len)
    };
    if is_turn || passes() { run(state) } else { Poll::Pending }
}
