//! A server in overload over UDP, in virtual time: clients that retransmit as RFC 3261 requires, the packet
//! filter in the kernel, and a processor of limited speed.

use std::collections::{BTreeMap, VecDeque};

use super::*;
use crate::server::arrivals::Arrivals;
use crate::server::costs::Costs;
use crate::server::socket::{Came, Gate, mark, threshold};

/// Capacity: requests per second that can be received and handled.
const CAN: f64 = 2000.0;
/// Share of the processor time that rejections may take.
const REJECTIONS: f64 = 0.02;
/// The length of a tick of the kernel in milliseconds: it notices only then that a quota is used up.
const TICK: u64 = 4;
/// The period of a quota in milliseconds.
const PERIOD: u64 = 10;

/// The room of the socket in datagrams; the number of them that are received before some are handled, and the
/// number of these.
const SOCKET_MAX: usize = 6500;
const TAKEN_MAX: usize = 2048;
const BATCH: u32 = 128;
/// The interval between measurements in milliseconds.
const LOOK_EVERY: u64 = 10;

/// What requests cost.
#[derive(Debug, Clone, Copy)]
struct Model {
    line: &'static str,
    /// The share of receiving a request in the cost of receiving and handling it.
    receiving: f64,
    /// Cost of a rejection as a share of handling a request.
    rejecting: f64,
    /// Retransmission times, in milliseconds.
    again: &'static [u64],
    /// The share of a processor.
    quota: f64,
    /// The server's constants are divided by this: it handles so many times more than the model.
    scale: usize,
}

/// INVITEs; timer A.
const CALLS: Model = Model {
    line: "INVITE sip:b@example.com",
    receiving: 1.0 / 20.0,
    rejecting: 1.0 / 3.0,
    again: &[500, 1500, 3500, 7500],
    quota: 1.0,
    scale: 1,
};
/// REGISTERs; timer E.
const REGISTERS: Model = Model {
    line: "REGISTER sip:example.com",
    receiving: 1.0 / 4.0,
    rejecting: 1.0,
    again: &[500, 1500, 3500, 7500, 11_500, 15_500, 19_500, 23_500, 27_500, 31_500],
    quota: 1.0,
    scale: 10,
};

impl Model {
    /// Cost of a request in milliseconds of processor time.
    fn each(&self) -> f64 {
        1000.0 / CAN * self.quota
    }

    fn read(&self) -> f64 {
        self.each() * self.receiving
    }

    fn call(&self) -> f64 {
        self.each() * (1.0 - self.receiving)
    }

    fn reject(&self) -> f64 {
        self.call() * self.rejecting
    }
}

struct World {
    model: Model,
    inbox: Inbox,
    gate: Gate,
    costs: Costs,
    share: f64,
    /// Transmissions to come: the time, the call, and the number of earlier transmissions.
    to_send: BTreeMap<u64, Vec<(u32, usize)>>,
    /// For each call, the time of its first transmission, until it is answered.
    began: Vec<Option<u64>>,
    /// For each call that was served: its duration in milliseconds, and the time of its end.
    served: Vec<(u64, u64)>,
    arrivals: Arrivals,
    /// Number of datagrams dropped by the filter.
    stopped: u64,
    /// Datagrams in the socket buffer while the server is stalled, and when they arrived.
    socket: VecDeque<(u64, Bytes)>,
    /// Calls due, including fractions.
    due: f64,
    /// Processor time left.
    left: f64,
    /// Processor time available for rejections.
    rejection_ms_left: f64,
    /// Unused time, and processor time used, in milliseconds.
    idle: f64,
    worked: f64,
    /// What is left of the quota, and whether the kernel has noticed that nothing is.
    quota_left: f64,
    is_throttled: bool,
    /// The time of the next measurement.
    look_at: u64,
}

