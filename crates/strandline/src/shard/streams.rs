//! Operations with streams that are opened and closed at run time.

use std::task::Poll;

use bytes::Bytes;
use strandline_proto::endpoint::{DynamicStreams as Engine, StreamCredits, StreamValue};
use strandline_proto::error::SendError as EngineSendError;
use strandline_proto::event::{AssociationId, CloseReason, Event, Message};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{DynamicStreamsEvent, OpenedBy, Outcome, StreamDirection, Streams};
use strandline_proto::stats::AssociationState;
use strandline_proto::time::Time;

use super::dynamic_streams::{Dynamic, Growth, Key, Receiving, Sending, Taken};
use super::one_to_one::routes_limit;
use super::routes::Routes;
use super::state::State;
use super::stream_credit::begin_credit;
use super::table::{dynamic_of, route};
use crate::dynamic_streams::DynamicStreams;
use crate::error::{Ended, FinishError, OpenStreamError, RecvError, SendError};

/// The streams of a shard's associations that are opened and closed at run time.
pub(crate) struct DynamicOf<'a> {
    state: &'a mut State,
}

/// Returns whether nothing can be sent on a stream any more, so that its senders need not wait.
pub(crate) fn is_refused(state: &State, id: AssociationId, dynamic: Option<Key>) -> bool {
    let Some(key) = dynamic else { return false };
    let cell = state.table.get(id).and_then(|entry| entry.cell.as_deref());
    let dynamic = cell.and_then(|cell| cell.routes.as_ref()?.dynamic.as_deref());
    dynamic.is_none_or(|dynamic| dynamic.sending(key) != Some(Sending::Open))
}

impl<'a> DynamicOf<'a> {
    pub(crate) const fn of(state: &'a mut State) -> Self {
        Self { state }
    }

    /// Makes streams dynamic.
    pub(crate) fn begin_dynamic(
        &mut self,
        now: Time,
        id: AssociationId,
        settings: DynamicStreams,
    ) -> Result<(), OpenStreamError> {
        let limit = routes_limit(&self.state.engine, id).ok_or(OpenStreamError::Ended)?;
        let cell = self.state.table.cell_mut(id).ok_or(OpenStreamError::Ended)?;
        let routes = cell.routes.get_or_insert_with(|| Box::new(Routes::new(limit, &self.state.taken)));
        if routes.dynamic.is_some() || routes.has_claimed_from(settings.first) {
            return Err(OpenStreamError::AlreadyOpen);
        }
        Engine::of(&mut self.state.engine, id).begin(settings.first).map_err(|_| OpenStreamError::Ended)?;
        let mut dynamic = Dynamic::new(settings);
        dynamic.set_even(Engine::of(&mut self.state.engine, id).opens_even());
        routes.dynamic = Some(Box::new(dynamic));
        let discarded = routes.hand_over_rest(&mut cell.read, &mut self.state.to_wake);
        begin_credit(&mut self.state.engine, cell, id);
        for (stream, len) in discarded {
            StreamCredits::of(&mut self.state.engine, id).read(now, stream, len);
        }
        self.state.route_now(now, id);
        Ok(())
    }

    fn dynamic(&mut self, id: AssociationId) -> Option<&mut Dynamic> {
        dynamic_of(&mut self.state.table, id)
    }

    /// Begins with streams once the association is established. Those that were opened before must still be what the
    /// peer takes them for: otherwise it has restarted meanwhile, the association is aborted, and this returns false.
    pub(crate) fn on_established(&mut self, id: AssociationId) -> bool {
        let by_tags = Engine::of(&mut self.state.engine, id).opens_even();
        let status = self.state.engine.status(id);
        let streams = status.map_or(0, |status| status.outbound_streams.min(status.inbound_streams));
        if self.dynamic(id).is_none_or(|dynamic| dynamic.remains(by_tags, streams)) {
            self.set_even(id);
            return true;
        }
        let why = Bytes::from_static(b"streams were opened by an earlier INIT ACK, and are not the same now");
        // It has just been established.
        let _ = self.state.engine.abort(self.state.now, id, why);
        false
    }

