//! What has come and waits to be handled: sorted by urgency, and refused when it has waited for too long.
//!
//! Everything that comes is taken from the sockets first and looked at no further than its first line. So the time that a
//! message waits here is the load, as its sender feels it: nothing is guessed from the processor's use or the length of
//! queues. See docs/decisions/0031-overload-control-by-queueing-delay.md.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::service::{Load, Tokens};
use crate::transaction::{Flow, Time};

use super::access::Access;
use super::admission::Admission;
use super::arrivals::Counts;
use super::repeats::Repeats;
use super::socket::{mark, threshold};
use super::sources::Sources;
use super::urgency::Urgency;

/// Once somebody waits for this long, what comes is looked at more closely.
const CLOSER: Duration = Duration::from_millis(5);
/// Of so many messages at least one is not of the most urgent kind: nobody can keep all others out with messages that look
/// urgent.
const TURNS: u32 = 16;
/// Refusals that may wait to be told.
const TO_TELL_MAX: usize = 1024;

/// How long a registration may wait that is among the first on a connection. After a failure all phones come at once: to refuse
/// them would have them come twice. Less than 64 T1, after which they give up (RFC 3261 section 17.1.2.2).
const ARRIVAL_PATIENCE: Duration = Duration::from_secs(16);

/// What is known of a phone that registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phone {
    /// One has registered from there before.
    Known,
    Unknown,
    /// Its connection was just opened.
    Arriving,
}

/// What the inbox does with those who come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct InboxSettings {
    /// Who has waited for longer is refused: there is more than can be done, and whoever waits longer asks again.
    pub(super) patience: Duration,
    /// Bytes that may wait, with what each message takes besides; what isn't urgent may have three quarters of them.
    pub(super) bytes_max: usize,
}

impl Default for InboxSettings {
    fn default() -> Self {
        Self { patience: Duration::from_millis(100), bytes_max: 64 << 20 }
    }
}

/// A message that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) flow: Flow,
    pub(super) bytes: Bytes,
    pub(super) urgency: Urgency,
    /// When, since the start of the server.
    pub(super) came: Duration,
    number: u64,
}

