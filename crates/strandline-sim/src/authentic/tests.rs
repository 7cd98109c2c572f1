use bytes::Bytes;
use strandline_wire::chunk::sack;
use strandline_wire::{PacketBuilder, Tsn, VerificationTag};

use super::*;

/// Returns a packet with a SACK, an AUTH chunk and another SACK; `more` is appended.
fn packet(more: &[u8]) -> Carried {
    let mut buffer = [0; 200];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    assert!(sack::write(&mut builder, Tsn(1), 1000, core::iter::empty(), &[]));
    builder.push_raw(kind::AUTH, 0, 24).expect("there is room").fill(7);
    assert!(sack::write(&mut builder, Tsn(2), 1000, core::iter::empty(), &[]));
    let len = builder.finish();
    let address = "192.0.2.1:9899".parse().expect("an address");
    let bytes = Bytes::from([&buffer[..len], more].concat());
    Carried { source: address, destination: address, bytes, fragment: None, ecn: 0 }
}

/// Returns the number of admitted chunks.
fn count(datagram: &Carried, wanted: Option<ChunkTypes>) -> usize {
    let mut authentic = Authentic::default();
    authentic.record(&packet(&[]));
    let parsed = Packet::parse(&datagram.bytes).expect("just built");
    admitted(&parsed, wanted, authentic.verifies(datagram)).len()
}

#[test]
fn only_what_was_sent_is_authentic() {
    let (none, sacks) = (ChunkTypes::NONE, ChunkTypes::NONE.with(kind::SACK));
    assert_eq!((count(&packet(&[]), Some(none)), count(&packet(&[]), Some(sacks))), (2, 1));
    // The MAC covers everything up to the end of the packet.
    let altered = packet(&[200, 0, 202, 138]);
    assert_eq!((count(&altered, Some(none)), count(&altered, Some(sacks))), (1, 0));
}

#[test]
fn auth_without_agreement_ends_the_packet() {
    assert_eq!(count(&packet(&[]), None), 1);
}

/// RFC 5061 section 5.2 rule D5.
#[test]
fn unauthenticated_asconf_ends_the_packet() {
    for asconf in [kind::ASCONF, kind::ASCONF_ACK] {
        let mut buffer = [0; 200];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        assert!(sack::write(&mut builder, Tsn(1), 1000, core::iter::empty(), &[]));
        builder.push_raw(asconf, 0, 16).expect("there is room").fill(0);
        assert!(sack::write(&mut builder, Tsn(2), 1000, core::iter::empty(), &[]));
        let len = builder.finish();
        let packet = Packet::parse(&buffer[..len]).expect("just built");
        let wanted = Some(ChunkTypes::NONE.with(asconf));
        assert_eq!(admitted(&packet, wanted, false).len(), 1);
    }
}

/// An attacker altered an INIT ACK under the initiator's tag.
#[test]
fn altered_set_up_is_forged() {
    let set_up = |initial_tsn| {
        let mut buffer = [0; 200];
        let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
        builder.push_raw(kind::INIT_ACK, 0, 16).expect("there is room").fill(initial_tsn);
        let len = builder.finish();
        Carried { bytes: Bytes::copy_from_slice(&buffer[..len]), ..packet(&[]) }
    };
    let mut authentic = Authentic::default();
    authentic.record(&set_up(1));
    assert_eq!((authentic.forged(&set_up(1)), authentic.forged(&set_up(2))), (None, Some(3)));
    assert_eq!(authentic.forged(&packet(&[200])), None, "no set-up");
}

#[test]
fn chunks_of_other_extensions_are_unknown() {
    let mut buffer = [0; 200];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    builder.push_raw(kind::STREAM_CREDIT, 0, 4).expect("there is room").fill(0);
    assert!(sack::write(&mut builder, Tsn(1), 1000, core::iter::empty(), &[]));
    builder.push_raw(kind::NR_SACK, 0, 16).expect("there is room").fill(0);
    assert!(sack::write(&mut builder, Tsn(2), 1000, core::iter::empty(), &[]));
    let len = builder.finish();
    let packet = Packet::parse(&buffer[..len]).expect("just built");
    let kinds = |agreed: AgreedExtensions| {
        let mut chunks = packet.chunks().flatten().collect();
        keep_agreed(&mut chunks, agreed);
        chunks.iter().map(|chunk| chunk.kind).collect::<Vec<_>>()
    };
    let mut agreed = AgreedExtensions::default();
    assert_eq!(kinds(agreed), [kind::SACK]);
    agreed.nr_sack = true;
    assert_eq!(kinds(agreed), [kind::SACK, kind::NR_SACK, kind::SACK]);
    agreed.stream_credit = true;
    assert_eq!(kinds(agreed), [kind::STREAM_CREDIT, kind::SACK, kind::NR_SACK, kind::SACK]);
}