    /// Learns from the association who opens which streams: the INIT ACK has come, it is established, or was
    /// restarted.
    pub(crate) fn set_even(&mut self, id: AssociationId) {
        let by_tags = Engine::of(&mut self.state.engine, id).opens_even();
        let mut to_wake = std::mem::take(&mut self.state.to_wake);
        if let Some(dynamic) = self.dynamic(id) {
            dynamic.set_even(by_tags);
            dynamic.openers.wake_next(&mut to_wake);
            dynamic.takers.wake_all(&mut to_wake);
        }
        self.state.to_wake = to_wake;
    }

    /// Opens a stream with a free number; pending while there is none.
    pub(crate) fn poll_open_stream(
        &mut self,
        now: Time,
        id: AssociationId,
    ) -> Poll<Result<Key, OpenStreamError>> {
        if self.state.gone {
            return Poll::Ready(Err(OpenStreamError::Ended));
        }
        let Some(status) = self.state.engine.status(id) else {
            return Poll::Ready(Err(OpenStreamError::Ended));
        };
        let Some(dynamic) = self.dynamic(id) else { return Poll::Ready(Err(OpenStreamError::NotDynamic)) };
        match status.state {
            AssociationState::Established | AssociationState::CookieEchoed => {}
            state if state.in_setup() => return Poll::Pending,
            _ => return Poll::Ready(Err(OpenStreamError::Ended)),
        }
        if !status.extensions.stream_reconfiguration {
            return Poll::Ready(Err(OpenStreamError::NotSupported));
        }
        let streams = status.outbound_streams.min(status.inbound_streams);
        if let Some(key) = dynamic.take_number(streams) {
            self.forget_value(id, key);
            return Poll::Ready(Ok(key));
        }
        if dynamic.growth == Growth::Idle && streams < u16::MAX {
            dynamic.growth = Growth::Asked(streams);
            let wanted = streams.saturating_mul(2);
            let (outgoing, incoming) = (
                wanted.saturating_sub(status.outbound_streams),
                wanted.saturating_sub(status.inbound_streams),
            );
            Engine::of(&mut self.state.engine, id).add(now, outgoing, incoming);
        }
        Poll::Pending
    }

    /// Sets the stream's parameter for the scheduler to that of a new stream: it may have been set while the
    /// number was not in use.
    fn forget_value(&mut self, id: AssociationId, Key { stream, .. }: Key) {
        let engine = &mut self.state.engine;
        if StreamValue::of(engine, id, stream).is_ok_and(|found| found.value != 0) {
            // The association has the stream.
            let _ = StreamValue { stream, value: 0 }.set(engine, id);
        }
    }

    /// Returns the next stream that the peer has opened.
    pub(crate) fn poll_accept_stream(&mut self, id: AssociationId) -> Poll<Result<Key, OpenStreamError>> {
        let status = self.state.engine.status(id);
        let gone = self.state.gone;
        let Some(cell) = self.state.table.cell_mut(id) else {
            return Poll::Ready(Err(OpenStreamError::Ended));
        };
        let stalled = cell.routes.as_ref().is_some_and(|routes| routes.is_full());
        let ended = (cell.outcome.is_some() || cell.peer_done) && !stalled;
        let dynamic = cell.routes.as_mut().and_then(|routes| routes.dynamic.as_deref_mut());
        let Some(dynamic) = dynamic else { return Poll::Ready(Err(OpenStreamError::NotDynamic)) };
        if let Some(key) = dynamic.accept() {
            self.forget_value(id, key);
            return Poll::Ready(Ok(key));
        }
        let lacks = |status: &strandline_proto::stats::Status| {
            !status.state.in_setup() && !status.extensions.stream_reconfiguration
        };
        match status {
            _ if ended || gone => Poll::Ready(Err(OpenStreamError::Ended)),
            Some(status) if lacks(&status) => Poll::Ready(Err(OpenStreamError::NotSupported)),
            Some(_) => Poll::Pending,
            None => Poll::Ready(Err(OpenStreamError::Ended)),
        }
    }

