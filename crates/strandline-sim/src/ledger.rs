//! The ledger of messages: which were accepted, delivered and reported as failed, and whether that follows the rules.
//!
//! Every message has its own number, which travels as its payload protocol identifier; its content follows from the
//! number. The rules:
//!
//! 1. What is delivered was sent, from there to here, on this stream, and every byte is correct.
//! 2. A message is delivered at most once, with two exceptions against which RFC 9260 has no defence. A State Cookie
//!    may be used twice within its lifetime, after the association that it created had ended (a retransmitted or
//!    replayed COOKIE ECHO, bundled with DATA): then both associations have the same two verification tags. And a host
//!    may get the DATA of a COOKIE ECHO and lose the association, by a crash or an ABORT that does not arrive, before
//!    the sender knows of it: if it sends an INIT of its own then, the sender goes on with that (section 5.2.4 action
//!    B) and sends the DATA again under the same tag.
//! 3. Ordered messages of a stream are delivered in the order they were accepted, counted from the association's start
//!    or its last restart. Gaps are messages that were given up and reported.
//! 4. A message that is reported as failed with `sent` false is not delivered. None is reported twice. The report
//!    returns the message as it was given.
//! 5. An association that ended by a graceful shutdown failed no message since its last restart but those given up.
//! 6. In the end, every accepted message was delivered or reported as failed, unless the sender's or the receiver's
//!    host crashed after it was accepted: then its fate is unknown.
//! 7. SSNs of a stream count from 0, from the start, the last restart, or the last reset of the stream (RFC 6525), and
//!    skip those of messages that were given up after a part of them was sent.
//! 8. The messages of one use of a dynamic stream arrive in that use: see [`lives`].
//! 9. A message is given up only for its limit, and after a part of it was sent only if both hosts support that (RFC
//!    3758). See [`abandoned`]. The receiver never delivers it once a FORWARD TSN has skipped a part of it: see
//!    [`skipped`].

mod abandoned;
mod lives;
mod skipped;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use strandline_proto::event::{AssociationId, FailedMessage, Message, SendInfo};
use strandline_proto::reconfiguration::Streams;
use strandline_proto::reliability::Reliability;
use strandline_proto::time::Time;
use strandline_wire::{Ppid, Ssn, StreamId};

pub(crate) use self::abandoned::is_abandoned;
use self::abandoned::{Fate, Sent};
use self::lives::Closing;
use self::skipped::Skipped;
use crate::payload;
use crate::violation::{Violation, demand, violation};

/// One side of an association in one life of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct End {
    /// The host.
    pub(crate) host: usize,
    /// How often the host had crashed before.
    pub(crate) life: u32,
    /// The association there.
    pub(crate) id: AssociationId,
}

/// The direction of a message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) from: End,
    pub(crate) to_host: usize,
}

#[derive(Debug)]
struct Record {
    route: Route,
    /// Number of restarts that the sender had seen.
    epoch: u32,
    stream: u16,
    unordered: bool,
    /// Index among the ordered messages of its stream.
    place: u32,
    /// How often the outgoing direction of its stream had been closed in this epoch (docs/dynamic-streams.md).
    life: usize,
    len: usize,
    taken: Time,
    reliability: Reliability,
    /// Set if the message was reported as failed.
    failed: Option<Fate>,
    /// The association that delivered it, and its local and peer verification tags.
    delivered: Option<(End, (u32, u32))>,
}

/// A sender's side of the ledger.
#[derive(Debug, Default)]
struct Outgoing {
    epoch: u32,
    /// Number of ordered messages accepted in this epoch, by stream.
    places: BTreeMap<u16, u32>,
    /// Number of failed messages since the last restart, without those given up.
    failed: u32,
    /// The ends of dynamic streams, by epoch and stream.
    closings: BTreeMap<(u32, u16), Vec<Closing>>,
}

