//! Many connections, and readers that stop.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::common::{
    Gateway, Home, World, accept, at_last, bytes, free_address, listener, patient, read_exactly,
    while_it_moves,
};

/// Connections whose servers send without end, and whose clients don't read.
struct Stalled {
    clients: Vec<TcpStream>,
    sent: Arc<Vec<AtomicU64>>,
}

impl Stalled {
    /// Opens them, and waits until all servers are held up.
    fn new(world: &World, count: usize) -> Self {
        Self::of(count, |_| world.connect())
    }

    /// As [`new`](Self::new), with a function that opens a connection.
    fn of(count: usize, connect: impl Fn(usize) -> (TcpStream, TcpStream)) -> Self {
        let sent: Arc<Vec<AtomicU64>> = Arc::new((0..count).map(|_| AtomicU64::new(0)).collect());
        let clients = (0..count).map(|number| {
            let (client, mut server) = connect(number);
            // What the kernel holds at the ends is not the gateways'.
            socket2::SockRef::from(&client).set_recv_buffer_size(64 << 10).unwrap();
            socket2::SockRef::from(&server).set_send_buffer_size(64 << 10).unwrap();
            // It waits as long as the client does.
            server.set_write_timeout(None).unwrap();
            let sent = Arc::clone(&sent);
            std::thread::spawn(move || {
                for part in (0..).map(|part| bytes(PART, seed(number, part))) {
                    let mut rest = &part[..];
                    while let Ok(len) = server.write(rest)
                        && len > 0
                    {
                        sent[number].fetch_add(len as u64, Ordering::Relaxed);
                        rest = &rest[len..];
                    }
                    if !rest.is_empty() {
                        return;
                    }
                }
            });
            client
        });
        let stalled = Self { clients: clients.collect(), sent };
        let (mut before, mut quiet) = (0, 0);
        while_it_moves(
            "the servers are held up",
            || stalled.sent(),
            || {
                let now = stalled.sent();
                (quiet, before) = if now == before { (quiet + 1, before) } else { (0, now) };
                quiet > 50
            },
        );
        stalled
    }

    fn sent(&self) -> u64 {
        self.sent.iter().map(|sent| sent.load(Ordering::Relaxed)).sum()
    }
}

/// Bytes that a server writes at a time, and what they are made of.
const PART: usize = 64 << 10;

fn seed(number: usize, part: u64) -> u64 {
    number as u64 * 1_000_000 + part
}

/// Passes a request, and an answer that is longer than a credit.
fn pass((client, server): &mut (TcpStream, TcpStream), number: usize) {
    let data = bytes(3 << 20, number as u64);
    client.write_all(&data[..1000]).unwrap();
    assert_eq!(read_exactly(server, 1000), data[..1000]);
    std::thread::scope(|scope| {
        scope.spawn(|| server.write_all(&data).unwrap());
        assert!(read_exactly(client, data.len()) == data, "other bytes came");
    });
}

/// Others go on beside readers that stop, the memory of both gateways is bounded, and nothing is lost once they read.
fn stalled_readers_harm_no_others(count: usize) {
    let world = World::new();
    drop(world.connect());
    let before = [world.near.memory(), world.far.memory()];
    let mut stalled = Stalled::new(&world, count);
    let more = || {
        let memory = [world.near.memory(), world.far.memory()];
        [memory[0].saturating_sub(before[0]), memory[1].saturating_sub(before[1])]
    };
    let [near, far] = more();
    // What arrives: credit of 1 MiB for each, and 16 MiB for all that were fast. What does not: 16 MiB, and
    // for each 128 KiB and what is being sent. And what the allocator keeps.
    assert!(near < (count << 20) + (48 << 20), "{near} bytes for {count} readers");
    assert!(far < count * (320 << 10) + (48 << 20), "{far} bytes for {count} readers");
    let mut ends: Vec<(TcpStream, TcpStream)> = (0..100).map(|_| world.connect()).collect();
    std::thread::scope(|scope| {
        for (at, ends) in ends.chunks_mut(25).enumerate() {
            scope.spawn(move || {
                ends.iter_mut().enumerate().for_each(|(number, end)| pass(end, at * 25 + number))
            });
        }
    });
    let [near, far] = more();
    // `buffer_mib`, and the send buffer with what may be queued beyond credit.
    assert!(near < 192 << 20, "{near} bytes");
    assert!(far < count * (320 << 10) + (64 << 20), "{far} bytes");
    for number in (0..count).step_by(15) {
        let client = &mut stalled.clients[number];
        for part in 0..64 {
            assert!(read_exactly(client, PART) == bytes(PART, seed(number, part)), "part {part}");
        }
    }
}