/// What a message that waits takes of the room: short ones must not be many more than it is for.
fn taken(bytes: &[u8]) -> usize {
    bytes.len() + size_of::<Waiting>()
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct InboxCounters {
    /// Messages that came, by urgency.
    pub(super) came: [u64; Urgency::ALL.len()],
    /// Messages that were given to be handled, by urgency.
    pub(super) handled: [u64; Urgency::ALL.len()],
    /// Messages that had waited for too long, or would have, by urgency.
    pub(super) late: [u64; Urgency::ALL.len()],
    /// Of those, the ones whose senders hear nothing.
    pub(super) untold: u64,
    /// Messages that there was no room for.
    pub(super) no_room: u64,
    /// Messages from networks that may send none.
    pub(super) denied: u64,
    /// Messages of sources that sent too many.
    pub(super) too_many: u64,
    /// Requests over UDP that a gate in the kernel could have stopped, without those that were refused before.
    pub(super) datagrams: u64,
    /// All of them.
    pub(super) datagrams_all: u64,
    /// Milliseconds that those who were handled had waited, in all.
    pub(super) waited_ms: u64,
}

impl InboxCounters {
    /// Of requests that begin something; the kernel has stopped so many, and for so long there was nothing to do.
    pub(super) fn counts(&self, stopped: u64, idle: Duration) -> Counts {
        let begins = |counts: &[u64; Urgency::ALL.len()]| counts.iter().skip(Urgency::Renewal as usize).sum();
        Counts {
            first: self.datagrams,
            all: self.datagrams_all,
            stopped,
            handled: begins(&self.handled),
            refused: begins(&self.late),
            idle_us: idle.as_micros() as u64,
        }
    }
}

/// Messages that wait.
#[derive(Debug)]
pub(super) struct Inbox {
    settings: InboxSettings,
    sources: Option<Sources>,
    access: Access,
    /// Opens those that stand in Routes within dialogs.
    tokens: Option<Tokens>,
    /// One for each urgency.
    queues: [VecDeque<Waiting>; Urgency::ALL.len()],
    bytes: usize,
    /// How many wait.
    waiting: usize,
    /// When it was last looked for those who have waited too long. Whoever came since then hasn't by that time.
    looked: Option<Duration>,
    /// Messages that came so far.
    came: u64,
    /// Goes on with each message that is handled.
    turn: u32,
    /// Who waits for the end of all that came before: in the order of the numbers.
    after: VecDeque<(u64, oneshot::Sender<()>)>,
    pub(super) admission: Admission,
    /// What was refused without a word.
    repeats: Repeats,
    /// Datagrams with such a mark or more are on trial; none without.
    on_trial: Option<u32>,
    /// Requests whose senders are to be told that they are refused.
    to_tell: VecDeque<Waiting>,
    /// How many of those there may be now.
    tell_max: usize,
    pub(super) counters: InboxCounters,
}

impl Inbox {
    /// `key` must be random.
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
            to_tell: VecDeque::new(),
            tell_max: TO_TELL_MAX,
            counters: InboxCounters::default(),
        }
    }

    /// From now on only these may send.
    pub(super) fn set_access(&mut self, access: Access) {
        self.access = access;
    }

    /// Requests with these are within dialogs.
    pub(super) fn set_tokens(&mut self, tokens: Tokens) {
        self.tokens = Some(tokens);
    }

    /// May who is there send?
    pub(super) fn allows(&self, peer: std::net::IpAddr) -> bool {
        self.access.allows(peer)
    }

    /// From now on it does as these say. What sources have sent is forgotten.
    pub(super) fn configure(&mut self, settings: InboxSettings, sources: Option<Sources>) {
        (self.settings, self.sources, self.looked) = (settings, sources, None);
    }

    /// A message has come. `keep` makes a copy of it that lasts, and `knows` tells what is known of a phone that registers over a
    /// flow.
    pub(super) fn push(
        &mut self,
        now: Duration,
        flow: Flow,
        bytes: &[u8],
        keep: impl FnOnce() -> Bytes,
        knows: impl FnOnce(&Flow) -> Phone,
    ) {
        if !self.access.allows(flow.peer.ip()) {
            self.counters.denied += 1;
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
            return;
        }
        if self.sources.as_mut().is_some_and(|sources| !sources.allows(Time::ZERO + now, flow.peer.ip())) {
            self.counters.too_many += 1;
            return;
        }
        self.came += 1;
        count(&mut self.counters.came, urgency);
        let begins = urgency >= Urgency::Renewal;
        let again =
            begins && unreliable && (self.is_on_trial(bytes) || (overloaded && self.repeats.contains(bytes)));
        self.counters.datagrams += u64::from(begins && unreliable && !again);
        self.counters.datagrams_all += u64::from(begins && unreliable);
        let full = overloaded
            && begins
            && self
                .waiting_like(urgency)
                .is_some_and(|waiting| waiting >= self.admission.room(self.settings.patience));
        let refused = again || full;
        if refused {
            return self.refuse(now, flow, bytes, keep, urgency);
        }
        self.bytes += taken(bytes);
        let waiting = Waiting { flow, bytes: keep(), urgency, came: now, number: self.came };
        if let Some(queue) = self.queues.get_mut(urgency as usize) {
            queue.push_back(waiting);
            self.waiting += 1;
        }
    }

    /// Datagrams beyond this share are on trial: they came here only now that the gate was opened, and those who sent them may
    /// have asked before.
    pub(super) fn admit(&mut self, share: f64) {
        self.on_trial = (share < 1.0).then(|| threshold(share));
    }

    fn is_on_trial(&self, message: &[u8]) -> bool {
        self.on_trial.is_some_and(|from| mark(message).is_some_and(|mark| mark >= from))
    }

    /// How many wait that are handled before such a one, or by turns with those that are; none if any number may wait.
    fn waiting_like(&self, urgency: Urgency) -> Option<usize> {
        let [_, _, renewal, registration, _, new] = &self.queues;
        match urgency {
            Urgency::New => Some(new.len()),
            Urgency::Renewal => Some(renewal.len()),
            Urgency::Arrival => None,
            _ => Some(renewal.len() + registration.len()),
        }
    }

    /// Its sender is told if there is time for that; `keep` is called only then.
    fn refuse(
        &mut self,
        now: Duration,
        flow: Flow,
        bytes: &[u8],
        keep: impl FnOnce() -> Bytes,
        urgency: Urgency,
    ) {
        count(&mut self.counters.late, urgency);
        self.admission.on_refused();
        // Those over UDP ask again by themselves if they hear nothing: others come first.
        let reliable = flow.protocol.is_reliable();
        let max = if reliable { self.tell_max } else { self.tell_max - self.tell_max / 8 };
        if self.to_tell.len() < max {
            self.to_tell.push_back(Waiting { flow, bytes: keep(), urgency, came: now, number: self.came });
            return;
        }
        self.counters.untold += 1;
        if !reliable {
            self.repeats.insert(Time::ZERO + now, bytes);
        }
    }

    /// Somebody is to be told that it is refused.
    pub(super) fn has_to_tell(&self) -> bool {
        !self.to_tell.is_empty()
    }

    /// One who is to be told that it is refused.
    pub(super) fn next_to_tell(&mut self) -> Option<Waiting> {
        self.to_tell.pop_front()
    }

    /// So many may be told from now on, until they have been.
    pub(super) fn set_tell_max(&mut self, max: usize) {
        self.tell_max = max.min(TO_TELL_MAX);
    }

    /// The one who has waited longest of those who may be refused.
    fn front(&self) -> Option<&Waiting> {
        let [_, queues @ ..] = &self.queues;
        queues.iter().filter_map(VecDeque::front).min_by_key(|waiting| waiting.number)
    }

    /// How long the one has waited who has waited longest.
    pub(super) fn longest_wait(&self, now: Duration) -> Duration {
        let fronts = self.queues.iter().filter_map(VecDeque::front);
        fronts.map(|waiting| now.saturating_sub(waiting.came)).max().unwrap_or_default()
    }

    /// How many wait.
    pub(super) fn len(&self) -> usize {
        self.waiting
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting == 0 && self.to_tell.is_empty()
    }

    /// Looks at the load also while nothing comes: once nobody was refused for a while there is no overload.
    pub(super) fn look(&mut self, now: Duration) {
        if self.is_empty() {
            self.admission.on_dry();
        }
        self.admission.look(Time::ZERO + now);
    }

    /// The number of the last message that came.
    pub(super) fn last(&self) -> u64 {
        self.came
    }

    /// Has all been handled that came up to this number?
    pub(super) fn is_done_with(&self, number: u64) -> bool {
        self.queues.iter().filter_map(VecDeque::front).all(|waiting| waiting.number > number)
    }

    /// Tells when all that has come so far is done; `None` if it is already.
    pub(super) fn after_all(&mut self) -> Option<oneshot::Receiver<()>> {
        if self.is_empty() {
            return None;
        }
        let (sender, receiver) = oneshot::channel();
        self.after.push_back((self.came, sender));
        Some(receiver)
    }

    /// Tells those who wait for the end of what came before. To be called when what was taken has been handled.
    pub(super) fn tell_done(&mut self) {
        if self.after.is_empty() {
            return;
        }
        let first = self.queues.iter().filter_map(VecDeque::front).map(|waiting| waiting.number).min();
        while self.after.front().is_some_and(|(number, _)| first.is_none_or(|first| *number < first)) {
            if let Some((_, sender)) = self.after.pop_front() {
                // Whoever waited may be gone.
                let _ = sender.send(());
            }
        }
    }

    /// The next message to be handled. Who has waited too long is refused first: they may not take up room. What has begun
    /// is never refused: to drop it would waste what was done for it.
    pub(super) fn next(&mut self, now: Duration) -> Option<Waiting> {
        if self.looked != Some(now) {
            self.looked = Some(now);
            self.admission.look(Time::ZERO + now);
            self.refuse_late(now);
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

    fn refuse_late(&mut self, now: Duration) {
        for queue in 1..self.queues.len() {
            let arrivals = queue == Urgency::Arrival as usize;
            let patience = if arrivals { ARRIVAL_PATIENCE } else { self.settings.patience };
            let late = |waiting: &Waiting| now > waiting.came + patience;
            while let Some(queue) = self.queues.get_mut(queue).filter(|queue| queue.front().is_some_and(late))
                && let Some(Waiting { flow, bytes, urgency, .. }) = queue.pop_front()
            {
                self.bytes -= taken(&bytes);
                self.waiting -= 1;
                self.refuse(now, flow, &bytes, || bytes.clone(), urgency);
            }
        }
    }

    fn next_in_turn(&mut self) -> Option<Waiting> {
        self.turn = self.turn.wrapping_add(1);
        let [begun, emergency, renewal, registration, arrival, new] = &mut self.queues;
        let mut phones =
            || renewal.pop_front().or_else(|| registration.pop_front()).or_else(|| arrival.pop_front());
        // Registrations and what is new have their turns one after the other.
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

/// Tells what happened from one look to the next.
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
