//! One sending thread: sends bursts from one socket after another, and counts the answers.

use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::io::Errno;
use serde::Serialize;
use strandline::Address;
use strandline_measure::now;
use strandline_udp::send_train;

use super::init::Packets;

/// Pause while it is too early for the next burst.
const PAUSE: Duration = Duration::from_micros(100);

/// Maximum time in seconds that a flood which fell behind catches up with.
const BEHIND_MAX_S: f64 = 0.01;

/// Offset of the first chunk's type, the only part of an answer that is read.
const FIRST_CHUNK: usize = 12;

/// The parameters of sending.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) to: SocketAddr,
    pub(super) from: IpAddr,
    pub(super) sockets: usize,
    /// Packets per second; `None`: as many as possible.
    pub(super) rate: Option<f64>,
    pub(super) duration: Duration,
    /// Packets per system call.
    pub(super) burst: usize,
    pub(super) ignore_answers: bool,
}

/// Counters of packets sent and answers received.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(super) struct Sent {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) seconds: f64,
    /// Bursts that the kernel refused, which count as lost.
    pub(super) refused: u64,
    pub(super) init_acks: u64,
    pub(super) aborts: u64,
    pub(super) other_answers: u64,
}

/// Sends until the time is over.
#[allow(clippy::disallowed_methods, reason = "a thread of its own that has nothing but a rate to wait for")]
pub(super) fn flood(plan: &Plan, packets: &mut Packets) -> Result<Sent> {
    let sockets = (0..plan.sockets).map(|_| open(plan)).collect::<Result<Vec<_>>>()?;
    let mut sent = Sent::default();
    let mut buffer = Vec::with_capacity(packets.len() * plan.burst);
    let begin = now();
    let mut pace = Pace { rate: plan.rate, begin, given: 0.0 };
    for socket in sockets.iter().cycle() {
        let burst = loop {
            if begin.elapsed() >= plan.duration {
                sent.seconds = begin.elapsed().as_secs_f64();
                sockets.iter().for_each(|socket| sent.read_answers(socket, usize::MAX));
                return Ok(sent);
            }
            match pace.due(plan.burst) {
                0 => thread::sleep(PAUSE),
                due => break due,
            }
        };
        buffer.clear();
        (0..burst).for_each(|_| packets.write(&mut buffer));
        match send_train(socket, plan.to, &buffer, packets.len()) {
            Ok(()) => {
                sent.packets += burst as u64;
                sent.bytes += buffer.len() as u64;
            }
            Err(error) if counts_as_lost(&error) => sent.refused += 1,
            Err(error) => return Err(error).with_context(|| format!("sending to {}", plan.to)),
        }
        if !plan.ignore_answers {
            sent.read_answers(socket, burst);
        }
    }
    Ok(sent)
}

/// Schedules the packets of a rate.
#[derive(Debug)]
struct Pace {
    rate: Option<f64>,
    begin: Instant,
    given: f64,
}

impl Pace {
    /// Returns the number of packets that are due, at most `burst`.
    fn due(&mut self, burst: usize) -> usize {
        let Some(rate) = self.rate else { return burst };
        let allowed = self.begin.elapsed().as_secs_f64() * rate;
        self.given = self.given.max(allowed - rate * BEHIND_MAX_S - burst as f64);
        let due = (allowed - self.given).clamp(0.0, burst as f64).floor();
        self.given += due;
        due as usize
    }
}

fn open(plan: &Plan) -> Result<UdpSocket> {
    // A link-local address is on the link of what is sent to.
    let from = Address::in_zone(plan.from, Address::of(plan.to).zone());
    let socket = UdpSocket::bind(from.with_port(0))
        .with_context(|| format!("opening a UDP socket at {}", plan.from))?;
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Returns whether the buffer is full for a moment, or the error is an ICMP message about an earlier packet.
fn counts_as_lost(error: &io::Error) -> bool {
    let lost = [Errno::AGAIN, Errno::NOBUFS, Errno::CONNREFUSED, Errno::PERM];
    Errno::from_io_error(error).is_some_and(|error| lost.contains(&error))
}

impl Sent {
    fn read_answers(&mut self, socket: &UdpSocket, most: usize) {
        let mut start = [0; FIRST_CHUNK + 1];
        let mut count = 0;
        while count < most {
            count += 1;
            match socket.recv(&mut start) {
                // Counts the type of its first chunk; the truncated rest doesn't matter.
                Ok(length) => match start.get(FIRST_CHUNK).filter(|_| length > FIRST_CHUNK) {
                    Some(2) => self.init_acks += 1,
                    Some(6) => self.aborts += 1,
                    _ => self.other_answers += 1,
                },
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // The error is about a datagram that was sent before.
                Err(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
