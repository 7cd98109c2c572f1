//! Keep-alives of phones (RFC 5626 section 4.4): over connections two line ends, which are answered with one,
//! and over UDP Binding requests of STUN. No I/O, no clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::out::Out;
use super::outcome::Outcome;

/// Time without an answer after which a flow is broken (section 4.4.1).
pub(super) const PONG: Duration = Duration::from_secs(10);
/// Retransmission timeout over UDP: requests are sent again after this, twice, four and eight times it (RFC
/// 8489 section 6.2.1).
const RTO: Duration = Duration::from_millis(500);
const STEPS: usize = 4;

const PING: &[u8] = b"\r\n\r\n";
/// The answer to two line ends.
pub(super) const ANSWER: &[u8] = b"\r\n";
/// A Binding request without attributes, up to its transaction ID: type, length, magic cookie (RFC 8489
/// section 5).
const BINDING: [u8; 8] = [0x00, 0x01, 0, 0, 0x21, 0x12, 0xa4, 0x42];
const BINDING_SUCCESS: [u8; 2] = [0x01, 0x01];

/// The kind of keep-alives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Line ends over connections.
    LineEnds,
    /// STUN over UDP.
    Stun,
}

#[derive(Debug, Clone, Copy, Default)]
struct Source {
    /// Number of keep-alives sent.
    round: u32,
    /// Whether the answer is outstanding.
    waits: bool,
}

/// Keep-alives of all sources, one after the other.
#[derive(Debug)]
pub(super) struct KeepAlives {
    kind: Kind,
    every: Duration,
    sources: Vec<Source>,
    /// Times of the next keep-alives of sources, in order.
    due: VecDeque<(Instant, usize)>,
    /// Deadlines of answers, with the source and the keep-alive's number.
    until: VecDeque<(Instant, usize, u32)>,
    again: [VecDeque<(Instant, usize, u32)>; STEPS],
    broken: Vec<usize>,
}

impl KeepAlives {
    /// Creates keep-alives for each source at the interval `every`, evenly spread.
    pub(super) fn new(kind: Kind, every: Duration, sources: usize, begin: Instant) -> Self {
        let moment = |number: usize| begin + every.mul_f64(number as f64 / sources.max(1) as f64);
        Self {
            kind,
            every,
            sources: vec![Source::default(); sources],
            due: (0..sources).map(|number| (moment(number), number)).collect(),
            until: VecDeque::new(),
            again: Default::default(),
            broken: Vec::new(),
        }
    }

    /// Sends keep-alives that are due, and finds broken flows.
    pub(super) fn handle_timeout(&mut self, now: Instant, out: &mut Out, outcome: &mut Outcome) {
        while let Some((at, source)) = self.due.front().copied().filter(|(at, _)| *at <= now) {
            self.due.pop_front();
            self.due.push_back((at.max(now.checked_sub(self.every).unwrap_or(at)) + self.every, source));
            let Some(place) = self.sources.get_mut(source).filter(|place| !place.waits) else { continue };
            place.round = place.round.wrapping_add(1);
            place.waits = true;
            let round = place.round;
            self.until.push_back((now + PONG, source, round));
            if self.kind == Kind::Stun {
                self.again[0].push_back((now + RTO, source, round));
            }
            outcome.keep_alives += 1;
            self.send(source, round, out);
        }
        for step in 0..STEPS {
            while let Some((source, round)) = self.again.get_mut(step).and_then(|queue| past(queue, now)) {
                if !self.is_waiting(source, round) {
                    continue;
                }
                self.send(source, round, out);
                if let Some(next) = self.again.get_mut(step + 1) {
                    next.push_back((now + RTO * (2 << step), source, round));
                }
            }
        }
        while let Some((source, round)) = past(&mut self.until, now) {
            if self.is_waiting(source, round) {
                outcome.flows_broken += 1;
                self.broken.push(source);
                self.stop_waiting(source);
            }
        }
    }

    fn send(&self, source: usize, round: u32, out: &mut Out) {
        out.add(source, |out| match self.kind {
            Kind::LineEnds => out.extend_from_slice(PING),
            Kind::Stun => {
                out.extend_from_slice(&BINDING);
                out.extend_from_slice(&transaction(source, round));
            }
        });
    }

    fn is_waiting(&self, source: usize, round: u32) -> bool {
        self.sources.get(source).is_some_and(|place| place.waits && place.round == round)
    }

    fn stop_waiting(&mut self, source: usize) {
        if let Some(place) = self.sources.get_mut(source) {
            place.waits = false;
        }
    }

    /// Handles bytes received by a source. Returns false if they aren't an answer to a keep-alive.
    pub(super) fn handle(&mut self, source: usize, bytes: &[u8], outcome: &mut Outcome) -> bool {
        let is_answer = match self.kind {
            Kind::LineEnds => bytes == ANSWER,
            Kind::Stun => bytes.first().is_some_and(|byte| *byte < 4),
        };
        if !is_answer {
            return false;
        }
        let Some(Source { round, waits: true }) = self.sources.get(source).copied() else { return true };
        let is_ours = match self.kind {
            Kind::LineEnds => true,
            Kind::Stun => {
                bytes.starts_with(&BINDING_SUCCESS)
                    && bytes.get(8..20) == Some(&transaction(source, round)[..])
            }
        };
        if is_ours {
            outcome.keep_alives_answered += 1;
            self.stop_waiting(source);
        }
        true
    }

    /// Removes and returns the sources whose flows have turned out to be broken since the last call.
    pub(super) fn take_broken(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.broken)
    }
}

/// Removes and returns the first entry of a queue, if its time has come.
fn past(queue: &mut VecDeque<(Instant, usize, u32)>, now: Instant) -> Option<(usize, u32)> {
    let (_, source, round) = queue.front().copied().filter(|(at, ..)| *at <= now)?;
    queue.pop_front();
    Some((source, round))
}

fn transaction(source: usize, round: u32) -> [u8; 12] {
    let mut id = *b"keep\0\0\0\0\0\0\0\0";
    let number = (source as u32).to_be_bytes();
    id.iter_mut()
        .skip(4)
        .zip(number.iter().chain(&round.to_be_bytes()))
        .for_each(|(place, byte)| *place = *byte);
    id
}

#[cfg(test)]
mod tests;
