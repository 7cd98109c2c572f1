//! The inbox: received messages that wait to be handled, sorted by urgency, and rejected when they have
//! waited for too long.
//!
//! All messages are taken from the sockets first, and only their first line is examined. The time that a
//! message waits here is therefore the load as its sender experiences it. Nothing is inferred from processor
//! usage or queue lengths. See docs/decisions/0031-overload-control-by-queueing-delay.md.

mod unhandled;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::service::{Load, Tokens};
use crate::transaction::{Flow, Time};

use super::access::Access;
use super::admission::Admission;
use super::arrivals::{Counts, Times};
use super::rejected_requests::Repeats;
use super::socket::{mark, threshold};
use super::sources::Sources;
use super::urgency::Urgency;
use unhandled::{Reason, UnhandledLog};

/// Waiting time from which new messages are examined more closely.
const CLOSER: Duration = Duration::from_millis(5);
/// At least one of this number of messages is of a less urgent kind, so that messages that look urgent can't
/// lock out all others.
const TURNS: u32 = 16;
/// Maximum number of requests that wait for a rejection to be sent.
const REJECTIONS_MAX: usize = 1024;

/// One in this many places for rejections is reserved for clients that use a reliable transport.
const RELIABLE_SHARE: usize = 8;

/// Maximum waiting time of a registration among the first messages of a connection. After a failure, all
/// phones return at once, and rejecting them would make them return twice. It is less than 64 T1, after which
/// they give up (RFC 3261 section 17.1.2.2).
const ARRIVAL_WAIT_MAX: Duration = Duration::from_secs(16);

/// What is known of a phone that registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phone {
    /// A phone has registered from there before.
    Known,
    Unknown,
    /// The connection was just opened.
    Arriving,
}

/// When a message arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    /// The present time, since the start of the server.
    pub(super) now: Duration,
    /// How long it has waited in the socket, as far as known.
    pub(super) waited: Duration,
}

impl Arrived {
    /// A message that has not waited in the socket.
    pub(super) fn at(now: Duration) -> Self {
        Self { now, waited: Duration::ZERO }
    }
}

/// Settings of the inbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InboxSettings {
    /// Maximum waiting time of a message that may be rejected. A longer wait means overload, and clients
    /// retransmit.
    pub(super) wait_max: Duration,
    /// Maximum size of the waiting messages in bytes, with overhead. Messages that are not urgent may use
    /// three quarters of it.
    pub(super) bytes_max: usize,
}

impl Default for InboxSettings {
    /// 100 ms, which is well below T1, and 64 MiB.
    fn default() -> Self {
        Self { wait_max: Duration::from_millis(100), bytes_max: 64 << 20 }
    }
}

/// A waiting message.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) flow: Flow,
    pub(super) bytes: Bytes,
    pub(super) urgency: Urgency,
    /// The time of arrival, since the start of the server.
    pub(super) came: Duration,
    number: u64,
}

/// The memory that a waiting message takes, including its entry, so that many short messages count fully.
fn taken(bytes: &[u8]) -> usize {
    bytes.len() + size_of::<Waiting>()
}

/// Counters of the inbox.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InboxCounters {
    /// Messages received, by urgency.
    pub(super) came: [u64; Urgency::ALL.len()],
    /// Messages handled, by urgency.
    pub(super) handled: [u64; Urgency::ALL.len()],
    /// Messages that had waited too long or would have, by urgency.
    pub(super) late: [u64; Urgency::ALL.len()],
    /// The ones of these that were dropped without a response.
    pub(super) rejected_silently: u64,
    /// Messages dropped for lack of room.
    pub(super) no_room: u64,
    /// Messages and connections from networks without access.
    pub(super) denied: u64,
    /// Messages from sources that exceeded their rate.
    pub(super) too_many: u64,
    /// Requests over UDP that the kernel's filter could have dropped, without those rejected before.
    pub(super) datagrams: u64,
    /// As `datagrams`, including those rejected before.
    pub(super) datagrams_all: u64,
    /// Those of `datagrams_all` that are REGISTERs.
    pub(super) datagrams_register: u64,
    /// Total waiting time of the handled messages, in milliseconds.
    pub(super) waited_ms: u64,
}

impl InboxCounters {
    /// The counters of requests that begin something, with the number of datagrams dropped by the kernel, the
    /// times of the thread, and whether datagrams may wait unread.
    pub(super) fn counts(&self, stopped: u64, times: Times, unread: bool) -> Counts {
        let begins = |counts: &[u64; Urgency::ALL.len()]| counts.iter().skip(Urgency::Renewal as usize).sum();
        Counts {
            first: self.datagrams,
            all: self.datagrams_all,
            registers: self.datagrams_register,
            stopped,
            handled: begins(&self.handled),
            refused: begins(&self.late),
            times,
            unread,
        }
    }
}

