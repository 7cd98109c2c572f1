//! The end of connections: half-closes, resets, ends of associations.

use std::io::{Read, Write};
use std::net::Shutdown;

use sha2::{Digest, Sha256};

use crate::common::{World, at_last, bytes, is_closed, read_all, read_exactly, reset};

#[test]
fn a_client_may_finish_first() {
    let world = World::new();
    let (mut client, mut server) = world.connect();
    client.write_all(b"request").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server), (b"request".to_vec(), true));
    server.write_all(b"answer").unwrap();
    drop(server);
    assert_eq!(read_all(&mut client), (b"answer".to_vec(), true));
}

#[test]
fn a_server_may_speak_and_finish_first() {
    let world = World::new();
    let (mut client, mut server) = world.connect();
    server.write_all(b"220 welcome").unwrap();
    assert_eq!(read_exactly(&mut client, 11), b"220 welcome");
    server.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut client), (Vec::new(), true));
    client.write_all(b"late").unwrap();
    drop(client);
    assert_eq!(read_all(&mut server), (b"late".to_vec(), true));
    at_last("no connection is left", || world.near.status()["open"] == 0);
}

#[test]
fn resets_reach_the_other_side() {
    let world = World::new();
    let (client, mut server) = world.connect();
    reset(client);
    assert!(!read_all(&mut server).1, "the server reads a reset");
    let (mut client, server) = world.connect();
    reset(server);
    assert!(!read_all(&mut client).1, "the client reads a reset");
    // Also if the direction of the one that resets was complete before.
    let (client, mut server) = world.connect();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_all(&mut server), (Vec::new(), true));
    reset(client);
    at_last("the server's writes fail", || server.write_all(&[0; 1000]).is_err());
}

#[test]
fn unread_data_becomes_a_reset() {
    let world = World::new();
    let (mut client, server) = world.connect();
    client.write_all(&bytes(1 << 20, 1)).unwrap();
    // The kernel resets it, since data is unread.
    drop(server);
    at_last("the client's writes fail", || client.write_all(&[0; 1000]).is_err());
}

/// A server that answers and closes without reading all: the answer that its kernel saw acknowledged arrives
/// at a slow client.
#[test]
fn an_answer_before_a_reset_arrives() {
    let world = World::with("--admin 127.0.0.1:0", "");
    let (mut client, mut server) = world.connect();
    client.write_all(&bytes(1000, 1)).unwrap();
    let answer = bytes(400_000, 2);
    server.write_all(&answer).unwrap();
    server.shutdown(Shutdown::Write).unwrap();
    at_last("the near gateway has written it", || {
        world.near.status()["connections"][0]["bytes_down"] == 400_000
    });
    // With unread data: a reset.
    drop(server);
    at_last("the far gateway has seen that", || {
        let _ = client.write(&[0; 1000]);
        world.far.status()["open"] == 0
    });
    at_last("and so has the near one", || {
        let associations = world.near.status()["associations"].clone();
        associations[0]["unacknowledged_messages"] == 0
    });
    assert!(read_all(&mut client).0 == answer);
}

#[test]
fn large_transfers_arrive_both_ways() {
    const LEN: usize = 32 << 20;
    let world = World::new();
    let (client, server) = world.connect();
    let ends = [(client.try_clone().unwrap(), server.try_clone().unwrap(), 1), (server, client, 2)];
    std::thread::scope(|scope| {
        for (mut from, mut to, seed) in ends {
            scope.spawn(move || {
                from.write_all(&bytes(LEN, seed)).unwrap();
                from.shutdown(Shutdown::Write).unwrap();
            });
            scope.spawn(move || {
                let (data, is_clean) = read_all(&mut to);
                assert!(is_clean && data.len() == LEN, "{} bytes", data.len());
                assert_eq!(Sha256::digest(&data), Sha256::digest(bytes(LEN, seed)));
            });
        }
    });
}

#[test]
fn a_killed_gateway_never_looks_like_an_end() {
    for kills_far in [true, false] {
        let mut world = World::new();
        let (mut client, mut server) = world.connect();
        client.write_all(b"up").unwrap();
        server.write_all(b"down").unwrap();
        assert_eq!(
            (read_exactly(&mut server, 2), read_exactly(&mut client, 4)),
            (b"up".to_vec(), b"down".to_vec())
        );
        // One whose client has sent everything, and waits.
        let (mut waiting, mut asked) = world.connect();
        waiting.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_all(&mut asked), (Vec::new(), true));
        if kills_far {
            world.far.kill();
            world.restart_far();
        } else {
            world.near.kill();
        }
        for end in [&mut client, &mut server, &mut waiting] {
            assert!(!read_all(end).1, "a reset, kills_far: {kills_far}");
        }
    }
}

#[test]
fn an_end_waits_for_open_connections() {
    let world = World::new();
    let (mut client, mut server) = world.connect();
    world.near.terminate();
    at_last("no new connection", || is_closed(world.near.listener(0)));
    client.write_all(b"still").unwrap();
    assert_eq!(read_exactly(&mut server, 5), b"still");
    drop(server);
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
    drop(client);
    assert!(world.near.end(), "it ends without an error");
}

#[test]
fn an_end_waits_for_no_ended_associations() {
    let mut world = World::new();
    let ends = world.connect();
    drop(ends);
    let told = world.near.end_with_log();
    assert!(!told.contains("not all peers"), "{told}");
    let told = world.far.end_with_log();
    assert!(!told.contains("not all peers"), "{told}");
}
