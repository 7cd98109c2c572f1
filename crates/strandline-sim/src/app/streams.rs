//! What happens at positions among the messages, and streams that are opened and closed at run time.

use strandline_proto::endpoint::DynamicStreams;
use strandline_proto::event::Event;
use strandline_proto::number::StreamId;
use strandline_proto::stats::Status;

use super::{App, Context};
use crate::dynamic_streams::Step;
use crate::notes::Note;
use crate::unread::Boundary;
use crate::violation::{Violation, demand, violation};

impl App {
    /// Passes a position among the messages.
    pub(super) fn pass(&mut self, cx: &mut Context<'_>, boundary: Boundary) -> Result<(), Violation> {
        let (end, peer) = (self.end, self.peer_host);
        match boundary {
            Boundary::Reset(streams) => cx.ledger.reset(end, &streams),
            Boundary::Cut(stream) => cx.ledger.cut(end, peer, stream)?,
            Boundary::Restarted => {
                cx.ledger.passed_restart(end);
                let even = DynamicStreams::of(cx.endpoint, end.id).opens_even();
                if let Some(dynamics) = &mut self.habits.dynamics {
                    dynamics.on_restarted(even);
                }
            }
            Boundary::Ended(streams) => {
                for (stream, next) in streams {
                    cx.ledger.ended(end, peer, stream, next)?;
                    let honest = !cx.ledger.is_tampered(end.host, peer);
                    let was_open =
                        self.habits.dynamics.as_mut().is_some_and(|dynamics| dynamics.on_ended(stream.0));
                    demand(was_open || !honest, || {
                        format!(
                            "{end:?}: stream {stream} ends, which was not open: {:?}",
                            self.habits.dynamics
                        )
                    })?;
                }
            }
            Boundary::Stopped(streams) => {
                let may_reset = self.may_reset(cx);
                for stream in streams {
                    let dynamics = self.habits.dynamics.as_mut().filter(|_| !self.shutting_down);
                    if let Some(step) = dynamics.and_then(|dynamics| dynamics.on_stopped(stream.0, may_reset))
                    {
                        self.take(cx, step)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Makes the streams of the plan dynamic, unless the association has ended at once.
    pub(super) fn begin_dynamic(&mut self, cx: &mut Context<'_>) {
        let Some(dynamics) = &mut self.habits.dynamics else { return };
        let mut streams = DynamicStreams::of(cx.endpoint, self.end.id);
        if streams.begin(StreamId(dynamics.plan.first)).is_ok() {
            dynamics.set_even(streams.opens_even());
        }
    }

    /// Reacts to an event of dynamic streams.
    pub(super) fn on_dynamic_event(&mut self, cx: &Context<'_>, event: &Event) -> Result<(), Violation> {
        let end = self.end;
        let (Some(dynamics), Event::DynamicStreams(streams)) = (&mut self.habits.dynamics, event) else {
            return violation(format!("{end:?}: {event:?}, but no streams are dynamic"));
        };
        let honest = !cx.ledger.is_tampered(end.host, self.peer_host);
        match dynamics.on_event(streams) {
            Err(Violation(what)) if honest => return violation(format!("{end:?}: {what}")),
            _ => {}
        }
        self.boundaries.on_event(event, honest)
    }

    /// Reacts to a message, or a part of one.
    pub(super) fn on_dynamic_message(&mut self, cx: &Context<'_>, stream: StreamId) -> Result<(), Violation> {
        let Some(dynamics) = &mut self.habits.dynamics else { return Ok(()) };
        let stray = dynamics.on_message(stream.0);
        demand(!stray || cx.ledger.is_tampered(self.end.host, self.peer_host), || {
            format!("{:?}: a message of stream {stream}, which is not open: {dynamics:?}", self.end)
        })
    }

    fn may_reset(&self, cx: &Context<'_>) -> bool {
        let status = cx.endpoint.status(self.end.id);
        status.is_some_and(|status| status.extensions.partial_reliability)
    }

    /// Opens, uses and closes streams.
    pub(super) fn use_dynamic(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        let may_reset = self.may_reset(cx);
        let active = self.up && !self.shutting_down && !self.peer_shut_down && self.calm.is_none();
        let Some(dynamics) = self.habits.dynamics.as_mut().filter(|_| active) else { return Ok(()) };
        let Some(status) = cx.endpoint.status(self.end.id) else { return Ok(()) };
        let streams = status.outbound_streams.min(status.inbound_streams);
        let (steps, next) = dynamics.act(cx.now, streams, may_reset);
        for step in steps {
            self.take(cx, step)?;
        }
        self.wake_once(cx, 4, next);
        Ok(())
    }

    /// Takes a step. Messages that can't be sent now are left out.
    fn take(&mut self, cx: &mut Context<'_>, step: Step) -> Result<(), Violation> {
        let (now, end) = (cx.now, self.end);
        let Some(dynamics) = &mut self.habits.dynamics else { return Ok(()) };
        match step {
            Step::Send(stream) => {
                // The peer may open a stream that it has just added for this side, whose response is lost or late.
                let has_it = |status: Status| stream < status.outbound_streams;
                let exists = cx.endpoint.status(end.id).is_some_and(has_it);
                if self.blocked || !exists || !dynamics.is_open(stream) {
                    return Ok(());
                }
                let sizes = self.plan.sizes;
                let len = cx.random.log_range(sizes.first, sizes.last) as usize;
                let unordered = cx.random.chance(self.plan.unordered);
                if self.give(cx, stream, unordered, len)?
                    && let Some(dynamics) = &mut self.habits.dynamics
                {
                    dynamics.on_given(stream);
                }
            }
            Step::Close(stream) => {
                if dynamics.on_closing(stream) {
                    cx.ledger.closes(end, stream, true);
                    DynamicStreams::of(cx.endpoint, end.id).close(now, StreamId(stream));
                }
            }
            Step::Reset(stream) => {
                if dynamics.on_closing(stream) {
                    cx.ledger.closes(end, stream, false);
                    cx.notes.push((end.id, Note::Reset(stream)));
                    DynamicStreams::of(cx.endpoint, end.id).reset(now, StreamId(stream));
                }
            }
            Step::Stop(stream, by) => DynamicStreams::of(cx.endpoint, end.id).stop(now, StreamId(stream), by),
        }
        Ok(())
    }
}
