//! Throughput of the dcsctp crate over UDP encapsulation: each UDP datagram is one SCTP packet. One thread on
//! each side passes it messages, packets and the time in turn.
//!
//! Choices in its favour: packets as large as the link allows (its default is 1,191 bytes), `sendmmsg` and
//! `recvmmsg` for bursts, UDP sockets of 4 MiB, and one clock reading for each turn.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use clap::Parser;
use common::batch::{BATCH, Receiver, Sender};
use common::{Stopwatch, content};
use dcsctp::api::{DcSctpSocket, Message, Options, PpId, SendOptions, SocketEvent, SocketTime, StreamId};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use socket2::Socket;

/// Maximum payload of a packet of 1,500 bytes: less the headers of IPv4 and UDP.
const MTU: usize = 1472;
/// Maximum number of message bytes that dcsctp may queue.
const SEND_BUFFER_BYTES: usize = 2 << 20;
const RECEIVE_BUFFER_BYTES: usize = 5 << 20;

#[derive(Debug, Parser)]
enum Command {
    /// Receive from one sender until it shuts down, then report.
    Receive {
        #[arg(long, default_value_t = 9899)]
        port: u16,
    },
    /// Send for a number of seconds, then report.
    Send {
        #[arg(long)]
        to: IpAddr,
        #[arg(long, default_value_t = 9899)]
        port: u16,
        #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=1 << 18))]
        size: u32,
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
        /// Messages passed to dcsctp at a time; more than one by its `send_many`.
        #[arg(long, default_value_t = 1)]
        at_a_time: usize,
    },
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Receive { port } => receive(port),
        Command::Send { to, port, size, seconds, at_a_time } => {
            let plan = Plan {
                data: content(size as usize),
                at_a_time: at_a_time.clamp(1, 1024),
                duration: Duration::try_from_secs_f64(seconds)?,
            };
            send(SocketAddr::new(to, port), &plan)
        }
    }
}

struct Plan {
    data: Vec<u8>,
    at_a_time: usize,
    duration: Duration,
}

/// A dcsctp socket on a UDP socket.
struct Driver {
    engine: Box<dyn DcSctpSocket>,
    socket: Socket,
    sender: Option<Sender>,
    receiver: Receiver,
    packets: Vec<Vec<u8>>,
    origin: Instant,
    has_ended: bool,
    is_connected: bool,
}

impl Driver {
    fn new(socket: Socket, to: Option<SocketAddr>) -> Self {
        let options = Options {
            mtu: MTU,
            max_send_buffer_size: SEND_BUFFER_BYTES,
            per_stream_send_queue_limit: SEND_BUFFER_BYTES,
            max_receiver_window_buffer_size: RECEIVE_BUFFER_BYTES,
            ..Options::default()
        };
        Self {
            engine: dcsctp::new_socket("bench", &options),
            socket,
            sender: to.map(|to| Sender::new(Some(to))),
            receiver: Receiver::new(2048),
            packets: Vec::with_capacity(BATCH),
            origin: Instant::now(),
            has_ended: false,
            is_connected: false,
        }
    }

    fn now(&self) -> SocketTime {
        SocketTime::zero() + self.origin.elapsed()
    }

    /// Sends due packets and handles received ones; waits for an event if `waits`.
    fn turn(&mut self, waits: bool) -> anyhow::Result<()> {
        self.engine.advance_time(self.now());
        self.transmit()?;
        if waits {
            self.wait()?;
            self.engine.advance_time(self.now());
        }
        for packet in self.receiver.receive(&self.socket, false)? {
            self.engine.handle_input(packet);
        }
        if self.sender.is_none() {
            self.sender = self.receiver.source().map(|to| Sender::new(Some(to)));
        }
        self.transmit()
    }

    fn wait(&self) -> anyhow::Result<()> {
        let due = self.engine.poll_timeout();
        let pause = if due == SocketTime::infinite_future() {
            Duration::from_secs(1)
        } else {
            (due - SocketTime::zero()).saturating_sub(self.origin.elapsed())
        };
        let pause_ms = pause.as_micros().div_ceil(1000).min(1000) as u16;
        let mut fds = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        poll(&mut fds, PollTimeout::from(pause_ms))?;
        Ok(())
    }

    fn transmit(&mut self) -> anyhow::Result<()> {
        loop {
            let event = self.engine.poll_event();
            let is_last = event.is_none();
            match event {
                Some(SocketEvent::SendPacket(packet)) => self.packets.push(packet),
                Some(SocketEvent::OnConnected()) => self.is_connected = true,
                Some(SocketEvent::OnClosed()) => self.has_ended = true,
                Some(SocketEvent::OnAborted(error, reason)) => {
                    anyhow::bail!("the association was aborted: {error:?}, {reason}")
                }
                Some(_) | None => {}
            }
            if is_last || self.packets.len() == BATCH {
                if let Some(sender) = &mut self.sender {
                    sender.send(&self.socket, &self.packets)?;
                }
                self.packets.clear();
            }
            if is_last {
                return Ok(());
            }
        }
    }
}

fn receive(port: u16) -> anyhow::Result<()> {
    let socket = common::udp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))?;
    let mut driver = Driver::new(socket, None);
    while !driver.is_connected {
        driver.turn(true)?;
    }
    let watch = Stopwatch::start()?;
    let (mut bytes, mut messages) = (0, 0);
    while !driver.has_ended {
        driver.turn(true)?;
        while let Some(message) = driver.engine.get_next_message() {
            bytes += message.payload.len() as u64;
            messages += 1;
        }
    }
    watch.report("receiver", "dcsctp", bytes, messages)?.print()
}

fn send(to: SocketAddr, plan: &Plan) -> anyhow::Result<()> {
    let mut driver = Driver::new(common::udp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0))?, Some(to));
    driver.engine.connect();
    while !driver.is_connected {
        driver.turn(true)?;
    }
    let stream = StreamId(1);
    let watch = Stopwatch::start()?;
    let end = watch.begin + plan.duration;
    let message = || Message::new(stream, PpId(53), plan.data.clone());
    let low = SEND_BUFFER_BYTES / 2;
    let mut messages: u64 = 0;
    while Instant::now() < end {
        // Enough messages between two network polls to amortise both, and never more than fit.
        let mut room: usize = 64 << 10;
        while room > 0 && driver.engine.buffered_amount(stream) < low {
            if plan.at_a_time == 1 {
                driver.engine.send(message(), &SendOptions::default())?;
            } else {
                let many = std::iter::repeat_with(message).take(plan.at_a_time).collect();
                let given = driver.engine.send_many(many, &SendOptions::default());
                given.map_err(|error| anyhow::anyhow!("sending: {error:?}"))?;
            }
            messages += plan.at_a_time as u64;
            room = room.saturating_sub(plan.at_a_time * plan.data.len());
        }
        let is_full = driver.engine.buffered_amount(stream) >= low;
        driver.turn(is_full)?;
    }
    driver.engine.shutdown();
    while !driver.has_ended {
        driver.turn(true)?;
    }
    watch.report("sender", "dcsctp", messages * plan.data.len() as u64, messages)?.print()
}
