//! Section 6.2: sending authenticated chunks.

use super::*;
use crate::config::Recovery;

/// Everything that either side sends after the set-up, and the chunks that complete it.
const ALL: [u8; 13] = [
    kind::DATA,
    kind::SACK,
    kind::HEARTBEAT,
    kind::HEARTBEAT_ACK,
    kind::ABORT,
    kind::SHUTDOWN,
    kind::SHUTDOWN_ACK,
    kind::ERROR,
    kind::COOKIE_ECHO,
    kind::COOKIE_ACK,
    kind::RE_CONFIG,
    kind::FORWARD_TSN,
    kind::PAD,
];

#[test]
fn section_6_2_demanded_chunks_follow_auth() {
    for (client, server) in [
        (&[][..], &[kind::DATA][..]),
        (&[kind::SACK], &[]),
        (&[kind::HEARTBEAT, kind::COOKIE_ACK], &[kind::SHUTDOWN, kind::SACK]),
        (&ALL, &ALL),
    ] {
        let (mut pair, one, other) = pair(client, server).establish();
        assert!(exchange(&mut pair, one, other), "{client:?} {server:?}");
        pair.pass(Duration::from_secs(60));
        pair.hosts[CLIENT].endpoint.shutdown(pair.now, one).unwrap();
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.closed(CLIENT), Some(&CloseReason::Shutdown));
        assert_eq!(pair.closed(SERVER), Some(&CloseReason::Shutdown));
        assert_behind_auth(&pair, CLIENT, server);
        assert_behind_auth(&pair, SERVER, client);
    }
}

/// Both the largest packets and the probes stay within the path MTU.
#[test]
fn section_6_2_auth_fits_the_path_mtu() {
    for chunks in [&[kind::DATA][..], &[kind::SACK], &ALL] {
        let (mut pair, one, other) = pair(chunks, chunks).establish();
        pair.send(CLIENT, one, 0, &vec![1; 200_000]);
        pair.pass(Duration::from_secs(5));
        assert_eq!(pair.recv(SERVER, other).map(|message| message.data.len()), Some(200_000));
        let longest = pair.log.iter().filter(|sent| has(kind::DATA)(sent)).map(|sent| sent.bytes.len()).max();
        // Room is left in packets that turn out not to need it.
        let unused = if chunks.contains(&kind::DATA) { 0 } else { 40 };
        let mtu = pair.hosts[CLIENT].endpoint.paths(one).unwrap()[0].mtu;
        assert_eq!(longest, Some(usize::from(mtu) - 28 - unused), "{chunks:?}");
        assert_eq!(pair.oversize, 0);
    }
}

/// Packets that only the AUTH chunk makes too long for the path reduce the path MTU, whatever notices their
/// loss: T3-rtx, or acknowledgements of shorter packets.
#[test]
fn section_6_2_auth_counts_for_lost_packets() {
    const FLOOR: usize = 576;
    for (chunks, recovery, probing) in [
        (&[kind::DATA][..], Recovery::Rfc9260, false),
        (&ALL, Recovery::Rfc9260, false),
        (&[kind::DATA], Recovery::Rack, false),
        (&[kind::DATA], Recovery::Rack, true),
    ] {
        let host = |index| {
            let mut config = configured(Some(demanding(chunks)), index);
            let association = Arc::make_mut(&mut config.association);
            (association.path_mtu_initial, association.path_mtu_max) = (FLOOR as u16 + 20, 1500);
            association.recovery = recovery;
            config
        };
        let (mut pair, one, other) = Pair::with(host(CLIENT), host(SERVER)).establish();
        let too_long = |sent: &Sent| sent.bytes.len() + 28 > FLOOR && !sent.fragment;
        pair.send(CLIENT, one, 0, &vec![1; 100_000]);
        for _ in 0..120 {
            if probing {
                pair.send(CLIENT, one, 1, b"short");
            }
            pair.pass_dropping(Duration::from_secs(1), too_long);
        }
        let read = core::iter::from_fn(|| pair.recv(SERVER, other)).map(|message| message.data.len());
        assert!(read.into_iter().any(|len| len == 100_000), "{chunks:?} {recovery:?}");
        assert_eq!(pair.hosts[CLIENT].endpoint.paths(one).unwrap()[0].mtu, FLOOR as u16);
    }
}

#[test]
fn section_6_2_lost_data_is_authenticated_again() {
    let (mut pair, one, other) = pair(&ALL, &ALL).establish();
    pair.send(CLIENT, one, 0, &vec![3; 50_000]);
    let mut count = 0;
    pair.pass_dropping(Duration::from_secs(60), |_| {
        count += 1;
        count % 7 == 0
    });
    assert_eq!(pair.recv(SERVER, other).map(|message| message.data.len()), Some(50_000));
    assert!(pair.hosts[CLIENT].endpoint.status(one).unwrap().stats.retransmissions > 0);
    assert_behind_auth(&pair, CLIENT, &ALL);
    assert_behind_auth(&pair, SERVER, &ALL);
}

/// The first algorithm of the peer's list that is known.
#[test]
fn section_6_1_first_known_algorithm_is_used() {
    for (list, wanted) in [
        (HmacIdentifiers::SHA1, SHA1),
        (HmacIdentifiers::SHA256_SHA1, SHA256),
        (HmacIdentifiers::SHA1_SHA256, SHA1),
    ] {
        let mut peer = Peer::open(pair(&[], &[]), &[kind::DATA], list);
        let sent = peer.raw.server_sends(100);
        let Some(Chunk::Auth(auth)) = chunks_of(&sent[0]).into_iter().next() else { panic!("no AUTH") };
        assert_eq!((auth.hmac, auth.key), (wanted, 0));
        peer.hmac = wanted;
        let mut covered = sent[0].bytes[12..].to_vec();
        covered[8..8 + auth.mac.len()].fill(0);
        assert_eq!(auth.mac, peer.mac(&covered), "the peer computes the same");
    }
}

/// A peer that demands what must not be demanded (section 3.2) is not given it.
#[test]
fn section_3_2_forbidden_types_are_ignored() {
    let all: Vec<u8> = (0..=u8::MAX).collect();
    let mut peer = Peer::open(pair(&[], &[]), &all, HmacIdentifiers::SHA1);
    let sent = peer.raw.server_sends(100);
    assert_eq!(sent[0].kinds()[..2], [kind::AUTH, kind::DATA]);
}
