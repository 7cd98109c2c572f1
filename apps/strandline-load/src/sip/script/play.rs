//! Scenarios in progress: the next steps, retransmissions, and messages received before their step.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use super::format::{Script, Wanted, What, Who};
use super::party::{Dialog, Party, Request, Sent, acknowledge_refusal, begins_dialog, contact, tag};
use super::template::Values;
use crate::sip::answer::{Came, Mark, find};
use crate::sip::digest::{Challenger, Credentials};
use crate::sip::format::put;
use crate::sip::out::Out;
use crate::sip::outcome::Outcome;
use crate::sip::plan::{Plan, T1};
use crate::sip::text::{ANSWERED, Style, line};

/// Maximum number of messages kept that arrive before their step; further ones are dropped, and missed later.
const CAME_MAX: usize = 16;
/// Maximum exponent of the retransmission interval: T1, 2 T1, 4 T1 and then always 8 T1.
const AGAIN_MAX: u32 = 3;

/// The surroundings of scenarios: their inputs and outputs.
pub(in crate::sip) struct Around<'a> {
    pub(in crate::sip) style: &'a Style,
    pub(in crate::sip) addresses: &'a [SocketAddr],
    pub(in crate::sip) plan: &'a Plan,
    pub(in crate::sip) credentials: &'a mut Option<Credentials>,
    pub(in crate::sip) outcome: &'a mut Outcome,
    pub(in crate::sip) out: &'a mut Out,
}

/// An operation that begins.
#[derive(Debug, Clone, Copy)]
pub(in crate::sip) struct Beginning {
    pub(in crate::sip) number: u64,
    pub(in crate::sip) due: Instant,
    pub(in crate::sip) counted: bool,
    /// Users and sources of the caller and the callee.
    pub(in crate::sip) parties: [(u32, usize); 2],
}

/// A timed action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// The pause of this step is over.
    Resume { step: usize },
    /// Retransmit a request that has no answer yet.
    Request { party: usize, cseq: u32, times: u32 },
    /// Retransmit the answer to INVITE, which is not acknowledged yet.
    Answer { party: usize, step: usize, times: u32 },
    /// The scenario has taken too long.
    Timeout,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Alarm {
    at: Instant,
    slot: usize,
    generation: u32,
    kind: Kind,
}

#[derive(Debug)]
struct Play {
    generation: u32,
    under_way: bool,
    step: usize,
    paused: bool,
    number: u64,
    due: Instant,
    counted: bool,
    answered: bool,
    parties: [Party; 2],
    /// Messages received by the parties before their step.
    came: Vec<(usize, Vec<u8>)>,
}

/// All scenarios in progress.
#[derive(Debug)]
pub(in crate::sip) struct Players {
    script: Script,
    plays: Vec<Play>,
    free: Vec<usize>,
    alarms: BinaryHeap<Reverse<Alarm>>,
    /// Number of scenarios that have ended since the last query.
    finished: usize,
}

const fn place(who: Who) -> usize {
    match who {
        Who::Caller => 0,
        Who::Callee => 1,
    }
}

impl Players {
    pub(in crate::sip) fn new(script: Script) -> Self {
        Self { script, plays: Vec::new(), free: Vec::new(), alarms: BinaryHeap::new(), finished: 0 }
    }

    pub(in crate::sip) fn under_way(&self) -> usize {
        self.plays.len() - self.free.len()
    }

    /// Returns the number of scenarios that have ended since the last call.
    pub(in crate::sip) fn take_finished(&mut self) -> usize {
        std::mem::take(&mut self.finished)
    }

    /// Begins a scenario.
    pub(in crate::sip) fn begin(&mut self, now: Instant, beginning: Beginning, around: &mut Around<'_>) {
        let Beginning { number, due, counted, parties } = beginning;
        let party = |(user, source)| Party { user, source, ..Party::default() };
        let fresh = |generation| Play {
            generation,
            under_way: true,
            step: 0,
            paused: false,
            number,
            due,
            counted,
            answered: false,
            parties: parties.map(party),
            came: Vec::new(),
        };
        let slot = match self.free.pop() {
            Some(slot) => slot,
            None => {
                self.plays.push(fresh(0));
                self.plays.len() - 1
            }
        };
        let Some(play) = self.plays.get_mut(slot) else { return };
        *play = fresh(play.generation.wrapping_add(1));
        self.alarm(slot, now + around.plan.timeout, Kind::Timeout);
        self.advance(now, slot, around);
    }

    fn alarm(&mut self, slot: usize, at: Instant, kind: Kind) {
        let Some(play) = self.plays.get(slot) else { return };
        self.alarms.push(Reverse(Alarm { at, slot, generation: play.generation, kind }));
    }

    fn is_current(&self, mark: Mark) -> bool {
        self.plays.get(mark.slot).is_some_and(|play| play.under_way && play.generation == mark.generation)
    }

