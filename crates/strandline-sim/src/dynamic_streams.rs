//! An application's streams that are opened and closed at run time (docs/dynamic-streams.md), and what it
//! checks of their events.

use core::time::Duration;
use std::collections::{BTreeMap, BTreeSet};

use strandline_proto::reconfiguration::{DynamicStreamsEvent, OpenedBy, Outcome};
use strandline_proto::time::Time;

use crate::random::Random;
use crate::violation::{Violation, demand};

/// How an application uses dynamic streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DynamicPlan {
    /// Seed of its choices.
    pub(crate) seed: u64,
    /// Maximum time between two actions.
    pub(crate) pause_max: Duration,
    /// The first dynamic stream: the same for all applications of a run.
    pub(crate) first: u16,
    /// Maximum number of streams that it has opened and that are in use. 0 for one that only answers.
    pub(crate) open_max: usize,
    /// True if it gives directions up.
    pub(crate) resets: bool,
}

/// What an application does to a dynamic stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    Send(u16),
    Close(u16),
    Reset(u16),
    Stop(u16, OpenedBy),
}

/// The state of the outgoing direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sending {
    Open,
    Closing,
    Closed,
}

/// A stream that is in use.
#[derive(Debug)]
struct InUse {
    sending: Sending,
    /// True once the peer has closed its direction.
    ended: bool,
    /// True if a message was given in this use.
    given: bool,
    stopped: bool,
}

/// The state of one application.
#[derive(Debug)]
pub(crate) struct Dynamics {
    random: Random,
    pub(crate) plan: DynamicPlan,
    next: Time,
    announced: bool,
    /// Whether this side opens the even streams, once that is known.
    even: Option<bool>,
    in_use: BTreeMap<u16, InUse>,
    /// Numbers that the peer uses again, and whose earlier use it has closed, though its answer is still to come.
    unanswered: BTreeSet<u16>,
    /// Numbers that can't be used any more.
    lost: BTreeSet<u16>,
    /// Restarts that reading has not reached: until then it is not known which streams there are.
    restarts: u32,
}

impl Dynamics {
    pub(crate) fn new(now: Time, plan: DynamicPlan) -> Self {
        let mut random = Random::new(plan.seed);
        let next = now + random.duration(Duration::ZERO, plan.pause_max);
        Self {
            random,
            plan,
            next,
            announced: false,
            even: None,
            in_use: BTreeMap::new(),
            unanswered: BTreeSet::new(),
            lost: BTreeSet::new(),
            restarts: 0,
        }
    }

    /// Learns which streams this side opens.
    pub(crate) fn set_even(&mut self, even: Option<bool>) {
        self.even = even;
    }

    fn is_own(&self, stream: u16) -> bool {
        Some(stream.is_multiple_of(2)) == self.even
    }

    /// Chooses what to do if the time has come, with `streams` streams in both directions; and returns once
    /// when it wants to act again.
    pub(crate) fn act(&mut self, now: Time, streams: u16, may_reset: bool) -> (Vec<Step>, Option<Time>) {
        if now < self.next {
            let next = (!core::mem::replace(&mut self.announced, true)).then_some(self.next);
            return (Vec::new(), next);
        }
        self.announced = true;
        self.next = now + self.random.duration(Duration::from_millis(1), self.plan.pause_max);
        if self.restarts > 0 {
            return (Vec::new(), Some(self.next));
        }
        let steps = if self.random.chance(0.4) {
            self.open(streams)
        } else {
            self.go_on(may_reset && self.plan.resets)
        };
        (steps, Some(self.next))
    }

    /// Opens the lowest free streams, with messages or by closing them without one.
    fn open(&mut self, streams: u16) -> Vec<Step> {
        let mut steps = Vec::new();
        for _ in 0..self.random.range(1, 4) {
            let own = self.in_use.keys().filter(|stream| self.is_own(**stream)).count();
            let free = |stream: &u16| {
                self.is_own(*stream) && !self.in_use.contains_key(stream) && !self.lost.contains(stream)
            };
            let Some(stream) = (self.plan.first..streams).find(free).filter(|_| own < self.plan.open_max)
            else {
                break;
            };
            self.begin(stream);
            for _ in 0..self.random.below(4) {
                steps.push(Step::Send(stream));
            }
            if steps.last() != Some(&Step::Send(stream)) || self.random.chance(0.4) {
                steps.push(Step::Close(stream));
            }
        }
        steps
    }

    fn begin(&mut self, stream: u16) {
        let fresh = InUse { sending: Sending::Open, ended: false, given: false, stopped: false };
        self.in_use.insert(stream, fresh);
    }

