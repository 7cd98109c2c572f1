//! Windows within the carrier's receive queue, and trains of packets on short paths.

use strandline_wire::number::Tsn;

use super::raw::*;
use super::*;
use crate::config::LinkMtu;

/// The time that a packet takes in each direction.
const DELAY: Duration = Duration::from_micros(100);

/// Delivers what is on the wire after the delay, and what both sides send because of it. Returns what was sent.
fn hop(pair: &mut Pair) -> Vec<Sent> {
    pair.now += DELAY;
    let before = pair.log.len();
    for sent in core::mem::take(&mut pair.wire) {
        pair.deliver(&sent);
    }
    pair.collect();
    pair.log[before..].to_vec()
}

/// Opens `count` associations and returns them as the client knows them.
fn open(pair: &mut Pair, count: u16) -> Vec<AssociationId> {
    let connect = |pair: &mut Pair, port| {
        let remotes = vec![pair.hosts[SERVER].addresses[0]];
        let request = Connect { local_port: port, peer_port: PORT, remotes, local: Vec::new(), config: None };
        pair.hosts[CLIENT].endpoint.connect(pair.now, request).unwrap()
    };
    let all = (0..count).map(|index| connect(pair, 6000 + index)).collect();
    pair.collect();
    for _ in 0..4 {
        hop(pair);
    }
    all
}

/// Reads all that the server has.
fn read_all(pair: &mut Pair) {
    let ids: Vec<_> = pair.hosts[SERVER].events.drain(..).map(|(id, _)| id).collect();
    for id in ids {
        while pair.recv(SERVER, id).is_some() {}
    }
}

/// Sends much on each association. Returns the windows of the SACKs in the last hops.
fn windows(server: EndpointConfig, count: u16) -> Vec<u32> {
    let mut pair = Pair::with(config(1, CLIENT), server);
    let all = open(&mut pair, count);
    let mut last = Vec::new();
    for _ in 0..30 {
        for id in &all {
            for _ in 0..40 {
                let _ = pair.hosts[CLIENT].endpoint.send(
                    pair.now,
                    *id,
                    SendInfo::on(StreamId(0)),
                    vec![7; 1000].into(),
                );
            }
        }
        pair.collect();
        let sent = hop(&mut pair);
        let told = sacks(&sent);
        if !told.is_empty() {
            last = told.iter().map(|sack| sack.a_rwnd).collect();
        }
        read_all(&mut pair);
    }
    last
}

#[test]
fn windows_of_all_flows_fit_the_queue() {
    let queue = 200_000;
    let limited_to = |queue| EndpointConfig { receive_queue_bytes: queue, ..config(1, SERVER) };
    let last = windows(limited_to(queue), 10);
    assert!(last.len() >= 10 && last.iter().all(|window| *window <= queue / 10 + 256), "{last:?}");
    // One flow has the whole queue.
    let last = windows(limited_to(queue), 1);
    assert!(last.iter().all(|window| (queue / 2..=queue + 256).contains(window)), "{last:?}");
    // Two packets as large as the link carries fit.
    let link_mtu = LinkMtu { within_host: 9000, to_others: 30_000 };
    let last = windows(EndpointConfig { link_mtu, ..limited_to(queue) }, 10);
    assert!(last.iter().all(|window| (59_000..61_000).contains(window)), "{last:?}");
    // Without a limit the windows are those of the buffers.
    let last = windows(config(1, SERVER), 10);
    assert!(last.iter().all(|window| *window > queue), "{last:?}");
}

/// Associations that send a small message now and then leave the queue to the one that sends much.
#[test]
fn few_packets_take_no_share() {
    let queue = 200_000;
    let limited = EndpointConfig { receive_queue_bytes: queue, ..config(1, SERVER) };
    let mut pair = Pair::with(config(1, CLIENT), limited);
    let all = open(&mut pair, 50);
    let mut least = u32::MAX;
    for round in 0..60 {
        for (index, id) in all.iter().enumerate() {
            let (count, len) = if index == 0 { (40, 1000) } else { (usize::from(round % 5 == 0), 100) };
            for _ in 0..count {
                let data = vec![7; len].into();
                let _ = pair.hosts[CLIENT].endpoint.send(pair.now, *id, SendInfo::on(StreamId(0)), data);
            }
        }
        pair.collect();
        let sent = hop(&mut pair);
        if round > 10 {
            least = sacks(&sent).iter().map(|sack| sack.a_rwnd).fold(least, u32::min);
        }
        read_all(&mut pair);
        pair.now += Duration::from_millis(1);
    }
    assert!(least > queue / 2, "{least}");
}

/// A window of 40 packets: a SACK that frees less than half of it is not answered with data, and the one that
/// frees half is answered with all that was freed.
#[test]
fn trains_wait_for_half_of_the_window() {
    let mut raw = Raw::open(Pair::new(), init(Tsn(1000)));
    let mut next = 0;
    let mut round = Vec::new();
    for _ in 0..8 {
        for _ in 0..100 {
            round.extend(raw.server_sends(1000));
        }
        while !round.is_empty() {
            next += tsns(&round).concat().len() as u32;
            raw.pair.now += 2 * DELAY;
            round = raw.say_sack(next, 1 << 20, &[]);
        }
    }
    let window = 40_000;
    raw.say_sack(next, window, &[]);
    let sent: usize = (0..200).map(|_| tsns(&raw.server_sends(1000)).concat().len()).sum();
    assert_eq!(sent, 39);
    let mut acked = 0;
    let train = loop {
        acked += 2;
        raw.pair.now += DELAY;
        let sent = raw.say_sack(next + acked, window, &[]);
        let count = tsns(&sent).concat().len();
        if count > 0 {
            break count;
        }
    };
    assert!(acked == 20 && (19..=21).contains(&train), "{acked}, {train}");
    // What is in flight last must not wait: nothing else would bring a SACK.
    assert!(!tsns(&raw.say_sack(next + 39 + train as u32, window, &[])).concat().is_empty());
}
