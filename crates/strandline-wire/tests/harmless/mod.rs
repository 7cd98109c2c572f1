//! Walks over everything in a packet.

use strandline_wire::parameter::asconf::AsconfParameter;
use strandline_wire::parameter::re_config::{
    Combination, IncomingSsnReset, OutgoingSsnReset, ReConfigParameter,
};
use strandline_wire::{Abort, Cause, Causes, Chunk, Encode, Error, Packet, Parameter, Parameters, print};

/// Visits every chunk, parameter and cause, and the lists within causes. Returns the number of elements seen.
pub fn walk(bytes: &[u8]) -> usize {
    let Ok(packet) = Packet::parse(bytes) else { return 0 };
    let mut seen = 0;
    for raw in packet.chunks() {
        seen += 1;
        let Ok(raw) = raw else { continue };
        assert_eq!(raw.as_bytes().len(), 4 + raw.value.len());
        let Ok(chunk) = raw.parse() else { continue };
        assert_eq!(chunk.kind(), raw.kind);
        seen += match chunk {
            Chunk::Init(init) | Chunk::InitAck(init) => walk_parameters(init.parameters),
            Chunk::Abort(Abort { causes, .. }) | Chunk::Error(Error { causes }) => walk_causes(causes),
            Chunk::Sack(sack) => sack.gap_blocks().count() + sack.duplicates().count(),
            Chunk::NrSack(sack) => sack.gap_blocks().count() + sack.duplicates().count(),
            Chunk::Asconf(asconf) => 1 + walk_asconf(asconf.parameters),
            Chunk::AsconfAck(ack) => walk_asconf(ack.responses),
            Chunk::ReConfig(re_config) => walk_re_config(re_config.parameters),
            Chunk::ForwardTsn(forward) => forward.skipped().count(),
            Chunk::IForwardTsn(forward) => forward.skipped().count(),
            Chunk::StreamCredit(chunk) => chunk.credits().count(),
            Chunk::StreamBlocked(chunk) => chunk.streams().count() / 2,
            _ => 0,
        };
    }
    seen
}

fn walk_parameters(parameters: Parameters<'_>) -> usize {
    let mut seen = 0;
    for raw in parameters.iter() {
        seen += 1;
        let Ok(raw) = raw else { continue };
        assert_eq!(raw.as_bytes().len(), 4 + raw.value.len());
        if let Ok(Parameter::SupportedAddressTypes(types)) = raw.parse() {
            seen += types.iter().count() / 2;
        }
    }
    seen
}

fn walk_re_config(parameters: Parameters<'_>) -> usize {
    let _ = Combination::of(parameters);
    let mut seen = 0;
    for raw in parameters.iter() {
        seen += 1;
        let Ok(raw) = raw else { continue };
        if let Some(Ok(
            ReConfigParameter::OutgoingSsnReset(OutgoingSsnReset { streams, .. })
            | ReConfigParameter::IncomingSsnReset(IncomingSsnReset { streams, .. }),
        )) = raw.parse_re_config()
        {
            seen += streams.iter().count() / 2;
        }
    }
    seen
}

fn walk_asconf(parameters: Parameters<'_>) -> usize {
    let mut seen = 0;
    for raw in parameters.iter() {
        seen += 1;
        let Ok(raw) = raw else { continue };
        if let Some(Ok(AsconfParameter::Error { causes, .. })) = raw.parse_asconf() {
            seen += walk_causes(strandline_wire::Causes::new(causes));
        }
    }
    seen
}

fn walk_causes(causes: Causes<'_>) -> usize {
    let mut seen = 0;
    for raw in causes.iter() {
        seen += 1;
        let Ok(raw) = raw else { continue };
        seen += match raw.parse() {
            Ok(Cause::UnrecognisedParameters(parameters) | Cause::RestartWithNewAddresses(parameters)) => {
                walk_parameters(parameters)
            }
            Ok(Cause::MissingParameters(missing)) => missing.iter().count() / 2,
            _ => 0,
        };
    }
    seen
}

/// Returns whether parsing and printing end and every element took at least four bytes of the packet.
pub fn is_harmless(bytes: &[u8]) {
    let seen = walk(bytes);
    assert!(seen <= bytes.len() / 4 + 3, "{seen} elements in {} bytes", bytes.len());
    let line = print::line(bytes).to_string();
    assert!(!line.chars().any(char::is_control), "{line:?}");
}
