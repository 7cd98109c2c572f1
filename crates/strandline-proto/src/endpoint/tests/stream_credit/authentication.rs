//! STREAM CREDIT and STREAM BLOCKED behind AUTH (section 5, RFC 4895).

use strandline_wire::parameter::HmacIdentifiers;

use super::super::conformance_rfc4895::{Peer, assert_behind_auth};
use super::*;
use crate::authentication::Authentication;

const DEMANDED: [u8; 2] = [kind::STREAM_CREDIT, kind::STREAM_BLOCKED];

/// Two endpoints that demand AUTH of both chunk types.
fn demanding() -> Pair {
    configured(|config| {
        let chunks = DEMANDED.into_iter().collect();
        config.extensions.authentication = Some(Authentication { chunks, ..Authentication::default() });
    })
}

/// Section 5: both chunk types may be listed in CHUNKS. They have no effect then unless they come behind AUTH.
#[test]
fn chunks_may_be_authenticated() {
    let offer = [Parameter::SupportedExtensions(&[64, 194, 192]), Parameter::StreamCredit { initial_kib: 1 }];
    let mut peer = Peer::open_with(demanding(), &[], HmacIdentifiers::SHA1, &offer);
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

/// Both sides demand it of each other: credit that was lost is asked for and told, behind AUTH alone.
#[test]
fn authenticated_credit_is_asked_for_and_told() {
    let (mut pair, a, b) = establish(demanding());
    let len = INITIAL as usize + 4000;
    try_send(&mut pair, a, 1, len).unwrap();
    pair.run();
    let first = take(&mut pair, SERVER, b).get(&1).copied().unwrap_or_default();
    assert!(first > 0 && first < len, "{first}");
    let now = pair.now;
    StreamCredits::of(&mut pair.hosts[SERVER].endpoint, b).read(now, StreamId(1), first);
    pair.run_dropping(has(kind::STREAM_CREDIT));
    pair.pass(LONG);
    let rest = take(&mut pair, SERVER, b).get(&1).copied().unwrap_or_default();
    assert_eq!(first + rest, len);
    for (host, wanted) in [(CLIENT, kind::STREAM_BLOCKED), (SERVER, kind::STREAM_CREDIT)] {
        assert!(pair.log.iter().any(has(wanted)));
        assert_behind_auth(&pair, host, &DEMANDED);
    }
}
