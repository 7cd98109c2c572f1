//! Positions among the messages of an association that are not read yet.

use std::collections::VecDeque;

use strandline_proto::event::Event;
use strandline_proto::number::{Ssn, StreamId};
use strandline_proto::reconfiguration::{DynamicStreamsEvent, Outcome, Streams};

use crate::violation::{Violation, demand};

/// What an event reports of the messages before its position.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Boundary {
    /// Incoming streams were reset (RFC 6525).
    Reset(Streams),
    /// The rest of a message of this stream is lost (RFC 3758).
    Cut(StreamId),
    /// The peer has closed its direction of dynamic streams, each with the SSN of its next message.
    Ended(Vec<(StreamId, Ssn)>),
    /// The peer asks to stop sending on dynamic streams.
    Stopped(Vec<StreamId>),
    /// The peer has restarted.
    Restarted,
}

/// True if an event may say how many messages are not read when it happens.
pub(crate) fn counts_unread(event: &Event) -> bool {
    matches!(
        event,
        Event::Restarted { .. }
            | Event::StreamsReset { .. }
            | Event::AssociationReset { .. }
            | Event::PartialDeliveryAborted { .. }
            | Event::DynamicStreams(_)
    )
}

/// The boundaries that reading has not reached yet.
#[derive(Debug, Default)]
pub(crate) struct Boundaries {
    /// Number of messages and parts before each one that are not read.
    ahead: VecDeque<(usize, Boundary)>,
}

impl Boundaries {
    /// Records what an event reports. `honest`: nobody forges packets of the peer.
    pub(crate) fn on_event(&mut self, event: &Event, honest: bool) -> Result<(), Violation> {
        match event {
            Event::StreamsReset { direction, streams, outcome: Outcome::Performed, unread }
                if direction.is_incoming() =>
            {
                self.push(*unread, Boundary::Reset(streams.clone()))
            }
            Event::AssociationReset { outcome: Outcome::Performed, unread, cut, .. } => {
                demand(cut.is_none() || !honest, || {
                    format!("a reset cut a message of an honest peer off: {event:?}")
                })?;
                self.push(*unread, Boundary::Reset(Streams::All))
            }
            Event::PartialDeliveryAborted { stream, unread } => self.push(*unread, Boundary::Cut(*stream)),
            Event::DynamicStreams(DynamicStreamsEvent::Ended { streams, unread }) => {
                self.push(*unread, Boundary::Ended(streams.clone()))
            }
            Event::DynamicStreams(DynamicStreamsEvent::Stopped { streams, unread }) => {
                self.push(*unread, Boundary::Stopped(streams.clone()))
            }
            _ => Ok(()),
        }
    }

    /// Records a restart of the peer.
    pub(crate) fn on_restart(&mut self, unread: usize) -> Result<(), Violation> {
        self.push(unread, Boundary::Restarted)
    }

    fn push(&mut self, unread: usize, boundary: Boundary) -> Result<(), Violation> {
        let last = self.ahead.back().map_or(0, |(ahead, _)| *ahead);
        demand(last <= unread, || {
            format!("{boundary:?} precedes an earlier one: {unread} unread, {last} before")
        })?;
        self.ahead.push_back((unread, boundary));
        Ok(())
    }

    /// Returns the next boundary if everything before it was read.
    pub(crate) fn take_due(&mut self) -> Option<Boundary> {
        let due = self.ahead.front().is_some_and(|(ahead, _)| *ahead == 0);
        due.then(|| self.ahead.pop_front().map(|(_, boundary)| boundary)).flatten()
    }

    /// Counts a message, or a part of one, that was read.
    pub(crate) fn on_read(&mut self) {
        for (ahead, _) in &mut self.ahead {
            *ahead = ahead.saturating_sub(1);
        }
    }
}
