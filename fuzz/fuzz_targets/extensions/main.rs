//! Two endpoints with any choice of extensions on each side, and a sequence of commands, deliveries, losses,
//! repetitions, damage, marks, restarts, other encapsulation ports and time: nothing panics or loops, and
//! without damage each message arrives at most once and unaltered, ordered ones of a stream in their order,
//! none that was reported as never sent, and only those with a limit are given up. No stream takes more than its
//! credit. Once no packet is lost any more, each message of an association that lives has arrived or was
//! reported as failed.
#![no_main]

mod side;

use std::net::SocketAddr;
use std::time::Duration;

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use strandline_proto::authentication::{Authentication, ChunkTypes};
use strandline_proto::config::{
    AssociationConfig, ErrorDetectionMethod, ExtensionsConfig, Multipath, StreamCredit, StreamScheduler,
};
use strandline_proto::congestion::Algorithm;
use strandline_proto::endpoint::{Connect, DryReports, Reconfigure, StreamCredits, StreamValue};
use strandline_proto::event::{Datagram, SendInfo};
use strandline_proto::number::StreamId;
use strandline_proto::reconfiguration::{PeerRequests, StreamDirection, Streams};
use strandline_proto::reliability::Reliability;
use strandline_proto::time::Time;
use strandline_wire::checksum::crc32c_parts;

use crate::side::{CREDIT_INITIAL, Packet, Side, addresses};

#[derive(Debug, Arbitrary)]
struct Input {
    offers: [Offer; 2],
    commands: Vec<Command>,
}

/// What a side is configured with: a bit for each extension.
#[derive(Debug, Arbitrary)]
struct Offer {
    extensions: u16,
    /// The upper half of the values also limits messages without a limit of their own.
    scheduler: u8,
    demanded: u8,
}

#[derive(Debug, Arbitrary)]
enum Command {
    Connect(bool),
    Send { side: bool, stream: u8, size: u16, unordered: bool, limit: u8 },
    Recv { side: bool, count: u8, reads: bool },
    Shutdown(bool),
    Abort(bool),
    Deliver { side: bool, index: u8 },
    Drop { side: bool },
    Repeat { side: bool, index: u8 },
    Damage { side: bool, index: u8, at: u16, bit: u8 },
    Exchange { rounds: u8 },
    Wait { ms: u16 },
    Reset { side: bool, incoming: bool, stream: Option<u8> },
    Renumber(bool),
    AddStreams { side: bool, outgoing: u8, incoming: u8 },
    Dynamic { side: bool, stream: u8, what: u8 },
    Value { side: bool, stream: u8, value: u16 },
    Scheduler { side: bool, scheduler: u8 },
    Key { side: bool, key: u8, what: u8 },
    Address { side: bool, address: u8, what: u8 },
    Mark { side: bool, index: u8, ecn: u8 },
    Dry { side: bool, on: bool },
    Restart(bool),
    Rebind(bool),
}

fn scheduler(number: u8) -> StreamScheduler {
    StreamScheduler::ALL[usize::from(number) % StreamScheduler::ALL.len()]
}

impl Offer {
    /// Returns the limit of messages without one of their own.
    fn default_reliability(&self) -> Reliability {
        if self.scheduler < 128 { Reliability::DEFAULT } else { limit(self.scheduler) }
    }

    fn association(&self) -> AssociationConfig {
        let has = |bit: u16| self.extensions & (1 << bit) != 0;
        let kinds: [&[u8]; 8] = [&[0], &[3], &[4], &[16], &[64], &[130], &[192, 194], &[188, 189]];
        let demanded = kinds.iter().enumerate().filter(|(bit, _)| self.demanded & (1 << bit) != 0);
        let chunks: ChunkTypes = demanded.flat_map(|(_, kinds)| kinds.iter().copied()).collect();
        let extensions = ExtensionsConfig {
            ecn: has(0),
            stream_reconfiguration: has(1),
            partial_reliability: has(2),
            default_reliability: self.default_reliability(),
            interleaving: has(3),
            stream_credit: (has(3) && has(4)).then_some(StreamCredit::new(CREDIT_INITIAL, 1 << 16)),
            authentication: has(5).then(|| Authentication { chunks, ..Authentication::default() }),
            dynamic_addresses: has(6),
            nr_sack: has(7),
            multipath: match (has(8), has(9)) {
                (false, _) => Multipath::Off,
                (true, false) => Multipath::Coupled,
                (true, true) => Multipath::Independent,
            },
            peer_requests: if has(10) { PeerRequests::ALL } else { PeerRequests::NONE },
            zero_checksum: has(15).then_some(ErrorDetectionMethod::SctpOverDtls),
            adaptation_layer: has(14).then_some(self.demanded.into()),
        };
        let congestion = match (has(12), has(13)) {
            (false, false) => Algorithm::default(),
            (true, false) => Algorithm::Dctcp,
            (false, true) => Algorithm::Bbr,
            (true, true) => Algorithm::Rfc9260,
        };
        AssociationConfig {
            extensions,
            congestion,
            outbound_streams: 1000,
            stream_scheduler: scheduler(self.scheduler),
            partial_delivery_point: if has(11) { 2000 } else { 200_000 },
            ..AssociationConfig::default()
        }
    }
}