impl World {
    fn new(model: Model) -> Self {
        Self {
            model,
            inbox: inbox(),
            gate: Gate::new(),
            costs: Costs::default(),
            share: 1.0,
            to_send: BTreeMap::new(),
            began: Vec::new(),
            served: Vec::new(),
            arrivals: Arrivals::default(),
            stopped: 0,
            socket: VecDeque::new(),
            due: 0.0,
            left: 0.0,
            rejection_ms_left: 0.0,
            idle: 0.0,
            worked: 0.0,
            quota_left: 0.0,
            is_throttled: false,
            look_at: 0,
        }
    }

    fn message(&self, call: u32) -> Bytes {
        let line = self.model.line;
        let text = format!(
            "{line} SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK{call};rport\r\n\
             From: <sip:a@example.com>;tag={call}\r\nTo: <sip:b@example.com>\r\nCall-ID: {call}@192.0.2.1\r\n\r\n"
        );
        Bytes::from(text)
    }

    fn which(bytes: &[u8]) -> usize {
        let text = std::str::from_utf8(bytes).unwrap();
        let (number, _) = text.split_once("Call-ID: ").unwrap().1.split_once('@').unwrap();
        number.parse().unwrap()
    }

    /// Simulates a millisecond with this number of new calls and the processor's quota.
    fn step_with_quota(&mut self, now: u64, calls: f64) {
        let quota = self.model.quota;
        if quota >= 1.0 {
            return self.step(now, calls, 1.0);
        }
        if now.is_multiple_of(PERIOD) {
            self.quota_left = (self.quota_left + quota * PERIOD as f64).min(quota * PERIOD as f64);
            self.is_throttled &= self.quota_left <= 0.0;
        }
        if now.is_multiple_of(TICK) {
            self.is_throttled |= self.quota_left <= 0.0;
        }
        if self.is_throttled {
            let waits = self.inbox.is_empty() && self.socket.is_empty();
            self.held_up(now, calls);
            self.idle += if waits { 1.0 } else { 0.0 };
        } else {
            let before = self.worked;
            self.step(now, calls, 1.0);
            self.quota_left -= self.worked - before;
        }
    }

    /// Simulates a millisecond, with this number of new calls and this much processor time.
    fn step(&mut self, now: u64, calls: f64, time: f64) {
        self.held_up(now, calls);
        self.left = self.left.min(0.0) + time;
        let quota = self.model.quota;
        self.rejection_ms_left = (self.rejection_ms_left + REJECTIONS * quota).min(20.0 * REJECTIONS * quota);
        self.serve(now);
        self.idle += self.left.max(0.0);
        self.worked += time - self.left.max(0.0);
        self.look(now);
    }

    /// Receives and handles in turns, as the server does, until the time is over or nothing is left.
    fn serve(&mut self, now: u64) {
        while self.left > 0.0 {
            let count = self.socket.len().min(TAKEN_MAX / self.model.scale);
            self.costs.on_received(count, ms(self.model.read() * count as f64));
            for (arrived, message) in self.socket.drain(..count) {
                self.left -= self.model.read();
                let arrived = Arrived { now: at(now), waited: at(now - arrived) };
                self.inbox.push(arrived, flow(5060), &message, || message.clone(), |_| Phone::Unknown);
            }
            self.look(now);
            if !self.work(now) && self.socket.is_empty() {
                return;
            }
        }
    }

    fn look(&mut self, now: u64) {
        if now < self.look_at {
            return;
        }
        self.look_at = now + LOOK_EVERY;
        self.inbox.look(at(now));
        let times = Times { idle: ms(self.idle), worked: ms(self.worked) };
        let counts = self.inbox.counters.counts(self.stopped, times, !self.socket.is_empty());
        let Some(came) = self.arrivals.look(at(now), counts) else { return };
        let came = Came { receiving_share: self.costs.receiving_share(), ..came };
        if let Some(share) = self.gate.look(at(now), came, self.inbox.admission.is_overloaded()) {
            self.share = share;
        }
        self.inbox.admit(self.gate.admitted());
    }

