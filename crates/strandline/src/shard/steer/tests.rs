use std::net::SocketAddr;

use strandline_proto::config::EndpointConfig;
use strandline_proto::endpoint::Connect;
use strandline_wire::chunk::CookieAck;
use strandline_wire::number::{Tsn, VerificationTag};
use strandline_wire::parameter::Parameters;
use strandline_wire::{Abort, Cause, Causes, PacketBuilder, ShutdownComplete, TlvWriter};

use super::*;

const SHARDS: u16 = 4;

/// Returns the shards' views and engines.
fn shards() -> (Arc<Steering>, Vec<(Steer, Engine)>) {
    let rule = Arc::new(Steering::new(SHARDS, 11));
    let post = Arc::new(Post::new(SHARDS));
    let shard = |index| {
        let engine = Engine::new(EndpointConfig::default(), [index as u8; 32], Time::ZERO).unwrap();
        (Steer::new(index, Arc::clone(&rule), Arc::clone(&post)), engine)
    };
    let shards = (0..SHARDS).map(shard).collect();
    (rule, shards)
}

fn init(addresses: &[[u8; 4]]) -> Vec<u8> {
    let mut space = [0; 256];
    let mut writer = TlvWriter::new(&mut space);
    for address in addresses {
        assert!(writer.push(&Parameter::Ipv4Address((*address).into())));
    }
    let parameters = Parameters::new(writer.finish());
    packet(0, |builder| {
        let init = Init {
            initiate_tag: VerificationTag(5),
            a_rwnd: 65_536,
            outbound_streams: 1,
            inbound_streams: 1,
            initial_tsn: Tsn(1),
            parameters,
        };
        assert!(builder.push(&init));
    })
}

fn packet(tag: u32, fill: impl FnOnce(&mut PacketBuilder<'_>)) -> Vec<u8> {
    let mut buffer = [0; 512];
    let mut builder = PacketBuilder::new(&mut buffer, 7000, 7, VerificationTag(tag));
    fill(&mut builder);
    let len = builder.finish();
    buffer[..len].to_vec()
}

fn datagram(source: [u8; 4], bytes: &[u8]) -> Datagram<'_> {
    Datagram { source: SocketAddr::from((source, 9899)), destination: None, bytes, ecn: 0 }
}

/// Returns the shards that a packet passes through, from the first to the one that keeps it.
fn way(shards: &[(Steer, Engine)], first: u16, datagram: &Datagram<'_>) -> Vec<u16> {
    let (mut way, mut visited) = (vec![first], 0);
    loop {
        let (steer, engine) = &shards[usize::from(*way.last().unwrap())];
        match steer.elsewhere(engine, Time::ZERO, datagram, visited) {
            None => return way,
            Some((next, by_now)) => {
                way.push(next);
                visited = by_now;
            }
        }
        assert!(way.len() <= usize::from(SHARDS) + 1, "goes on for ever: {way:?}");
    }
}

fn connect(shard: &mut (Steer, Engine), addresses: &[[u8; 4]]) {
    let remotes = addresses.iter().map(|address| SocketAddr::from((*address, 9899))).collect();
    let request = Connect { local_port: 7, peer_port: 7000, remotes, local: Vec::new(), config: None };
    shard.1.connect(Time::ZERO, request).unwrap();
    shard.0.note_multihomed(&shard.1);
}

#[test]
fn a_tag_leads_to_its_shard_at_once() {
    let (rule, shards) = shards();
    for tag in 1..20 {
        let bytes = packet(tag, |_| {});
        let owner = rule.place_of_tag(tag);
        for first in 0..SHARDS {
            let expected = if first == owner { vec![first] } else { vec![first, owner] };
            assert_eq!(way(&shards, first, &datagram([10, 0, 0, 1], &bytes)), expected);
        }
    }
    assert_eq!(
        way(&shards, 2, &datagram([10, 0, 0, 1], &[0; 11])),
        [2],
        "the engine counts what is no packet"
    );
}

#[test]
fn lone_sender_lives_where_packets_arrive() {
    let (rule, shards) = shards();
    for last in 0..50 {
        let (source, bytes) = ([10, 0, 0, last], init(&[]));
        let home = rule.place_of(source.into(), &bytes);
        assert_eq!(way(&shards, home, &datagram(source, &bytes)), [home]);
        let astray = (home + 1) % SHARDS;
        assert_eq!(way(&shards, astray, &datagram(source, &bytes)).last(), Some(&home));
    }
}

