//! An application's behaviour on one association: sends, reads (at once or with pauses), echoes, shuts down, aborts.

mod closed;
mod streams;
#[cfg(test)]
mod tests;

use core::time::Duration;
use std::collections::VecDeque;

use bytes::Bytes;
use strandline_proto::endpoint::{Endpoint, StreamCredits};
use strandline_proto::error::SendError;
use strandline_proto::event::{AssociationId, CloseReason, Event};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::Outcome;
use strandline_proto::reliability::Reliability;
use strandline_proto::time::Time;

use crate::dynamic_streams::{DynamicPlan, Dynamics};
use crate::keys::{KeyPlan, Keying};
use crate::ledger::{End, Ledger, Route};
use crate::limits::{LimitPlan, Limits};
use crate::notes::Note;
use crate::random::Random;
use crate::reconfiguration::{ReconfigurePlan, Reconfiguring};
use crate::relocation::{Relocating, RelocationPlan, outcome_of};
use crate::scheduling::{SchedulePlan, Scheduling};
use crate::unread::{Boundaries, counts_unread};
use crate::violation::{Violation, demand, violation};

/// Maximum number of echoes waiting to be sent. The application then stops reading.
const ECHOES_MAX: usize = 4;

/// Range of message lengths in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sizes {
    pub(crate) first: u64,
    pub(crate) last: u64,
}

/// How an application reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reading {
    /// Everything at once.
    Prompt,
    /// A few messages, then a pause.
    Pauses { batch: u32, pause_max: Duration },
}

/// How an application ends an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Not by itself.
    Never,
    /// Graceful shutdown once everything was sent.
    WhenSent,
    /// Graceful shutdown once as many messages came back as were sent.
    WhenEchoed,
    /// Graceful shutdown this long after the set-up.
    Shutdown(Duration),
    /// Abort this long after the set-up.
    Abort(Duration),
}

/// The plan of an application.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) messages: u32,
    pub(crate) sizes: Sizes,
    pub(crate) streams: u16,
    /// Probability that a message is unordered.
    pub(crate) unordered: f64,
    /// Probability that a message asks for an immediate acknowledgement.
    pub(crate) immediate: f64,
    /// Maximum pause between messages; zero sends as fast as the buffer accepts them.
    pub(crate) gap_max: Duration,
    pub(crate) reading: Reading,
    pub(crate) echo: bool,
    pub(crate) ending: Ending,
    /// Requests to reconfigure streams; `None` for an application that makes none.
    pub(crate) reconfigure: Option<ReconfigurePlan>,
    /// Changes of the order of messages; `None` for an application that makes none.
    pub(crate) schedule: Option<SchedulePlan>,
    /// Limits of its messages; `None` for an application that gives none up.
    pub(crate) limits: Option<LimitPlan>,
    /// Changes of its host's addresses; `None` for an application that makes none.
    pub(crate) relocate: Option<RelocationPlan>,
    /// Changes of shared keys; `None` for an application that makes none.
    pub(crate) keys: Option<KeyPlan>,
    /// Streams that are opened and closed at run time; `None` if there are none.
    pub(crate) dynamic: Option<DynamicPlan>,
}

impl Plan {
    /// Returns how many of `streams` are ordinary ones.
    fn ordinary(&self, streams: u16) -> u16 {
        self.dynamic.map_or(streams, |plan| streams.min(plan.first))
    }
}

/// The environment of an application.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) endpoint: &'a mut Endpoint,
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) random: &'a mut Random,
    /// How long after the last fault an association may still end because of it.
    pub(crate) last_expiry: Duration,
    /// Age from which on a host may have dropped the key of a cookie.
    pub(crate) keys_last: Duration,
    /// When applications want to act next.
    pub(crate) wakes: &'a mut Vec<(Time, AssociationId)>,
    /// What applications have done that no packet shows.
    pub(crate) notes: &'a mut Vec<(AssociationId, Note)>,
    /// Events that an application has caused and that it must heed next.
    pub(crate) caused: &'a mut VecDeque<(AssociationId, Event)>,
}

impl Context<'_> {
    /// Takes the events that an application has caused. Returns true if one of them counts the messages that are not
    /// read yet: those that are read before it is heeded would count as well.
    fn take_caused(&mut self) -> bool {
        self.caused.extend(core::iter::from_fn(|| self.endpoint.poll_event()));
        self.caused.iter().any(|(_, event)| counts_unread(event))
    }
}

