//! Messages that were given up (RFC 3758, RFC 7496): for their limit only, reported before they are missing,
//! and not sent any more once the limit is reached.

use core::time::Duration;
use std::collections::BTreeMap;

use strandline_proto::event::{AssociationId, FailedMessage, FailureCause, Message};
use strandline_proto::reliability::{Limit, Reliability};
use strandline_proto::time::Time;
use strandline_wire::chunk::kind;
use strandline_wire::{Chunk, Packet, Ppid, Ssn, StreamId};

use super::lives::count_requests;
use super::{End, Incoming, Ledger};
use crate::board::data_in;
use crate::violation::{Violation, demand, violation};

/// Granularity of lifetimes: what expires together is given up together.
const EXPIRY_STEP: Duration = Duration::from_millis(1);

/// Why a message failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fate {
    /// True if a part of it was sent.
    pub(super) sent: bool,
    /// True if it was given up for its limit, or with its stream.
    pub(super) abandoned: bool,
}

impl Fate {
    pub(super) fn of(failed: &FailedMessage) -> Self {
        Self { sent: failed.sent, abandoned: is_abandoned(failed) }
    }
}

/// True if the message was given up for its limit, or with its stream.
pub(crate) fn is_abandoned(failed: &FailedMessage) -> bool {
    matches!(
        failed.cause,
        FailureCause::Expired
            | FailureCause::RetransmissionsExhausted
            | FailureCause::LowPriority
            | FailureCause::StreamReset
    )
}

/// A host, and the association there that sends a packet.
pub(crate) type Sender = (usize, Option<AssociationId>);

/// What was sent of messages with limits.
#[derive(Debug, Default)]
pub(super) struct Sent {
    /// Number of transmissions of each chunk, by message and TSN.
    chunks: BTreeMap<(u32, u32), u32>,
    /// The messages in I-DATA chunks, only the first of which has a PPID: by sender, stream, U bit and MID.
    /// The peer's tag does not name the sender's association: it changes when the INITs of both sides meet,
    /// and the MIDs continue.
    numbers: BTreeMap<(Sender, u16, bool, u32), Ppid>,
}

impl Sent {
    /// Returns the PPID of the message that a chunk belongs to; `None` if its beginning was never sent.
    fn message_of(&mut self, sender: Sender, chunk: &Chunk<'_>) -> Option<Ppid> {
        match chunk {
            Chunk::IData(data) => {
                let key = (sender, data.stream.0, data.unordered, data.mid.0);
                if data.beginning {
                    self.numbers.insert(key, data.ppid);
                }
                self.numbers.get(&key).copied()
            }
            Chunk::Data(data) => Some(data.ppid),
            _ => None,
        }
    }

    fn chunks_of(&self, ppid: Ppid) -> impl Iterator<Item = u32> {
        self.chunks.range((ppid.0, 0)..=(ppid.0, u32::MAX)).map(|(_, times)| *times)
    }
}

/// Returns the priority of a message, 0 being the highest of those that may be given up for it.
fn priority(reliability: Reliability) -> Option<u32> {
    match reliability.limit() {
        Limit::Priority { number } => Some(number),
        _ => None,
    }
}

/// True if a message of the second priority may be given up for one of the first.
fn is_above(one: Reliability, other: u32) -> bool {
    priority(one).is_none_or(|one| one < other)
}

impl Ledger {
    /// Records which hosts support partial reliability, at least at times.
    pub(crate) fn set_may_skip(&mut self, hosts: impl Iterator<Item = usize>) {
        self.may_skip = hosts.collect();
    }

    /// Records which hosts support it before or after a crash only.
    pub(crate) fn set_changing(&mut self, hosts: impl Iterator<Item = usize>) {
        self.changing = hosts.collect();
    }

    /// True if both hosts support partial reliability, at least at times.
    pub(crate) fn may_skip(&self, one: usize, other: usize) -> bool {
        self.may_skip.contains(&one) && self.may_skip.contains(&other)
    }