    /// Returns why nothing can be sent on a stream.
    pub(crate) fn check_sending(&mut self, id: AssociationId, key: Key) -> Result<(), SendError> {
        let Some(dynamic) = self.dynamic(id) else { return Err(SendError::Finished) };
        match dynamic.sending(key) {
            Some(Sending::Open) => Ok(()),
            Some(Sending::Stopped) => Err(SendError::Stopped),
            Some(Sending::Closing | Sending::Closed | Sending::Refused) => Err(SendError::Finished),
            None if dynamic.was_stopped(key) => Err(SendError::Stopped),
            None if dynamic.is_lost(key) => Err(SendError::Lost),
            None => Err(SendError::Finished),
        }
    }

    /// Sends a message on a dynamic stream. `give` passes it to the engine.
    pub(crate) fn poll_send_dynamic(
        &mut self,
        now: Time,
        id: AssociationId,
        key: Key,
        len: usize,
        give: impl FnOnce(&mut crate::engine::Engine) -> Result<(), EngineSendError>,
    ) -> Poll<Result<(), SendError>> {
        if let Err(error) = self.check_sending(id, key) {
            return Poll::Ready(Err(error));
        }
        let sent = self.state.poll_give(id, len, give);
        if let Poll::Ready(Ok(())) = sent {
            self.make_known(now, id, key);
        }
        sent
    }

    /// Records that the peer learns of a stream. It is asked to stop it if the reader has gone before.
    fn make_known(&mut self, now: Time, id: AssociationId, key: Key) {
        let Some(open) = self.dynamic(id).and_then(|dynamic| dynamic.get_mut(key)) else { return };
        let was_known = std::mem::replace(&mut open.is_known, true);
        if !was_known && open.receiving == Receiving::Discarding {
            self.stop_in_engine(now, id, key.stream);
        }
    }

    fn stop_in_engine(&mut self, now: Time, id: AssociationId, stream: StreamId) {
        let Some(dynamic) = self.dynamic(id) else { return };
        let opened_by = dynamic.stop_request_opener(stream);
        Engine::of(&mut self.state.engine, id).stop(now, stream, opened_by);
    }

    /// Finishes the outgoing direction of a stream.
    pub(crate) fn finish(&mut self, now: Time, id: AssociationId, key: Key) -> Result<(), SendError> {
        match self.check_sending(id, key) {
            Err(SendError::Finished) if !self.is_over(id) => return Ok(()),
            Err(error) => return Err(error),
            Ok(()) => {}
        }
        if let Some(open) = self.dynamic(id).and_then(|dynamic| dynamic.get_mut(key)) {
            open.sending = Sending::Closing;
        }
        Engine::of(&mut self.state.engine, id).close(now, key.stream);
        self.make_known(now, id, key);
        Ok(())
    }

    fn is_over(&mut self, id: AssociationId) -> bool {
        self.state.gone || self.state.table.cell_mut(id).is_none_or(|cell| cell.outcome.is_some())
    }

    /// Ends the outgoing direction of a stream, unless it was finished, because its writer is dropped.
    pub(crate) fn reset_sending(&mut self, now: Time, id: AssociationId, key: Key) {
        let is_open = self.check_sending(id, key).is_ok();
        let Some(dynamic) = self.dynamic(id) else { return };
        dynamic.forget_stop(key);
        if !is_open {
            return;
        }
        let Some(open) = dynamic.get_mut(key) else { return };
        if !open.is_known && open.receiving == Receiving::Discarding {
            // It was never used.
            if dynamic.forget(key.stream) {
                let mut to_wake = std::mem::take(&mut self.state.to_wake);
                if let Some(dynamic) = self.dynamic(id) {
                    dynamic.openers.wake_next(&mut to_wake);
                }
                self.state.to_wake = to_wake;
            }
            return;
        }
        open.sending = Sending::Closing;
        self.reset_in_engine(now, id, key.stream);
        self.make_known(now, id, key);
    }

    /// Resets a stream in the engine. If the peer can't be told, its number is not used again.
    fn reset_in_engine(&mut self, now: Time, id: AssociationId, stream: StreamId) {
        let can_tell =
            self.state.engine.status(id).is_some_and(|status| status.extensions.partial_reliability);
        Engine::of(&mut self.state.engine, id).reset(now, stream);
        if !can_tell
            && let Some(dynamic) =
                self.state.table.cell_mut(id).and_then(|cell| cell.routes.as_mut()?.dynamic.as_mut())
        {
            dynamic.on_closed(stream, false, &mut self.state.to_wake);
        }
    }

