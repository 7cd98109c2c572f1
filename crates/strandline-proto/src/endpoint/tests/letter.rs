//! [`AssociationConfig::rfc9260`]: an endpoint that follows RFC 9260 and nothing beyond it, packet by packet. It
//! talks to a hand-made peer or to another such endpoint.

use std::collections::BTreeSet;

use strandline_wire::chunk::Chunk;
use strandline_wire::number::Tsn;

use super::raw::*;
use super::*;
use crate::event::PathChange;
use crate::stats::PathStatus;

/// The largest DATA chunk, header included, and its user data, at a path MTU of 1,280.
const PMDCS: u32 = 1240;
const FULL: usize = 1224;

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn pure(paths: u8, host: usize) -> EndpointConfig {
    EndpointConfig { association: Arc::new(AssociationConfig::rfc9260()), ..config(paths, host) }
}

/// A server that follows RFC 9260 strictly, and a hand-made peer.
fn letter() -> Raw {
    Raw::open(Pair::with(pure(1, CLIENT), pure(1, SERVER)), init(Tsn(1000)))
}

fn path(raw: &Raw) -> PathStatus {
    raw.server().paths(raw.server).unwrap()[0].clone()
}

/// Returns the numbers, from 0, of the DATA in these packets.
fn numbers(raw: &Raw, sent: &[Sent]) -> Vec<u32> {
    tsns(sent).concat().into_iter().map(|tsn| tsn.distance_from(raw.server_tsn)).collect()
}

/// Queues full messages. Returns the numbers of the chunks that are sent.
fn give(raw: &mut Raw, messages: usize) -> Vec<u32> {
    for _ in 0..messages {
        raw.pair.send(SERVER, raw.server, 0, &[0x55; FULL]);
    }
    let sent = raw.heard();
    numbers(raw, &sent)
}

#[test]
fn it_is_valid_and_not_the_default() {
    AssociationConfig::rfc9260().validate().unwrap();
    assert_ne!(AssociationConfig::rfc9260(), AssociationConfig::default());
}

/// Section 7.2.4: the third miss indication causes one retransmission, and nothing before it, however much time
/// passes. Section 7.2.3: half of the window, at least four packets.
#[test]
fn three_miss_indications_and_not_time() {
    let mut raw = letter();
    assert_eq!(give(&mut raw, 20), [0, 1, 2, 3], "the initial window: 4,404 bytes");
    for (gaps, indications) in [((2, 2), 1), ((2, 3), 2)] {
        raw.pair.now += ms(100);
        let sent = raw.say_sack(0, 1 << 20, &[gaps]);
        assert!(!numbers(&raw, &sent).contains(&0), "after {indications}");
        // Time alone has no effect: the probe and the reordering window of RFC 8985 would have passed.
        let waited = raw.wait(ms(300));
        assert!(numbers(&raw, &waited).is_empty(), "after {indications}");
    }
    let before = path(&raw).cwnd;
    let sent = raw.say_sack(0, 1 << 20, &[(2, 4)]);
    assert_eq!(numbers(&raw, &sent)[0], 0, "the third");
    assert_eq!(path(&raw).cwnd, (before / 2).max(4 * PMDCS));
    assert_eq!(path(&raw).ssthresh, path(&raw).cwnd);
    // Only T3-rtx detects that it is lost again.
    let highest = 9;
    for end in 5..highest {
        raw.pair.now += ms(10);
        let sent = raw.say_sack(0, 1 << 20, &[(2, end)]);
        assert!(!numbers(&raw, &sent).contains(&0));
    }
    assert_eq!(raw.server().status(raw.server).unwrap().stats.fast_recoveries, 1);
}

/// Section 6.3: RTO.Initial, then twice that, with one packet in flight until an acknowledgement (section 7.2.3). No
/// probe is sent before.
#[test]
fn a_lost_tail_waits_for_t3_rtx() {
    let mut raw = letter();
    let began = raw.pair.now;
    assert_eq!(give(&mut raw, 4), [0, 1, 2, 3]);
    for at in [1000, 3000, 7000] {
        let quiet = (began + ms(at - 1)).since(raw.pair.now);
        assert!(numbers_after(&mut raw, quiet).is_empty(), "before {at} ms");
        // Timers have a resolution of a millisecond.
        assert_eq!(numbers_after(&mut raw, ms(6)), [0], "T3-rtx at {at} ms: one packet");
        assert_eq!((path(&raw).cwnd, path(&raw).flight), (PMDCS, PMDCS));
    }
    // An acknowledgement: slow start from one packet.
    let sent = raw.say_sack(1, 1 << 20, &[]);
    assert_eq!(numbers(&raw, &sent), [1, 2]);
    assert_eq!(path(&raw).cwnd, 2 * PMDCS);
}