    /// Checks that an ordered message is not before the next one of its stream, and that those between were given up
    /// (rules 3 and 7).
    pub(super) fn in_order(
        &mut self,
        to: End,
        (from, epoch): (End, u32),
        place: u32,
        message: &Message,
    ) -> Result<(), Violation> {
        let (stream, ppid) = (message.stream, message.ppid);
        let incoming = self.incoming.entry(to).or_default();
        let next = *incoming.places.get(&stream.0).unwrap_or(&0);
        demand(place >= next, || {
            format!("message {ppid} is number {place} of stream {stream}, but {next} is next")
        })?;
        let ordered = self.ordered.get(&(from, epoch, stream.0)).map_or(&[][..], |all| all);
        let between = ordered.get(next as usize..place as usize).unwrap_or(&[]);
        let mut skipped = 0;
        for number in between {
            let record = self.records.get(number.wrapping_sub(self.first) as usize);
            let fate = record.and_then(|record| record.failed).filter(|fate| fate.abandoned);
            let Some(fate) = fate else {
                return violation(format!(
                    "message {ppid} is number {place} of stream {stream}, but {number} before it was not given up"
                ));
            };
            // A message gets its SSN when it is begun.
            skipped += u16::from(fate.sent);
        }
        let known = incoming.ssns.get(&stream.0).copied();
        let was_reset = known.is_none() && incoming.reset.iter().any(|(_, streams)| streams.contains(stream));
        let first = known.unwrap_or_default();
        let right = match was_reset {
            // Those given up before the reset don't count.
            true => message.ssn.0 <= skipped,
            false => message.ssn == Ssn(first.0.wrapping_add(skipped)),
        };
        demand(right, || {
            format!(
                "message {ppid} has SSN {} of stream {stream}, but {first} is next and {skipped} were given up",
                message.ssn
            )
        })?;
        incoming.ssns.insert(stream.0, message.ssn.next());
        incoming.places.insert(stream.0, place + 1);
        Ok(())
    }

    /// True once if a message with this fate, of which a part was received, may have been cut off.
    pub(super) fn take_cut(incoming: &mut Incoming, stream: StreamId, fate: Option<Fate>) -> bool {
        let cuts = incoming.cuts.get_mut(&stream.0).filter(|cuts| **cuts > 0);
        let Some(cuts) = cuts.filter(|_| fate.is_some_and(|fate| fate.abandoned)) else { return false };
        *cuts -= 1;
        true
    }

    /// Records that the rest of a message is lost of which a part was received.
    pub(crate) fn cut(&mut self, end: End, from_host: usize, stream: StreamId) -> Result<(), Violation> {
        let relaxed = self.is_tampered(end.host, from_host);
        let (records, first) = (&self.records, self.first);
        let is_given_up = |ppid: Ppid| {
            let record = records.get(ppid.0.wrapping_sub(first) as usize);
            record.and_then(|record| record.failed).is_some_and(|fate| fate.abandoned)
        };
        let incoming = self.incoming.entry(end).or_default();
        // A restart of the peer may cut several messages off.
        let restarts = incoming.restarts > 0;
        let begun = |of: &(u16, bool), ppid: Ppid| of.0 == stream.0 && (restarts || is_given_up(ppid));
        let candidates = incoming.parts.iter().filter(|(of, (ppid, _))| begun(of, *ppid)).count();
        let cuts = incoming.cuts.entry(stream.0).or_default();
        *cuts += 1;
        if *cuts < candidates {
            // An ordered and an unordered message are begun, and it is not known which one is cut off.
            return Ok(());
        }
        let enough = *cuts == candidates;
        *cuts = 0;
        incoming.parts.retain(|of, (ppid, _)| !begun(of, *ppid));
        demand(relaxed || enough, || {
            format!("{end:?}: a message of stream {stream} is cut off, but {:?} are begun", incoming.parts)
        })
    }

