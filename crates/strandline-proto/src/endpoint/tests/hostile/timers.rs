//! Timers that overflow, never run, or never end.

use strandline_wire::chunk::{Heartbeat, HeartbeatAck, Shutdown};

use super::super::raw::*;
use super::super::*;
use crate::config::Recovery;
use crate::stats::Reachability;

/// Returns the intervals between packets with DATA, in seconds.
fn gaps_between_data(pair: &mut Pair, time: Duration) -> Vec<u64> {
    let mut sent = Vec::new();
    let end = pair.now + time;
    let mut seen = pair.log.len();
    while pair.now < end {
        pair.pass_dropping(Duration::from_secs(1), |_| true);
        sent.extend(pair.log[seen..].iter().filter(|sent| has(kind::DATA)(sent)).map(|_| pair.now));
        seen = pair.log.len();
    }
    sent.windows(2).map(|two| two[1].since(two[0]).as_secs()).collect()
}

/// A limit of 65,535 retransmissions, and no answer: the time-out doubles up to RTO.Max and stays there. No shift
/// overflows after 64 doublings.
#[test]
fn the_hundredth_time_out_waits_for_rto_max() {
    let (mut pair, client, _) = Pair::configured(|config| {
        config.recovery = Recovery::Rfc9260;
        config.association_retrans_max = u16::MAX;
        config.path_retrans_max = u16::MAX;
        config.heartbeat_interval = None;
    })
    .establish();
    pair.send(CLIENT, client, 0, b"anybody there?");
    let gaps = gaps_between_data(&mut pair, Duration::from_secs(200 * 60));
    assert!((195..=210).contains(&gaps.len()), "{}", gaps.len());
    assert_eq!(gaps[..6], [1, 2, 4, 8, 16, 32]);
    assert!(gaps[6..].iter().all(|gap| *gap == 60), "{gaps:?}");
    assert_eq!(pair.state(CLIENT, client), "ESTABLISHED");
}

/// Outstanding data always has a timer. Every kind of packet is lost at random on both sides, and there must never be
/// unacknowledged data without a pending event.
#[test]
fn outstanding_data_always_has_a_timer() {
    for seed in 1..=60u32 {
        let (mut pair, client, server) = Pair::configured(|config| {
            config.association_retrans_max = 1000;
            config.receive_buffer = Some(20_000);
            config.partial_delivery_point = 20_000;
        })
        .establish();
        let mut random = seed;
        let mut lose = move |share: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) % 100 < share
        };
        for number in 0..40u8 {
            pair.send(CLIENT, client, u16::from(number % 3), &vec![number; 100 * usize::from(number) + 1]);
            pair.send(SERVER, server, 0, &[number; 700]);
        }
        let mut read = 0;
        for _ in 0..3000 {
            let next = pair.hosts.iter().filter_map(|host| host.endpoint.poll_timeout()).min();
            for (host, id) in [(CLIENT, client), (SERVER, server)] {
                let buffered = pair.hosts[host].endpoint.status(id).unwrap().send_buffered;
                let timeout = pair.hosts[host].endpoint.poll_timeout();
                assert!(
                    buffered == 0 || timeout.is_some_and(|at| at.since(pair.now) <= Duration::from_secs(61))
                );
            }
            let Some(next) = next else { break };
            pair.pass_dropping(next.since(pair.now), |_| lose(20));
            for (host, id) in [(CLIENT, client), (SERVER, server)] {
                read += core::iter::from_fn(|| pair.recv(host, id)).filter(|message| message.ends).count();
            }
            if read == 80 {
                break;
            }
        }
        assert_eq!(read, 80, "seed {seed}");
    }
}

/// HEARTBEAT ACKs that answer none of our HEARTBEATs neither confirm an address nor reset the error counters.
#[test]
fn a_heartbeat_ack_counts_only_with_its_nonce() {
    let mut raw = Raw::configured(|config| {
        config.heartbeat_interval = Some(Duration::from_secs(5));
        config.association_retrans_max = 4;
    });
    let mut nonces = std::collections::BTreeSet::new();
    let mut heartbeats = 0;
    for _ in 0..1000 {
        for sent in raw.wait(Duration::from_millis(500)) {
            for chunk in chunks(&sent) {
                if let strandline_wire::Chunk::Heartbeat(Heartbeat { info }) = chunk {
                    heartbeats += 1;
                    nonces.insert(info[1..9].to_vec());
                    let mut forged = info.to_vec();
                    forged[8] ^= 1;
                    let short = &info[..info.len() - 1];
                    let long = [info, &[0]].concat();
                    let mut other_path = info.to_vec();
                    other_path[0] = 7;
                    for info in [&forged[..], short, &long, &other_path, &[], &[0; 17], &[0xff; 17]] {
                        raw.say(|packet| assert!(packet.push(&HeartbeatAck(Heartbeat { info }))));
                    }
                }
            }
        }
        if raw.state() == "CLOSED" {
            break;
        }
    }
    assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
    assert_eq!(nonces.len(), heartbeats, "each has its own nonce");
}

