//! What may go to addresses that the peer has deleted, and leave from own addresses that are withheld.

use bytes::Bytes;
use strandline_wire::chunk::{CookieAck, ShutdownAck, ShutdownComplete};
use strandline_wire::{PacketBuilder, VerificationTag};

use super::*;

const OWN: [u8; 4] = [192, 0, 2, 1];
const PEER: [u8; 4] = [198, 51, 100, 2];

/// Returns a packet from `OWN` to `PEER`.
fn packet(build: impl FnOnce(&mut PacketBuilder<'_>)) -> Carried {
    let mut buffer = [0; 200];
    let mut builder = PacketBuilder::new(&mut buffer, 1, 2, VerificationTag(3));
    build(&mut builder);
    let len = builder.finish();
    let bytes = Bytes::copy_from_slice(&buffer[..len]);
    Carried { source: (OWN, 9899).into(), destination: (PEER, 9899).into(), bytes, fragment: None, ecn: 0 }
}

/// The cases in which either address is out of use.
fn out_of_use() -> impl Iterator<Item = Moves> {
    let deleted = Moves { deleted: [PEER.into()].into(), ..Moves::default() };
    let only = Moves { only: Some(BTreeSet::new()), ..Moves::default() };
    let withheld = [Withheld::Added, Withheld::Leaving, Withheld::Gone]
        .map(|withheld| Moves { own: [(OWN.into(), withheld)].into(), ..Moves::default() });
    [deleted, only].into_iter().chain(withheld)
}

/// Returns how many of the cases allow a packet.
fn allowed(build: impl FnOnce(&mut PacketBuilder<'_>)) -> usize {
    let datagram = packet(build);
    let parsed = Packet::parse(&datagram.bytes).expect("just built");
    out_of_use().filter_map(|mut moves| moves.on_departure(&parsed, &datagram).ok()).count()
}

/// RFC 9260 section 8.4 rules 5 and 8: the answer goes to where the packet came from. Nothing else does.
#[test]
fn answers_out_of_the_blue_go_anywhere() {
    let all = out_of_use().count();
    let complete = |tag_reflected| ShutdownComplete { tag_reflected };
    let abort = |builder: &mut PacketBuilder<'_>| assert!(builder.push_raw(kind::ABORT, 1, 0).is_some());
    assert_eq!(allowed(abort), all);
    assert_eq!(allowed(|builder| assert!(builder.push(&complete(true)))), all);
    assert_eq!(allowed(|builder| assert!(builder.push(&complete(false)))), 0, "of an association");
    assert_eq!(allowed(|builder| assert!(builder.push(&ShutdownAck))), 0);
    let bundled = |builder: &mut PacketBuilder<'_>| {
        assert!(builder.push(&complete(true)) && builder.push(&CookieAck));
    };
    assert_eq!(allowed(bundled), 0, "it is alone");
}
