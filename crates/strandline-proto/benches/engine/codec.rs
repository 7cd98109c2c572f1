//! The codec: packets of DATA chunks and SACKs, built and parsed, and the checksum by itself.

use std::hint::black_box;

use strandline_wire::chunk::{Chunk, Data, sack};
use strandline_wire::number::{Ssn, StreamId, Tsn, VerificationTag};
use strandline_wire::{GapBlock, Packet, PacketBuilder, checksum};

const PACKETS: usize = 100_000;
const PACKET_LEN: usize = 1472;

pub(crate) fn table() {
    println!("{:<34} {:>12} {:>12}", "codec", "build ns", "parse ns");
    for size in [64, 1_024] {
        let payload = vec![7; size];
        let chunks = (PACKET_LEN - 12) / (size + 16);
        let build = |buffer: &mut [u8]| {
            let mut packet = PacketBuilder::new(buffer, 1, 2, VerificationTag(3));
            for tsn in 0..chunks as u32 {
                let _ = packet.push(&data(tsn, &payload));
            }
            packet.finish_with_zero_checksum()
        };
        row(&format!("{chunks} DATA of {size} B, each chunk"), chunks, build);
    }
    for blocks in [0, 1, 100] {
        let gaps = (0..blocks).map(|at: u16| GapBlock { start: 2 + 3 * at, end: 3 + 3 * at });
        let build = |buffer: &mut [u8]| {
            let mut packet = PacketBuilder::new(buffer, 1, 2, VerificationTag(3));
            let _ = sack::write(&mut packet, Tsn(9), 1 << 20, gaps.clone(), &[]);
            packet.finish_with_zero_checksum()
        };
        row(&format!("SACK with {blocks} gap blocks"), 1, build);
    }
    for len in [52, 1_252, 1_472, 8_972] {
        let bytes = vec![7; len];
        let nanos = super::nanos_each(
            PACKETS,
            || (),
            |()| {
                for _ in 0..PACKETS {
                    black_box(checksum::crc32c(black_box(&bytes)));
                }
            },
        );
        println!("{:<34} {nanos:>12.1}  {:>10.1} GB/s", format!("CRC32c of {len} B"), len as f64 / nanos);
    }
    println!();
}

fn data(tsn: u32, payload: &[u8]) -> Data<'_> {
    Data::whole(Tsn(tsn), StreamId(1), Ssn(tsn as u16), payload)
}

fn row(what: &str, chunks: usize, build: impl Fn(&mut [u8]) -> usize) {
    let mut buffer = vec![0; PACKET_LEN];
    let count = PACKETS * chunks;
    let encode = super::nanos_each(
        count,
        || (),
        |()| {
            for _ in 0..PACKETS {
                black_box(build(black_box(&mut buffer)));
            }
        },
    );
    let len = build(&mut buffer);
    let decode = super::nanos_each(
        count,
        || (),
        |()| {
            for _ in 0..PACKETS {
                let packet = Packet::parse(black_box(&buffer[..len])).unwrap();
                for raw in packet.chunks() {
                    match raw.unwrap().parse().unwrap() {
                        Chunk::Data(data) => drop(black_box(data)),
                        Chunk::Sack(sack) => {
                            black_box(sack.gap_blocks().map(|block| u32::from(block.end)).sum::<u32>());
                        }
                        other => unreachable!("{other:?}"),
                    }
                }
            }
        },
    );
    println!("{what:<34} {encode:>12.1} {decode:>12.1}");
}
