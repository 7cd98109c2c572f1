//! SACKs with false reports: about what was sent, about what is missing, about the window.

use std::collections::BTreeSet;

use strandline_wire::chunk::{GapBlock, Shutdown, sack};
use strandline_wire::number::Tsn;

use super::super::raw::*;
use super::super::*;
use crate::config::Recovery;

/// A server with `packets` outstanding packets of one chunk each.
fn outstanding(packets: u32) -> Raw {
    outstanding_with(packets, |_| {})
}

fn outstanding_with(packets: u32, change: impl Fn(&mut AssociationConfig)) -> Raw {
    let mut raw = Raw::configured(|config| {
        config.burst_max = 0;
        config.path_mtu_max = config.path_mtu_initial;
        change(config);
    });
    let mut next = 0;
    // Acknowledge until the congestion window holds all of them.
    while raw.server().paths(raw.server).unwrap()[0].cwnd < packets * 1240 {
        for _ in 0..20 {
            next += tsns(&raw.server_sends(1200)).concat().len() as u32;
        }
        next += tsns(&raw.say_sack(next, 1 << 20, &[])).concat().len() as u32;
    }
    while raw.server().status(raw.server).unwrap().send_buffered > 0 {
        next += tsns(&raw.say_sack(next, 1 << 20, &[])).concat().len() as u32;
    }
    raw.server_tsn += next;
    for number in 0..packets {
        let sent = raw.server_sends(1200);
        assert_eq!(tsns(&sent), [[raw.server_tsn + number]]);
    }
    raw
}

fn status(raw: &Raw) -> crate::stats::Status {
    raw.server().status(raw.server).unwrap()
}

/// An optimistic receiver acknowledges TSNs that were never sent, cumulatively or by gap blocks.
#[test]
fn acknowledging_what_was_never_sent_ends_the_association() {
    let lies: [fn(&mut Raw) -> Vec<Sent>; 5] = [
        |raw| raw.say_sack(4, 65_536, &[]),
        |raw| raw.say_sack(1_000_000, 65_536, &[]),
        |raw| raw.say_sack(1, 65_536, &[(2, 3)]),
        |raw| raw.say_sack(0, 65_536, &[(65_535, 65_535)]),
        |raw| raw.say_sack(2, 65_536, &[(2, 2), (1, 1)]),
    ];
    for (number, lie) in lies.into_iter().enumerate() {
        let mut raw = outstanding(3);
        let answer = lie(&mut raw);
        assert_eq!(answer.iter().flat_map(Sent::kinds).collect::<Vec<_>>(), [kind::ABORT], "{number}");
        assert!(matches!(raw.pair.closed(SERVER), Some(CloseReason::ProtocolViolation(_))));
        let failed = |(_, event): &&(AssociationId, Event)| matches!(event, Event::SendFailed(_));
        assert_eq!(
            raw.pair.hosts[SERVER].events.iter().filter(failed).count(),
            3,
            "nothing was acknowledged by it"
        );
    }
}

/// Such a SHUTDOWN counts as a SHUTDOWN, and acknowledges nothing.
#[test]
fn a_shutdown_acknowledges_nothing_that_was_never_sent() {
    let mut raw = outstanding(3);
    let cumulative_tsn = raw.server_tsn + 3;
    let answer = raw.say(|packet| assert!(packet.push(&Shutdown { cumulative_tsn })));
    assert!(!answer.iter().flat_map(Sent::kinds).any(|kind| kind == kind::ABORT));
    assert_eq!(raw.state(), "SHUTDOWN-RECEIVED");
    assert_eq!(status(&raw).in_flight, 3 * 1200);
    let answer = raw.say_sack(3, 65_536, &[]);
    assert_eq!(answer.iter().flat_map(Sent::kinds).collect::<Vec<_>>(), [kind::SHUTDOWN_ACK]);
}