/// When an application does something next.
#[derive(Debug, Default)]
struct Times {
    next_send: Time,
    next_read: Time,
    /// When the next schedule, reset, move, change of keys and dynamic stream were last asked for: each act
    /// would ask for them again.
    asked: [Option<Time>; 5],
}

/// What an application does besides sending and reading.
#[derive(Debug)]
struct Habits {
    reconfiguring: Option<Reconfiguring>,
    scheduling: Option<Scheduling>,
    limits: Option<Limits>,
    relocating: Option<Relocating>,
    keying: Option<Keying>,
    dynamics: Option<Dynamics>,
}

impl Habits {
    fn new(now: Time, plan: &Plan) -> Self {
        Self {
            reconfiguring: plan.reconfigure.map(|plan| Reconfiguring::new(now, plan)),
            scheduling: plan.schedule.map(|plan| Scheduling::new(now, plan)),
            limits: plan.limits.map(Limits::new),
            relocating: plan.relocate.clone().map(|plan| Relocating::new(now, plan)),
            keying: plan.keys.map(|plan| Keying::new(now, plan)),
            dynamics: plan.dynamic.map(|plan| Dynamics::new(now, plan)),
        }
    }
}

/// The state of an application.
#[derive(Debug)]
pub(crate) struct App {
    pub(crate) end: End,
    pub(crate) peer_host: usize,
    /// Index of the scenario's client, if it connected.
    pub(crate) client: Option<usize>,
    pub(crate) closed: Option<CloseReason>,
    /// When it was created.
    began: Time,
    plan: Plan,
    tags: (u32, u32),
    up: bool,
    ends_at: Option<Time>,
    left: u32,
    sent: u32,
    received: u32,
    echoes: VecDeque<(u16, bool, usize)>,
    blocked: bool,
    readable: bool,
    times: Times,
    shutting_down: bool,
    peer_shut_down: bool,
    /// True if there are fewer streams than an event has reported: only a restart takes some away, and its own event
    /// follows that of a request which it ends.
    restart_due: bool,
    /// Since when there are no more faults.
    calm: Option<Time>,
    boundaries: Boundaries,
    habits: Habits,
}

impl App {
    pub(crate) fn new(now: Time, end: End, peer_host: usize, client: Option<usize>, plan: Plan) -> Self {
        let plan = Plan { streams: plan.ordinary(plan.streams), ..plan };
        Self {
            end,
            peer_host,
            client,
            closed: None,
            began: now,
            tags: (0, 0),
            up: false,
            ends_at: None,
            left: plan.messages,
            boundaries: Boundaries::default(),
            habits: Habits::new(now, &plan),
            plan,
            sent: 0,
            received: 0,
            echoes: VecDeque::new(),
            blocked: false,
            readable: false,
            times: Times::default(),
            shutting_down: false,
            peer_shut_down: false,
            restart_due: false,
            calm: None,
        }
    }