    /// Simulates a millisecond with this number of new calls in which the server is stalled.
    fn held_up(&mut self, now: u64, calls: f64) {
        self.due += calls;
        while self.due >= 1.0 {
            self.due -= 1.0;
            self.to_send.entry(now).or_default().push((self.began.len() as u32, 0));
            self.began.push(Some(now));
        }
        for (call, times) in self.to_send.remove(&now).unwrap_or_default() {
            self.send(call, times);
        }
    }

    fn send(&mut self, call: u32, times: usize) {
        let Some(began) = self.began[call as usize] else { return };
        if let Some(after) = self.model.again.get(times) {
            self.to_send.entry(began + after).or_default().push((call, times + 1));
        }
        let message = self.message(call);
        let now = times
            .checked_sub(1)
            .and_then(|before| self.model.again.get(before))
            .map_or(began, |after| began + after);
        if mark(&message).unwrap() >= threshold(self.share) && self.share < 1.0 {
            self.stopped += 1;
            return;
        }
        if self.socket.len() < SOCKET_MAX / self.model.scale {
            self.socket.push_back((now, message));
        }
    }

    /// Handles a batch, and sends rejections. Returns whether more may wait.
    fn work(&mut self, now: u64) -> bool {
        let (call, reject) = (self.model.call(), self.model.reject());
        self.inbox.set_rejections_max((self.rejection_ms_left / reject).max(0.0) as usize);
        let (mut handled, batch) = (0, BATCH / self.model.scale as u32);
        while handled < batch
            && let Some(waiting) = self.inbox.next(at(now))
        {
            self.left -= call;
            handled += 1;
            if let Some(began) = self.began[Self::which(&waiting.bytes)].take() {
                self.served.push((now - began, now));
            }
        }
        self.costs.on_handled(handled as usize, ms(call * f64::from(handled)));
        while let Some(waiting) = self.inbox.next_rejection() {
            self.left -= reject;
            self.rejection_ms_left -= reject;
            self.began[Self::which(&waiting.bytes)] = None;
        }
        handled == batch
    }

    /// Calls served per second within an interval, and their sorted durations.
    fn between(&self, from: u64, to: u64) -> (f64, Vec<u64>) {
        let mut times: Vec<u64> =
            self.served.iter().filter(|(_, at)| (from..to).contains(at)).map(|(time, _)| *time).collect();
        times.sort_unstable();
        (times.len() as f64 * 1000.0 / (to - from) as f64, times)
    }
}

/// Milliseconds as a duration.
fn ms(ms: f64) -> Duration {
    Duration::from_secs_f64(ms / 1000.0)
}

fn p99(times: &[u64]) -> u64 {
    times[times.len() * 99 / 100]
}

#[test]
fn goodput_over_udp_holds_under_any_load() {
    for times_as_much in [1.0, 2.0, 4.0, 10.0] {
        let mut world = World::new(CALLS);
        for now in 0..20_000 {
            world.step(now, CAN / 1000.0 * times_as_much, 1.0);
        }
        let (goodput, times) = world.between(1000, 20_000);
        assert!(goodput > CAN * 0.9, "{times_as_much}: {goodput} calls a second");
        assert!(p99(&times) <= 500, "{times_as_much}: p99 {} ms", p99(&times));
    }
}

/// Requests served at a multiple of the capacity: as shares of it, at first and later.
fn served_registers(quota: f64, times_as_much: f64) -> Vec<f64> {
    let mut world = World::new(Model { quota, ..REGISTERS });
    for now in 0..40_000 {
        world.step_with_quota(now, CAN / 1000.0 * times_as_much);
    }
    let intervals = [(1000, 4000), (4000, 20_000), (20_000, 40_000)];
    intervals.iter().map(|(from, to)| world.between(*from, *to).0 / CAN).collect()
}