#[test]
fn address_is_confirmed_by_its_own_nonce() {
    let mut pair = Pair::with(config(2, CLIENT), config(2, SERVER));
    let client = pair.connect();
    // The answer to the primary path's HEARTBEAT, with the other path's number in it.
    pair.pass_dropping(Duration::from_secs(2), has(kind::HEARTBEAT_ACK));
    pair.hosts[CLIENT].endpoint.request_heartbeat(pair.now, client, address(SERVER, 0).ip()).unwrap();
    pair.collect();
    let heartbeat = pair.wire.iter().rfind(|sent| has(kind::HEARTBEAT)(sent)).unwrap().clone();
    let Some(strandline_wire::Chunk::Heartbeat(Heartbeat { info })) = chunks(&heartbeat).into_iter().next()
    else {
        panic!("no HEARTBEAT")
    };
    let mut info = info.to_vec();
    assert_eq!(info[0], 0);
    info[0] = 1;
    let status = pair.hosts[CLIENT].endpoint.status(client).unwrap();
    let sent = pair.forge(SERVER, (PORT, 5000), status.local_tag, |packet| {
        assert!(packet.push(&HeartbeatAck(Heartbeat { info: &info })));
    });
    pair.deliver(&sent);
    let paths = pair.hosts[CLIENT].endpoint.paths(client).unwrap();
    assert_eq!(paths[1].state, Reachability::Unconfirmed);
}

/// A peer keeps sending and never completes the shutdown. T5-shutdown-guard ends it, which new data delays by
/// an hour at most; once SHUTDOWN ACK was sent, Association.Max.Retrans does, which a repeated SHUTDOWN does
/// not delay.
#[test]
fn chattering_peer_cannot_delay_the_shutdown() {
    let chatter: [fn(&mut Raw, u32); 3] = [
        |raw, _| drop(raw.say(|packet| assert!(packet.push(&Heartbeat { info: b"hello" })))),
        |raw, number| drop(raw.say_data(&whole(raw.tsn + number, number as u16, b"more"))),
        // From its arrival on, SHUTDOWN ACK is never answered.
        |raw, _| {
            let cumulative_tsn = raw.server_tsn.previous();
            raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })));
        },
    ];
    // The last one again with the peer as the side that shuts down.
    let cases = chatter.into_iter().map(|chatter| (false, chatter)).chain([(true, chatter[2])]);
    for (which, (peer_first, chatter)) in cases.enumerate() {
        let mut raw = Raw::new();
        if !peer_first {
            raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
        }
        let mut sent = raw.heard();
        let mut number = 0;
        while raw.state() != "CLOSED" {
            chatter(&mut raw, number);
            raw.read();
            sent.extend(raw.wait(Duration::from_millis(700)));
            number += 1;
            assert!(number < 6000, "the shutdown never ends: {which}");
        }
        // 5 times RTO.Max; or 1 + 2 + 4 + 8 + 16 + 32 + 5 times 60 seconds.
        let ack_sent = which >= 2;
        let expected = match which {
            0 => 299..=301,
            1 => 3599..=3601,
            _ => 362..=364,
        };
        assert!(expected.contains(&raw.pair.now.since(Time::ZERO).as_secs()), "{which}");
        assert!(ack_sent || sent.last().is_some_and(has(kind::ABORT)));
    }
}

/// Shutdown chunks without any answer: as many as Association.Max.Retrans allows, then an ABORT and no more.
#[test]
fn shutdown_is_not_repeated_for_ever() {
    for peer_first in [false, true] {
        let mut raw = Raw::configured(|config| config.shutdown_guard = Some(Duration::from_secs(100_000)));
        if peer_first {
            let cumulative_tsn = raw.server_tsn.previous();
            raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })));
            assert_eq!(raw.state(), "SHUTDOWN-ACK-SENT");
        } else {
            raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
            raw.heard();
        }
        let again = raw.wait(Duration::from_secs(50_000));
        assert_eq!(again.len(), 11);
        let aborts: Vec<_> = again.iter().map(has(kind::ABORT)).collect();
        assert_eq!(aborts.iter().position(|abort| *abort), Some(10), "the last one");
        assert_eq!(raw.pair.closed(SERVER), Some(&CloseReason::TimedOut));
    }
}

/// However an association ends, no timer, packet or memory is left once the application has released it.
#[test]
fn nothing_is_left_after_the_end() {
    let ends: [fn(&mut Pair, AssociationId, AssociationId); 4] = [
        |pair, client, _| pair.hosts[CLIENT].endpoint.abort(pair.now, client, "".into()).unwrap(),
        |pair, _, server| pair.hosts[SERVER].endpoint.abort(pair.now, server, "".into()).unwrap(),
        |pair, client, _| {
            pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
            pair.pass(Duration::from_secs(60));
        },
        |pair, _, _| pair.pass_dropping(Duration::from_secs(3600), |_| true),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let (mut pair, client, server) = Pair::established();
        pair.send(CLIENT, client, 0, &vec![0; 300_000]);
        pair.send(SERVER, server, 0, &vec![0; 300_000]);
        pair.run();
        end(&mut pair, client, server);
        pair.run();
        for (host, id) in [(CLIENT, client), (SERVER, server)] {
            assert!(pair.closed(host).is_some(), "{number} {host}");
            pair.hosts[host].endpoint.release(id);
            let endpoint = &pair.hosts[host].endpoint;
            assert_eq!(endpoint.association_count(), 0);
            assert_eq!(endpoint.context.memory.received(), 0, "{number}");
            assert_eq!(endpoint.context.memory.associations(), 0);
        }
        pair.log.clear();
        pair.pass(Duration::from_secs(3600));
        assert!(pair.log.is_empty());
        assert!(pair.hosts.iter().all(|host| host.endpoint.poll_timeout().is_none()));
        // The ports can be used again.
        pair.connect();
    }
}
