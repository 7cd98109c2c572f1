//! Uses of dynamic streams (docs/dynamic-streams.md): what is sent in one use arrives in that use, and the end of a
//! direction tells whether anything is missing.

use strandline_proto::event::AssociationId;
use strandline_wire::chunk::Chunk;
use strandline_wire::parameter::re_config::ResultCode;
use strandline_wire::{Packet, Ssn, StreamId};

use super::{End, Ledger, Record};
use crate::violation::{Violation, demand, violation};

/// Number of transmissions of a request since the peer began a shutdown, after which its sender need not wait
/// for an answer: those at two time-outs, before the third one.
const REQUESTS_MAX: u32 = 2;

/// The type of a response parameter of RE-CONFIG (RFC 6525 section 4.4).
const RESPONSE: u16 = 16;

/// The end of an outgoing direction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Closing {
    /// False if it was given up.
    finished: bool,
    /// Number of ordered messages that were given on the stream, those of earlier uses included.
    place: u32,
}

impl Ledger {
    /// Records that a sender closes its direction of a stream, or gives it up.
    pub(crate) fn closes(&mut self, from: End, stream: u16, finished: bool) {
        let outgoing = self.outgoing.entry(from).or_default();
        let place = outgoing.places.get(&stream).copied().unwrap_or(0);
        outgoing.closings.entry((outgoing.epoch, stream)).or_default().push(Closing { finished, place });
    }

    /// True if the sender has given up the use of the stream that a message was sent in.
    pub(super) fn is_reset(&self, record: &Record) -> bool {
        let outgoing = self.outgoing.get(&record.route.from);
        let closings = outgoing.and_then(|outgoing| outgoing.closings.get(&(record.epoch, record.stream)));
        closings.and_then(|all| all.get(record.life)).is_some_and(|closing| !closing.finished)
    }

    /// Records that all messages from before a restart of the peer were read.
    pub(crate) fn passed_restart(&mut self, end: End) {
        self.incoming.entry(end).or_default().lives.clear();
    }

    /// Checks that a sender has closed its direction of a stream, that the messages of this use which did not
    /// arrive were given up, and that `next`, the SSN of the next message, shows whether the direction was
    /// given up.
    pub(crate) fn ended(
        &mut self,
        to: End,
        from_host: usize,
        stream: StreamId,
        next: Ssn,
    ) -> Result<(), Violation> {
        if self.is_tampered(to.host, from_host) {
            return Ok(());
        }
        let incoming = self.incoming.entry(to).or_default();
        let life = incoming.lives.entry(stream.0).or_default();
        let use_number = *life;
        *life += 1;
        let Some((from, epoch)) = incoming.from.filter(|_| incoming.restarts == 0) else {
            // Which association of the sender this is, no message has shown.
            incoming.ssns.remove(&stream.0);
            incoming.reset.push((incoming.restarts, [stream].into_iter().collect()));
            return Ok(());
        };
        let closings =
            self.outgoing.get(&from).and_then(|outgoing| outgoing.closings.get(&(epoch, stream.0)));
        let Some(closing) = closings.and_then(|all| all.get(use_number)).copied() else {
            return violation(format!(
                "{to:?}: use {use_number} of stream {stream} ends, which nobody has closed"
            ));
        };
        let first = incoming.places.get(&stream.0).copied().unwrap_or(0);
        let known = incoming.ssns.get(&stream.0).copied();
        let unsure = known.is_none() && incoming.reset.iter().any(|(_, streams)| streams.contains(stream));
        let ordered = self.ordered.get(&(from, epoch, stream.0)).map_or(&[][..], |all| all);
        let mut expected = known.unwrap_or_default().0;
        for number in ordered.get(first as usize..closing.place as usize).unwrap_or(&[]) {
            let record = self.records.get(number.wrapping_sub(self.first) as usize);
            let fate = record.and_then(|record| record.failed).filter(|fate| fate.abandoned);
            let Some(fate) = fate else {
                return violation(format!(
                    "{to:?}: use {use_number} of stream {stream} ends, but message {number} was not given up"
                ));
            };
            expected = expected.wrapping_add(u16::from(fate.sent));
        }
        expected = expected.wrapping_add(u16::from(!closing.finished));
        demand(unsure || next.0 == expected, || {
            format!(
                "{to:?}: use {use_number} of stream {stream} ends before SSN {next}, not {expected}: {closing:?}"
            )
        })?;
        incoming.ssns.insert(stream.0, Ssn(0));
        incoming.places.insert(stream.0, closing.place);
        Ok(())
    }

    /// Records that the peer of an association has begun a shutdown.
    pub(crate) fn peer_shut_down(&mut self, end: End) {
        self.requests.insert((end.host, end.id), Default::default());
    }

    /// Checks that all directions have ended which their sender has closed and not given up, after a graceful shutdown.
    pub(crate) fn all_ended(&self, to: End, from_host: usize) -> Result<(), Violation> {
        let Some(incoming) = self.incoming.get(&to).filter(|incoming| incoming.restarts == 0) else {
            return Ok(());
        };
        let excused = self.is_tampered(to.host, from_host) || self.refusals.contains(&(to.host, to.id));
        let Some((from, epoch)) = incoming.from.filter(|_| !excused) else { return Ok(()) };
        let outgoing = self.outgoing.get(&from).filter(|outgoing| outgoing.epoch == epoch);
        let Some(outgoing) = outgoing.filter(|_| !may_have_given_up(self, from)) else { return Ok(()) };
        for ((_, stream), closings) in outgoing.closings.iter().filter(|((of, _), _)| *of == epoch) {
            let ended = incoming.lives.get(stream).copied().unwrap_or(0);
            demand(closings.iter().skip(ended).all(|closing| !closing.finished), || {
                format!("{to:?}: stream {stream} has ended {ended} times, and was closed: {closings:?}")
            })?;
        }
        Ok(())
    }
}

/// Counts the requests in a packet of an association whose peer has begun a shutdown, and notes refusals of
/// its requests: a side that shuts down refuses what waits for lost data.
pub(super) fn count_requests(
    ledger: &mut Ledger,
    sender: (usize, Option<AssociationId>),
    packet: &Packet<'_>,
) {
    let (host, Some(id)) = sender else { return };
    for chunk in packet.chunks().flatten() {
        let Ok(Chunk::ReConfig(re_config)) = chunk.parse() else { continue };
        for parameter in re_config.parameters.iter().flatten() {
            let number = parameter.value.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
            let result = parameter.value.get(4..8).and_then(|bytes| bytes.first_chunk());
            let result = result.map(|bytes| ResultCode(u32::from_be_bytes(*bytes)));
            match (parameter.kind, ledger.requests.get_mut(&(host, id)), number) {
                (RESPONSE, ..)
                    if result
                        .is_some_and(|result| !result.is_success() && result != ResultCode::IN_PROGRESS) =>
                {
                    ledger.refusals.insert((host, id));
                }
                (RESPONSE, ..) => {}
                (_, Some(sent), Some(number)) => *sent.entry(number).or_default() += 1,
                _ => {}
            }
        }
    }
}

/// True if an association may have ended without an answer to a request, after the peer began a shutdown.
fn may_have_given_up(ledger: &Ledger, end: End) -> bool {
    let sent = ledger.requests.get(&(end.host, end.id));
    sent.is_some_and(|sent| sent.values().any(|times| *times >= REQUESTS_MAX))
}

#[cfg(test)]
mod tests;