fn limit(limit: u8) -> Reliability {
    match limit % 8 {
        0 => Reliability::lifetime(Duration::from_millis(u64::from(limit))),
        1 => Reliability::retransmissions(u16::from(limit / 8 % 3)),
        2 => Reliability::priority(u32::from(limit / 8 % 4)),
        3 => Reliability::DEFAULT,
        _ => Reliability::FULL,
    }
}

fn fix_checksum(bytes: &mut [u8]) {
    if bytes.len() >= 12 {
        bytes[8..12].fill(0);
        let checksum = crc32c_parts(&[bytes]);
        bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// Delivers a packet to the other side.
fn deliver(to: &mut Side, now: Time, packet: &Packet) {
    if packet.port != to.port {
        return; // The NAT has no such mapping any more.
    }
    let (destination, bytes, ecn) = (Some(packet.to), &packet.bytes[..], packet.ecn);
    let datagram = Datagram { source: packet.from, destination, bytes, ecn };
    to.endpoint.handle_datagram(now, datagram);
}

/// Carries out a command for one side.
fn act(side: &mut Side, now: Time, serial: u32, command: &Command) {
    let Some(id) = side.latest() else { return };
    match *command {
        Command::Send { stream, size, unordered, limit: limited, .. } => {
            let mut data = serial.to_be_bytes().to_vec();
            data.resize(4 + usize::from(size % 20_000), serial as u8);
            let mut info = SendInfo::on(StreamId(u16::from(stream % 12)));
            info.unordered = unordered;
            info.context = serial;
            info.reliability = limit(limited);
            if side.endpoint.send(now, id, info, data.into()).is_ok() {
                side.given.insert(serial, id);
            }
        }
        Command::Shutdown(_) => _ = side.endpoint.shutdown(now, id),
        Command::Abort(_) => _ = side.endpoint.abort(now, id, "fuzz".into()),
        Command::Reset { incoming, stream, .. } => {
            let direction = if incoming { StreamDirection::Incoming } else { StreamDirection::Outgoing };
            let streams = stream.map_or(Streams::All, |stream| StreamId(u16::from(stream % 12)).into());
            let _ = Reconfigure::ResetStreams(direction, streams).ask(&mut side.endpoint, now, id);
        }
        Command::Renumber(_) => _ = Reconfigure::ResetAssociation.ask(&mut side.endpoint, now, id),
        Command::AddStreams { outgoing, incoming, .. } => {
            let (outgoing, incoming) = (outgoing.into(), incoming.into());
            let _ = Reconfigure::AddStreams { outgoing, incoming }.ask(&mut side.endpoint, now, id);
        }
        Command::Dynamic { stream, what, .. } => side.close(now, id, stream, what),
        Command::Value { stream, value, .. } => {
            let stream = StreamId(u16::from(stream % 12));
            let _ = StreamValue { stream, value }.set(&mut side.endpoint, id);
        }
        Command::Scheduler { scheduler: number, .. } => {
            side.endpoint.set_stream_scheduler(id, scheduler(number));
        }
        Command::Key { key, what, .. } => side.change_key(id, key, what),
        Command::Address { address, what, .. } => side.change_address(now, id, address, what),
        Command::Dry { on, .. } => {
            let reports = if on { DryReports::On } else { DryReports::Off };
            let _ = reports.set(&mut side.endpoint, id);
        }
        _ => {}
    }
}

/// Returns the side that a command is for.
fn side_of(command: &Command) -> usize {
    usize::from(match *command {
        Command::Send { side, .. }
        | Command::Shutdown(side)
        | Command::Abort(side)
        | Command::Reset { side, .. }
        | Command::Renumber(side)
        | Command::AddStreams { side, .. }
        | Command::Dynamic { side, .. }
        | Command::Value { side, .. }
        | Command::Scheduler { side, .. }
        | Command::Key { side, .. }
        | Command::Address { side, .. }
        | Command::Mark { side, .. }
        | Command::Dry { side, .. }
        | Command::Connect(side)
        | Command::Restart(side)
        | Command::Rebind(side)
        | Command::Recv { side, .. }
        | Command::Deliver { side, .. }
        | Command::Drop { side }
        | Command::Repeat { side, .. }
        | Command::Damage { side, .. } => side,
        Command::Exchange { .. } | Command::Wait { .. } => false,
    })
}

/// Delivers all packets of both sides, as often as said.
fn exchange(sides: &mut [Side; 2], now: &mut Time, rounds: u8, damaged: bool) {
    for _ in 0..rounds % 8 {
        *now += Duration::from_millis(10);
        for from in [0, 1] {
            for packet in core::mem::take(&mut sides[from].outbox) {
                deliver(&mut sides[1 - from], *now, &packet);
            }
            sides[1 - from].endpoint.handle_timeout(*now);
            sides[1 - from].pump(*now, damaged);
        }
    }
}

/// How long a network without losses may take until everything has arrived, and how often packets are delivered.
const SETTLED: Duration = Duration::from_secs(600);
const ROUNDS: usize = 20_000;

/// Lets the network deliver everything, and checks that all messages have arrived or were reported as failed.
fn settle(sides: &mut [Side; 2], mut now: Time) {
    let end = now + SETTLED;
    for _ in 0..ROUNDS {
        let mut is_idle = true;
        now += Duration::from_millis(1);
        for from in [0, 1] {
            for packet in core::mem::take(&mut sides[from].outbox) {
                is_idle = false;
                deliver(&mut sides[1 - from], now, &packet);
            }
        }
        for from in [0, 1] {
            let unsent = sides[1 - from].unsent.clone();
            sides[from].endpoint.handle_timeout(now);
            sides[from].recv(now, u8::MAX, true, &unsent, false);
            sides[from].pump(now, false);
        }
        if missing(sides).next().is_none() {
            return;
        }
        if is_idle {
            let next = sides.iter().filter_map(|side| side.endpoint.poll_timeout()).min();
            let Some(next) = next.filter(|next| *next < end) else { break };
            now = now.max(next);
        }
    }
    let missing: Vec<u32> = missing(sides).collect();
    for side in sides.iter().filter(|_| !missing.is_empty()) {
        side.known.iter().for_each(|id| eprintln!("{id:?}: {:?}", side.endpoint.status(*id)));
    }
    assert!(missing.is_empty(), "messages {missing:?} of associations that live neither arrived nor failed");
}

/// Returns the messages that neither arrived nor were reported as failed, of associations that live at both sides.
fn missing(sides: &[Side; 2]) -> impl Iterator<Item = u32> {
    let live = sides.iter().all(|side| side.ended.is_empty());
    let lost = [0, 1].into_iter().flat_map(move |from| {
        let (side, peer) = (&sides[from], &sides[1 - from]);
        let open = side.given.keys().copied().filter(move |_| live);
        open.filter(|number| {
            !side.failed.contains(number) && !peer.received.contains(number) && !peer.cut.contains(number)
        })
    });
    lost
}

fuzz_target!(|input: Input| {
    let mut sides = [0, 1].map(|number| Side::new(number, &input.offers[number]));
    let mut now = Time::ZERO;
    let mut damaged = false;
    // Whether all that live at the end can deliver what they have: with keys or addresses of one side only they can't.
    let mut lasts = true;
    for (serial, command) in input.commands.iter().take(512).enumerate() {
        let from = side_of(command);
        let index = |index: u8| usize::from(index) % sides[from].outbox.len().max(1);
        match *command {
            Command::Connect(_) => {
                let there = SocketAddr::new(addresses(1 - from)[0], sides[1 - from].port);
                // From a port of its own each, so that an endpoint that lost its state restarts the association.
                let to = Connect { local_port: 100 + from as u16, ..Connect::to(there, 7) };
                if let Ok(id) = sides[from].endpoint.connect(now, to) {
                    sides[from].known.push(id);
                    StreamCredits::of(&mut sides[from].endpoint, id).report_reads();
                }
            }
            Command::Recv { count, reads, .. } => {
                let unsent = sides[1 - from].unsent.clone();
                sides[from].recv(now, count, reads, &unsent, damaged);
            }
            Command::Deliver { index: number, .. } | Command::Repeat { index: number, .. } => {
                let index = index(number);
                let Some(packet) = sides[from].outbox.get(index).cloned() else { continue };
                if matches!(command, Command::Deliver { .. }) {
                    sides[from].outbox.remove(index);
                }
                deliver(&mut sides[1 - from], now, &packet);
            }
            Command::Damage { index: number, at, bit, .. } => {
                let Some(mut packet) = sides[from].outbox.get(index(number)).cloned() else { continue };
                let place = 12 + usize::from(at) % packet.bytes.len().saturating_sub(12).max(1);
                if let Some(byte) = packet.bytes.get_mut(place) {
                    *byte ^= 1 << (bit % 8);
                }
                fix_checksum(&mut packet.bytes);
                damaged = true;
                deliver(&mut sides[1 - from], now, &packet);
            }
            Command::Mark { index: number, ecn, .. } => {
                let index = index(number);
                if let Some(packet) = sides[from].outbox.get_mut(index) {
                    packet.ecn = ecn % 4;
                }
            }
            Command::Drop { .. } => _ = sides[from].outbox.pop(),
            Command::Restart(_) => sides[from].restart(&input.offers[from], now),
            Command::Rebind(_) => sides[from].port += 1,
            Command::Exchange { rounds } => exchange(&mut sides, &mut now, rounds, damaged),
            Command::Wait { ms } => {
                now += Duration::from_millis(u64::from(ms));
                sides.iter_mut().for_each(|side| side.endpoint.handle_timeout(now));
            }
            _ => act(&mut sides[from], now, serial as u32, command),
        }
        sides.iter_mut().for_each(|side| side.pump(now, damaged));
        lasts &= !matches!(
            command,
            Command::Address { .. }
                | Command::Key { .. }
                | Command::Rebind(_)
                | Command::Restart(_)
                | Command::Dynamic { .. }
        );
    }
    if !damaged && lasts {
        settle(&mut sides, now);
    }
});