/// A SACK that was overtaken by a later one is dropped silently.
#[test]
fn an_older_sack_is_dropped_without_harm() {
    let mut raw = outstanding(6);
    raw.say_sack(4, 50_000, &[]);
    let before = status(&raw);
    for next in [3, 2, 1, 0] {
        assert!(raw.say_sack(next, 0, &[(1, 60_000)]).is_empty());
    }
    let after = status(&raw);
    assert_eq!((after.in_flight, after.peer_rwnd), (before.in_flight, before.peer_rwnd));
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// Blocks that are inverted, empty, contain the cumulative TSN, overlap, or come in any order: only the set of TSNs
/// in them counts.
#[test]
fn blocks_that_make_no_sense_name_nothing() {
    let mut raw = outstanding(10);
    for gaps in [&[(0, 0)][..], &[(5, 3)], &[(u16::MAX, 0)], &[(0, 0), (9, 2), (0, 0)], &[(3, 0); 300]] {
        raw.say_sack(0, 1 << 20, gaps);
        assert_eq!(status(&raw).in_flight, 10 * 1200, "{gaps:?}");
    }
    raw.say_sack(0, 1 << 20, &[(8, 9), (3, 4), (4, 5), (3, 3), (9, 9), (5, 3)]);
    assert_eq!(status(&raw).in_flight, 5 * 1200);
    raw.say_sack(0, 1 << 20, &[(3, 5), (8, 9)]);
    assert_eq!(status(&raw).in_flight, 5 * 1200);
}

#[test]
fn sack_of_sixteen_thousand_blocks_is_processed() {
    let mut raw = outstanding(20);
    let cumulative = raw.server_tsn.previous();
    let mut buffer = vec![0; 65_536];
    for step in 0..20u16 {
        let mut packet = PacketBuilder::new(&mut buffer, RAW_PORT, PORT, raw.tag);
        let gaps = (0..16_000u16).map(|number| {
            let at = 2 + (number % 19 * 7 + step) % 19;
            GapBlock { start: at, end: at + number % 2 }
        });
        let gaps = gaps.map(|gap| GapBlock { end: gap.end.min(20), ..gap });
        assert!(sack::write(&mut packet, cumulative, 1 << 20, gaps, &[]));
        let len = packet.finish();
        assert!(len > 60_000);
        let bytes = buffer[..len].to_vec();
        let (source, destination) = (address(CLIENT, 0), address(SERVER, 0));
        raw.pair.deliver(&Sent { source, destination, bytes, fragment: false });
        raw.heard();
    }
    assert_eq!(raw.state(), "ESTABLISHED");
    assert_eq!(status(&raw).in_flight, 1200, "all but the first one");
}

/// Duplicate TSNs in a SACK are only a hint: any number of any value changes nothing.
#[test]
fn duplicate_tsns_in_a_sack_change_nothing() {
    let mut raw = outstanding(5);
    let before = status(&raw);
    let (cumulative, first) = (raw.server_tsn.previous(), raw.server_tsn.0);
    let duplicates: Vec<Tsn> =
        (0..800).map(|number| Tsn(first.wrapping_add(number % 7).wrapping_mul(number % 3 + 1))).collect();
    let answer = raw.say(|packet| {
        assert!(sack::write(packet, cumulative, 1 << 20, core::iter::empty(), &duplicates));
    });
    assert!(answer.is_empty());
    let after = status(&raw);
    assert_eq!((after.in_flight, after.send_buffered), (before.in_flight, before.send_buffered));
    assert_eq!(after.stats.retransmissions, 0);
}

/// ACK splitting: a message cannot be acknowledged byte by byte, but chunk by chunk. The window grows by the
/// acknowledged bytes, not by the number of SACKs.
#[test]
fn many_sacks_grow_the_window_once() {
    let grown = |each: u32| {
        let mut raw = outstanding(12);
        let before = raw.server().paths(raw.server).unwrap()[0].cwnd;
        for next in (each..=12).step_by(each as usize) {
            // The same one ten times over.
            for _ in 0..10 {
                raw.say_sack(next, 1 << 20, &[]);
            }
        }
        raw.server().paths(raw.server).unwrap()[0].cwnd - before
    };
    assert!(grown(1) <= 12 * 1216, "{}", grown(1));
    assert!(grown(12) <= 6 * 1240, "one SACK in place of six, one PMDCS each");
}

/// A window of any size, from one SACK to the next.
#[test]
fn windows_that_jump_overflow_nothing() {
    let mut raw = outstanding(10);
    raw.pair.send(SERVER, raw.server, 0, &vec![1; 50_000]);
    let mut next = 0;
    for a_rwnd in [u32::MAX, 0, u32::MAX, 1, 12_000, 11_999, u32::MAX - 1, 0, 1 << 31, 65_536] {
        next += tsns(&raw.say_sack(next, a_rwnd, &[])).concat().len().min(3) as u32;
        let status = status(&raw);
        assert!(status.peer_rwnd <= a_rwnd);
    }
    assert_eq!(raw.state(), "ESTABLISHED");
}

/// A receiver acknowledges by gap blocks and revokes it, again and again. The chunk stays in the send buffer and is
/// retransmitted, and the accounts balance.
#[test]
fn acknowledgements_taken_back_are_borne() {
    let mut raw = outstanding(8);
    for round in 0..50 {
        raw.say_sack(0, 1 << 20, &[(2, 8)]);
        assert!(status(&raw).in_flight <= 1200);
        raw.say_sack(0, 1 << 20, &[]);
        assert!(status(&raw).in_flight <= 8 * 1200, "{round}");
        assert_eq!(status(&raw).send_buffered, 8 * 1200);
    }
    // Nothing was really received: all of it is retransmitted in time.
    let mut seen = BTreeSet::new();
    for _ in 0..100 {
        for tsn in tsns(&raw.wait(Duration::from_millis(500))).concat() {
            seen.insert(tsn.distance_from(raw.server_tsn));
        }
        let next = (0..).find(|number| !seen.contains(number)).unwrap();
        for tsn in tsns(&raw.say_sack(next, 1 << 20, &[])).concat() {
            seen.insert(tsn.distance_from(raw.server_tsn));
        }
        if next == 8 {
            assert_eq!(status(&raw).send_buffered, 0);
            return;
        }
    }
    panic!("sent again: {seen:?}");
}

/// A receiver that is short of memory throws away everything beyond the cumulative TSN, once, while the first chunk is
/// lost, on the network as many times as given. Its SACKs can't show that before the first chunk arrives. Then all of
/// it is sent again, and nothing more than that.
#[test]
fn data_discarded_behind_a_loss_is_resent() {
    const BEFORE: u32 = 20;
    const ALL: u32 = 40;
    for recovery in [Recovery::Rack, Recovery::Rfc9260] {
        for losses in [1, 2, 4] {
            let mut raw = outstanding_with(BEFORE, |config| config.recovery = recovery);
            let mut held: BTreeSet<u32> = (1..BEFORE).collect();
            let (mut left, mut again) = (losses - 1, Vec::new());
            let mut sent = say_held(&mut raw, &held);
            held.clear();
            sent.extend(say_held(&mut raw, &held));
            for _ in BEFORE..ALL {
                sent.extend(raw.server_sends(1200));
            }
            for _ in 0..6000 {
                for number in numbers(&raw, &sent) {
                    if number == 0 && left > 0 {
                        left -= 1;
                        continue;
                    }
                    let known = !held.insert(number);
                    // The first one may be probed before its answer arrives.
                    if (1..BEFORE).contains(&number) || (known && number > 0) {
                        again.push(number);
                    }
                }
                raw.pair.now += Duration::from_millis(10);
                sent = say_held(&mut raw, &held);
                if sent.is_empty() {
                    sent = raw.wait(Duration::from_millis(10));
                }
            }
            let what = format!("{recovery:?}, {losses} losses");
            assert_eq!((raw.state(), status(&raw).send_buffered), ("ESTABLISHED", 0), "{what}");
            assert_eq!(left, 0, "{what}");
            again.sort_unstable();
            assert_eq!(again, (1..BEFORE).collect::<Vec<_>>(), "{what}");
        }
    }
}

/// Says that the peer holds the chunks with these numbers.
fn say_held(raw: &mut Raw, held: &BTreeSet<u32>) -> Vec<Sent> {
    let next = (0..).find(|number| !held.contains(number)).unwrap();
    let beyond = held.range(next..).map(|number| (number + 1 - next) as u16);
    let gaps: Vec<(u16, u16)> = beyond.map(|offset| (offset, offset)).collect();
    raw.say_sack(next, 1 << 20, &gaps)
}

/// Returns the numbers, from 0, of the DATA in these packets.
fn numbers(raw: &Raw, sent: &[Sent]) -> Vec<u32> {
    tsns(sent).concat().into_iter().map(|tsn| tsn.distance_from(raw.server_tsn)).collect()
}

/// A SACK in a state that does not expect it.
#[test]
fn sacks_at_the_wrong_time_are_discarded() {
    let mut raw = outstanding(2);
    raw.say_sack(2, 65_536, &[]);
    raw.pair.hosts[SERVER].endpoint.shutdown(raw.pair.now, raw.server).unwrap();
    raw.heard();
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
    raw.say_sack(500, 0, &[(1, 65_535)]);
    assert_eq!(raw.state(), "SHUTDOWN-SENT");
}