/// A receiver's side of the ledger.
#[derive(Debug, Default)]
struct Incoming {
    /// The sender of the arriving messages, and its epoch.
    from: Option<(End, u32)>,
    /// Number of restarts by the peer that no message has shown yet: data received before a restart can still be read
    /// after it.
    restarts: u32,
    /// Number of ordered messages delivered, by stream.
    places: BTreeMap<u16, u32>,
    /// The next SSN, by stream.
    ssns: BTreeMap<u16, Ssn>,
    /// Streams that were reset since a message was delivered on them, as a set that grows, each with the number of
    /// restarts at that time that no message had shown.
    reset: Vec<(u32, Streams)>,
    /// Bytes of a message that is delivered in parts, by stream and order.
    parts: BTreeMap<(u16, bool), (Ppid, usize)>,
    /// Number of messages that were cut off, by stream, if it is not known which.
    cuts: BTreeMap<u16, usize>,
    /// How often the peer has closed its direction of a dynamic stream since the start or the last restart.
    lives: BTreeMap<u16, usize>,
}

/// The ledger of a run.
#[derive(Debug)]
pub(crate) struct Ledger {
    first: u32,
    records: Vec<Record>,
    outgoing: BTreeMap<End, Outgoing>,
    incoming: BTreeMap<End, Incoming>,
    crashes: Vec<(usize, Time)>,
    /// Hosts with an association that timed out or aborted.
    broke_off: BTreeSet<usize>,
    /// Hosts whose UDP port has changed.
    rebound: BTreeSet<usize>,
    /// Hosts whose applications change addresses.
    moved: BTreeSet<usize>,
    /// Pairs of hosts between which an attacker alters packets under the right tags: no rule applies there.
    tampered: Vec<(usize, usize)>,
    /// The host, local tag and peer tag of every association that was established.
    established: BTreeSet<(usize, u32, u32)>,
    /// Hosts that support partial reliability at times, and those of these that don't at others.
    may_skip: BTreeSet<usize>,
    changing: BTreeSet<usize>,
    /// Hosts that authenticate chunks in every other life.
    pub(crate) at_times_authenticated: BTreeSet<usize>,
    /// The host that takes more credit for its streams than it is granted.
    greedy: Option<usize>,
    /// For each association whose peer has begun a shutdown, how often each request of RE-CONFIG was sent since.
    requests: BTreeMap<(usize, AssociationId), BTreeMap<u32, u32>>,
    /// Associations that have refused a request.
    refusals: BTreeSet<(usize, AssociationId)>,
    /// The ordered messages of a sender's epoch and stream, by place.
    ordered: BTreeMap<(End, u32, u16), Vec<u32>>,
    sent: Sent,
    skipped: Skipped,
    counts: Counts,
}

/// Totals of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages accepted by `send`.
    pub taken: u64,
    /// Bytes of these messages.
    pub taken_bytes: u64,
    /// Messages delivered.
    pub delivered: u64,
    /// Messages reported as failed, without those given up.
    pub failed: u64,
    /// Messages given up of which nothing was sent.
    pub unsent: u64,
    /// Messages given up of which at least a part was sent: some of them arrived.
    pub abandoned: u64,
    /// Messages on streams that the peer did not grant, reported before the association was established.
    pub refused: u64,
    /// Messages delivered a second time by a cookie that was used twice.
    pub repeated: u64,
    /// Messages whose fate is unknown, because a host crashed.
    pub unknown: u64,
    /// Associations that ended because the peer overdrew the credit of a stream.
    pub overdrawn: u64,
}

impl core::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.taken += other.taken;
        self.taken_bytes += other.taken_bytes;
        self.delivered += other.delivered;
        self.failed += other.failed;
        self.unsent += other.unsent;
        self.abandoned += other.abandoned;
        self.refused += other.refused;
        self.repeated += other.repeated;
        self.unknown += other.unknown;
        self.overdrawn += other.overdrawn;
    }
}

impl Ledger {
    /// Creates an empty ledger whose messages are numbered from `first`.
    pub(crate) fn new(first: u32) -> Self {
        Self {
            first,
            records: Vec::new(),
            outgoing: BTreeMap::new(),
            incoming: BTreeMap::new(),
            crashes: Vec::new(),
            broke_off: BTreeSet::new(),
            rebound: BTreeSet::new(),
            moved: BTreeSet::new(),
            tampered: Vec::new(),
            established: BTreeSet::new(),
            may_skip: BTreeSet::new(),
            changing: BTreeSet::new(),
            at_times_authenticated: BTreeSet::new(),
            greedy: None,
            requests: BTreeMap::new(),
            refusals: BTreeSet::new(),
            ordered: BTreeMap::new(),
            sent: Sent::default(),
            skipped: Skipped::default(),
            counts: Counts::default(),
        }
    }

