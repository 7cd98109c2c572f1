//! Processing of SACKs: cumulative ones for many chunks, and gap blocks as a lossy path produces them.

use strandline_proto::config::AssociationConfig;
use strandline_proto::event::Datagram;
use strandline_wire::chunk::{Chunk, sack};
use strandline_wire::number::{Tsn, VerificationTag};
use strandline_wire::{GapBlock, Packet, PacketBuilder};

use super::processor_time;
use super::transfer::World;

/// Number of SACKs in one series.
const SACKS: u16 = 200;

pub(crate) fn table() {
    println!(
        "{:>12} {:>12} {:>16} {:>18}",
        "outstanding", "gap blocks", "ns for a SACK", "ns for each chunk"
    );
    for outstanding in [1_000, 10_000] {
        for blocks in [1, 100, 1_000] {
            // Each gap needs two TSNs, and the last block has to grow.
            if outstanding > 2 * usize::from(blocks) + usize::from(SACKS) {
                let nanos = median(|| Subject::new(outstanding).gaps(blocks));
                println!("{outstanding:>12} {blocks:>12} {nanos:>16.0} {:>18}", "");
            }
        }
        let nanos = median(|| Subject::new(outstanding).cumulative());
        println!("{outstanding:>12} {:>12} {nanos:>16.0} {:>18.1}", 0, nanos / outstanding as f64);
    }
    println!("(with gap blocks: each SACK acknowledges one chunk more; without: one SACK for all)\n");
}

fn median(mut run: impl FnMut() -> f64) -> f64 {
    let mut runs: Vec<f64> = (0..super::RUNS).map(|_| run()).collect();
    runs.sort_by(f64::total_cmp);
    runs[super::RUNS / 2]
}

/// A sender with outstanding chunks.
struct Subject {
    world: World,
    /// The TSN before the first outstanding one.
    cumulative: Tsn,
    outstanding: usize,
    tag: VerificationTag,
    local_port: u16,
}

impl Subject {
    fn new(outstanding: usize) -> Self {
        let buffers = 8 << 20;
        let config = AssociationConfig {
            send_buffer: Some(buffers),
            receive_buffer: Some(buffers),
            ..Default::default()
        };
        let mut world = World::with(config);
        // Until the congestion window holds as much.
        world.run(8_192, 300 << 20);
        let status = world.client.endpoint.status(world.id).unwrap();
        let given = world.sender_gives(&[7; 64], 64 * outstanding);
        assert_eq!(given, 64 * outstanding);
        let mut buffer = vec![0; 65_536];
        let (mut first, mut count) = (None, 0);
        while let Some(transmit) = world.client.endpoint.poll_transmit(world.now, &mut buffer, 44) {
            for bytes in buffer[..transmit.len].chunks(transmit.segment_size) {
                for raw in Packet::parse(bytes).unwrap().chunks() {
                    if let Chunk::Data(data) = raw.unwrap().parse().unwrap() {
                        first.get_or_insert(data.tsn);
                        count += 1;
                    }
                }
            }
            // Max.Burst starts anew with any arrival.
            let idle =
                sack_packet(status.local_tag, status.local_port, Tsn(first.unwrap().0.wrapping_sub(1)), &[]);
            Self::give(&mut world, &idle);
        }
        assert_eq!(count, outstanding, "cwnd {:?}", world.client.endpoint.paths(world.id));
        let cumulative = Tsn(first.unwrap().0.wrapping_sub(1));
        Self { world, cumulative, outstanding, tag: status.local_tag, local_port: status.local_port }
    }

    fn give(world: &mut World, bytes: &[u8]) {
        let source = "192.0.2.2:9899".parse().unwrap();
        world
            .client
            .endpoint
            .handle_datagram(world.now, Datagram { source, destination: None, bytes, ecn: 0 });
    }

    /// One SACK for everything.
    fn cumulative(mut self) -> f64 {
        let all = Tsn(self.cumulative.0.wrapping_add(self.outstanding as u32));
        let packet = sack_packet(self.tag, self.local_port, all, &[]);
        let start = processor_time();
        Self::give(&mut self.world, &packet);
        (processor_time() - start).as_secs_f64() * 1e9
    }

    /// Every second chunk is missing; the last gap block grows by a chunk with each SACK.
    fn gaps(mut self, count: u16) -> f64 {
        let mut blocks: Vec<GapBlock> =
            (0..count).map(|at| GapBlock { start: 2 + 2 * at, end: 2 + 2 * at }).collect();
        let packets: Vec<Vec<u8>> = (0..=SACKS)
            .map(|_| {
                blocks.last_mut().unwrap().end += 1;
                sack_packet(self.tag, self.local_port, self.cumulative, &blocks)
            })
            .collect();
        // The first SACKs mark what is missing.
        let (before, measured) = packets.split_at(4);
        for packet in before {
            Self::give(&mut self.world, packet);
        }
        let start = processor_time();
        for packet in measured {
            Self::give(&mut self.world, packet);
        }
        (processor_time() - start).as_secs_f64() * 1e9 / measured.len() as f64
    }
}

fn sack_packet(tag: VerificationTag, local_port: u16, cumulative: Tsn, blocks: &[GapBlock]) -> Vec<u8> {
    let mut buffer = vec![0; 65_536];
    let mut packet = PacketBuilder::new(&mut buffer, 7, local_port, tag);
    assert!(sack::write(&mut packet, cumulative, 8 << 20, blocks.iter().copied(), &[]));
    let len = packet.finish();
    buffer.truncate(len);
    buffer
}
