//! Section 6.3: receiving authenticated chunks.

use strandline_wire::chunk::{Abort, Heartbeat, Shutdown};
use strandline_wire::{Cause, Causes};

use super::*;

fn data(text: &'static [u8]) -> strandline_wire::Data<'static> {
    whole(Tsn(1000), 0, text)
}

#[test]
fn section_6_3_demanded_chunks_need_auth() {
    let mut peer = Peer::new(&[kind::DATA]);
    let bytes = peer.bytes_of(&[&data(b"x")]);
    peer.ignores(&bytes);
    assert!(peer.say_behind_auth(&[&data(b"y")]).iter().any(has(kind::SACK)));
    assert_eq!(peer.raw.read(), [b"y"]);
}

/// Chunks before the AUTH chunk are not authenticated; others than those demanded are processed.
#[test]
fn section_6_3_order_decides() {
    let mut peer = Peer::new(&[kind::DATA]);
    let heartbeat = Heartbeat { info: &[1, 2, 3] };
    let bytes = [peer.bytes_of(&[&data(b"x"), &heartbeat]), peer.behind_auth(&[&whole(Tsn(1001), 1, b"y")])];
    let answers = peer.raw.say_bytes(&bytes.concat());
    assert!(answers.iter().any(has(kind::HEARTBEAT_ACK)));
    let told = [sacks(&answers), sacks(&peer.raw.wait(Duration::from_secs(1)))].concat();
    assert_eq!((told[0].cumulative, &told[0].gaps[..]), (Tsn(999), &[(2, 2)][..]));
    assert!(peer.raw.read().is_empty());
}

#[test]
fn section_6_3_wrong_mac_discards_the_rest() {
    for hmac in [SHA1, SHA256] {
        let mut peer = Peer::new(&[kind::DATA]);
        peer.hmac = hmac;
        let right = peer.behind_auth(&[&Heartbeat { info: &[1] }, &data(b"x")]);
        for bit in 0..right.len() * 8 {
            // A changed type or length of the first chunk makes it another chunk, and its flags are covered.
            let mut wrong = right.clone();
            wrong[bit / 8] ^= 1 << (bit % 8);
            if bit >= 64 {
                peer.ignores(&wrong);
            }
        }
        for len in [0, 4, peer.mac_len() - 4, peer.mac_len() + 4] {
            let mut wrong = peer.bytes_of(&[&Auth { key: 0, hmac, mac: &vec![0; len] }, &data(b"x")]);
            let mac = peer.mac(&wrong);
            let len = len.min(mac.len());
            wrong[8..8 + len].copy_from_slice(&mac[..len]);
            peer.ignores(&wrong);
        }
        assert!(peer.raw.say_bytes(&right).iter().any(has(kind::SACK)));
        assert_eq!(peer.raw.read(), [b"x"]);
    }
}

/// Other stacks looked up the key without a check (NULL dereference) or took another key.
#[test]
fn section_6_3_unknown_key_discards_the_rest() {
    let mut peer = Peer::new(&[kind::DATA]);
    for key in [1, 2, 2, 0xffff] {
        peer.key = key;
        let bytes = peer.behind_auth(&[&data(b"x")]);
        peer.ignores(&bytes);
    }
    let unknown = |id| AuthenticationEvent::UnknownKey(KeyId(id));
    assert_eq!(peer.events(), [unknown(1), unknown(2), unknown(0xffff)]);
    peer.key = 0;
    assert!(peer.say_behind_auth(&[&data(b"y")]).iter().any(has(kind::SACK)));
}

#[test]
fn section_6_3_unsupported_hmac_is_reported() {
    for hmac in [0, 2, 4, 0xffff] {
        let mut peer = Peer::new(&[kind::DATA]);
        let auth = Auth { key: 0, hmac, mac: &[0; 20] };
        let sent = peer.raw.say_all(&[&auth, &data(b"x")]);
        let Some(Chunk::Error(error)) = chunks_of(&sent[0]).into_iter().next() else { panic!("no ERROR") };
        let causes: Vec<_> = error.causes.iter().map(|raw| raw.unwrap().parse().unwrap()).collect();
        assert_eq!(causes, [Cause::UnsupportedHmac { hmac }]);
        assert!(peer.raw.read().is_empty() && sent.len() == 1);
    }
}

/// An algorithm that is known but was not listed is not accepted.
#[test]
fn section_6_3_unlisted_hmac_is_unsupported() {
    let settings = Authentication { hmacs: HmacAlgorithms::Sha1Only, ..demanding(&[kind::DATA]) };
    let pair = Pair::with(configured(None, CLIENT), configured(Some(settings), SERVER));
    let mut peer = Peer::open(pair, &[], HmacIdentifiers::SHA1);
    peer.hmac = SHA256;
    assert_eq!(peer.say_behind_auth(&[&data(b"x")])[0].kinds(), [kind::ERROR]);
    peer.hmac = SHA1;
    assert!(peer.say_behind_auth(&[&data(b"x")]).iter().any(has(kind::SACK)));
}

/// The chunk must not occur twice (section 5.1): the second one and what follows are discarded.
#[test]
fn section_5_1_second_auth_is_discarded() {
    let mut peer = Peer::new(&[kind::DATA]);
    let second = peer.behind_auth(&[&whole(Tsn(1001), 1, b"y")]);
    let first = strandline_wire::chunk::Auth { key: 0, hmac: SHA1, mac: &[0; 20] };
    let mut bytes = [peer.bytes_of(&[&first, &data(b"x")]), second].concat();
    let mac = peer.mac(&bytes);
    bytes[8..28].copy_from_slice(&mac);
    let answers = [peer.raw.say_bytes(&bytes), peer.raw.wait(Duration::from_secs(1))].concat();
    assert_eq!(sacks(&answers)[0].cumulative, Tsn(1000));
    assert_eq!(peer.raw.read(), [b"x"]);
}

/// Without an ABORT that is authenticated nothing of a peer ends the association, malformed chunks included.
#[test]
fn section_6_3_abort_needs_auth() {
    let mut peer = Peer::new(&[kind::ABORT, kind::SHUTDOWN]);
    let abort = Abort { tag_reflected: false, causes: Causes::new(&[]) };
    let bytes = peer.bytes_of(&[&abort]);
    peer.ignores(&bytes);
    let bytes = peer.bytes_of(&[&Shutdown { cumulative_tsn: Tsn(0) }]);
    peer.ignores(&bytes);
    // With the T bit and the peer's own tag.
    let reflected = Abort { tag_reflected: true, causes: Causes::new(&[]) };
    let sent =
        peer.raw.pair.forge(CLIENT, (RAW_PORT, PORT), RAW_TAG, |packet| assert!(packet.push(&reflected)));
    peer.raw.pair.deliver(&sent);
    // A SACK that is too short.
    peer.ignores(&[kind::SACK, 0, 0, 8, 0, 0, 0, 0]);
    // A DATA chunk without user data.
    let bytes = peer.bytes_of(&[&data(b"")]);
    peer.ignores(&bytes);
    assert_eq!(peer.raw.state(), "ESTABLISHED");
    let _ = peer.say_behind_auth(&[&abort]);
    assert!(matches!(peer.raw.pair.closed(SERVER), Some(CloseReason::PeerAborted { .. })));
}

/// Without authentication AUTH is an unknown type whose two high bits are 0: the rest is discarded silently.
#[test]
fn section_5_auth_is_unknown_without_agreement() {
    let mut raw = Raw::new();
    let auth = Auth { key: 0, hmac: SHA1, mac: &[0; 20] };
    assert!(raw.say_all(&[&auth, &data(b"x")]).is_empty());
    assert!(raw.read().is_empty());
    assert!(!raw.say_data(&data(b"y")).is_empty());
}

/// A replay of an authenticated packet is a duplicate, as any other is (section 9).
#[test]
fn section_9_replays_are_duplicates() {
    let mut peer = Peer::new(&[kind::DATA]);
    let bytes = peer.behind_auth(&[&data(b"x")]);
    for _ in 0..3 {
        let _ = peer.raw.say_bytes(&bytes);
    }
    assert_eq!(peer.raw.read(), [b"x"]);
}
