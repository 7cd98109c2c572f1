//! What T3-rtx excuses, with made-up packets.

use strandline_proto::config::{EndpointConfig, Recovery};
use strandline_wire::chunk::{forward_tsn, sack};
use strandline_wire::number::{Ssn, StreamId};
use strandline_wire::{Data, Packet, PacketBuilder, VerificationTag};

use super::*;
use crate::board::on_stream_reset;
use crate::pair::{Pair, Side};

/// Bytes of user data in a chunk, and of the chunk: a packet has room for one of them.
const PAYLOAD: usize = 1000;
const BYTES: u32 = 1016;

/// An association with one path, which has nothing else to do.
struct Scene {
    memory: Memory,
    status: Status,
    path: PathStatus,
}

impl Scene {
    fn new() -> Self {
        let config = EndpointConfig::default;
        let mut pair = Pair::new(config(), config(), strandline_netem::LinkConfig::default());
        let (a, _) = pair.connect();
        let endpoint = &pair.side(Side::A).endpoint;
        let (status, paths) = (endpoint.status(a).expect("it stands"), endpoint.paths(a).expect("it stands"));
        Self { memory: Memory::default(), status, path: paths[0].clone() }
    }

    fn to(&self) -> IpAddr {
        self.path.address.ip()
    }

    fn looks(&mut self) {
        let numbers = (self.status.clone(), vec![self.path.clone()]);
        self.memory.look(Time::ZERO, numbers, true).expect("nothing is wrong");
        self.memory.counted = counters(&self.status);
    }

    fn times_out(&mut self) {
        self.path.timeouts += 1;
        self.status.stats.timeouts += 1;
        self.looks();
    }

    fn departs(&mut self, write: impl FnOnce(&mut PacketBuilder<'_>)) {
        let mut buffer = [0; 1500];
        let mut packet = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        write(&mut packet);
        let len = packet.finish();
        let packet = Packet::parse(&buffer[..len]).expect("just built");
        let to = self.to();
        self.memory.board.on_tag(&packet);
        self.memory.board.on_departure(Time::ZERO, &packet, to, Recovery::Rack).expect("allowed");
    }

    fn sends(&mut self, tsn: u32) {
        let data = Data::whole(Tsn(tsn), StreamId(0), Ssn(0), &[0; PAYLOAD]);
        self.departs(|packet| assert!(packet.push(&data)));
    }

    fn hears(&mut self, cumulative: u32) {
        let mut buffer = [0; 1500];
        let mut packet = PacketBuilder::new(&mut buffer, 2, 1, VerificationTag(4));
        assert!(sack::write(&mut packet, Tsn(cumulative), 100_000, core::iter::empty(), &[]));
        let len = packet.finish();
        let packet = Packet::parse(&buffer[..len]).expect("just built");
        let chunks: Vec<_> = packet.chunks().flatten().collect();
        self.memory.board.on_arrival(Time::ZERO, &chunks, self.status.state);
    }
}

/// The answer to the first packet after T3-rtx acknowledges all that was sent. A stream that was given up before T3-rtx
/// expired has a TSN of its own, which is skipped afterwards (docs/dynamic-streams.md section 6.2): the recovery lasts
/// until that is acknowledged, too, and another time-out in it makes everything lost.
#[test]
fn recovery_lasts_until_a_stream_is_skipped() {
    for skipped in [false, true] {
        let mut scene = Scene::new();
        scene.looks();
        scene.sends(1);
        on_stream_reset(&mut scene.memory.board, 5);
        scene.times_out();
        scene.sends(1);
        scene.hears(1);
        scene.looks();
        let listed = [(StreamId(5), Ssn(0))];
        scene.departs(|packet| assert!(forward_tsn::write(packet, Tsn(2), listed.into_iter())));
        for tsn in 3..=5 {
            scene.sends(tsn);
        }
        if skipped {
            scene.hears(2);
            scene.looks();
        }
        scene.times_out();
        let to = scene.to();
        let left = scene.memory.board.in_flight_least(Time::ZERO, to, Recovery::Rack, 0);
        assert_eq!(left, if skipped { 2 * BYTES } else { 0 });
    }
}