#[test]
fn registers_over_udp_hold_under_any_load() {
    for times_as_much in [1.0, 1.2, 2.0, 4.0, 10.0] {
        let served = served_registers(1.0, times_as_much);
        assert!(served.iter().all(|share| *share >= 0.9), "x {times_as_much}: {served:?}");
    }
}

#[test]
fn registers_hold_with_a_tenth_of_a_core() {
    for times_as_much in [1.0, 1.2, 2.0, 4.0, 10.0] {
        let served = served_registers(0.1, times_as_much);
        assert!(served.iter().all(|share| *share >= 0.9), "x {times_as_much}: {served:?}");
    }
}

#[test]
fn stall_does_not_bring_late_calls() {
    let mut world = World::new(CALLS);
    for now in 0..30_000 {
        // Now and then it gets only a third of the processor.
        let time = if now % 5000 >= 4000 { 0.3 } else { 1.0 };
        world.step(now, CAN / 1000.0 * 10.0, time);
    }
    let (goodput, times) = world.between(1000, 30_000);
    // Clients rejected in that time retransmit afterwards.
    assert!(goodput > CAN * 0.86 * 0.85, "{goodput} calls a second of {}", CAN * 0.86);
    assert!(p99(&times) <= 500, "p99 {} ms", p99(&times));
}

#[test]
fn when_less_comes_all_are_served_again() {
    let mut world = World::new(CALLS);
    let mut later = 0;
    for now in 0..30_000 {
        let times_as_much = if now < 10_000 { 10.0 } else { 0.7 };
        world.step(now, CAN / 1000.0 * times_as_much, 1.0);
        if now == 20_000 {
            later = world.began.len();
        }
    }
    let refused = world.began[later..].iter().filter(|call| call.is_some()).count();
    assert!(refused < 20, "{refused} of {} calls still wait", world.began.len() - later);
    let (goodput, times) = world.between(20_000, 30_000);
    assert!(goodput > CAN * 0.69 && p99(&times) <= 100, "{goodput} calls a second, p99 {} ms", p99(&times));
}

#[test]
fn idle_second_does_not_reject_new_calls() {
    for times_as_much in [0.8, 2.0] {
        let mut world = World::new(CALLS);
        for now in 0..15_000 {
            match now {
                5000..6000 => world.held_up(now, CAN / 1000.0 * times_as_much),
                _ => world.step(now, CAN / 1000.0 * times_as_much, 1.0),
            }
        }
        let (goodput, _) = world.between(6000, 9000);
        // Everything received in that second is read, and mostly rejected.
        let wanted = f64::min(times_as_much, 1.0) * CAN * 0.85;
        assert!(goodput > wanted, "{times_as_much}: {goodput} calls a second, wanted {wanted}");
    }
}

#[test]
fn second_flood_with_quota_is_like_the_first() {
    /// Milliseconds of processor time available in each ten, in sequence.
    const QUOTA: f64 = 2.0;
    let can = CAN * QUOTA / 10.0;
    let (mut world, mut quota) = (World::new(Model { scale: 10, ..CALLS }), QUOTA);
    let floods = [(5_000..9_000, 0.8), (16_000..22_000, 0.85)];
    for now in 0..22_000 {
        if now % 10 == 0 {
            quota = QUOTA;
        }
        // Between the floods, only rejected clients retransmit.
        let calls = match now {
            0..5_000 => can * 0.5,
            9_000..16_000 => 0.0,
            _ => can * 10.0,
        };
        let time = quota.min(1.0);
        world.step(now, calls / 1000.0, time);
        quota -= time - world.left.max(0.0);
    }
    for (flood, share) in floods {
        let (goodput, times) = world.between(flood.start + 500, flood.end);
        assert!(goodput > can * share, "{flood:?}: {goodput} calls a second of {can}");
        assert!(p99(&times) <= 500, "{flood:?}: p99 {} ms", p99(&times));
    }
}
