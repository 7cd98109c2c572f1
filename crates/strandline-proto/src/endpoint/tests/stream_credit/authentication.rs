//! STREAM CREDIT and STREAM BLOCKED behind AUTH (section 5, RFC 4895).

use strandline_wire::parameter::HmacIdentifiers;

use super::super::conformance_rfc4895::Peer;
use super::*;
use crate::authentication::Authentication;

/// Section 5: both chunk types may be listed in CHUNKS. They have no effect then unless they come behind AUTH.
#[test]
fn chunks_may_be_authenticated() {
    let offer = [Parameter::SupportedExtensions(&[64, 194, 192]), Parameter::StreamCredit { initial_kib: 1 }];
    let pair = configured(|config| {
        let chunks = [kind::STREAM_CREDIT, kind::STREAM_BLOCKED].into_iter().collect();
        config.extensions.authentication = Some(Authentication { chunks, ..Authentication::default() });
    });
    let mut peer = Peer::open_with(pair, &[], HmacIdentifiers::SHA1, &offer);
    peer.raw.pair.send(SERVER, peer.raw.server, 1, &[5; 4096]);
    assert!(peer.raw.heard().iter().any(has(kind::I_DATA)));
    let acknowledged = peer.raw.say_sack(1, 1 << 20, &[]);
    assert!(!acknowledged.iter().any(has(kind::I_DATA)), "the credit of stream 1 is used up");
    let tsn = peer.raw.server_tsn.0.to_be_bytes();
    let value = [&tsn[..], &[0, 1, 0, 0], &1024_u32.to_be_bytes(), &2048_u32.to_be_bytes()].concat();
    let credit = AnyChunk { kind: kind::STREAM_CREDIT, flags: 0, value: &value };
    let bytes = peer.bytes_of(&[&credit]);
    assert!(!peer.raw.say_bytes(&bytes).iter().any(has(kind::I_DATA)));
    assert!(peer.say_behind_auth(&[&credit]).iter().any(has(kind::I_DATA)));
    let question = AnyChunk { kind: kind::STREAM_BLOCKED, flags: 0, value: &[0, 9] };
    let bytes = peer.bytes_of(&[&question]);
    assert!(!peer.raw.say_bytes(&bytes).iter().any(has(kind::STREAM_CREDIT)));
    assert!(peer.say_behind_auth(&[&question]).iter().any(has(kind::STREAM_CREDIT)));
}