    /// Records that an attacker alters packets between these hosts, so that no rule applies to their messages.
    pub(crate) fn tamper(&mut self, one: usize, other: usize) {
        self.tampered.push((one, other));
        self.tampered.push((other, one));
    }

    /// Records an association that is established under these local and peer tags.
    pub(crate) fn established(&mut self, host: usize, (local, peer): (u32, u32)) {
        self.established.insert((host, local, peer));
    }

    /// True if the peer never established the association with these local and peer tags. If the INITs of both sides
    /// met, the cookie for the INIT that did not count is left over, and whoever recorded it can use it later.
    pub(crate) fn is_one_sided(&self, peer_host: usize, (local, peer): (u32, u32)) -> bool {
        !self.established.contains(&(peer_host, peer, local))
    }

    /// True if an attacker alters packets between these hosts.
    pub(crate) fn is_tampered(&self, one: usize, other: usize) -> bool {
        self.tampered.contains(&(one, other))
    }

    /// Returns the next message to send. It counts once it is [accepted](Self::taken).
    pub(crate) fn next(&self, stream: u16, unordered: bool, len: usize) -> (SendInfo, Bytes) {
        let number = self.first.wrapping_add(self.records.len() as u32);
        let (stream, ppid) = (StreamId(stream), Ppid(number));
        let mut info = SendInfo::on(stream).ppid(ppid).context(!number);
        info.unordered = unordered;
        (info, payload::content(number, len))
    }

    /// Records that `send` accepted the message.
    pub(crate) fn taken(&mut self, now: Time, route: Route, info: SendInfo, len: usize) {
        let outgoing = self.outgoing.entry(route.from).or_default();
        let place = outgoing.places.entry(info.stream.0).or_default();
        self.records.push(Record {
            route,
            epoch: outgoing.epoch,
            stream: info.stream.0,
            unordered: info.unordered,
            place: *place,
            life: outgoing.closings.get(&(outgoing.epoch, info.stream.0)).map_or(0, Vec::len),
            len,
            taken: now,
            reliability: info.reliability,
            failed: None,
            delivered: None,
        });
        if !info.unordered {
            *place += 1;
            self.ordered.entry((route.from, outgoing.epoch, info.stream.0)).or_default().push(info.ppid.0);
        }
        self.counts.taken += 1;
        self.counts.taken_bytes += len as u64;
    }

    fn record(&mut self, ppid: Ppid) -> Option<&mut Record> {
        self.records.get_mut(ppid.0.wrapping_sub(self.first) as usize)
    }

    /// Records a received message or part of one. Returns its length once it is complete.
    pub(crate) fn received(
        &mut self,
        to: End,
        from_host: usize,
        tags: (u32, u32),
        message: &Message,
    ) -> Result<Option<usize>, Violation> {
        if self.is_tampered(to.host, from_host) {
            return Ok(message.ends.then_some(message.data.len()));
        }
        let (records, first) = (&self.records, self.first);
        let origin = |ppid: Ppid| {
            records.get(ppid.0.wrapping_sub(first) as usize).map(|record| (record.route.from, record.epoch))
        };
        let fate =
            |ppid: Ppid| records.get(ppid.0.wrapping_sub(first) as usize).and_then(|record| record.failed);
        let incoming = self.incoming.entry(to).or_default();
        let part = (message.stream.0, message.unordered);
        // A whole message may come between the parts of an unordered one.
        let before = if message.begins && message.ends { None } else { incoming.parts.remove(&part) };
        let offset = match (message.begins, before) {
            (true, None) => 0,
            // A message that was partly delivered before a restart is never completed.
            (true, Some((ppid, _))) if origin(ppid) != origin(message.ppid) => 0,
            (true, Some((ppid, _))) if Self::take_cut(incoming, message.stream, fate(ppid)) => 0,
            (true, Some((ppid, _))) => {
                return violation(format!("{ppid} broke off in the middle when {} began", message.ppid));
            }
            (false, Some((ppid, offset))) if ppid == message.ppid => offset,
            (false, other) => {
                return violation(format!("a part of {} follows {other:?}", message.ppid));
            }
        };
        if !payload::matches(message.ppid.0, offset, &message.data) {
            return violation(format!("message {} is altered (from byte {offset})", message.ppid));
        }
        let len = offset + message.data.len();
        if !message.ends {
            if message.data.is_empty() {
                return violation(format!("an empty part of message {}", message.ppid));
            }
            incoming.parts.insert(part, (message.ppid, len));
            return Ok(None);
        }
        self.complete(to, tags, message, len)?;
        Ok(Some(len))
    }

