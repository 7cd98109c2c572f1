//! Keep-alives of phones (RFC 5626 section 4.4): two line ends over connections, which are answered with one, and Binding requests of
//! STUN over UDP. No I/O, no clock.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::out::Out;
use super::outcome::Outcome;

/// A flow on which no answer came for so long is broken (section 4.4.1).
pub(super) const PONG: Duration = Duration::from_secs(10);
/// Over UDP it is asked again after this, twice, four and eight times it (RFC 8489 section 6.2.1).
const RTO: Duration = Duration::from_millis(500);
const STEPS: usize = 4;

const PING: &[u8] = b"\r\n\r\n";
/// What answers it.
pub(super) const ANSWER: &[u8] = b"\r\n";
/// A Binding request without attributes, up to its transaction: type, length, magic cookie (RFC 8489 section 5).
const BINDING: [u8; 8] = [0x00, 0x01, 0, 0, 0x21, 0x12, 0xa4, 0x42];
const BINDING_SUCCESS: [u8; 2] = [0x01, 0x01];

/// How flows are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Connections: line ends.
    LineEnds,
    /// UDP: STUN.
    Stun,
}

#[derive(Debug, Clone, Copy, Default)]
struct Source {
    /// How often it has asked.
    round: u32,
    /// Nothing has come yet.
    waits: bool,
}

/// Keep-alives of all sources, one after the other.
#[derive(Debug)]
pub(super) struct KeepAlives {
    kind: Kind,
    every: Duration,
    sources: Vec<Source>,
    /// When who asks, in the order of time.
    due: VecDeque<(Instant, usize)>,
    /// Until when the answer of a round is waited for.
    until: VecDeque<(Instant, usize, u32)>,
    again: [VecDeque<(Instant, usize, u32)>; STEPS],
    broken: Vec<usize>,
}

impl KeepAlives {
    /// Each source asks once in `every`, all of them evenly spread.
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

    /// Asks where it is time, and finds flows that are broken.
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
            self.ask(source, round, out);
        }
        for step in 0..STEPS {
            while let Some((source, round)) = self.again.get_mut(step).and_then(|queue| past(queue, now)) {
                if !self.is_waiting(source, round) {
                    continue;
                }
                self.ask(source, round, out);
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

    fn ask(&self, source: usize, round: u32, out: &mut Out) {
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

    /// Something came to a source. False if it isn't for us.
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

    /// Sources whose flows have turned out to be broken since the last call.
    pub(super) fn take_broken(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.broken)
    }
}

/// The first of a queue, if its time has come.
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