    /// Reacts to a notification.
    pub(crate) fn on_event(&mut self, cx: &mut Context<'_>, event: &Event) -> Result<(), Violation> {
        let end = self.end;
        demand(self.closed.is_none(), || format!("{end:?}: {event:?} after Closed"))?;
        match event {
            Event::Established { outbound_streams, inbound_streams, .. } => {
                demand(!self.up, || format!("{end:?}: established twice"))?;
                demand(*outbound_streams > 0 && *inbound_streams > 0, || format!("{end:?}: no streams"))?;
                self.up = true;
                self.learn_tags(cx);
                self.limit_streams(cx);
                self.plan.streams = self.plan.streams.min(*outbound_streams);
                self.begin_dynamic(cx);
                self.ends_at = match self.plan.ending {
                    Ending::Shutdown(after) | Ending::Abort(after) => Some(cx.now + after),
                    _ => None,
                };
                if let Some(at) = self.ends_at {
                    cx.wakes.push((at, end.id));
                }
            }
            Event::Restarted { unread, .. } => {
                demand(self.up, || format!("{end:?}: restarted before it was established"))?;
                cx.ledger.restarted(end);
                self.learn_tags(cx);
                self.limit_streams(cx);
                (self.blocked, self.restart_due) = (false, false);
                self.echoes.clear();
                if let Some(keying) = &mut self.habits.keying {
                    keying.on_restarted(cx.endpoint, end.id, cx.notes)?;
                }
                if let Some(dynamics) = &mut self.habits.dynamics {
                    dynamics.note_restart();
                }
                self.boundaries.on_restart(*unread)?;
            }
            Event::Readable => self.readable = true,
            Event::Writable | Event::StreamWritable { .. } => self.blocked = false,
            Event::SendFailed(failed) => cx.ledger.failed(cx.now, end, self.peer_host, self.up, failed)?,
            Event::PeerShutdown => {
                self.peer_shut_down = true;
                cx.ledger.peer_shut_down(end);
            }
            Event::Closed(reason) => self.on_closed(cx, reason)?,
            Event::StreamsReset { .. } | Event::AssociationReset { .. } => {
                if let Some(reconfiguring) = &mut self.habits.reconfiguring {
                    reconfiguring.on_event(event);
                }
                self.boundaries.on_event(event, !cx.ledger.is_tampered(end.host, self.peer_host))?;
            }
            Event::StreamsChanged { outcome, outbound_streams, .. } => {
                self.on_streams_changed(cx, *outcome, *outbound_streams)?;
            }
            Event::DynamicStreams(_) => self.on_dynamic_event(cx, event)?,
            Event::PartialDeliveryAborted { .. } => self.boundaries.on_event(event, true)?,
            Event::AddressRequest { .. } => self.on_address_outcome(cx, event)?,
            Event::Authentication(event) => {
                let honest = !cx.ledger.is_tampered(end.host, self.peer_host);
                if let Some(keying) = &mut self.habits.keying {
                    keying.on_event(end.id, *event, honest)?;
                }
            }
            Event::PathChanged { .. } | Event::PeerError { .. } => {}
            Event::AdaptationLayer { .. } | Event::SenderDry => {}
        }
        Ok(())
    }

    /// Records the tags of the association. A restart of the peer replaces both. If the INITs of both sides met, the
    /// peer's may change once more after the set-up, and no event reports that.
    fn learn_tags(&mut self, cx: &mut Context<'_>) {
        let status = cx.endpoint.status(self.end.id).filter(|_| self.up);
        let Some(tags) = status.map(|status| (status.local_tag.0, status.peer_tag.0)) else { return };
        if core::mem::replace(&mut self.tags, tags) != tags {
            cx.ledger.established(self.end.host, tags);
        }
    }

    fn limit_streams(&mut self, cx: &Context<'_>) {
        if let Some(status) = cx.endpoint.status(self.end.id) {
            self.plan.streams = self.plan.streams.min(status.outbound_streams);
            if let Some(scheduling) = &mut self.habits.scheduling {
                scheduling.limit_streams(status.outbound_streams);
            }
        }
    }

    /// Takes in the number of outgoing streams after a request for more.
    fn on_streams_changed(
        &mut self,
        cx: &Context<'_>,
        outcome: Outcome,
        streams: u16,
    ) -> Result<(), Violation> {
        let end = self.end;
        let status = cx.endpoint.status(end.id).map(|status| status.outbound_streams);
        self.restart_due = status < Some(streams);
        demand(!self.restart_due || outcome == Outcome::Failed, || {
            format!("{end:?}: a request for streams: {outcome:?}, {streams}, but {status:?}")
        })?;
        self.plan.streams = self.plan.streams.max(self.plan.ordinary(streams));
        Ok(())
    }

    /// Does whatever is due.
    pub(crate) fn act(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        let end = self.end;
        demand(!self.restart_due, || format!("{end:?}: fewer streams than reported, and no restart"))?;
        self.read(cx)?;
        if self.closed.is_some() {
            return Ok(());
        }
        self.schedule(cx)?;
        self.send(cx)?;
        self.reconfigure(cx)?;
        self.relocate(cx)?;
        self.change_keys(cx)?;
        self.use_dynamic(cx)?;
        self.end(cx)
    }

    fn schedule(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        let Some(scheduling) = self.habits.scheduling.as_mut().filter(|_| self.calm.is_none()) else {
            return Ok(());
        };
        let next = scheduling.act(cx.now, cx.endpoint, self.end.id, self.plan.streams)?;
        self.wake_once(cx, 0, next);
        Ok(())
    }

