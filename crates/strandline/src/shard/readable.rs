//! Whether sockets and associations are ready: the next call that takes or gives something would not wait.

use std::task::Poll;

use strandline_proto::endpoint::Operation;
use strandline_proto::event::AssociationId;
use strandline_proto::number::StreamId;

use super::state::State;
use super::table::Owner;

/// What a socket has on one shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Has {
    /// Something to take: a message, an association, or an error.
    Something,
    /// Nothing, and nothing will come.
    Finished,
}

/// Ready once [`State::poll_recv`] would return a message, the end or an error.
pub(crate) fn poll_readable(state: &mut State, id: AssociationId) -> Poll<()> {
    let Some(cell) = state.table.cell_mut(id) else { return Poll::Ready(()) };
    let (readable, stalled) = match &cell.routes {
        None => {
            let cut = cell.restarts.as_ref().is_some_and(|restarts| restarts.cut_is_due());
            (cut || !Operation::Recv.would_block(&mut state.engine, id), false)
        }
        Some(routes) => (routes.has_rest(), routes.is_full()),
    };
    let ended = !stalled && (cell.outcome.is_some() || cell.peer_done);
    if readable || ended || state.gone { Poll::Ready(()) } else { Poll::Pending }
}

/// Ready once [`State::poll_send`] would take a short message, of this stream, or the one that it refused
/// last, or fail.
pub(crate) fn poll_writable(state: &mut State, id: AssociationId, stream: Option<StreamId>) -> Poll<()> {
    let operation = stream.map_or(Operation::Send, Operation::SendOn);
    if state.gone || !operation.would_block(&mut state.engine, id) {
        return Poll::Ready(());
    }
    // If the send buffer has room, the stream alone has none.
    state.blocked_stream = stream.filter(|_| !Operation::Send.would_block(&mut state.engine, id));
    Poll::Pending
}

/// Ready once [`State::poll_accept`] would be.
pub(crate) fn poll_acceptable(state: &mut State, socket: u32) -> Poll<Has> {
    match state.sockets.listener(socket) {
        Some(listener) if !listener.queue.is_empty() => Poll::Ready(Has::Something),
        _ if state.gone => Poll::Ready(Has::Something),
        Some(listener) if !listener.stopped => Poll::Pending,
        _ => Poll::Ready(Has::Finished),
    }
}

/// Ready once [`State::poll_recv_many`] would be.
pub(crate) fn poll_readable_many(state: &mut State, socket: u32) -> Poll<Has> {
    while let Some(many) = state.sockets.many(socket)
        && let Some(id) = many.ready.front().copied()
    {
        let entry = state.table.get_mut(id).filter(|entry| entry.owner() == Some(Owner::OneToMany(socket)));
        if entry.is_some() && !Operation::Recv.would_block(&mut state.engine, id) {
            return Poll::Ready(Has::Something);
        }
        leave_front(state, socket, id);
    }
    match () {
        () if state.gone => Poll::Ready(Has::Something),
        () if state.is_finished_many(socket) => Poll::Ready(Has::Finished),
        () => Poll::Pending,
    }
}

/// Removes an association without messages from the front of an endpoint's readable ones. It may have ended,
/// or have been peeled off.
pub(crate) fn leave_front(state: &mut State, socket: u32, id: AssociationId) {
    let Some(many) = state.sockets.many(socket) else { return };
    many.ready.pop_front();
    many.turn = 0;
    let entry = state.table.get_mut(id).filter(|entry| entry.owner() == Some(Owner::OneToMany(socket)));
    let Some(entry) = entry else { return };
    entry.queued = false;
    if let Some(reason) = entry.cell.as_mut().and_then(|cell| cell.outcome.take()) {
        state.endpoint_closed(socket, id, *reason);
    }
}

/// Ready once [`State::poll_notification`] would be, and if nobody subscribed.
pub(crate) fn poll_notified(state: &mut State, id: AssociationId) -> Poll<()> {
    let Some(cell) = state.table.cell_mut(id) else { return Poll::Ready(()) };
    let waits = cell.notifications.as_ref().is_some_and(|queue| queue.is_empty()) && cell.outcome.is_none();
    if waits && !state.gone { Poll::Pending } else { Poll::Ready(()) }
}

/// Ready once [`State::poll_notification_many`] would be, and if nobody subscribed.
pub(crate) fn poll_notified_many(state: &mut State, socket: u32) -> Poll<Has> {
    let queue = state.sockets.many(socket).and_then(|many| many.notifications.as_ref());
    match queue.map(|queue| queue.is_empty()) {
        _ if state.gone => Poll::Ready(Has::Something),
        None | Some(false) => Poll::Ready(Has::Something),
        Some(true) if state.is_finished_many(socket) => Poll::Ready(Has::Finished),
        Some(true) => Poll::Pending,
    }
}