    /// Handles a message received by a source. Returns false if it belongs to no scenario in progress.
    pub(in crate::sip) fn handle(&mut self, now: Instant, came: &Came<'_>, around: &mut Around<'_>) -> bool {
        match came.status() {
            Some(code) => {
                let Some(mark) = came.branch().filter(|mark| matches!(mark.kind, b'x' | b'y')) else {
                    return false;
                };
                if self.is_current(mark) {
                    self.on_response(now, mark, code, came, around);
                }
                true
            }
            None => {
                let Some(mark) = came.call().filter(|mark| mark.kind == b's') else { return false };
                if !self.is_current(mark) {
                    return false;
                }
                self.on_request(now, mark.slot, came, around);
                true
            }
        }
    }

    fn on_response(&mut self, now: Instant, mark: Mark, code: u16, came: &Came<'_>, around: &mut Around<'_>) {
        let (slot, role) = (mark.slot, usize::from(mark.kind == b'y'));
        let Some(play) = self.plays.get_mut(slot) else { return };
        let Some(party) = play.parties.get_mut(role) else { return };
        let is_invite = came.value("CSeq").ends_with(b"INVITE");
        if party.sent.cseq != mark.attempt || (party.sent.done && code >= 200) {
            if is_invite && (200..300).contains(&code) && !party.ack.is_empty() {
                around.out.add(party.source, |out| out.extend_from_slice(&party.ack));
            } else if is_invite && code >= 300 {
                acknowledge_refusal(party, came, around.out);
            }
            return;
        }
        party.sent.answered = true;
        if code >= 200 {
            party.sent.done = true;
            if is_invite && code >= 300 {
                acknowledge_refusal(party, came, around.out);
            }
            if let (Some(challenger), Some(credentials)) = (Challenger::of(code), around.credentials.as_mut())
                && !party.sent.proves
                && credentials.on_challenge(party.user, challenger, came)
            {
                around.outcome.challenged += u64::from(play.counted);
                let step = party.sent.step;
                self.send(now, slot, step, Some(challenger), around);
                return;
            }
            if (200..300).contains(&code) && begins_dialog(came.value("CSeq")) {
                let mut routes: Vec<Vec<u8>> = came.values("Record-Route").map(<[u8]>::to_vec).collect();
                routes.reverse();
                party.on_dialog(Dialog {
                    target: Came::uri(came.value("Contact")).to_vec(),
                    routes,
                    local: came.value("From").to_vec(),
                    remote: came.value("To").to_vec(),
                });
            }
        }
        if play.came.len() < CAME_MAX && code > 100 {
            play.came.push((role, came.bytes.to_vec()));
        }
        self.advance(now, slot, around);
    }

    fn on_request(&mut self, now: Instant, slot: usize, came: &Came<'_>, around: &mut Around<'_>) {
        let from_caller = find(came.value("From"), b";tag=a").is_some();
        let role = usize::from(from_caller);
        let Some(play) = self.plays.get_mut(slot) else { return };
        let Some(party) = play.parties.get_mut(role) else { return };
        let via = came.value("Via");
        if came.method() == b"ACK" {
            party.unacknowledged = None;
        } else if !party.received.is_empty() && (Came { bytes: &party.received }).value("Via") == via {
            if !party.answer.is_empty() {
                around.out.add(party.source, |out| out.extend_from_slice(&party.answer));
            }
            return;
        }
        let is_same = |(whose, bytes): &(usize, Vec<u8>)| {
            let known = Came { bytes };
            *whose == role && known.method() == came.method() && known.value("Via") == via
        };
        if play.came.len() < CAME_MAX && !play.came.iter().any(is_same) {
            play.came.push((role, came.bytes.to_vec()));
        }
        self.advance(now, slot, around);
    }

    /// Executes the next steps, as far as the received messages allow.
    fn advance(&mut self, now: Instant, slot: usize, around: &mut Around<'_>) {
        loop {
            let Some(play) = self.plays.get_mut(slot).filter(|play| play.under_way) else { return };
            let at = play.step;
            let Some(step) = self.script.steps.get(at) else {
                return self.over(now, slot, Some(200), around);
            };
            match &step.what {
                What::Pause(_) if play.paused => return,
                What::Pause(pause) => {
                    play.paused = true;
                    let until = now + *pause;
                    return self.alarm(slot, until, Kind::Resume { step: at });
                }
                What::Send { .. } => {
                    play.step += 1;
                    self.send(now, slot, at, None, around);
                }
                What::Answer { .. } => {
                    play.step += 1;
                    self.answer(now, slot, at, around);
                }
                What::Expect(wanted) => match play.look_for(place(step.who), wanted) {
                    Found::Nothing => return,
                    Found::It(code) => {
                        play.step += 1;
                        if code.is_some_and(|code| code >= 200) && step.who == Who::Caller && !play.answered {
                            play.answered = true;
                            if play.counted {
                                let time = now.saturating_duration_since(play.due);
                                around.outcome.answered += 1;
                                around.outcome.response.record(time);
                                if around.plan.measures(now) {
                                    around.outcome.response_within.record(time);
                                }
                            }
                        }
                    }
                    Found::Other(code) => return self.over(now, slot, Some(code), around),
                },
            }
        }
    }

