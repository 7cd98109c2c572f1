//! User agents by the thousand: current operations, the next messages, and their retransmission. No I/O, no
//! clock.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Instant;

use super::answer::{Came, Mark};
use super::digest::{Challenger, Credentials};
use super::keep_alive::KeepAlives;
use super::out::Out;
use super::outcome::Outcome;
use super::plan::{Plan, Scenario, T1};
use super::script::{Around, Beginning, Players};
use super::text::{Style, Who};

/// Number of steps of the retransmission interval: T1, 2 T1, 4 T1 and then always 8 T1 (non-INVITE requests:
/// T2).
const STEPS: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Free,
    Registering,
    Inviting,
    /// A provisional response has arrived: INVITE isn't retransmitted.
    Ringing,
    Ending,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Callee {
    Idle,
    /// 200 is retransmitted until ACK arrives.
    Answered,
    Confirmed,
}

#[derive(Debug)]
struct Slot {
    generation: u32,
    state: State,
    callee: Callee,
    user: u32,
    source: usize,
    callee_user: u32,
    callee_source: usize,
    due: Instant,
    counted: bool,
    /// CSeq of INVITE: 2 after a challenge of the proxy.
    attempt: u8,
    /// CSeq of REGISTER.
    cseq: u32,
    /// Request to retransmit; empty if it is written anew.
    request: Vec<u8>,
    /// Answer that the callee retransmits.
    answer: Vec<u8>,
    /// ACK that is sent again for each 200.
    ack: Vec<u8>,
}

/// A time at which a slot is checked.
#[derive(Debug, Clone, Copy)]
struct Alarm {
    at: Instant,
    slot: usize,
    generation: u32,
    /// A retransmission happens only in this state.
    state: State,
    callee: bool,
}

/// All user agents of a process.
#[derive(Debug)]
pub(super) struct Engine {
    style: Style,
    /// The addresses of the sources.
    pub(super) addresses: Vec<SocketAddr>,
    plan: Plan,
    slots: Vec<Slot>,
    free: Vec<usize>,
    again: [VecDeque<Alarm>; STEPS],
    timeouts: VecDeque<Alarm>,
    begun: u64,
    cseq: u32,
    /// Credentials of the phones.
    credentials: Option<Credentials>,
    /// Players of scenarios from a file.
    players: Option<Box<Players>>,
    /// Keep-alives of flows, if requested.
    keep_alives: Option<Box<KeepAlives>>,
    pub(super) outcome: Outcome,
    pub(super) out: Out,
}

impl Engine {
    pub(super) fn new(style: Style, addresses: Vec<SocketAddr>, plan: Plan) -> Self {
        Self {
            style,
            addresses,
            plan,
            slots: Vec::new(),
            free: Vec::new(),
            again: Default::default(),
            timeouts: VecDeque::new(),
            begun: 0,
            cseq: 0,
            credentials: None,
            players: None,
            keep_alives: None,
            outcome: Outcome::default(),
            out: Out::default(),
        }
    }

    /// Makes phones answer challenges from now on.
    pub(super) fn prove_by(&mut self, credentials: Credentials) {
        self.credentials = Some(credentials);
    }

    /// Enables scenarios of a file.
    pub(super) fn play_by(&mut self, players: Players) {
        self.players = Some(Box::new(players));
    }

    /// Enables keep-alives of flows.
    pub(super) fn keep_alive_by(&mut self, keep_alives: KeepAlives) {
        self.keep_alives = Some(Box::new(keep_alives));
    }

    /// Removes and returns the sources whose flows have turned out to be broken.
    pub(super) fn take_broken(&mut self) -> Vec<usize> {
        self.keep_alives.as_mut().map(|keeps| keeps.take_broken()).unwrap_or_default()
    }