fn numbers_after(raw: &mut Raw, time: Duration) -> Vec<u32> {
    let sent = raw.wait(time);
    numbers(raw, &sent)
}

/// Section 7.2.1: the lesser of the acknowledged bytes and one PMDCS for each SACK, while the window is full. Section
/// 6.1 rule D: four packets at a time, however much was acknowledged.
#[test]
fn slow_start_and_bursts_follow_rfc_9260() {
    let mut raw = letter();
    let mut next = give(&mut raw, 200).len() as u32;
    let mut cwnd = path(&raw).cwnd;
    assert_eq!(cwnd, 4404);
    for acked in 1..=12 {
        raw.pair.now += ms(10);
        let sent = raw.say_sack(acked, 1 << 20, &[]);
        next += numbers(&raw, &sent).len() as u32;
        assert_eq!(path(&raw).cwnd, cwnd + PMDCS);
        cwnd += PMDCS;
    }
    let in_flight = next - 12;
    assert!(in_flight >= 15, "{in_flight}");
    // Twelve at once with a full window: one packet more, and no more than four are sent.
    raw.pair.now += ms(10);
    let sent = raw.say_sack(24, 1 << 20, &[]);
    assert_eq!(path(&raw).cwnd, cwnd + PMDCS);
    assert_eq!(numbers(&raw, &sent), [next, next + 1, next + 2, next + 3]);
    // The window is not full any more and does not grow.
    raw.pair.now += ms(10);
    raw.say_sack(25, 1 << 20, &[]);
    assert_eq!(path(&raw).cwnd, cwnd + PMDCS);
}

/// Section 6.2: a SACK for every second packet, even in a train, one that waits for 200 ms, and no HEARTBEAT for
/// measuring.
#[test]
fn every_second_packet_of_a_train_is_acknowledged() {
    let mut raw = letter();
    let first = whole(raw.tsn, 0, b"first");
    assert_eq!(sacks(&raw.say_data(&first)).len(), 1, "the first DATA at once");
    let mut next = 1;
    for train in 0..60 {
        let mut bytes = Vec::new();
        let mut segment = 0;
        for _ in 0..8 {
            let payload = [7; 400];
            let data = whole(raw.tsn + next, next as u16, &payload);
            let packet = raw.pair.forge(CLIENT, (RAW_PORT, PORT), raw.tag, |p| assert!(p.push(&data)));
            segment = packet.bytes.len();
            bytes.extend(packet.bytes);
            next += 1;
        }
        let (now, source, destination) = (raw.pair.now, address(CLIENT, 0), Some(address(SERVER, 0).ip()));
        let datagram = Datagram { source, destination, bytes: &bytes, ecn: 0 };
        raw.pair.hosts[SERVER].endpoint.handle_datagrams(now, datagram, segment);
        let answer = raw.heard();
        let cumulative: Vec<Tsn> = sacks(&answer).iter().map(|sack| sack.cumulative).collect();
        let wanted: Vec<Tsn> = (0..4).map(|pair| raw.tsn + (train * 8 + 2 * pair + 2)).collect();
        assert_eq!(cumulative, wanted);
        assert!(answer.iter().all(|sent| sent.kinds() == [kind::SACK]), "and nothing else");
        raw.read();
        raw.heard();
        raw.pair.now += ms(10);
    }
    assert!(raw.say_data(&whole(raw.tsn + next, next as u16, b"alone")).is_empty());
    assert!(raw.wait(ms(199)).is_empty());
    assert_eq!(sacks(&raw.wait(ms(2))).len(), 1);
}