    /// Waits until the peer has everything of a finished stream.
    pub(crate) fn poll_finished(&mut self, id: AssociationId, key: Key) -> Poll<Result<(), FinishError>> {
        let (gone, outcome) =
            (self.state.gone, self.state.table.cell_mut(id).and_then(|cell| cell.outcome.clone()));
        let Some(dynamic) = self.dynamic(id) else { return Poll::Ready(Err(FinishError::Lost)) };
        match dynamic.sending(key) {
            Some(Sending::Closed) | None if dynamic.was_stopped(key) => {
                Poll::Ready(Err(FinishError::Stopped))
            }
            Some(Sending::Closed) => Poll::Ready(Ok(())),
            Some(Sending::Stopped) => Poll::Ready(Err(FinishError::Stopped)),
            Some(Sending::Refused) => Poll::Ready(Err(FinishError::Refused)),
            None if dynamic.is_lost(key) => Poll::Ready(Err(FinishError::Lost)),
            None => Poll::Ready(Ok(())),
            Some(Sending::Open | Sending::Closing) => match outcome {
                Some(reason) => Poll::Ready(Err(FinishError::Ended(Ended::of(&reason)))),
                None if gone => Poll::Ready(Err(FinishError::Ended(Ended::StackClosed))),
                None => Poll::Pending,
            },
        }
    }

    /// Receives the next message of a dynamic stream; `None` at its end.
    pub(crate) fn poll_recv_dynamic(
        &mut self,
        now: Time,
        id: AssociationId,
        key: Key,
    ) -> Poll<Result<Option<Message>, RecvError>> {
        let Some(cell) = self.state.table.cell_mut(id) else {
            return Poll::Ready(Err(RecvError::Unfinished));
        };
        let Some(routes) = cell.routes.as_mut() else { return Poll::Ready(Err(RecvError::Unfinished)) };
        let was_full = routes.is_full();
        let (taken, counts) = routes.take_dynamic(key);
        match taken {
            Taken::Message(message) => {
                if counts {
                    StreamCredits::of(&mut self.state.engine, id).read(now, key.stream, message.data.len());
                }
                if was_full {
                    route(&mut self.state.to_route, id);
                }
                return Poll::Ready(Ok(Some(message)));
            }
            Taken::End => return Poll::Ready(Ok(None)),
            Taken::Error(error) => return Poll::Ready(Err(error)),
            Taken::Nothing => {}
        }
        // Unread messages of other streams may keep some of this one in the engine.
        let stalled = routes.is_full() || routes.dynamic.as_ref().is_some_and(|d| d.awaits_messages());
        match &cell.outcome {
            _ if stalled && !self.state.gone => Poll::Pending,
            _ if stalled => Poll::Ready(Err(Ended::StackClosed.into())),
            Some(reason) if **reason == CloseReason::Shutdown => Poll::Ready(Err(RecvError::Unfinished)),
            Some(reason) => Poll::Ready(Err(Ended::of(reason).into())),
            None if cell.peer_done => Poll::Ready(Err(RecvError::Unfinished)),
            None if self.state.gone => Poll::Ready(Err(Ended::StackClosed.into())),
            None => Poll::Pending,
        }
    }

    /// Removes the reader of a dynamic stream: what arrives from now on is discarded, and the peer is asked to stop.
    pub(crate) fn stop_reading(&mut self, now: Time, id: AssociationId, key: Key) {
        let Some(routes) = self.state.table.cell_mut(id).and_then(|cell| cell.routes.as_mut()) else {
            return;
        };
        let was_full = routes.is_full();
        let unread = routes.drop_dynamic(key);
        if unread > 0 {
            StreamCredits::of(&mut self.state.engine, id).read(now, key.stream, unread);
        }
        if let Some(open) = self.dynamic(id).and_then(|dynamic| dynamic.get_mut(key))
            && open.receiving == Receiving::Open
        {
            open.receiving = Receiving::Discarding;
            if open.is_known {
                self.stop_in_engine(now, id, key.stream);
            }
        }
        if was_full {
            route(&mut self.state.to_route, id);
        }
    }