    /// Advances scenarios. In a closed loop, those that end are replaced by others.
    fn play<T>(&mut self, now: Instant, work: impl FnOnce(&mut Players, &mut Around<'_>) -> T) -> Option<T> {
        let players = self.players.as_deref_mut()?;
        let mut around = Around {
            style: &self.style,
            addresses: &self.addresses,
            plan: &self.plan,
            credentials: &mut self.credentials,
            outcome: &mut self.outcome,
            out: &mut self.out,
        };
        let result = work(players, &mut around);
        let finished = players.take_finished();
        if self.plan.closed && self.plan.scenario == Scenario::File {
            (0..finished).for_each(|_| self.begin(now, now));
        }
        Some(result)
    }

    /// Sets whether REGISTERs remove all contacts of the phones, instead of adding one.
    pub(super) fn remove_contacts(&mut self, removes: bool) {
        self.style.removes = removes;
    }

    /// Restarts with another plan, once all operations are over.
    pub(super) fn restart(&mut self, plan: Plan) {
        self.plan = plan;
        self.begun = 0;
        self.outcome = Outcome::default();
    }

    /// Returns the number of current operations.
    pub(super) fn under_way(&self) -> usize {
        let playing = self.players.as_ref().map_or(0, |players| players.under_way());
        self.slots.len() - self.free.len() + playing
    }

    /// Returns whether all operations of the plan have begun.
    pub(super) fn all_begun(&self, now: Instant) -> bool {
        self.begun >= self.plan.limit || now >= self.plan.until
    }

    /// Returns the number of operations begun.
    pub(super) fn begun(&self) -> u64 {
        self.begun
    }

    /// In an open loop: notes the time at which the last operation really began, whenever it was due.
    pub(super) fn note_beginning(&mut self, now: Instant) {
        if self.outcome.begun > 0 {
            self.outcome.beginning = now.saturating_duration_since(self.plan.counted_from);
        }
    }

    /// Begins an operation that was due at `due`, unless all have begun.
    pub(super) fn begin(&mut self, now: Instant, due: Instant) {
        if self.all_begun(now) || self.addresses.is_empty() {
            return;
        }
        let number = self.begun;
        self.begun += 1;
        let user = (number % u64::from(self.plan.users.max(1))) as u32;
        let callee_user = (user + self.plan.users / 2) % self.plan.users.max(1);
        let sources = self.addresses.len();
        let counted = due >= self.plan.counted_from;
        self.outcome.begun += u64::from(counted);
        if self.plan.scenario == Scenario::File {
            let party = |user: u32| (user, user as usize % sources);
            let beginning = Beginning { number, due, counted, parties: [party(user), party(callee_user)] };
            self.play(now, |players, around| players.begin(now, beginning, around));
            return;
        }
        let slot = self.free.pop().unwrap_or_else(|| self.grow(now));
        let Some(place) = self.slots.get_mut(slot) else { return };
        place.generation = place.generation.wrapping_add(1);
        place.callee = Callee::Idle;
        (place.user, place.source) = (user, user as usize % sources);
        (place.callee_user, place.callee_source) = (callee_user, callee_user as usize % sources);
        (place.due, place.counted, place.attempt) = (due, counted, 1);
        place.state = match self.plan.scenario {
            Scenario::Register => State::Registering,
            Scenario::Call if is_renewal(number, self.plan.renewals) => State::Registering,
            Scenario::Call | Scenario::File => State::Inviting,
        };
        self.send_first(now, slot);
        if let Some(alarm) = self.alarm(slot, now + self.plan.timeout, false) {
            self.timeouts.push_back(alarm);
        }
    }

    fn grow(&mut self, now: Instant) -> usize {
        self.slots.push(Slot {
            generation: 0,
            state: State::Free,
            callee: Callee::Idle,
            user: 0,
            source: 0,
            callee_user: 0,
            callee_source: 0,
            due: now,
            counted: false,
            attempt: 1,
            cseq: 0,
            request: Vec::new(),
            answer: Vec::new(),
            ack: Vec::new(),
        });
        self.slots.len() - 1
    }

    fn who(&self, slot: usize) -> Option<Who> {
        let Slot { generation, user, source, attempt, .. } = self.slots.get(slot)?;
        let address = *self.addresses.get(*source)?;
        Some(Who { slot, generation: *generation, user: *user, attempt: *attempt, address })
    }

    fn alarm(&self, slot: usize, at: Instant, callee: bool) -> Option<Alarm> {
        let Slot { generation, state, .. } = self.slots.get(slot)?;
        Some(Alarm { at, slot, generation: *generation, state: *state, callee })
    }

    fn send_first(&mut self, now: Instant, slot: usize) {
        self.cseq += 1;
        let Some(place) = self.slots.get_mut(slot) else { return };
        place.cseq = self.cseq;
        self.write_first(slot);
        // Credentials are written only once: each time they would differ.
        self.keep(now, slot, self.credentials.is_some());
    }

    fn write_first(&mut self, slot: usize) {
        let (Some(who), Some(place)) = (self.who(slot), self.slots.get(slot)) else { return };
        let (out, style, callee, cseq) = (&mut self.out, &self.style, place.callee_user, place.cseq);
        let registers = place.state == State::Registering;
        let proof: &[u8] = match &mut self.credentials {
            None => &[],
            Some(credentials) => {
                let (challenger, method, uri) = match registers {
                    true => (Challenger::Server, "REGISTER", style.registrar()),
                    false => (Challenger::Proxy, "INVITE", style.address(callee)),
                };
                credentials.line(who.user, &style.name(who.user), challenger, method, &uri)
            }
        };
        match registers {
            true => out.add(place.source, |out| style.register(out, &who, cseq, proof)),
            false => out.add(place.source, |out| style.invite(out, &who, callee, proof)),
        }
    }

    /// Schedules the retransmission of the request that was written last. A request that can be written again
    /// from known data isn't stored: for millions without an answer that would take gigabytes.
    fn keep(&mut self, now: Instant, slot: usize, bytes: bool) {
        if !self.plan.unreliable {
            return;
        }
        if let Some(place) = self.slots.get_mut(slot) {
            place.request.clear();
            if bytes {
                place.request.extend_from_slice(self.out.last());
            }
        }
        let alarm = self.alarm(slot, now + T1, false);
        self.again[0].extend(alarm);
    }

    /// Handles bytes received by a source.
    pub(super) fn handle(&mut self, now: Instant, source: usize, bytes: &[u8]) {
        if let Some(keeps) = &mut self.keep_alives
            && keeps.handle(source, bytes, &mut self.outcome)
        {
            return;
        }
        let came = Came { bytes };
        if self.play(now, |players, around| players.handle(now, &came, around)) == Some(true) {
            return;
        }
        match came.status() {
            Some(code) => {
                let Some(mark) = came.branch() else { return };
                if self.is_current(mark) {
                    self.on_response(now, mark, code, &came);
                }
            }
            None => self.on_request(now, source, &came),
        }
    }

    fn is_current(&self, mark: Mark) -> bool {
        let slot = self.slots.get(mark.slot);
        slot.is_some_and(|slot| slot.generation == mark.generation && slot.state != State::Free)
    }

    fn on_response(&mut self, now: Instant, mark: Mark, code: u16, came: &Came<'_>) {
        let slot = mark.slot;
        let Some(place) = self.slots.get_mut(slot) else { return };
        if u32::from(place.attempt) != mark.attempt {
            return;
        }
        match (mark.kind, place.state, code) {
            (b'i', State::Inviting, 100..=199) => place.state = State::Ringing,
            (b'i', State::Inviting | State::Ringing, 200..=299) => self.on_answered(now, slot, came),
            // The ACK was lost.
            (b'i', State::Ending, 200..=299) => {
                let (out, source) = (&mut self.out, place.source);
                out.add(source, |out| out.extend_from_slice(&place.ack));
            }
            (b'i', State::Inviting | State::Ringing, 300..) => {
                let (source, callee) = (place.source, place.callee_user);
                let Some(who) = self.who(slot) else { return };
                let style = &self.style;
                self.out.add(source, |out| style.ack_of_refusal(out, &who, callee, came));
                if !self.proves(now, slot, code, came) {
                    self.over(now, slot, Some(code));
                }
            }
            (b'r', State::Registering, 401 | 407) if self.proves(now, slot, code, came) => {}
            (b'r', State::Registering, 200..) | (b'b', State::Ending, 200..) => {
                self.over(now, slot, Some(code));
            }
            _ => {}
        }
    }

    /// Sends a request again with the credentials that the answer demands. Returns false if it demands none,
    /// or they can't be provided.
    fn proves(&mut self, now: Instant, slot: usize, code: u16, came: &Came<'_>) -> bool {
        let (Some(challenger), Some(credentials)) = (Challenger::of(code), &mut self.credentials) else {
            return false;
        };
        let Some(place) = self.slots.get_mut(slot) else { return false };
        if place.attempt > 1 || !credentials.on_challenge(place.user, challenger, came) {
            return false;
        }
        place.attempt = 2;
        if place.state == State::Ringing {
            place.state = State::Inviting;
        }
        self.outcome.challenged += u64::from(place.counted);
        self.send_first(now, slot);
        true
    }

    /// Sends ACK, and BYE at once: calls of some duration would only hold memory here.
    fn on_answered(&mut self, now: Instant, slot: usize, ok: &Came<'_>) {
        let Some(who) = self.who(slot) else { return };
        let style = &self.style;
        let Some(place) = self.slots.get_mut(slot) else { return };
        place.state = State::Ending;
        if place.counted {
            self.outcome.answered += 1;
            let time = now.saturating_duration_since(place.due);
            self.outcome.response.record(time);
            if self.plan.measures(now) {
                self.outcome.response_within.record(time);
            }
        }
        self.out.add(place.source, |out| style.in_dialog(out, &who, ok, "ACK"));
        place.ack.clear();
        place.ack.extend_from_slice(self.out.last());
        self.out.add(place.source, |out| style.in_dialog(out, &who, ok, "BYE"));
        self.keep(now, slot, true);
    }

    /// Handles a request to a callee.
    fn on_request(&mut self, now: Instant, source: usize, came: &Came<'_>) {
        let Some(address) = self.addresses.get(source).copied() else { return };
        let style = &self.style;
        let slot = came.call().filter(|mark| self.is_current(*mark)).map(|mark| mark.slot);
        let place = slot.and_then(|slot| self.slots.get_mut(slot));
        match (came.method(), place) {
            (b"INVITE", Some(place)) if place.callee == Callee::Idle => {
                place.callee = Callee::Answered;
                self.out.add(source, |out| style.answer(out, came, "180 Ringing", address));
                self.out.add(source, |out| style.answer(out, came, "200 OK", address));
                if self.plan.unreliable {
                    place.answer.clear();
                    place.answer.extend_from_slice(self.out.last());
                    let alarm = slot.and_then(|slot| self.alarm(slot, now + T1, true));
                    self.again[0].extend(alarm);
                }
            }
            (b"INVITE", Some(place)) => self.out.add(source, |out| out.extend_from_slice(&place.answer)),
            // The caller has given up.
            (b"INVITE", None) => {
                self.out.add(source, |out| style.answer(out, came, "480 Too late", address));
            }
            (b"ACK", Some(place)) => place.callee = Callee::Confirmed,
            (b"ACK", None) => {}
            _ => self.out.add(source, |out| style.answer(out, came, "200 OK", address)),
        }
    }

    /// Ends an operation with a status code, or without an answer.
    fn over(&mut self, now: Instant, slot: usize, code: Option<u16>) {
        let Some(place) = self.slots.get_mut(slot) else { return };
        let (state, counted) = (place.state, place.counted);
        place.state = State::Free;
        self.free.push(slot);
        let within = self.plan.measures(now);
        self.outcome.within += u64::from(within && matches!(code, Some(200..=299)));
        if counted {
            let time = now.saturating_duration_since(place.due);
            match code {
                Some(200..=299) if state == State::Registering => {
                    self.outcome.succeeded += 1;
                    self.outcome.response.record(time);
                    if within {
                        self.outcome.response_within.record(time);
                    }
                }
                Some(200..=299) => {
                    self.outcome.succeeded += 1;
                    self.outcome.whole.record(time);
                }
                Some(503) => self.outcome.refused += 1,
                Some(code) => *self.outcome.codes.entry(code).or_default() += 1,
                None => self.outcome.timed_out += 1,
            }
        }
        if self.plan.closed {
            self.begin(now, now);
        }
    }

    /// Retransmits unanswered requests, and gives up those that have waited too long.
    pub(super) fn handle_timeout(&mut self, now: Instant) {
        if let Some(keeps) = &mut self.keep_alives {
            keeps.handle_timeout(now, &mut self.out, &mut self.outcome);
        }
        self.play(now, |players, around| players.handle_timeout(now, around));
        for step in 0..STEPS {
            while let Some(alarm) = due(self.again.get_mut(step), now) {
                self.send_again(now, step, &alarm);
            }
        }
        while let Some(alarm) = due(Some(&mut self.timeouts), now) {
            let place = self.slots.get(alarm.slot);
            let same =
                place.is_some_and(|place| place.generation == alarm.generation && place.state != State::Free);
            if same {
                self.over(now, alarm.slot, None);
            }
        }
    }

    fn send_again(&mut self, now: Instant, step: usize, alarm: &Alarm) {
        let Some(place) = self.slots.get(alarm.slot) else { return };
        let wanted = if alarm.callee {
            place.callee == Callee::Answered && place.state != State::Free
        } else {
            place.state == alarm.state
        };
        if place.generation != alarm.generation || !wanted {
            return;
        }
        if alarm.callee {
            self.out.add(place.callee_source, |out| out.extend_from_slice(&place.answer));
        } else if place.request.is_empty() {
            self.write_first(alarm.slot);
        } else {
            self.out.add(place.source, |out| out.extend_from_slice(&place.request));
        }
        let counted = self.slots.get(alarm.slot).is_some_and(|place| place.counted);
        self.outcome.retransmitted += u64::from(counted);
        let next = (step + 1).min(STEPS - 1);
        if let Some(queue) = self.again.get_mut(next) {
            queue.push_back(Alarm { at: now + T1 * (1 << next), ..*alarm });
        }
    }
}

/// Returns whether this operation is one of the given share of REGISTERs, which are spread evenly.
fn is_renewal(number: u64, share: f64) -> bool {
    (number as f64 * share).floor() < ((number + 1) as f64 * share).floor()
}

fn due(queue: Option<&mut VecDeque<Alarm>>, now: Instant) -> Option<Alarm> {
    let queue = queue?;
    queue.front().filter(|alarm| alarm.at <= now)?;
    queue.pop_front()
}

#[cfg(test)]
mod tests;