#[test]
fn a_stalled_reader_harms_no_others() {
    stalled_readers_harm_no_others(1);
}

#[test]
fn sixteen_stalled_readers_harm_no_others() {
    stalled_readers_harm_no_others(16);
}

#[test]
fn a_hundred_stalled_readers_harm_no_others() {
    stalled_readers_harm_no_others(100);
}

/// Associations whose readers stop hold a common limit at most, leave room for another one, and lose nothing.
#[test]
fn associations_share_a_limit() {
    const PEERS: usize = 8;
    const READERS: usize = 12;
    const LIMIT: u64 = 16 << 20;
    let home = Home::new("common-limit");
    let file = home.write("near.toml", "[limits]\nbuffer_mib = 16\nbuffer_total_mib = 16\n");
    let server = listener();
    let to = server.local_addr().unwrap();
    let mut options = format!("--config {file} --admin 127.0.0.1:0");
    let fars: Vec<Gateway> = (0..=PEERS)
        .map(|peer| {
            let far = Gateway::start(&format!("--listen {} --allow {to} --shards 1", free_address()));
            options +=
                &format!(" --peer p{peer}={} --forward {}=p{peer}:{to}", far.listens(), free_address());
            far
        })
        .collect();
    let near = Gateway::start(&options);
    let connect = |peer: usize| {
        let client = patient(TcpStream::connect(near.listener(peer)).unwrap());
        (client, accept(&server))
    };
    let unread = || near.status()["unread_bytes"].as_u64().unwrap();
    let stalled = Stalled::of(PEERS * READERS, |number| connect(number % PEERS));
    // Without the limit, each of the 8 associations holds 12 MiB or more.
    let most = 2 * LIMIT + (PEERS * READERS * (64 << 10)) as u64;
    at_last("the limit is reached", || unread() >= LIMIT);
    assert!(unread() < most, "{} bytes are unread", unread());
    assert!(near.admin("metrics").contains("\nstrandline_gateway_unread_bytes_max 16777216\n"));
    pass(&mut connect(PEERS), 1);
    std::thread::scope(|scope| {
        // One that has enough leaves: it would stall again.
        for (number, mut client) in stalled.clients.into_iter().enumerate() {
            scope.spawn(move || {
                for part in 0..24 {
                    assert!(
                        read_exactly(&mut client, PART) == bytes(PART, seed(number, part)),
                        "part {part}"
                    );
                }
            });
        }
    });
    drop(fars);
    // The sum is exact to a step of 4 KiB for each stack, its queues, and the gateway.
    at_last("nothing is unread", || unread() <= (2 * PEERS as u64 + 3) * (LIMIT / 4096));
}

#[test]
fn a_thousand_connections_at_once() {
    const COUNT: usize = 1000;
    let world = World::new();
    // The first one shows that the association is there.
    drop(world.connect());
    at_last("it has ended", || world.near.status()["open"] == 0);
    let listener = world.server.try_clone().unwrap();
    let echo = std::thread::spawn(move || {
        let mut served = Vec::new();
        for _ in 0..COUNT {
            let mut stream = accept(&listener);
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
            let mut client = patient(TcpStream::connect(world.near.listener(0)).unwrap());
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

/// The thread that moves data does not write the list of connections.
#[test]
fn the_status_is_written_by_another_thread() {
    const COUNT: usize = 1500;
    let world = World::new();
    let _open: Vec<(TcpStream, TcpStream)> = (0..COUNT).map(|_| world.connect()).collect();
    // Ticks of processor time of the first thread, and of all.
    let used = || {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", world.near.pid())).unwrap();
        let ticks = |task: &str| {
            let stat = std::fs::read_to_string(format!("/proc/{}/task/{task}/stat", world.near.pid()));
            let stat = stat.unwrap_or_default();
            let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
            fields.get(11..13).map_or(0, |times| times.iter().map(|time| time.parse::<u64>().unwrap()).sum())
        };
        let all = tasks.map(|task| ticks(&task.unwrap().file_name().to_string_lossy())).sum::<u64>();
        (ticks(&world.near.pid().to_string()), all)
    };
    let before = used();
    let moved = || (used().0 - before.0, used().1 - before.1);
    while moved().1 < 100 {
        assert_eq!(world.near.status()["connections"].as_array().unwrap().len(), COUNT);
    }
    let (first, all) = moved();
    assert!(first * 2 < all, "{first} of {all} ticks");
}