/// Section 6.2.1 D iii: TSNs that a SACK no longer reports are in flight again, whether or not the SACK is full.
#[test]
fn truncated_sack_counts_as_reneging() {
    let mut raw = letter();
    for _ in 0..100 {
        raw.pair.send(SERVER, raw.server, 0, b"twelve bytes");
    }
    raw.heard();
    let gaps: Vec<(u16, u16)> = (1..=17).map(|block| (2 * block, 2 * block)).collect();
    raw.say_sack(0, 1 << 20, &gaps);
    let before = raw.server().status(raw.server).unwrap();
    // The first of them is acknowledged cumulatively by now, with the one before it.
    let fewer: Vec<_> = gaps[1..16].iter().map(|(first, last)| (first - 2, last - 2)).collect();
    raw.say_sack(2, 1 << 20, &fewer);
    let after = raw.server().status(raw.server).unwrap();
    assert_eq!(after.in_flight, before.in_flight - 12 + 12, "one is acknowledged, and one revoked");
}

/// Section 6.3.1: no round-trip time is known before data, a HEARTBEAT or a set-up chunk of ours is answered.
#[test]
fn the_cookies_way_measures_nothing() {
    let mut pair = Pair::with(config(1, CLIENT), pure(1, SERVER));
    pair.connect();
    pair.run_to(kind::COOKIE_ECHO);
    pair.now += ms(50);
    pair.run();
    let server = pair.accepted();
    assert_eq!(pair.hosts[SERVER].endpoint.paths(server).unwrap()[0].srtt, None);
}

/// Sections 6.4.1 and 8.2: data stays on the primary path until Path.Max.Retrans is exceeded; chunks that timed out
/// use the other path.
#[test]
fn silent_path_fails_after_path_max_retrans() {
    let (mut pair, client, _) = Pair::with(pure(2, CLIENT), pure(2, SERVER)).establish();
    pair.pass(ms(3000));
    let to_first = |sent: &Sent| sent.destination == address(SERVER, 0);
    let data_to_first = |pair: &Pair, from: usize| {
        pair.log[from..].iter().filter(|sent| to_first(sent) && has(kind::DATA)(sent)).count()
    };
    let mut rounds = 0;
    loop {
        let from = pair.log.len();
        pair.send(CLIENT, client, 0, b"where does it go?");
        // Each message is lost on the primary path, times out, and arrives on the other path.
        pair.pass_dropping(Duration::from_secs(70), |sent| to_first(sent) && has(kind::DATA)(sent));
        if data_to_first(&pair, from) == 0 {
            break;
        }
        rounds += 1;
        let inactive = |event: &(AssociationId, Event)| {
            matches!(event.1, Event::PathChanged { change: PathChange::PotentiallyFailed, .. })
        };
        assert!(!pair.hosts[CLIENT].events.iter().any(inactive), "RFC 9260 has no such state");
        assert!(rounds < 100, "it is never left");
        // HEARTBEATs are answered meanwhile, so the path stays active.
        if rounds == 8 {
            break;
        }
    }
    assert_eq!(rounds, 8, "answers to HEARTBEATs keep it active");
    // Without any answer: six errors.
    pair.hosts[CLIENT].events.clear();
    let from = pair.log.len();
    for _ in 0..7 {
        pair.send(CLIENT, client, 0, b"where does it go?");
        pair.pass_dropping(Duration::from_secs(70), to_first);
    }
    assert!(data_to_first(&pair, from) <= 6);
    let changes: Vec<PathChange> = pair.hosts[CLIENT]
        .events
        .iter()
        .filter_map(|(_, event)| match event {
            Event::PathChanged { change, .. } => Some(*change),
            _ => None,
        })
        .collect();
    assert_eq!(changes, [PathChange::Inactive]);
}

/// Returns the types of parameters in INIT and INIT ACK.
fn parameters(log: &[Sent]) -> BTreeSet<u16> {
    let of = |sent: &Sent| -> Vec<u16> {
        let init = match chunks_of(sent).into_iter().next() {
            Some(Chunk::Init(init)) => init,
            Some(Chunk::InitAck(ack)) => ack,
            _ => return Vec::new(),
        };
        init.parameters.iter().flatten().map(|raw| raw.kind).collect()
    };
    log.iter().flat_map(of).collect()
}

fn chunks_of(sent: &Sent) -> Vec<Chunk<'_>> {
    let packet = Packet::parse(&sent.bytes).unwrap();
    packet.chunks().flatten().filter_map(|raw| raw.parse().ok()).collect()
}

