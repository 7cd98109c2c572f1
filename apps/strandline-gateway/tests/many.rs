//! Many connections, and readers that stop.

use std::io::{Read, Write};
use std::net::TcpStream;

use crate::common::{World, at_last, bytes, patient, read_exactly};

#[test]
fn a_stalled_reader_holds_up_no_other() {
    let world = World::new();
    // One whose server sends without end, and whose client never reads.
    let (stalled, mut sender) = world.connect();
    sender.set_nonblocking(true).unwrap();
    let part = bytes(64 << 10, 1);
    let mut sent = 0;
    let mut quiet = 0;
    at_last("the sender is held up", || {
        match sender.write(&part) {
            Ok(len) => (sent, quiet) = (sent + len, 0),
            Err(_) => quiet += 1,
        }
        quiet > 25
    });
    assert!(sent < 40 << 20, "{sent} bytes are on their way to a reader that reads nothing");
    let ends: Vec<(TcpStream, TcpStream)> = (0..99).map(|_| world.connect()).collect();
    for (at, (mut client, mut server)) in ends.into_iter().enumerate() {
        let data = bytes(100_000, at as u64);
        client.write_all(&data[..1000]).unwrap();
        assert_eq!(read_exactly(&mut server, 1000), data[..1000]);
        let writing = data.clone();
        let writer = std::thread::spawn(move || server.write_all(&writing));
        assert_eq!(read_exactly(&mut client, data.len()), data);
        writer.join().unwrap().unwrap();
    }
    for gateway in [&world.near, &world.far] {
        assert!(gateway.memory() < 100 << 20, "{} bytes", gateway.memory());
    }
    drop(stalled);
}

#[test]
fn a_thousand_connections_at_once() {
    const COUNT: usize = 1000;
    let world = World::new();
    // The first one shows that the association is there.
    drop(world.connect());
    let listener = world.server.try_clone().unwrap();
    let echo = std::thread::spawn(move || {
        let mut served = Vec::new();
        for _ in 0..COUNT {
            let mut stream = patient(listener.accept().unwrap().0);
            let number = read_exactly(&mut stream, 8);
            served.push((stream, number));
        }
        for (stream, number) in &mut served {
            stream.write_all(number).unwrap();
        }
        served
    });
    let mut clients: Vec<TcpStream> = (0..COUNT)
        .map(|number| {
            let mut client = patient(TcpStream::connect(world.near.way(0)).unwrap());
            client.write_all(&(number as u64).to_be_bytes()).unwrap();
            client
        })
        .collect();
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(read_exactly(client, 8), (number as u64).to_be_bytes());
    }
    assert_eq!(world.near.status()["open"], COUNT);
    let served = echo.join().unwrap();
    drop(clients);
    for (mut stream, _) in served {
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    }
    at_last("no connection is left", || world.near.status()["open"] == 0);
}

#[test]
fn idle_connections_take_little_memory() {
    const COUNT: usize = 2000;
    let world = World::new();
    drop(world.connect());
    at_last("nothing is open", || world.near.status()["open"] == 0);
    let before = [world.near.memory(), world.far.memory()];
    let ends: Vec<(TcpStream, TcpStream)> = (0..COUNT)
        .map(|_| {
            let (mut client, mut server) = world.connect();
            client.write_all(b"x").unwrap();
            assert_eq!(read_exactly(&mut server, 1), b"x");
            (client, server)
        })
        .collect();
    for (gateway, before) in [&world.near, &world.far].into_iter().zip(before) {
        let each = gateway.memory().saturating_sub(before) / ends.len();
        assert!(each <= 4096, "{each} bytes for each connection");
    }
}