    /// Sends on a stream in use, or ends one of its directions.
    fn go_on(&mut self, may_reset: bool) -> Vec<Step> {
        let streams: Vec<u16> = self.in_use.keys().copied().collect();
        if streams.is_empty() {
            return Vec::new();
        }
        let stream = self.random.pick(&streams);
        let own = self.is_own(stream);
        let Some(used) = self.in_use.get_mut(&stream) else { return Vec::new() };
        if !used.ended && !used.stopped && (used.given || !own) && self.random.chance(0.1) {
            used.stopped = true;
            // Of a stream that is closed a message was acknowledged.
            let by = if own && used.sending != Sending::Closed { OpenedBy::Us } else { OpenedBy::Peer };
            return vec![Step::Stop(stream, by)];
        }
        if used.sending != Sending::Open {
            return Vec::new();
        }
        match self.random.below(8) {
            0..4 => vec![Step::Send(stream); self.random.range(1, 3) as usize],
            4 if may_reset => vec![Step::Reset(stream)],
            _ => vec![Step::Close(stream)],
        }
    }

    /// Records that a message was given.
    pub(crate) fn on_given(&mut self, stream: u16) {
        if let Some(used) = self.in_use.get_mut(&stream) {
            used.given = true;
        }
    }

    /// Returns whether something may be sent on the stream.
    pub(crate) fn is_open(&self, stream: u16) -> bool {
        self.in_use.get(&stream).is_some_and(|used| used.sending == Sending::Open)
    }

    /// Records that the outgoing direction is being closed. Returns false if it was before.
    pub(crate) fn on_closing(&mut self, stream: u16) -> bool {
        let used = self.in_use.get_mut(&stream).filter(|used| used.sending == Sending::Open);
        used.map(|used| used.sending = Sending::Closing).is_some()
    }

    /// Handles an answer to the end of an outgoing direction. Ends of incoming ones wait for their place
    /// among the messages.
    pub(crate) fn on_event(&mut self, event: &DynamicStreamsEvent) -> Result<(), Violation> {
        let DynamicStreamsEvent::Closed { streams, outcome } = event else { return Ok(()) };
        for stream in streams {
            if self.unanswered.remove(&stream.0) {
                continue;
            }
            let Some(used) = self.in_use.get_mut(&stream.0) else { continue };
            demand(used.sending == Sending::Closing, || {
                format!("stream {stream} is said to be closed, but it is {used:?}")
            })?;
            used.sending = Sending::Closed;
            if *outcome != Outcome::Performed {
                self.lost.insert(stream.0);
            }
            self.release(stream.0);
        }
        Ok(())
    }

    fn release(&mut self, stream: u16) {
        if self.in_use.get(&stream).is_some_and(|used| used.ended && used.sending == Sending::Closed) {
            self.in_use.remove(&stream);
        }
    }

    /// Ends the use of a number that the peer uses again: it has closed both directions, though its answer is
    /// still to come.
    fn renew(&mut self, stream: u16) {
        if self.in_use.get(&stream).is_some_and(|used| used.ended && used.sending == Sending::Closing) {
            self.in_use.remove(&stream);
            self.unanswered.insert(stream);
        }
    }

    /// Handles a message that was read. Returns true if its stream is none that can be open: one of an honest peer is.
    pub(crate) fn on_message(&mut self, stream: u16) -> bool {
        if stream < self.plan.first || self.restarts > 0 {
            return false;
        }
        self.renew(stream);
        match self.in_use.get(&stream) {
            Some(used) => used.ended,
            None if self.is_own(stream) => true,
            None => {
                self.begin(stream);
                false
            }
        }
    }

    /// Handles the end of an incoming direction, once the messages before it are read. Returns false if it had ended.
    pub(crate) fn on_ended(&mut self, stream: u16) -> bool {
        if self.restarts > 0 {
            return true;
        }
        self.renew(stream);
        if !self.in_use.contains_key(&stream) {
            if self.is_own(stream) {
                return false;
            }
            self.begin(stream);
        }
        let ended = self.in_use.get_mut(&stream).map(|used| core::mem::replace(&mut used.ended, true));
        self.release(stream);
        ended == Some(false)
    }

    /// Handles the peer's wish that a stream stops, once the messages before it are read. Returns what is done.
    pub(crate) fn on_stopped(&mut self, stream: u16, may_reset: bool) -> Option<Step> {
        if self.restarts > 0 || !self.is_open(stream) {
            return None;
        }
        let resets = may_reset && self.plan.resets && self.random.chance(0.5);
        Some(if resets { Step::Reset(stream) } else { Step::Close(stream) })
    }

    /// Notes that the peer has restarted, before reading has come so far.
    pub(crate) fn note_restart(&mut self) {
        self.restarts += 1;
    }

    /// Handles a restart once the messages before it are read: all numbers are free.
    pub(crate) fn on_restarted(&mut self, even: Option<bool>) {
        self.restarts = self.restarts.saturating_sub(1);
        self.in_use.clear();
        self.unanswered.clear();
        self.lost.clear();
        self.even = even;
    }
}