    /// Sends the request of a step, with credentials after a challenge.
    fn send(
        &mut self,
        now: Instant,
        slot: usize,
        at: usize,
        proves: Option<Challenger>,
        around: &mut Around<'_>,
    ) {
        let Some(step) = self.script.steps.get(at) else { return };
        let What::Send { method, to, content } = &step.what else { return };
        let role = place(step.who);
        let Some(play) = self.plays.get_mut(slot) else { return };
        let Some(caller) =
            play.parties.first().and_then(|caller| around.addresses.get(caller.source)).copied()
        else {
            return;
        };
        let Some(values) = play.values(role, around) else { return };
        let generation = play.generation;
        let Some(party) = play.parties.get_mut(role) else { return };
        let (style, is_ack) = (around.style, method == "ACK");
        if !is_ack {
            party.cseq += 1;
        }
        let uri = match (&party.dialog, to) {
            (Some(dialog), None) => dialog.target.clone(),
            (_, Some(to)) => {
                let mut uri = Vec::new();
                to.write(&values, &mut uri);
                uri
            }
            (None, None) if method == "REGISTER" => style.registrar().into_bytes(),
            (None, None) => format!("sip:u{}@{}", values.other, values.domain).into_bytes(),
        };
        let mut proof = Vec::new();
        if let (Some(challenger), Some(credentials)) = (proves, around.credentials.as_mut()) {
            let uri = String::from_utf8_lossy(&uri);
            proof.extend_from_slice(credentials.line(
                party.user,
                &style.name(party.user),
                challenger,
                method,
                &uri,
            ));
        }
        let request = Request { method, uri: &uri, slot, generation, role, caller, proof: &proof, content };
        around.out.add(party.source, |out| party.write(&request, &values, style, out));
        if is_ack {
            party.ack = around.out.last().to_vec();
            return;
        }
        let (cseq, bytes) = (party.cseq, around.out.last().to_vec());
        party.sent = Sent { cseq, step: at, bytes, answered: false, done: false, proves: proves.is_some() };
        if around.plan.unreliable {
            self.alarm(slot, now + T1, Kind::Request { party: role, cseq, times: 0 });
        }
    }

    /// Answers the last request received.
    fn answer(&mut self, now: Instant, slot: usize, at: usize, around: &mut Around<'_>) {
        let Some(step) = self.script.steps.get(at) else { return };
        let What::Answer { code, reason, content } = &step.what else { return };
        let role = place(step.who);
        let Some(play) = self.plays.get_mut(slot) else { return };
        let Some(values) = play.values(role, around) else { return };
        let generation = play.generation;
        let Some(party) = play.parties.get_mut(role) else { return };
        let asked = std::mem::take(&mut party.received);
        let request = Came { bytes: &asked };
        let tag = tag(role);
        let mut to = request.value("To").to_vec();
        if find(&to, b";tag=").is_none() {
            put!(&mut to, ";tag=", tag, generation);
        }
        around.out.add(party.source, |out| {
            put!(out, "SIP/2.0 ", u32::from(*code), " ", reason.as_str(), "\r\n");
            for name in ANSWERED {
                request.values(name).for_each(|value| line(out, name, value));
            }
            line(out, "To", &to);
            contact(&values, around.style, out);
            content.write(&values, out);
        });
        party.answer = around.out.last().to_vec();
        let is_success = (200..300).contains(code);
        if is_success && begins_dialog(request.value("CSeq")) {
            party.on_dialog(Dialog {
                target: Came::uri(request.value("Contact")).to_vec(),
                routes: request.values("Record-Route").map(<[u8]>::to_vec).collect(),
                local: to,
                remote: request.value("From").to_vec(),
            });
        }
        if is_success && request.method() == b"NOTIFY" {
            party.on_notify(&request);
        }
        let is_invite = request.method() == b"INVITE";
        party.received = asked;
        if is_invite && *code >= 200 {
            party.unacknowledged = Some(at);
            if around.plan.unreliable {
                self.alarm(slot, now + T1, Kind::Answer { party: role, step: at, times: 0 });
            }
        }
    }

