//! Two endpoints and a sequence of commands, deliveries, losses, repetitions and time: nothing panics, each message
//! arrives at most once and whole, none that was reported as never sent, only those with a limit are given up, and
//! nothing loops.
#![no_main]

use std::collections::HashSet;
use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use strandline_proto::config::{AssociationConfig, EndpointConfig, ExtensionsConfig};
use strandline_proto::endpoint::{Connect, Endpoint, Reconfigure};
use strandline_proto::event::{AssociationId, Datagram, Event, FailedMessage, FailureCause, SendInfo};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{PeerRequests, StreamDirection, Streams};
use strandline_proto::reliability::{Limit, Reliability};
use strandline_proto::time::Time;

#[derive(Debug, Arbitrary)]
enum Command {
    Connect(bool),
    Send { side: bool, stream: u16, size: u16, unordered: bool, limit: Option<Restriction> },
    Recv { side: bool, count: u8 },
    Shutdown(bool),
    Abort(bool),
    Deliver { side: bool, index: u8 },
    Drop { side: bool },
    Repeat { side: bool, index: u8 },
    Wait { ms: u16 },
    Timer(bool),
    Reset { side: bool, incoming: bool, stream: Option<u8> },
    Renumber(bool),
    AddStreams { side: bool, outgoing: u8, incoming: u8 },
}

/// The limit of a message (RFC 3758, RFC 7496).
#[derive(Debug, Arbitrary)]
enum Restriction {
    Lifetime { ms: u16 },
    Retransmissions { max: u8 },
    Priority { number: u8 },
}

impl From<Restriction> for Reliability {
    fn from(restriction: Restriction) -> Self {
        match restriction {
            Restriction::Lifetime { ms } => Self::lifetime(Duration::from_millis(u64::from(ms))),
            Restriction::Retransmissions { max } => Self::retransmissions(u16::from(max % 4)),
            Restriction::Priority { number } => Self::priority(u32::from(number % 4)),
        }
    }
}

struct Side {
    endpoint: Endpoint,
    known: Vec<AssociationId>,
    outbox: Vec<Vec<u8>>,
    received: HashSet<u32>,
    /// Messages that were reported as failed, and those of which nothing was sent.
    failed: HashSet<u32>,
    unsent: HashSet<u32>,
}

impl Side {
    fn new(seed: u8) -> Self {
        let extensions = ExtensionsConfig { peer_requests: PeerRequests::ALL, ..ExtensionsConfig::default() };
        let association =
            AssociationConfig { extensions, outbound_streams: 1000, ..AssociationConfig::default() };
        let config = EndpointConfig { association: association.into(), ..EndpointConfig::default() };
        let mut endpoint = Endpoint::new(config, [seed; 32], Time::ZERO).expect("the parameters are valid");
        endpoint.listen(7).expect("a free port");
        Self {
            endpoint,
            known: Vec::new(),
            outbox: Vec::new(),
            received: HashSet::new(),
            failed: HashSet::new(),
            unsent: HashSet::new(),
        }
    }

    fn pump(&mut self, now: Time) {
        let mut buffer = [0; 2048];
        let mut rounds = 0;
        while let Some(transmit) = self.endpoint.poll_transmit(now, &mut buffer, 1) {
            rounds += 1;
            assert!(rounds < 10_000, "poll_transmit does not end");
            if self.outbox.len() < 256 {
                self.outbox.push(buffer[..transmit.len].to_vec());
            }
        }
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Established { .. } if !self.known.contains(&id) => self.known.push(id),
                Event::SendFailed(failed) => self.on_failed(&failed),
                _ => {}
            }
        }
    }

    fn on_failed(&mut self, failed: &FailedMessage) {
        let number = failed.info.context;
        assert!(self.failed.insert(number), "message {number} failed twice");
        let limit = failed.info.reliability.limit();
        let is_right = match failed.cause {
            FailureCause::Expired => matches!(limit, Limit::Lifetime { .. }),
            FailureCause::RetransmissionsExhausted => matches!(limit, Limit::Retransmissions { .. }),
            FailureCause::LowPriority => matches!(limit, Limit::Priority { .. }),
            _ => true,
        };
        assert!(is_right, "message {number} with {limit:?} failed as {:?}", failed.cause);
        if !failed.sent {
            self.unsent.insert(number);
        }
    }
}

