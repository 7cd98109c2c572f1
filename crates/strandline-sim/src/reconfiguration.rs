//! An application's requests to reconfigure streams (RFC 6525), and what it checks of the answers.

use core::time::Duration;

use strandline_proto::endpoint::{Endpoint, Reconfigure};
use strandline_proto::error::ReconfigureError;
use strandline_proto::event::{AssociationId, Event};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{StreamDirection, Streams};
use strandline_proto::time::Time;

use crate::random::Random;
use crate::violation::{Violation, violation};

/// How often an application asks for something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReconfigurePlan {
    /// Seed of its choices.
    pub(crate) seed: u64,
    /// Maximum time between two requests.
    pub(crate) pause_max: Duration,
}

/// The state of one application.
#[derive(Debug)]
pub(crate) struct Reconfiguring {
    random: Random,
    plan: ReconfigurePlan,
    next: Time,
    /// True while a reset of all numbers is open. Until its outcome nothing is sent, and the peer's data must be read.
    renumbers: bool,
}

impl Reconfiguring {
    pub(crate) fn new(now: Time, plan: ReconfigurePlan) -> Self {
        let mut random = Random::new(plan.seed);
        let next = now + random.duration(Duration::ZERO, plan.pause_max);
        Self { random, plan, next, renumbers: false }
    }

    /// Asks for something if the time has come. Returns when it wants to act again. Only the streams below
    /// `ordinary` are reset this way, if the others are dynamic.
    pub(crate) fn act(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        ordinary: Option<u16>,
    ) -> Result<Time, Violation> {
        if now < self.next {
            return Ok(self.next);
        }
        self.next = now + self.random.duration(Duration::from_millis(1), self.plan.pause_max);
        let Some(status) = endpoint.status(id) else { return Ok(self.next) };
        let result = match self.random.below(8) {
            0 if ordinary.is_none() => {
                let asked = Reconfigure::ResetAssociation.ask(endpoint, now, id);
                self.renumbers |= asked.is_ok();
                asked
            }
            1 | 2 => {
                let (outgoing, incoming) = (self.random.below(20) as u16, self.random.below(20) as u16);
                Reconfigure::AddStreams { outgoing, incoming }.ask(endpoint, now, id)
            }
            _ => {
                let direction = self.random.pick(&[
                    StreamDirection::Outgoing,
                    StreamDirection::Outgoing,
                    StreamDirection::Incoming,
                    StreamDirection::Both,
                ]);
                let most = status.outbound_streams.min(status.inbound_streams);
                let streams = self.streams(most, ordinary);
                Reconfigure::ResetStreams(direction, streams).ask(endpoint, now, id)
            }
        };
        match result {
            Ok(())
            | Err(
                ReconfigureError::InProgress
                | ReconfigureError::NotSupported
                | ReconfigureError::NotEstablished
                | ReconfigureError::TooManyStreams
                | ReconfigureError::TooSoon
                | ReconfigureError::UnknownAssociation(_),
            ) => {}
            Err(error) => return violation(format!("{id:?}: reconfiguration: {error}")),
        }
        Ok(self.next)
    }

    /// Returns true if messages must be read although nothing can be sent: the peer answers a reset of all numbers once
    /// its data is acknowledged.
    pub(crate) fn must_read(&self) -> bool {
        self.renumbers
    }

    /// Learns the outcome of a request.
    pub(crate) fn on_event(&mut self, event: &Event) {
        self.renumbers &= !matches!(event, Event::AssociationReset { .. });
    }

    fn streams(&mut self, most: u16, ordinary: Option<u16>) -> Streams {
        if self.random.chance(0.4) && ordinary.is_none() {
            return Streams::All;
        }
        let most = most.min(ordinary.unwrap_or(u16::MAX));
        let count = self.random.log_range(1, 20);
        let most = u64::from(most.max(1));
        (0..count).map(|_| StreamId(self.random.below(most.min(200)) as u16)).collect()
    }
}