    /// Checks rules 1 to 3 for a whole message.
    fn complete(
        &mut self,
        to: End,
        tags: (u32, u32),
        message: &Message,
        len: usize,
    ) -> Result<(), Violation> {
        let ppid = message.ppid;
        let is_dead = self.skipped.is_dead(ppid, to);
        let Some(record) = self.record(ppid) else {
            return violation(format!("message {ppid} was never sent"));
        };
        let want = (record.route.to_host, record.stream, record.unordered, record.len);
        let have = (to.host, message.stream.0, message.unordered, len);
        demand(want == have, || {
            format!("message {ppid}: sent as (host, stream, unordered, bytes) {want:?}, got {have:?}")
        })?;
        demand(record.failed.is_none_or(|fate| fate.sent), || {
            format!("message {ppid} arrived though it was reported as failed and never sent")
        })?;
        demand(!is_dead, || format!("message {ppid} arrived though a FORWARD TSN had skipped a part of it"))?;
        let before = record.delivered.replace((to, tags));
        let (from, place, life) = ((record.route.from, record.epoch), record.place, record.life);
        match before {
            None => self.counts.delivered += 1,
            Some((end, same)) if end != to && same == tags => self.counts.repeated += 1,
            Some((end, first)) if end != to && first.1 == tags.1 && self.is_one_sided(from.0.host, first) => {
                self.counts.repeated += 1;
            }
            Some(before) => {
                return violation(format!(
                    "message {ppid} delivered twice: {before:x?} and {:x?}",
                    (to, tags)
                ));
            }
        }
        let incoming = self.incoming.entry(to).or_default();
        if *incoming.from.get_or_insert(from) != from {
            demand(incoming.restarts > 0, || {
                format!("message {ppid} of {from:?} arrived in an association with {:?}", incoming.from)
            })?;
            incoming.restarts -= 1;
            incoming.from = Some(from);
            incoming.places.clear();
            incoming.ssns.clear();
            // A reset after the restart may be known before a message shows the restart.
            incoming.reset.retain_mut(|(restarts, _)| {
                let follows = *restarts > 0;
                *restarts = restarts.saturating_sub(1);
                follows
            });
        }
        let now = self.incoming.entry(to).or_default().lives.get(&message.stream.0).copied().unwrap_or(0);
        demand(before.is_some() || now == life, || {
            format!("message {ppid} of use {life} of stream {} arrived in use {now}", message.stream)
        })?;
        if !message.unordered {
            self.in_order(to, from, place, message)?;
        }
        Ok(())
    }

    /// Records that the message was reported as failed (rule 4). Before the association is `up`, messages on streams
    /// that the peer does not grant fail; these have no other effect.
    pub(crate) fn failed(
        &mut self,
        now: Time,
        from: End,
        to_host: usize,
        up: bool,
        failed: &FailedMessage,
    ) -> Result<(), Violation> {
        let ppid = failed.info.ppid;
        let relaxed = self.is_tampered(from.host, to_host);
        let Some(record) = self.record(ppid) else {
            return violation(format!("message {ppid} was reported failed and never sent"));
        };
        demand(record.route.from == from, || {
            format!("message {ppid} was reported failed to another association")
        })?;
        demand(record.failed.is_none(), || format!("message {ppid} was reported failed twice"))?;
        let fate = Fate::of(failed);
        record.failed = Some(fate);
        let same = failed.info.stream.0 == record.stream
            && failed.info.reliability == record.reliability
            && failed.info.unordered == record.unordered
            && failed.info.context == !ppid.0
            && failed.data.len() == record.len
            && payload::matches(ppid.0, 0, &failed.data);
        demand(same, || {
            format!("the report of failed message {ppid} does not return it as it was: {:?}", failed.info)
        })?;
        demand(relaxed || failed.sent || record.delivered.is_none(), || {
            format!("message {ppid} was reported as never sent, but it had arrived")
        })?;
        if fate.abandoned {
            self.on_abandoned(now, to_host, failed)?;
        } else if up || failed.sent {
            self.counts.failed += 1;
            self.outgoing.entry(from).or_default().failed += 1;
        } else {
            self.counts.refused += 1;
        }
        Ok(())
    }

