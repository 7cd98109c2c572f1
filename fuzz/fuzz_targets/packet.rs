//! Any bytes as a packet: walking every chunk, parameter and cause ends and never panics, and what was parsed can be
//! printed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use strandline_wire::Packet;
use strandline_wire::chunk::Chunk;
use strandline_wire::parameter::re_config::Combination;

fuzz_target!(|bytes: &[u8]| {
    let Ok(packet) = Packet::parse(bytes) else { return };
    let _ = packet.verify_checksum();
    let _ = format!("{}", strandline_wire::print::line(bytes));
    let mut steps = 0;
    for raw in packet.chunks().flatten() {
        steps += 1;
        match raw.parse() {
            Ok(Chunk::Init(init)) => {
                for parameter in init.parameters.iter().flatten() {
                    let _ = parameter.parse();
                    steps += 1;
                }
            }
            Ok(Chunk::InitAck(init)) => {
                for parameter in init.parameters.iter().flatten() {
                    let _ = parameter.parse();
                    steps += 1;
                }
            }
            Ok(Chunk::Sack(sack)) => steps += sack.gap_blocks().count() + sack.duplicates().count(),
            Ok(Chunk::NrSack(sack)) => {
                assert!(sack.non_renegable().len() <= sack.gap_blocks().len());
                steps += sack.gap_blocks().count() + sack.duplicates().count();
            }
            Ok(Chunk::Abort(abort)) => {
                for cause in abort.causes.iter().flatten() {
                    let _ = cause.parse();
                    steps += 1;
                }
            }
            Ok(Chunk::Error(error)) => {
                for cause in error.causes.iter().flatten() {
                    let _ = cause.parse();
                    steps += 1;
                }
            }
            Ok(Chunk::ReConfig(re_config)) => {
                let _ = Combination::of(re_config.parameters);
                for parameter in re_config.parameters.iter().flatten() {
                    let _ = parameter.parse_re_config();
                    steps += 1;
                }
            }
            Ok(Chunk::ForwardTsn(forward)) => steps += forward.skipped().count(),
            Ok(Chunk::IForwardTsn(forward)) => steps += forward.skipped().count(),
            Ok(Chunk::StreamCredit(chunk)) => steps += chunk.credits().count(),
            Ok(Chunk::StreamBlocked(chunk)) => steps += chunk.streams().count(),
            _ => {}
        }
    }
    // Each step consumes at least two bytes of the packet (a gap block half), so the walk is linear.
    assert!(steps <= bytes.len());
});