/// The waiting messages.
#[derive(Debug)]
pub(super) struct Inbox {
    settings: InboxSettings,
    sources: Option<Sources>,
    access: Access,
    /// Decodes the tokens in the Routes of requests within dialogs.
    tokens: Option<Tokens>,
    /// One queue for each urgency.
    queues: [VecDeque<Waiting>; Urgency::ALL.len()],
    bytes: usize,
    /// Number of waiting messages.
    waiting: usize,
    /// The time of the last search for messages that have waited too long. Later messages can't have waited
    /// too long at that time.
    looked: Option<Duration>,
    /// Number of messages received so far.
    came: u64,
    /// Counts the handled messages, to give less urgent ones their turn.
    turn: u32,
    /// Tasks that wait until all earlier messages are handled, in the order of message numbers.
    after: VecDeque<(u64, oneshot::Sender<()>)>,
    pub(super) admission: Admission,
    /// Requests that were rejected silently.
    repeats: Repeats,
    /// Datagrams whose hash is at or above this are on trial; `None` if no datagram is.
    on_trial: Option<u32>,
    /// Requests for which a rejection is to be sent.
    rejections: VecDeque<Waiting>,
    /// Current limit on the number of these.
    rejections_max: usize,
    pub(super) counters: InboxCounters,
    log: UnhandledLog,
}

impl Inbox {
    /// Creates an inbox. `key` must be random.
    pub(super) fn new(settings: InboxSettings, sources: Option<Sources>, key: [u8; 16]) -> Self {
        Self {
            settings,
            sources,
            access: Access::default(),
            tokens: None,
            queues: Default::default(),
            bytes: 0,
            waiting: 0,
            looked: None,
            came: 0,
            turn: 0,
            after: VecDeque::new(),
            admission: Admission::default(),
            repeats: Repeats::new(key),
            on_trial: None,
            rejections: VecDeque::new(),
            rejections_max: REJECTIONS_MAX,
            counters: InboxCounters::default(),
            log: UnhandledLog::default(),
        }
    }

    /// Replaces the access rules.
    pub(super) fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Sets the tokens that identify requests within dialogs.
    pub(super) fn set_tokens(&mut self, tokens: Tokens) {
        self.tokens = Some(tokens);
    }

    /// Returns true if the peer has access.
    pub(super) fn allows(&self, peer: IpAddr) -> bool {
        self.access.allows(peer)
    }

    /// Returns true if the peer has access. If it has none, that is counted and logged.
    pub(super) fn admits(&mut self, now: Duration, peer: IpAddr) -> bool {
        let admitted = self.access.allows(peer);
        if !admitted {
            self.counters.denied += 1;
            self.log.log(now, peer, Reason::Access);
        }
        admitted
    }

    /// Replaces the settings. The counts of sources start anew.
    pub(super) fn configure(&mut self, settings: InboxSettings, sources: Option<Sources>) {
        (self.settings, self.sources, self.looked) = (settings, sources, None);
    }

    /// Adds a message. `keep` makes a permanent copy of it, and `knows` returns what is known of a phone that
    /// registers over a flow.
    pub(super) fn push(
        &mut self,
        arrived: Arrived,
        flow: Flow,
        bytes: &[u8],
        keep: impl FnOnce() -> Bytes,
        knows: impl FnOnce(&Flow) -> Phone,
    ) {
        let Arrived { now, waited } = arrived;
        if !self.admits(now, flow.peer.ip()) {
            return;
        }
        let mut urgency = Urgency::of(bytes);
        let overloaded = self.admission.is_overloaded();
        let unreliable = !flow.protocol.is_reliable();
        let waits = || overloaded || self.front().is_some_and(|front| now > front.came + CLOSER);
        if urgency == Urgency::Registration {
            urgency = match knows(&flow) {
                Phone::Known => Urgency::Renewal,
                Phone::Unknown => urgency,
                Phone::Arriving => Urgency::Arrival,
            };
        } else if waits() {
            let tokens = self.tokens.as_ref();
            urgency =
                urgency.looked_at(bytes, |user| tokens.is_some_and(|tokens| tokens.read(user).is_some()));
        }
        let max = match urgency {
            Urgency::Begun => self.settings.bytes_max,
            _ => self.settings.bytes_max / 4 * 3,
        };
        if self.bytes + taken(bytes) > max {
            self.counters.no_room += 1;
            self.log.log(now, flow.peer.ip(), Reason::NoRoom);
            return;
        }
        if self.sources.as_mut().is_some_and(|sources| !sources.allows(Time::ZERO + now, flow.peer.ip())) {
            self.counters.too_many += 1;
            self.log.log(now, flow.peer.ip(), Reason::TooMany);
            return;
        }
        self.came += 1;
        count(&mut self.counters.came, urgency);
        let begins = urgency >= Urgency::Renewal;
        let counts = begins && unreliable;
        // A phone needs its registration however late, and one that is served retransmits no more.
        let calls = urgency == Urgency::New;
        let again =
            counts && calls && (self.is_on_trial(bytes) || (overloaded && self.repeats.contains(bytes)));
        self.counters.datagrams += u64::from(counts && !again);
        self.counters.datagrams_all += u64::from(counts);
        self.counters.datagrams_register += u64::from(counts && !calls);
        // What has waited too long in the socket is rejected before anything newer is handled.
        let late = overloaded && begins && (waited > self.settings.wait_max || self.is_full(urgency));
        if again || late {
            return self.reject(now, flow, bytes, keep, urgency);
        }
        self.bytes += taken(bytes);
        let waiting =
            Waiting { flow, bytes: keep(), urgency, came: now.saturating_sub(waited), number: self.came };
        if let Some(queue) = self.queues.get_mut(urgency as usize) {
            queue.push_back(waiting);
            self.waiting += 1;
        }
    }