    /// Records a reset of incoming streams: their SSNs begin anew (rule 7).
    pub(crate) fn reset(&mut self, end: End, streams: &Streams) {
        let incoming = self.incoming.entry(end).or_default();
        incoming.ssns.retain(|stream, _| !streams.contains(StreamId(*stream)));
        incoming.reset.push((incoming.restarts, streams.clone()));
    }

    /// Records a restart of the association's peer: both directions begin anew.
    pub(crate) fn restarted(&mut self, end: End) {
        let outgoing = self.outgoing.entry(end).or_default();
        outgoing.epoch += 1;
        outgoing.places.clear();
        outgoing.failed = 0;
        self.incoming.entry(end).or_default().restarts += 1;
    }

    /// Records a graceful shutdown of the association (rule 5).
    pub(crate) fn shut_down(&self, end: End) -> Result<(), Violation> {
        let failed = self.outgoing.get(&end).map_or(0, |outgoing| outgoing.failed);
        demand(failed == 0, || format!("a graceful shutdown failed {failed} messages of {end:?}"))
    }

    /// Sets the host that takes more credit for its streams than it is granted.
    pub(crate) fn set_greedy(&mut self, host: Option<usize>) {
        self.greedy = host;
    }

    /// True if the host takes more credit for its streams than it is granted.
    pub(crate) fn is_greedy(&self, host: usize) -> bool {
        self.greedy == Some(host)
    }

    /// Counts an association that ended because its peer overdrew the credit of a stream.
    pub(crate) fn overdrawn(&mut self) {
        self.counts.overdrawn += 1;
    }

    /// Records a crash of a host.
    pub(crate) fn crashed(&mut self, now: Time, host: usize) {
        self.crashes.push((host, now));
    }

    /// Records that the source UDP port of the host's packets has changed.
    pub(crate) fn rebound(&mut self, host: usize) {
        self.rebound.insert(host);
    }

    /// True if the host's UDP port has changed.
    pub(crate) fn is_rebound(&self, host: usize) -> bool {
        self.rebound.contains(&host)
    }

    /// Records that an application of the host changes its addresses.
    pub(crate) fn moves(&mut self, host: usize) {
        self.moved.insert(host);
    }

    /// True if an application of the host may have deleted addresses, in this life or an earlier one.
    pub(crate) fn has_moved(&self, host: usize) -> bool {
        self.moved.contains(&host)
    }

    /// Records that an association of the host ended without its peer's consent.
    pub(crate) fn broke_off(&mut self, host: usize) {
        self.broke_off.insert(host);
    }

    /// True if a host may have forgotten an association that its peer still sets up.
    pub(crate) fn may_have_forgotten(&self, host: usize) -> bool {
        self.broke_off.contains(&host) || self.crashes.iter().any(|(crashed, _)| *crashed == host)
    }

    /// Checks rule 6 at the end of the run.
    pub(crate) fn finish(&mut self) -> Result<Counts, Violation> {
        let mut unknown = 0;
        for (index, record) in self.records.iter().enumerate() {
            if record.delivered.is_some() || record.failed.is_some() {
                continue;
            }
            let (from, to) = (record.route.from.host, record.route.to_host);
            let excused =
                self.crashes.iter().any(|(host, at)| (*host == from || *host == to) && *at >= record.taken);
            demand(excused || self.is_tampered(from, to), || {
                let number = self.first.wrapping_add(index as u32);
                format!("message {number} was neither delivered nor reported failed: {record:?}")
            })?;
            unknown += 1;
        }
        Ok(Counts { unknown, ..self.counts })
    }
}