/// Runs an association of two endpoints with two addresses each: data before the set-up, losses, a pause, and the
/// end.
fn a_life(of: impl Fn(u8, usize) -> EndpointConfig) -> Pair {
    let mut pair = Pair::with(of(2, CLIENT), of(2, SERVER));
    let client = pair.connect();
    for _ in 0..10 {
        pair.send(CLIENT, client, 0, &[7; 1200]);
    }
    let mut number = 0;
    let mut lossy = |sent: &Sent| {
        number += 1;
        number > 10 && number % 10 == 0 && has(kind::DATA)(sent)
    };
    pair.pass_dropping(ms(2000), &mut lossy);
    let server = pair.accepted();
    for _ in 0..40 {
        for host in [CLIENT, SERVER] {
            let id = if host == CLIENT { client } else { server };
            for _ in 0..10 {
                pair.send(host, id, 1, &[8; 1000]);
            }
        }
        pair.pass_dropping(ms(3000), &mut lossy);
        while pair.recv(SERVER, server).is_some() {}
        while pair.recv(CLIENT, client).is_some() {}
    }
    pair.pass(Duration::from_secs(120));
    pair.hosts[CLIENT].endpoint.shutdown(pair.now, client).unwrap();
    pair.pass(ms(2000));
    assert_eq!(pair.state(CLIENT, client), "CLOSED");
    pair
}

fn kinds_of(pair: &Pair) -> BTreeSet<u8> {
    pair.log.iter().flat_map(Sent::kinds).collect()
}

/// Section 3.2 without ECNE and CWR, section 3.3.2.1: nothing else is on the wire.
#[test]
fn chunks_and_parameters_of_rfc_9260_and_no_others() {
    let pair = a_life(pure);
    let mut wanted = BTreeSet::from(SETUP);
    wanted.extend([kind::DATA, kind::SACK, kind::HEARTBEAT, kind::HEARTBEAT_ACK]);
    wanted.extend([kind::SHUTDOWN, kind::SHUTDOWN_ACK, kind::SHUTDOWN_COMPLETE]);
    assert_eq!(kinds_of(&pair), wanted);
    // IPv4 Address, State Cookie.
    assert_eq!(parameters(&pair.log), BTreeSet::from([5, 7]));
    assert_eq!(pair.log.iter().filter(|sent| has(kind::COOKIE_ECHO)(sent)).count(), 1);
}

/// With the default parameters others see the same, and PAD (RFC 4820), whose type tells receivers to skip it without
/// a report if they do not know it. Only Forward-TSN-Supported (RFC 3758) in the INIT asks for one, which the INIT ACK
/// carries.
#[test]
fn default_extensions_are_skipped_by_others() {
    let pair = a_life(config);
    let known: BTreeSet<u8> = (kind::DATA..=kind::COOKIE_ACK).chain([kind::SHUTDOWN_COMPLETE]).collect();
    let sent = kinds_of(&pair);
    let beyond: Vec<u8> = sent.difference(&known).copied().collect();
    assert_eq!(beyond, [kind::PAD]);
    assert_eq!(kind::PAD >> 6, 0b10, "skip, and do not report");
    for never in [kind::ABORT, kind::ERROR] {
        assert!(!sent.contains(&never), "{never}");
    }
    // IPv4 Address, State Cookie, and the declarations of extensions.
    let supported = strandline_wire::parameter::kind::SUPPORTED_EXTENSIONS;
    let forward_tsn = strandline_wire::parameter::kind::FORWARD_TSN_SUPPORTED;
    assert_eq!(parameters(&pair.log), BTreeSet::from([5, 7, supported, forward_tsn]));
    assert_eq!(supported >> 14, 0b10, "skip, and do not report");
    assert_eq!(forward_tsn >> 14, 0b11, "skip, and report");
    // Flags that RFC 9260 does not define are 0: there are only I, U, B and E of DATA.
    for sent in &pair.log {
        for raw in Packet::parse(&sent.bytes).unwrap().chunks().flatten() {
            let defined = if raw.kind == kind::DATA { 0b1111 } else { 0 };
            assert_eq!(raw.flags & !defined, 0, "flags of chunk {}", raw.kind);
        }
    }
}