fuzz_target!(|commands: Vec<Command>| {
    let mut sides = [Side::new(1), Side::new(2)];
    let addresses = ["192.0.2.1:9899", "192.0.2.2:9899"].map(|text| text.parse().expect("an address"));
    let mut now = Time::ZERO;
    let mut serial = 0u32;
    for command in commands.into_iter().take(512) {
        match command {
            Command::Connect(side) => {
                let there = addresses[usize::from(!side)];
                if let Ok(id) = sides[usize::from(side)].endpoint.connect(now, Connect::to(there, 7)) {
                    sides[usize::from(side)].known.push(id);
                }
            }
            Command::Send { side, stream, size, unordered, limit } => {
                serial += 1;
                let mut data = serial.to_be_bytes().to_vec();
                data.resize(4 + usize::from(size % 20_000), serial as u8);
                let mut info = SendInfo::on(StreamId(stream % 8));
                info.unordered = unordered;
                info.context = serial;
                info.reliability = limit.map_or(Reliability::FULL, Reliability::from);
                let side = &mut sides[usize::from(side)];
                if let Some(id) = side.known.last() {
                    let _ = side.endpoint.send(now, *id, info, data.into());
                }
            }
            Command::Recv { side, count } => {
                let unsent = sides[usize::from(!side)].unsent.clone();
                let side = &mut sides[usize::from(side)];
                for id in side.known.clone() {
                    for _ in 0..count {
                        let Some(message) = side.endpoint.recv(now, id) else { break };
                        assert!(message.begins && message.ends, "small messages come whole");
                        let (head, body) = message.data.split_at(4);
                        let number = u32::from_be_bytes(head.try_into().expect("four bytes"));
                        assert!(side.received.insert(number), "message {number} came twice");
                        assert!(!unsent.contains(&number), "message {number} came and was never sent");
                        assert!(
                            body.iter().all(|byte| *byte == number as u8),
                            "message {number} was altered"
                        );
                    }
                }
            }
            Command::Shutdown(side) => {
                let side = &mut sides[usize::from(side)];
                if let Some(id) = side.known.last() {
                    let _ = side.endpoint.shutdown(now, *id);
                }
            }
            Command::Abort(side) => {
                let side = &mut sides[usize::from(side)];
                if let Some(id) = side.known.last() {
                    let _ = side.endpoint.abort(now, *id, "fuzz".into());
                }
            }
            Command::Deliver { side, index } | Command::Repeat { side, index } => {
                let from = usize::from(side);
                if sides[from].outbox.is_empty() {
                    continue;
                }
                let index = usize::from(index) % sides[from].outbox.len();
                let packet = match command {
                    Command::Deliver { .. } => sides[from].outbox.remove(index),
                    _ => sides[from].outbox[index].clone(),
                };
                let datagram =
                    Datagram { source: addresses[from], destination: None, bytes: &packet, ecn: 0 };
                sides[1 - from].endpoint.handle_datagram(now, datagram);
            }
            Command::Drop { side } => {
                sides[usize::from(side)].outbox.pop();
            }
            Command::Wait { ms } => now += Duration::from_millis(u64::from(ms)),
            Command::Reset { side, incoming, stream } => {
                let side = &mut sides[usize::from(side)];
                let direction = if incoming { StreamDirection::Incoming } else { StreamDirection::Outgoing };
                let streams =
                    stream.map_or(Streams::All, |stream| Streams::from(StreamId(u16::from(stream % 8))));
                if let Some(id) = side.known.last() {
                    let _ = Reconfigure::ResetStreams(direction, streams).ask(&mut side.endpoint, now, *id);
                }
            }
            Command::Renumber(side) => {
                let side = &mut sides[usize::from(side)];
                if let Some(id) = side.known.last() {
                    let _ = Reconfigure::ResetAssociation.ask(&mut side.endpoint, now, *id);
                }
            }
            Command::AddStreams { side, outgoing, incoming } => {
                let side = &mut sides[usize::from(side)];
                if let Some(id) = side.known.last() {
                    let (outgoing, incoming) = (u16::from(outgoing), u16::from(incoming));
                    let _ = Reconfigure::AddStreams { outgoing, incoming }.ask(&mut side.endpoint, now, *id);
                }
            }
            Command::Timer(side) => sides[usize::from(side)].endpoint.handle_timeout(now),
        }
        for side in &mut sides {
            side.pump(now);
        }
    }
});