    /// Returns true if as many messages wait before one of this urgency as can be served in time.
    fn is_full(&self, urgency: Urgency) -> bool {
        let room = self.admission.room(self.settings.wait_max);
        self.waiting_like(urgency).is_some_and(|waiting| waiting >= room)
    }

    /// Puts datagrams beyond this share on trial: they pass only since the filter was opened further, and may
    /// be retransmissions of requests that the kernel dropped.
    pub(super) fn admit(&mut self, share: f64) {
        self.on_trial = (share < 1.0).then(|| threshold(share));
    }

    fn is_on_trial(&self, message: &[u8]) -> bool {
        self.on_trial.is_some_and(|from| mark(message).is_some_and(|mark| mark >= from))
    }

    /// The number of waiting messages that are handled before one of this urgency, or in turns with it;
    /// `None` if any number may wait.
    fn waiting_like(&self, urgency: Urgency) -> Option<usize> {
        let [_, _, renewal, registration, _, new] = &self.queues;
        match urgency {
            Urgency::New => Some(new.len()),
            Urgency::Renewal => Some(renewal.len()),
            Urgency::Arrival => None,
            _ => Some(renewal.len() + registration.len()),
        }
    }

    /// Rejects a message. A response is sent only if there is time for it; `keep` is called only then.
    fn reject(
        &mut self,
        now: Duration,
        flow: Flow,
        bytes: &[u8],
        keep: impl FnOnce() -> Bytes,
        urgency: Urgency,
    ) {
        count(&mut self.counters.late, urgency);
        self.log.log(now, flow.peer.ip(), Reason::Overload);
        self.admission.on_refused();
        // Clients on UDP retransmit by themselves, so other clients take precedence.
        let reliable = flow.protocol.is_reliable();
        let max = if reliable {
            self.rejections_max
        } else {
            self.rejections_max - self.rejections_max / RELIABLE_SHARE
        };
        if self.rejections.len() < max {
            self.rejections.push_back(Waiting { flow, bytes: keep(), urgency, came: now, number: self.came });
            return;
        }
        self.counters.rejected_silently += 1;
        if !reliable && urgency == Urgency::New {
            self.repeats.insert(Time::ZERO + now, bytes);
        }
    }

    /// Returns true if a rejection is to be sent.
    pub(super) fn has_rejections(&self) -> bool {
        !self.rejections.is_empty()
    }

    /// The next request for which a rejection is to be sent.
    pub(super) fn next_rejection(&mut self) -> Option<Waiting> {
        self.rejections.pop_front()
    }

    /// Sets how many rejections may wait to be sent.
    pub(super) fn set_rejections_max(&mut self, max: usize) {
        self.rejections_max = max.min(REJECTIONS_MAX);
    }

    /// The longest-waiting message of those that may be rejected.
    fn front(&self) -> Option<&Waiting> {
        let [_, queues @ ..] = &self.queues;
        queues.iter().filter_map(VecDeque::front).min_by_key(|waiting| waiting.number)
    }

    /// The time that the longest-waiting message has waited.
    pub(super) fn longest_wait(&self, now: Duration) -> Duration {
        let fronts = self.queues.iter().filter_map(VecDeque::front);
        fronts.map(|waiting| now.saturating_sub(waiting.came)).max().unwrap_or_default()
    }