    /// Executes the timed actions that are due.
    pub(in crate::sip) fn handle_timeout(&mut self, now: Instant, around: &mut Around<'_>) {
        while let Some(Reverse(alarm)) = self.alarms.peek().copied().filter(|Reverse(alarm)| alarm.at <= now)
        {
            self.alarms.pop();
            let Some(play) = self.plays.get_mut(alarm.slot) else { continue };
            if !play.under_way || play.generation != alarm.generation {
                continue;
            }
            match alarm.kind {
                Kind::Timeout => self.over(now, alarm.slot, None, around),
                Kind::Resume { step } if play.step == step => {
                    (play.step, play.paused) = (step + 1, false);
                    self.advance(now, alarm.slot, around);
                }
                Kind::Resume { .. } => {}
                Kind::Request { party, cseq, times } => {
                    let Some(one) = play.parties.get(party) else { continue };
                    let invite = one.sent.bytes.starts_with(b"INVITE ");
                    if one.sent.cseq != cseq || one.sent.done || (invite && one.sent.answered) {
                        continue;
                    }
                    around.out.add(one.source, |out| out.extend_from_slice(&one.sent.bytes));
                    around.outcome.retransmitted += u64::from(play.counted);
                    let times = (times + 1).min(AGAIN_MAX);
                    self.alarm(alarm.slot, now + later(times), Kind::Request { party, cseq, times });
                }
                Kind::Answer { party, step, times } => {
                    let Some(one) = play.parties.get(party) else { continue };
                    if one.unacknowledged != Some(step) {
                        continue;
                    }
                    around.out.add(one.source, |out| out.extend_from_slice(&one.answer));
                    around.outcome.retransmitted += u64::from(play.counted);
                    let times = (times + 1).min(AGAIN_MAX);
                    self.alarm(alarm.slot, now + later(times), Kind::Answer { party, step, times });
                }
            }
        }
    }

    /// Ends a scenario: with this code, or because it took too long.
    fn over(&mut self, now: Instant, slot: usize, code: Option<u16>, around: &mut Around<'_>) {
        let Some(play) = self.plays.get_mut(slot).filter(|play| play.under_way) else { return };
        play.under_way = false;
        play.came.clear();
        let all_done = play.step >= self.script.steps.len();
        around.outcome.within += u64::from(all_done && code.is_some() && around.plan.measures(now));
        if play.counted {
            match code {
                Some(_) if all_done => {
                    around.outcome.succeeded += 1;
                    around.outcome.whole.record(now.saturating_duration_since(play.due));
                }
                Some(503) => around.outcome.refused += 1,
                Some(code) => *around.outcome.codes.entry(code).or_default() += 1,
                None => around.outcome.timed_out += 1,
            }
        }
        self.free.push(slot);
        self.finished += 1;
    }
}

fn later(times: u32) -> Duration {
    T1 * (1 << times)
}

/// The result of searching for an expected message.
enum Found {
    Nothing,
    /// The expected message; with the code if it is an answer.
    It(Option<u16>),
    /// A different final answer.
    Other(u16),
}

impl Play {
    /// Searches for the expected message among those received, and removes it.
    fn look_for(&mut self, role: usize, wanted: &Wanted) -> Found {
        let mut provisional = Vec::new();
        let own = self.came.iter().enumerate().filter(|(_, (whose, _))| *whose == role);
        for (at, (_, bytes)) in own {
            let came = Came { bytes };
            match came.status() {
                Some(code) if wanted.is_code(code) => {
                    self.came.remove(at);
                    return Found::It(Some(code));
                }
                Some(code) if code >= 200 => {
                    return match wanted {
                        // A message that should have arrived before it was lost.
                        _ if wanted.is_provisional() => Found::It(None),
                        Wanted::Codes(..) => Found::Other(code),
                        Wanted::Method(_) => continue,
                    };
                }
                Some(_) if matches!(wanted, Wanted::Codes(..)) => provisional.push(at),
                Some(_) => {}
                None if wanted.is_method(came.method()) => {
                    let (_, bytes) = self.came.remove(at);
                    if let Some(party) = self.parties.get_mut(role).filter(|_| !bytes.starts_with(b"ACK ")) {
                        party.received = bytes;
                        party.answer.clear();
                    }
                    return Found::It(None);
                }
                None => {}
            }
        }
        // Provisional answers that no step waits for are ignored.
        provisional.into_iter().rev().for_each(|at| drop(self.came.remove(at)));
        Found::Nothing
    }

    fn values<'a>(&self, role: usize, around: &Around<'a>) -> Option<Values<'a>> {
        let (own, other) = (self.parties.get(role)?, self.parties.get(1 - role)?);
        Some(Values {
            user: around.style.number(own.user),
            other: around.style.number(other.user),
            domain: around.style.domain.as_str(),
            address: *around.addresses.get(own.source)?,
            transport: around.style.transport,
            uri_parameter: around.style.uri_parameter,
            number: self.number,
            run: around.style.run,
        })
    }
}

#[cfg(test)]
mod tests;
