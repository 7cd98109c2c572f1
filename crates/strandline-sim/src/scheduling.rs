//! An application's changes of the order of messages (RFC 8260 section 3). Whatever it is, the ledger demands each
//! stream's order.

use core::time::Duration;
use std::collections::BTreeMap;

use strandline_proto::config::StreamScheduler;
use strandline_proto::endpoint::{Endpoint, StreamValue};
use strandline_proto::error::StreamValueError;
use strandline_proto::event::AssociationId;
use strandline_proto::number::StreamId;
use strandline_proto::time::Time;

use crate::random::Random;
use crate::violation::{Violation, demand};

/// How often an application changes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SchedulePlan {
    /// Seed of its choices.
    pub(crate) seed: u64,
    /// Maximum time between two changes.
    pub(crate) pause_max: Duration,
}

/// The state of one application.
#[derive(Debug)]
pub(crate) struct Scheduling {
    random: Random,
    plan: SchedulePlan,
    next: Time,
    /// True once the caller knows when it wants to act next.
    announced: bool,
    /// The values that were set.
    values: BTreeMap<u16, u16>,
}

impl Scheduling {
    pub(crate) fn new(now: Time, plan: SchedulePlan) -> Self {
        let mut random = Random::new(plan.seed);
        // Some set values before the association is established.
        let begins = if random.chance(0.5) { Duration::ZERO } else { plan.pause_max };
        let next = now + random.duration(Duration::ZERO, begins);
        Self { random, plan, next, announced: false, values: BTreeMap::new() }
    }

    /// Forgets the values of streams that the association does not have any more.
    pub(crate) fn limit_streams(&mut self, streams: u16) {
        self.values.retain(|stream, _| *stream < streams);
    }

    /// Changes something if the time has come: one of the first `streams` streams, or the scheduler. Returns once
    /// when it wants to act again.
    pub(crate) fn act(
        &mut self,
        now: Time,
        endpoint: &mut Endpoint,
        id: AssociationId,
        streams: u16,
    ) -> Result<Option<Time>, Violation> {
        if now < self.next {
            return Ok((!core::mem::replace(&mut self.announced, true)).then_some(self.next));
        }
        self.announced = true;
        self.next = now + self.random.duration(Duration::from_millis(1), self.plan.pause_max);
        if self.random.chance(0.2) {
            endpoint.set_stream_scheduler(id, self.random.pick(StreamScheduler::ALL));
            return Ok(Some(self.next));
        }
        let stream = self.random.below(u64::from(streams.max(1))) as u16;
        let known = StreamValue::of(endpoint, id, StreamId(stream));
        let value = if self.random.chance(0.3) { 0 } else { self.random.log_range(1, 65_535) as u16 };
        let set = StreamValue { stream: StreamId(stream), value }.set(endpoint, id);
        match (set, known) {
            (Ok(()), Ok(known)) => {
                let expected = self.values.insert(stream, value).unwrap_or(0);
                demand(known.value == expected, || {
                    format!("stream {stream} has the value {}, not {expected}", known.value)
                })?;
            }
            // The peer allows fewer streams, or the association has ended.
            (Err(StreamValueError::InvalidStream { .. }), Err(_)) => {
                self.values.retain(|known, _| *known != stream);
            }
            (set, _) => demand(set.is_err(), || format!("stream {stream} has no value, but takes one"))?,
        }
        Ok(Some(self.next))
    }
}