    /// Handles an event about dynamic streams.
    pub(crate) fn on_dynamic(&mut self, id: AssociationId, event: &DynamicStreamsEvent) {
        let Some(cell) = self.state.table.cell_mut(id) else { return };
        let Some(dynamic) = cell.routes.as_mut().and_then(|routes| routes.dynamic.as_deref_mut()) else {
            return;
        };
        match event {
            DynamicStreamsEvent::Agreed => {
                // What tasks send now travels with the COOKIE ECHO.
                self.state.readable = true;
                self.set_even(id);
            }
            DynamicStreamsEvent::Ended { streams, unread } => {
                dynamic
                    .note_ends(*unread, streams.iter().map(|(stream, ssn)| (*stream, Some(*ssn))).collect());
                route(&mut self.state.to_route, id);
            }
            DynamicStreamsEvent::Closed { streams, outcome } => {
                let performed = *outcome == Outcome::Performed;
                let to_wake = &mut self.state.to_wake;
                let mut freed = false;
                for stream in streams {
                    freed |= dynamic.on_closed(*stream, performed, to_wake);
                }
                if freed {
                    dynamic.openers.wake_next(to_wake);
                }
                // Some must be stopped.
                route(&mut self.state.to_route, id);
            }
            DynamicStreamsEvent::Stopped { streams, unread } => {
                dynamic.note_stops(*unread, streams.clone());
                route(&mut self.state.to_route, id);
            }
        }
    }

    /// Handles an event about all streams, which concerns dynamic ones, too.
    pub(crate) fn on_numbers(&mut self, id: AssociationId, event: &Event) {
        let gone = self.state.gone;
        let mut to_wake = std::mem::take(&mut self.state.to_wake);
        if let Some(dynamic) = self.dynamic(id).filter(|_| !gone) {
            match event {
                Event::Restarted { unread, .. } => dynamic.note_loss(*unread, RecvError::Restarted),
                Event::AssociationReset { outcome: Outcome::Performed, unread, .. } => {
                    dynamic.note_loss(*unread, RecvError::Reset);
                }
                Event::StreamsReset {
                    direction: StreamDirection::Incoming | StreamDirection::Both,
                    streams: Streams::All,
                    outcome: Outcome::Performed,
                    unread,
                } => dynamic.note_all(*unread),
                Event::StreamsChanged { outcome, outbound_streams, inbound_streams } => {
                    let streams = *outbound_streams.min(inbound_streams);
                    match (outcome, dynamic.growth) {
                        (Outcome::Performed, Growth::Asked(before)) if streams <= before => {}
                        (Outcome::Performed, _) => dynamic.growth = Growth::Idle,
                        _ => dynamic.growth = Growth::Refused,
                    }
                    dynamic.openers.wake_next(&mut to_wake);
                }
                _ => {}
            }
        }
        self.state.to_wake = to_wake;
    }

    /// Closes and stops what must be.
    pub(crate) fn apply_dynamic(&mut self, now: Time, id: AssociationId) {
        let Some(dynamic) = self.dynamic(id) else { return };
        if let Some(denies) = dynamic.take_denial() {
            Engine::of(&mut self.state.engine, id).deny_resets(denies);
        }
        let Some(dynamic) = self.dynamic(id) else { return };
        if dynamic.to_reset.is_empty() && dynamic.to_stop.is_empty() {
            return;
        }
        let (resets, stops) = (std::mem::take(&mut dynamic.to_reset), std::mem::take(&mut dynamic.to_stop));
        let can_tell =
            self.state.engine.status(id).is_some_and(|status| status.extensions.partial_reliability);
        for stream in resets {
            // The peer does not read it: it need not see whether it is complete.
            let mut streams = Engine::of(&mut self.state.engine, id);
            if can_tell { streams.reset(now, stream) } else { streams.close(now, stream) }
        }
        for stream in stops {
            Engine::of(&mut self.state.engine, id).stop(now, stream, OpenedBy::Peer);
        }
    }
}