    /// The number of waiting messages.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0 && self.rejections.is_empty()
    }

    /// Updates admission control even if nothing arrives, because the overload ends after a time without
    /// rejections.
    pub(super) fn look(&mut self, now: Duration) {
        if self.is_empty() {
            self.admission.on_dry();
        }
        self.admission.look(Time::ZERO + now);
    }

    /// The number of the last message received.
    pub(super) fn last(&self) -> u64 {
        self.came
    }

    /// Returns true if all messages up to this number have been handled.
    pub(super) fn is_done_with(&self, number: u64) -> bool {
        self.queues.iter().filter_map(VecDeque::front).all(|waiting| waiting.number > number)
    }

    /// Returns a receiver that is notified once all messages received so far have been handled; `None` if
    /// they have been already.
    pub(super) fn after_all(&mut self) -> Option<oneshot::Receiver<()>> {
        if self.is_empty() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.after.push_back((self.came, sender));
        Some(receiver)
    }

    /// Notifies the tasks whose earlier messages have all been handled. Call it after handling the messages
    /// taken.
    pub(super) fn notify_handled(&mut self) {
        if self.after.is_empty() {
            return;
        }
        let first = self.queues.iter().filter_map(VecDeque::front).map(|waiting| waiting.number).min();
        while self.after.front().is_some_and(|(number, _)| first.is_none_or(|first| *number < first)) {
            if let Some((_, sender)) = self.after.pop_front() {
                // The task may have ended.
                let _ = sender.send(());
            }
        }
    }

    /// Takes the next message to handle. Messages that have waited too long are rejected first, so that they
    /// take no room. Messages of existing transactions and dialogs are never rejected, because that would
    /// waste the work done for them.
    pub(super) fn next(&mut self, now: Duration) -> Option<Waiting> {
        if self.looked != Some(now) {
            self.looked = Some(now);
            self.admission.look(Time::ZERO + now);
            self.reject_late(now);
        }
        let Some(waiting) = self.next_in_turn() else {
            self.admission.on_dry();
            return None;
        };
        self.bytes -= taken(&waiting.bytes);
        self.waiting -= 1;
        count(&mut self.counters.handled, waiting.urgency);
        if waiting.urgency >= Urgency::Renewal {
            self.admission.on_handled();
        }
        self.counters.waited_ms += now.saturating_sub(waiting.came).as_millis() as u64;
        Some(waiting)
    }

    fn reject_late(&mut self, now: Duration) {
        for queue in 1..self.queues.len() {
            let arrivals = queue == Urgency::Arrival as usize;
            let wait_max = if arrivals { ARRIVAL_WAIT_MAX } else { self.settings.wait_max };
            let late = |waiting: &Waiting| now > waiting.came + wait_max;
            while let Some(queue) = self.queues.get_mut(queue).filter(|queue| queue.front().is_some_and(late))
                && let Some(Waiting { flow, bytes, urgency, .. }) = queue.pop_front()
            {
                self.bytes -= taken(&bytes);
                self.waiting -= 1;
                self.reject(now, flow, &bytes, || bytes.clone(), urgency);
            }
        }
    }

    fn next_in_turn(&mut self) -> Option<Waiting> {
        self.turn = self.turn.wrapping_add(1);
        let [begun, emergency, renewal, registration, arrival, new] = &mut self.queues;
        let mut phones =
            || renewal.pop_front().or_else(|| registration.pop_front()).or_else(|| arrival.pop_front());
        // Registrations and new requests take turns.
        let mut others = |first: bool| {
            if first { phones().or_else(|| new.pop_front()) } else { new.pop_front().or_else(&mut phones) }
        };
        let even = self.turn.is_multiple_of(2);
        match self.turn % TURNS {
            0 => others((self.turn / TURNS).is_multiple_of(2))
                .or_else(|| emergency.pop_front())
                .or_else(|| begun.pop_front()),
            8 => emergency.pop_front().or_else(|| begun.pop_front()).or_else(|| others(even)),
            _ => begun.pop_front().or_else(|| emergency.pop_front()).or_else(|| others(even)),
        }
    }
}

fn count(counters: &mut [u64; Urgency::ALL.len()], urgency: Urgency) {
    if let Some(counter) = counters.get_mut(urgency as usize) {
        *counter += 1;
    }
}

/// Computes what happened between two looks.
#[derive(Debug, Default)]
pub(super) struct Looks {
    at: Duration,
    handled: u64,
    refused: u64,
}

impl Looks {
    pub(super) fn look(&mut self, now: Duration, counters: &InboxCounters) -> Load {
        let begins = |counts: &[u64; Urgency::ALL.len()]| counts.iter().skip(1).sum::<u64>();
        let (handled, refused) = (begins(&counters.handled), begins(&counters.late) + counters.no_room);
        let load = Load {
            secs: now.saturating_sub(self.at).as_secs_f64(),
            handled: handled - self.handled,
            refused: refused - self.refused,
        };
        *self = Self { at: now, handled, refused };
        load
    }
}

#[cfg(test)]
mod tests;
