//! A server in overload over UDP, in virtual time: clients that retransmit as RFC 3261 requires, the packet
//! filter in the kernel, and a processor of limited speed.

use std::collections::BTreeMap;

use super::*;
use crate::server::arrivals::Arrivals;
use crate::server::socket::{Gate, mark, threshold};

/// Capacity: calls per second that can be received and handled.
const CAN: f64 = 2000.0;
/// Processor time for each call, receiving it and handling it, in milliseconds.
const EACH: f64 = 1000.0 / CAN;
/// The share of it that goes into receiving, as in the gate's `READING`.
const READING: f64 = 1.0 / 20.0;
/// Cost of receiving a datagram, of handling a call, and of rejecting one with a response, in milliseconds of
/// processor time.
const READ: f64 = EACH * READING;
const CALL: f64 = EACH * (1.0 - READING);
const REJECTION_COST_MS: f64 = CALL / 3.0;
/// Share of the processor time that rejections may take.
const REJECTION_MS: f64 = 0.02;
/// Retransmission times of a request (timers A and E), in milliseconds.
const AGAIN: [u64; 4] = [500, 1500, 3500, 7500];

struct World {
    inbox: Inbox,
    gate: Gate,
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
    /// Datagrams in the socket buffer while the server is stalled.
    socket: Vec<Bytes>,
    /// Calls due, including fractions.
    due: f64,
    /// Processor time left.
    left: f64,
    /// Processor time available for rejections.
    rejection_ms_left: f64,
    /// Unused processor time, in milliseconds.
    idle: f64,
}

impl World {
    fn new() -> Self {
        Self {
            inbox: inbox(),
            gate: Gate::new(),
            share: 1.0,
            to_send: BTreeMap::new(),
            began: Vec::new(),
            served: Vec::new(),
            arrivals: Arrivals::default(),
            stopped: 0,
            socket: Vec::new(),
            due: 0.0,
            left: 0.0,
            rejection_ms_left: 0.0,
            idle: 0.0,
        }
    }

    fn message(call: u32) -> Bytes {
        let text = format!(
            "INVITE sip:b@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 192.0.2.1:5060;branch=z9hG4bK{call};rport\r\n\
             From: <sip:a@example.com>;tag={call}\r\nTo: <sip:b@example.com>\r\nCall-ID: {call}@192.0.2.1\r\n\r\n"
        );
        Bytes::from(text)
    }

    fn which(bytes: &[u8]) -> usize {
        let text = std::str::from_utf8(bytes).unwrap();
        let (number, _) = text.split_once("Call-ID: ").unwrap().1.split_once('@').unwrap();
        number.parse().unwrap()
    }

    /// Simulates a millisecond, with this number of new calls and this much processor time.
    fn step(&mut self, now: u64, calls: f64, time: f64) {
        self.held_up(now, calls);
        self.left = self.left.min(0.0) + time;
        for message in std::mem::take(&mut self.socket) {
            self.left -= READ;
            add(&mut self.inbox, at(now), flow(5060), message, false);
        }
        self.work(now);
        self.idle += self.left.max(0.0);
        if now.is_multiple_of(10) {
            self.inbox.look(at(now));
            let idle = Duration::from_secs_f64(self.idle / 1000.0);
            let counts = self.inbox.counters.counts(self.stopped, idle);
            let Some(came) = self.arrivals.look(at(now), counts) else { return };
            if let Some(share) = self.gate.look(at(now), came, self.inbox.admission.is_overloaded()) {
                self.share = share;
            }
            self.inbox.admit(self.gate.admitted());
        }
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
        if let Some(after) = AGAIN.get(times) {
            self.to_send.entry(began + after).or_default().push((call, times + 1));
        }
        let message = Self::message(call);
        if mark(&message).unwrap() >= threshold(self.share) && self.share < 1.0 {
            self.stopped += 1;
            return;
        }
        self.socket.push(message);
    }

    fn work(&mut self, now: u64) {
        self.rejection_ms_left = (self.rejection_ms_left + REJECTION_MS).min(20.0 * REJECTION_MS);
        self.inbox.set_rejections_max((self.rejection_ms_left / REJECTION_COST_MS).max(0.0) as usize);
        while self.left > 0.0
            && let Some(waiting) = self.inbox.next(at(now))
        {
            self.left -= CALL;
            if let Some(began) = self.began[Self::which(&waiting.bytes)].take() {
                self.served.push((now - began, now));
            }
        }
        while let Some(waiting) = self.inbox.next_rejection() {
            self.left -= REJECTION_COST_MS;
            self.rejection_ms_left -= REJECTION_COST_MS;
            self.began[Self::which(&waiting.bytes)] = None;
        }
    }

    /// Calls served per second within an interval, and their sorted durations.
    fn between(&self, from: u64, to: u64) -> (f64, Vec<u64>) {
        let mut times: Vec<u64> =
            self.served.iter().filter(|(_, at)| (from..to).contains(at)).map(|(time, _)| *time).collect();
        times.sort_unstable();
        (times.len() as f64 * 1000.0 / (to - from) as f64, times)
    }
}

fn p99(times: &[u64]) -> u64 {
    times[times.len() * 99 / 100]
}

#[test]
fn goodput_over_udp_holds_under_any_load() {
    for times_as_much in [1.0, 2.0, 4.0, 10.0] {
        let mut world = World::new();
        for now in 0..20_000 {
            world.step(now, CAN / 1000.0 * times_as_much, 1.0);
        }
        let (goodput, times) = world.between(1000, 20_000);
        assert!(goodput > CAN * 0.9, "{times_as_much}: {goodput} calls a second");
        assert!(p99(&times) <= 500, "{times_as_much}: p99 {} ms", p99(&times));
    }
}

#[test]
fn stall_does_not_bring_late_calls() {
    let mut world = World::new();
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
    let mut world = World::new();
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
        let mut world = World::new();
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
    let (mut world, mut quota) = (World::new(), QUOTA);
    let floods = [(5_000..9_000, 0.8), (16_000..22_000, 0.9)];
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