    /// Checks the report of a message that was given up (rule 9).
    pub(super) fn on_abandoned(
        &mut self,
        now: Time,
        to_host: usize,
        failed: &FailedMessage,
    ) -> Result<(), Violation> {
        let ppid = failed.info.ppid;
        *(if failed.sent { &mut self.counts.abandoned } else { &mut self.counts.unsent }) += 1;
        let Some(record) = self.records.get(ppid.0.wrapping_sub(self.first) as usize) else { return Ok(()) };
        let from = record.route.from;
        if self.is_tampered(from.host, to_host) {
            return Ok(());
        }
        demand(!failed.sent || self.may_skip(from.host, to_host), || {
            format!("message {ppid} was given up after a part was sent, and the peer does not support that")
        })?;
        let was_sent = self.sent.chunks_of(ppid).next().is_some();
        let recorded = record.reliability.limit() != Limit::None;
        demand(was_sent == failed.sent || !recorded, || {
            format!("message {ppid}: reported as sent: {}, and it was: {was_sent}", failed.sent)
        })?;
        let right = match (failed.cause, record.reliability.limit()) {
            (FailureCause::Expired, Limit::Lifetime { millis }) => {
                now >= record.taken + Duration::from_millis(u64::from(millis))
            }
            (FailureCause::RetransmissionsExhausted, Limit::Retransmissions { max }) => {
                // What goes with a COOKIE ECHO is repeated with it, whatever its limit.
                self.sent.chunks_of(ppid).any(|times| times > u32::from(max))
            }
            (FailureCause::LowPriority, Limit::Priority { number }) => {
                // The message that took its room was accepted at this instant.
                let recent = self.records.iter().rev().take_while(|recent| recent.taken == now);
                let mut recent = recent.filter(|recent| recent.route.from == from);
                recent.any(|recent| is_above(recent.reliability, number))
            }
            (FailureCause::StreamReset, _) => self.is_reset(record),
            _ => false,
        };
        demand(right, || format!("message {ppid} was given up as {:?}: {record:?}", failed.cause))
    }

    /// Examines a packet that is sent: no chunk goes more often or later than its message's limit allows.
    pub(crate) fn departs(&mut self, now: Time, sender: Sender, bytes: &[u8]) -> Result<(), Violation> {
        let (host, _) = sender;
        let Ok(packet) = Packet::parse(bytes) else { return Ok(()) };
        count_requests(self, sender, &packet);
        let in_set_up = packet.chunks().flatten().next().is_some_and(|chunk| chunk.kind == kind::COOKIE_ECHO);
        for chunk in packet.chunks().flatten() {
            let (Some(data), Ok(parsed)) = (data_in(&chunk), chunk.parse()) else { continue };
            let Some(ppid) = self.sent.message_of(sender, &parsed) else {
                return violation(format!("{:?} of a message of which no beginning was sent", data.tsn));
            };
            let Some(record) = self.records.get(ppid.0.wrapping_sub(self.first) as usize) else {
                return violation(format!("{:?} of message {ppid}, which was never accepted", data.tsn));
            };
            let (from, to, limit) = (record.route.from, record.route.to_host, record.reliability.limit());
            if limit == Limit::None || from.host != host {
                continue;
            }
            self.skipped.departs(packet.verification_tag().0, data.tsn, ppid);
            let times = self.sent.chunks.entry((ppid.0, data.tsn.0)).or_default();
            *times += 1;
            let (times, taken) = (*times, record.taken);
            let changes = [host, to].iter().any(|host| self.changing.contains(host));
            let agreed = self.may_skip(host, to) && !changes;
            // T1-cookie repeats what went with the COOKIE ECHO.
            if in_set_up || self.is_tampered(host, to) {
                continue;
            }
            let right = match limit {
                Limit::Retransmissions { max } => !agreed || times <= u32::from(max) + 1,
                Limit::Lifetime { millis } => {
                    let begins = data.beginning && times == 1;
                    now < taken + Duration::from_millis(u64::from(millis)) + EXPIRY_STEP
                        || !(agreed || begins)
                }
                _ => true,
            };
            demand(right, || {
                format!(
                    "{:?} of message {ppid} is sent for the {times}. time, given at {taken:?} with {limit:?}",
                    data.tsn
                )
            })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