    fn reconfigure(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        let Some(reconfiguring) = &mut self.habits.reconfiguring else { return Ok(()) };
        if self.up && !self.shutting_down && self.calm.is_none() {
            let ordinary = self.plan.dynamic.map(|plan| plan.first);
            let next = reconfiguring.act(cx.now, cx.endpoint, self.end.id, ordinary)?;
            self.wake_once(cx, 1, Some(next));
        }
        Ok(())
    }

    fn relocate(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        let Some(relocating) = &mut self.habits.relocating else { return Ok(()) };
        if self.up && !self.shutting_down && self.calm.is_none() {
            cx.ledger.moves(self.end.host);
            let next = relocating.act(cx.now, cx.endpoint, self.end.id)?;
            self.wake_once(cx, 2, next);
        }
        Ok(())
    }

    fn change_keys(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        let Some(keying) = &mut self.habits.keying else { return Ok(()) };
        if self.up && !self.shutting_down && self.calm.is_none() {
            let next = keying.act(cx.now, cx.endpoint, self.end.id, cx.notes)?;
            self.wake_once(cx, 3, next);
        }
        Ok(())
    }

    /// Plans a wake-up unless it is planned already.
    fn wake_once(&mut self, cx: &mut Context<'_>, of: usize, at: Option<Time>) {
        let Some(at) = at.filter(|at| *at <= cx.now || self.times.asked[of] != Some(*at)) else { return };
        self.times.asked[of] = Some(at);
        cx.wakes.push((at, self.end.id));
    }

    fn on_address_outcome(&mut self, cx: &mut Context<'_>, event: &Event) -> Result<(), Violation> {
        let (Some(relocating), Some((request, outcome))) = (&mut self.habits.relocating, outcome_of(event))
        else {
            return violation(format!("{:?}: {event:?}, but nothing was asked for", self.end));
        };
        relocating.on_outcome(cx.endpoint, self.end.id, request, outcome)
    }

    fn read(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        if !self.readable {
            return Ok(());
        }
        let hurry = self.calm.is_some() || self.closed.is_some();
        if !hurry && cx.now < self.times.next_read {
            return Ok(());
        }
        let mut batch = match self.plan.reading {
            Reading::Pauses { batch, .. } if !hurry => batch,
            _ => u32::MAX,
        };
        self.learn_tags(cx);
        let eager =
            self.closed.is_some() || self.habits.reconfiguring.as_ref().is_some_and(Reconfiguring::must_read);
        while batch > 0 && (self.echoes.len() < ECHOES_MAX || eager) {
            while let Some(boundary) = self.boundaries.take_due() {
                self.pass(cx, boundary)?;
            }
            let Some(message) = cx.endpoint.recv(cx.now, self.end.id) else {
                self.readable = false;
                return match self.closed {
                    Some(CloseReason::Shutdown) => cx.ledger.all_ended(self.end, self.peer_host),
                    _ => Ok(()),
                };
            };
            self.on_dynamic_message(cx, message.stream)?;
            self.boundaries.on_read();
            let complete = cx.ledger.received(self.end, self.peer_host, self.tags, &message)?;
            if let Some(len) = complete {
                self.received += 1;
                if self.plan.echo && !self.shutting_down {
                    self.echoes.push_back((message.stream.0, message.unordered, len));
                }
            }
            batch -= 1;
        }
        if let Reading::Pauses { pause_max, .. } = self.plan.reading
            && batch == 0
        {
            self.times.next_read = cx.now + cx.random.duration(Duration::ZERO, pause_max);
            cx.wakes.push((self.times.next_read, self.end.id));
        }
        Ok(())
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        while let Some((stream, unordered, len)) = self.echoes.front().copied() {
            let streams = self.plan.streams.max(1);
            if self.blocked || !self.give(cx, stream % streams, unordered, len)? {
                break;
            }
            self.echoes.pop_front();
            if self.readable && !cx.take_caused() {
                // There is room for more echoes.
                self.read(cx)?;
            }
        }
        while self.left > 0 && !self.blocked && (self.calm.is_some() || cx.now >= self.times.next_send) {
            let sizes = self.plan.sizes;
            let len = cx.random.log_range(sizes.first, sizes.last) as usize;
            let stream = cx.random.below(u64::from(self.plan.streams.max(1))) as u16;
            let unordered = cx.random.chance(self.plan.unordered);
            if !self.give(cx, stream, unordered, len)? {
                break;
            }
            self.left = self.left.saturating_sub(1);
            self.sent += 1;
            if self.calm.is_none() && self.plan.gap_max > Duration::ZERO {
                self.times.next_send = cx.now + cx.random.duration(Duration::ZERO, self.plan.gap_max);
                cx.wakes.push((self.times.next_send, self.end.id));
            }
        }
        Ok(())
    }

