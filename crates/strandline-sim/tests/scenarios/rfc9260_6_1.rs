//! RFC 9260 section 6.1 rule A: a closed window is probed with one packet at a time, which is neither a loss nor an
//! error.

use strandline_proto::authentication::{Authentication, ChunkTypes};

use super::scene::Scene;
use super::*;

/// B has room for `room` bytes, in messages that are delivered whole, and does not read.
fn nobody_reads(room: u32) -> Scene {
    Scene::between(
        link(ms(30), 100),
        |_| (),
        |config| {
            config.receive_buffer = Some(room);
            config.partial_delivery_point = room / 2;
        },
    )
}

/// One packet more than fits was sent, and B's window stays closed for `timeouts` time-outs. Returns when the last of
/// them came.
fn probed(timeouts: u32) -> Duration {
    let mut scene = nobody_reads(30_000);
    scene.give(60);
    while scene.stats().timeouts < timeouts {
        scene.pair.run_for(ms(1));
        assert!(scene.pair.now.since(scene.began) < ms(60_000), "{:?}", scene.stats());
    }
    scene.pair.now.since(scene.began)
}

/// The window opens just before the backed-off T3-rtx would expire for the probe. The probe is retransmitted at once,
/// with new data. T3-rtx restarts, so that nothing is sent a second time.
#[test]
fn a_window_that_opens_ends_the_back_off() {
    for timeouts in [2, 3] {
        let at = probed(timeouts);
        let mut scene = nobody_reads(30_000);
        scene.give(60);
        scene.pair.run_for(at - ms(70));
        assert_eq!(scene.stats().timeouts, timeouts - 1);
        let opened = scene.pair.now.since(scene.began).as_millis() as u64;
        scene.pair.recv_all(Side::B, scene.b);
        scene.pair.run_for(ms(72));
        assert_eq!(scene.stats().timeouts, timeouts - 1, "{:?}", scene.sent());
        let after = |scene: &Scene| -> Vec<u32> {
            scene
                .sent()
                .iter()
                .filter(|seen| seen.ms > opened)
                .flat_map(|seen| seen.numbers.clone())
                .collect()
        };
        assert!(after(&scene).len() > 5, "new data went: {:?}", scene.sent());
        scene.run(ms(400));
        let mut numbers = after(&scene);
        numbers.sort_unstable();
        let len = numbers.len();
        numbers.dedup();
        assert_eq!(numbers.len(), len, "each went once since the window has opened: {:?}", scene.sent());
        scene.run(ms(3000));
        assert!(scene.all_is_acknowledged(), "{:?}", scene.sent());
    }
}

/// Small messages take more room than their bytes, so that more is outstanding than fits: all of it waits while one
/// packet probes.
#[test]
fn blocked_data_waits_while_one_packet_probes() {
    let mut scene = nobody_reads(10_000);
    for number in 0..600_u16 {
        scene.pair.send(Side::A, scene.a, 0, number.to_be_bytes().repeat(10));
    }
    scene.pair.run_for(ms(500));
    let status = scene.pair.a.endpoint.status(scene.a).unwrap();
    assert!(status.in_flight > 1_000, "{status:?}");
    let before = scene.sent().len();
    scene.pair.run_for(ms(10_000));
    assert!(scene.stats().timeouts >= 3, "{:?}", scene.stats());
    let sent = scene.sent().split_off(before);
    assert!(sent.len() <= 12, "{} packets into a closed window: {sent:?}", sent.len());
    assert!(sent.windows(2).all(|pair| pair[1].ms > pair[0].ms), "one at a time: {sent:?}");
    assert_eq!(scene.path().error_count, 0);
    let (mut messages, b) = (Vec::new(), scene.b);
    scene.pair.run_until(ms(70_000), |pair| {
        // Besides these there are some from before.
        messages.extend(pair.recv_all(Side::B, b).into_iter().filter(|message| message.data.len() == 20));
        messages.len() == 600
    });
    let numbers: Vec<u16> = messages.iter().map(|m| u16::from_be_bytes([m.data[0], m.data[1]])).collect();
    assert_eq!(numbers, (0..600).collect::<Vec<_>>());
}

/// Short I-DATA chunks, and packets with an AUTH chunk, hold fewer chunks than a packet of DATA does: what
/// does not fit the probe waits as well.
#[test]
fn short_chunks_probe_in_one_packet() {
    let interleaving = |config: &mut AssociationConfig| config.extensions.interleaving = true;
    let authenticated = |config: &mut AssociationConfig| {
        let chunks = ChunkTypes::NONE.with(kind::DATA);
        config.extensions.authentication = Some(Authentication { chunks, ..Authentication::default() });
    };
    let changes: [(u8, fn(&mut AssociationConfig)); 2] =
        [(kind::I_DATA, interleaving), (kind::DATA, authenticated)];
    for (wanted, change) in changes {
        let full = endpoint(|config| {
            change(config);
            config.receive_buffer = Some(10_000);
            config.partial_delivery_point = 5_000;
        });
        let mut pair = Pair::new(endpoint(change), full, link(ms(30), 100));
        let (a, _) = pair.connect();
        for _ in 0..1500 {
            pair.send(Side::A, a, 0, vec![7]);
        }
        pair.run_for(ms(500));
        let status = pair.a.endpoint.status(a).unwrap();
        assert!(status.in_flight > 150 && status.peer_rwnd == 0, "{status:?}");
        pair.clear_captured();
        pair.run_for(ms(10_000));
        let times: Vec<_> = pair
            .captured()
            .iter()
            .filter(|packet| packet.from == Side::A && packet.chunk_kinds().contains(&wanted))
            .map(|packet| packet.at)
            .collect();
        assert!((3..=12).contains(&times.len()), "{times:?}");
        assert!(times.windows(2).all(|pair| pair[1] > pair[0]), "one at a time: {times:?}");
    }
}

/// Everything was sent, and most of it dropped, since small messages take more room than their bytes. The window
/// opens while the backed-off T3-rtx has seconds to go: one packet probes at once, and its answer reveals the rest
/// (sections 6.1 rule A and 6.3.3). TCP does the same.
#[test]
fn what_was_dropped_goes_when_the_window_opens() {
    let mut scene = nobody_reads(10_000);
    for number in 0..340_u16 {
        scene.pair.send(Side::A, scene.a, 0, number.to_be_bytes().repeat(10));
    }
    scene.pair.run_for(ms(10_500));
    let status = scene.pair.a.endpoint.status(scene.a).unwrap();
    assert!(status.in_flight > 1_000 && status.peer_rwnd == 0, "{status:?}");
    assert!(status.stats.timeouts >= 3 && scene.path().rto >= ms(4000), "{:?}", scene.path());
    let before = scene.sent().len();
    let opened = scene.pair.now.since(scene.began).as_millis() as u64;
    let (mut messages, b) = (0, scene.b);
    scene.pair.run_until(ms(3000), |pair| {
        messages += pair.recv_all(Side::B, b).iter().filter(|message| message.data.len() == 20).count();
        messages == 340
    });
    let sent = scene.sent().split_off(before);
    assert_eq!(messages, 340, "{sent:?}");
    assert!(sent[0].ms <= opened + 35, "half a round trip after it has opened: {sent:?}");
    assert!(sent[1].ms >= sent[0].ms + 55, "the others wait for its answer: {sent:?}");
    assert!(scene.pair.now.since(scene.began).as_millis() as u64 <= opened + 250, "{sent:?}");
    assert_eq!((scene.stats().timeouts, scene.path().error_count), (status.stats.timeouts, 0));
}