#[test]
fn a_sender_with_several_addresses_has_one_home() {
    let (rule, shards) = shards();
    let all = [[10, 0, 0, 1], [10, 0, 1, 1], [192, 0, 2, 1]];
    let bytes = init(&all);
    let home = rule.home(all[0].into(), 7000, 7);
    for source in all {
        for first in 0..SHARDS {
            let way = way(&shards, first, &datagram(source, &bytes));
            assert_eq!(way.last(), Some(&home));
            assert!(
                (0..SHARDS).all(|shard| way.contains(&shard)),
                "every shard might have known it: {way:?}"
            );
        }
    }
}

#[test]
fn an_init_finds_the_association_that_it_restarts() {
    for owner in 0..SHARDS {
        let (_, mut shards) = shards();
        connect(&mut shards[usize::from(owner)], &[[10, 0, 0, 9], [10, 0, 1, 9]]);
        for first in 0..SHARDS {
            // Even if the sender doesn't announce its other addresses.
            for (source, bytes) in [([10, 0, 1, 9], init(&[])), ([172, 16, 0, 1], init(&[[10, 0, 0, 9]]))] {
                let way = way(&shards, first, &datagram(source, &bytes));
                assert_eq!(way.last(), Some(&owner), "from {first}: {way:?}");
            }
            let other = init(&[]);
            let way = way(&shards, first, &datagram([10, 0, 7, 7], &other));
            let rule = &shards[0].0.rule;
            assert_eq!(way.last(), Some(&rule.home([10, 0, 7, 7].into(), 7000, 7)), "from {first}: {way:?}");
        }
    }
}

#[test]
fn reflected_tag_is_asked_of_all_once() {
    let (_, mut shards) = shards();
    let mut space = [0; 64];
    let mut writer = TlvWriter::new(&mut space);
    assert!(writer.push(&Cause::OutOfResource));
    let causes = Causes::new(writer.finish());
    let abort = packet(1234, |builder| assert!(builder.push(&Abort { tag_reflected: true, causes })));
    let later = packet(1234, |builder| {
        assert!(builder.push(&CookieAck) && builder.push(&Abort { tag_reflected: true, causes }));
    });
    let complete = packet(7, |builder| assert!(builder.push(&ShutdownComplete { tag_reflected: true })));
    for bytes in [&abort, &later, &complete] {
        for first in 0..SHARDS {
            let way = way(&shards, first, &datagram([10, 0, 0, 9], bytes));
            assert_eq!(way.len(), usize::from(SHARDS), "{way:?}");
        }
    }
    connect(&mut shards[2], &[[10, 0, 0, 9]]);
    for bytes in [&abort, &later, &complete] {
        for first in 0..SHARDS {
            assert_eq!(way(&shards, first, &datagram([10, 0, 0, 9], bytes)).last(), Some(&2));
        }
    }
}

/// INITs for other shards count towards the budget before they are read: a flood of them is not forwarded.
#[test]
fn a_flood_of_inits_is_not_handed_on() {
    let (_, mut shards) = shards();
    let (steer, _) = shards.swap_remove(0);
    let few = EndpointConfig { init_rate_max: 400, ..EndpointConfig::default() };
    let mut engine = Engine::new(few, [0; 32], Time::ZERO).unwrap();
    engine.listen(7).unwrap();
    let mut sorter = Sorter::new(Arc::new(steer));
    let bytes = init(&[[10, 0, 0, 1], [10, 0, 1, 1]]);
    for _ in 0..1_000 {
        sorter.take(&mut engine, Time::ZERO, datagram([10, 0, 0, 1], &bytes), bytes.len());
    }
    let mailed: usize = sorter.outgoing.iter().map(|mail| mail.iter().count()).sum();
    assert_eq!(mailed as u64 + engine.stats().inits_shed, 1_000);
    assert!((50..=100).contains(&mailed), "half of a quarter of a second's, and the source's own: {mailed}");
    assert_eq!(engine.stats().inits, 0);
}