    /// Sends one message. Returns true if it was accepted.
    pub(super) fn give(
        &mut self,
        cx: &mut Context<'_>,
        stream: u16,
        unordered: bool,
        len: usize,
    ) -> Result<bool, Violation> {
        let (mut info, data) = cx.ledger.next(stream, unordered, len);
        info.immediate = cx.random.chance(self.plan.immediate);
        info.reliability = self.habits.limits.as_mut().map_or(Reliability::FULL, Limits::next);
        let space = cx.endpoint.send_space(self.end.id);
        let end = self.end;
        match cx.endpoint.send(cx.now, end.id, info, data) {
            Ok(()) => {
                cx.ledger.taken(cx.now, Route { from: end, to_host: self.peer_host }, info, len);
                Ok(true)
            }
            Err(SendError::WouldBlock) => {
                demand(space < len, || {
                    format!("{end:?}: {len} bytes would block though there is room for {space}")
                })?;
                self.blocked = true;
                Ok(false)
            }
            Err(SendError::StreamBlocked { stream: blocked }) => {
                // Or a dynamic stream has queued as much as it may beyond its credit.
                let mut credits = StreamCredits::of(cx.endpoint, end.id);
                let (waits, room) = (credits.is_awaited(StreamId(stream)), credits.room(StreamId(stream)));
                let limited = matches!(room, Ok(Some(_)));
                demand(blocked == stream && (waits == Ok(true) || limited), || {
                    format!("{end:?}: stream {blocked} is said to wait for credit, and {stream}: {waits:?}")
                })?;
                self.blocked = true;
                Ok(false)
            }
            Err(SendError::Closed) => {
                demand(self.shutting_down || self.peer_shut_down, || {
                    format!("{end:?}: send says closed, but no event told so")
                })?;
                self.left = 0;
                self.echoes.clear();
                Ok(false)
            }
            // The peer may grant fewer streams than were requested, and before the set-up this is unknown.
            Err(SendError::InvalidStream { streams, .. }) if !self.up && stream >= streams => {
                self.plan.streams = streams;
                Ok(false)
            }
            Err(error) => violation(format!("{end:?}: send of {len} bytes on stream {stream}: {error}")),
        }
    }

    fn end(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        if !self.up || self.shutting_down {
            return Ok(());
        }
        let all_sent = self.left == 0 && self.echoes.is_empty();
        let due = match self.plan.ending {
            Ending::Never => false,
            Ending::WhenSent => all_sent,
            Ending::WhenEchoed => all_sent && (self.received >= self.sent || self.calm.is_some()),
            Ending::Shutdown(_) => self.ends_at.is_some_and(|at| at <= cx.now),
            Ending::Abort(_) if self.ends_at.is_some_and(|at| at <= cx.now) => return self.abort(cx),
            Ending::Abort(_) => false,
        };
        if due || self.peer_shut_down {
            self.shut_down(cx)?;
        }
        Ok(())
    }

    fn abort(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        self.shutting_down = true;
        let end = self.end;
        cx.endpoint
            .abort(cx.now, end.id, Bytes::from_static(b"enough"))
            .map_err(|error| Violation(format!("{end:?}: abort: {error}")))
    }

    /// Requests a graceful shutdown; accepted messages are still delivered.
    pub(crate) fn shut_down(&mut self, cx: &mut Context<'_>) -> Result<(), Violation> {
        if self.shutting_down || self.closed.is_some() {
            return Ok(());
        }
        self.shutting_down = true;
        self.left = 0;
        self.echoes.clear();
        let end = self.end;
        cx.endpoint.shutdown(cx.now, end.id).map_err(|error| Violation(format!("{end:?}: shutdown: {error}")))
    }

    /// Ends all pauses, because the faults are over.
    pub(crate) fn calm_down(&mut self, since: Time) {
        self.calm = Some(since);
    }

    /// True if everything was read after the end, so that the handle can be released.
    pub(crate) fn is_done(&self) -> bool {
        self.closed.is_some() && !self.readable
    }
}
