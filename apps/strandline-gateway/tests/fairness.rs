//! Who gets how much of a slow path.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{
    Gateway, Home, World, at_last, bytes, listener, patient, read_all, read_exactly, while_it_moves,
};
use crate::slow_path::slow_path;

/// Two gateways with a slow path between them, and servers that send without end (first byte 1), 100 kB (2),
/// 400 kB and then what they get (3), or 800 kB (4).
struct Slow {
    _far: Gateway,
    near: Gateway,
}

/// What a server sends to those who ask for little.
const LITTLE: usize = 100_000;
/// What a server sends before it answers: more than the beginning of a connection.
const BEFORE: usize = 400_000;
/// An answer that is much longer than the beginning of a connection.
const MUCH: usize = 800_000;

/// The addresses of servers that a near gateway forwards to.
const SERVERS: usize = 2;

impl Slow {
    fn new() -> Self {
        Self::with(|_| String::new())
    }

    /// With options of the far gateway, which may depend on the addresses of the servers.
    fn with(options: impl FnOnce([SocketAddr; SERVERS]) -> String) -> Self {
        let addresses = [(); SERVERS].map(|()| {
            let server = listener();
            let address = server.local_addr().unwrap();
            std::thread::spawn(move || {
                while let Ok((stream, _)) = server.accept() {
                    std::thread::spawn(move || serve(stream));
                }
            });
            address
        });
        let [allow, forward] = ["--allow ", "--forward 0="]
            .map(|option| addresses.map(|one| format!("{option}{one}")).join(" "));
        let far = Gateway::start(&format!("--listen 127.0.0.1:0 {allow} {}", options(addresses)));
        let path = slow_path(far.listens().parse().unwrap(), u64::MAX);
        let near = Gateway::start(&format!("--peer far={path} {forward} --admin 127.0.0.1:0"));
        Self { _far: far, near }
    }

    /// Connects from an address of this host, and asks the first server for something, or sends it something.
    fn connect(&self, from: [u8; 4], what: u8) -> TcpStream {
        self.connect_to(0, from, what)
    }

    fn connect_to(&self, server: usize, from: [u8; 4], what: u8) -> TcpStream {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&self.near.listener(server).into()).unwrap();
        let mut stream = patient(socket.into());
        stream.write_all(&[what]).unwrap();
        stream
    }

    /// Downloads without end. The bytes are counted.
    fn download(&self, from: [u8; 4], count: &Arc<AtomicU64>, over: &Arc<AtomicBool>) {
        let mut stream = self.connect(from, 1);
        let (count, over) = (Arc::clone(count), Arc::clone(over));
        std::thread::spawn(move || {
            let mut buffer = vec![0; 65536];
            while !over.load(Ordering::Relaxed) {
                let Ok(len) = stream.read(&mut buffer) else { return };
                count.fetch_add(len as u64, Ordering::Relaxed);
            }
        });
    }
}

/// Serves one connection: sends without end, or a little.
fn serve(mut stream: TcpStream) {
    let data = vec![7; 65536];
    match read_exactly(&mut stream, 1)[0] {
        1 => while stream.write_all(&data).is_ok() {},
        2 => stream.write_all(&vec![7; LITTLE]).unwrap(),
        4 => stream.write_all(&vec![7; MUCH]).unwrap(),
        3 => {
            stream.write_all(&vec![7; BEFORE]).unwrap();
            let mut byte = [0];
            while stream.read_exact(&mut byte).is_ok() && stream.write_all(&byte).is_ok() {}
        }
        _ => unreachable!("nothing else is asked for"),
    }
}

/// A client with 100 downloads leaves another one its half.
#[test]
fn clients_share_whatever_they_open() {
    let slow = Slow::new();
    let (many, one, over) = (Arc::default(), Arc::default(), Arc::default());
    for _ in 0..100 {
        slow.download([127, 0, 0, 2], &many, &over);
    }
    let bytes = |count: &Arc<AtomicU64>| count.load(Ordering::Relaxed);
    // Their beginnings are over.
    while_it_moves("the many fill the path", || bytes(&many), || bytes(&many) > 50 << 20);
    slow.download([127, 0, 0, 3], &one, &over);
    while_it_moves("the other has begun", || bytes(&one), || bytes(&one) > 1 << 20);
    let (many_before, one_before) = (bytes(&many), bytes(&one));
    let moved = || (bytes(&many) - many_before, bytes(&one) - one_before);
    let both = || moved().0 + moved().1;
    while_it_moves("enough is moved", both, || both() > 40 << 20);
    let (many, one) = moved();
    over.store(true, Ordering::Relaxed);
    println!("100 connections moved {many} bytes, one {one}");
    // Halves, but for the moments in which a busy host lets one of the ends wait; by connections it were 100 to 1.
    assert!(many <= one * 4 && one <= many * 4, "100 connections moved {many} bytes, one {one}");
}

/// A client that opens as many connections as it can leaves another one room.
#[test]
fn clients_leave_connections_to_others() {
    let home = Home::new("client-shares");
    let file = home.write("near.toml", "[limits]\nconnections_max = 80\n");
    let world = World::with("", &format!("--config {file}"));
    let connect = |from: [u8; 4]| {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&world.near.listener(0).into()).unwrap();
        patient(socket.into())
    };
    let mut held: Vec<_> = (0..70).map(|_| (connect([127, 0, 0, 2]), world.accept())).collect();
    let refused = read_all(&mut connect([127, 0, 0, 2]));
    assert_eq!(refused, (Vec::new(), false), "one more is reset");
    at_last("it is counted", || {
        world.near.admin("metrics").contains("connection_ends_total{end=\"limit\"} 1\n")
    });
    let mut other = connect([127, 0, 0, 3]);
    other.write_all(b"hello").unwrap();
    assert_eq!(read_exactly(&mut world.accept(), 5), b"hello");
    held.pop();
    at_last("there is room again", || {
        let mut next = connect([127, 0, 0, 2]);
        next.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
        next.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    });
}

/// A short answer overtakes the downloads of its own client: not much of them passes meanwhile.
#[test]
fn short_answers_overtake_downloads() {
    let slow = Slow::new();
    let (bulk, over) = (Arc::default(), Arc::default());
    for _ in 0..20 {
        slow.download([127, 0, 0, 1], &bulk, &over);
    }
    let bytes = |count: &Arc<AtomicU64>| count.load(Ordering::Relaxed);
    while_it_moves("the downloads fill the path", || bytes(&bulk), || bytes(&bulk) > 20 << 20);
    let mut meanwhile: Vec<u64> = (0..9)
        .map(|_| {
            let before = bytes(&bulk);
            let mut asked = slow.connect([127, 0, 0, 1], 2);
            read_exactly(&mut asked, LITTLE);
            bytes(&bulk) - before
        })
        .collect();
    over.store(true, Ordering::Relaxed);
    meanwhile.sort_unstable();
    println!("meanwhile the downloads moved {meanwhile:?}");
    // In equal shares they would have moved 20 times as much as the answer.
    assert!(meanwhile[4] < 15 * LITTLE as u64, "meanwhile the downloads moved {meanwhile:?}");
}

/// A byte of a connection that has moved much passes a hundred downloads of the same client.
#[test]
fn bytes_of_old_connections_overtake_downloads() {
    const DOWNLOADS: u64 = 100;
    let slow = Slow::new();
    let (bulk, over) = (Arc::default(), Arc::default());
    let mut old = slow.connect([127, 0, 0, 1], 3);
    read_exactly(&mut old, BEFORE);
    for _ in 0..DOWNLOADS {
        slow.download([127, 0, 0, 1], &bulk, &over);
    }
    let bytes = |count: &Arc<AtomicU64>| count.load(Ordering::Relaxed);
    while_it_moves("the downloads fill the path", || bytes(&bulk), || bytes(&bulk) > 50 << 20);
    let mut meanwhile: Vec<u64> = (0..9)
        .map(|_| {
            let before = bytes(&bulk);
            old.write_all(b"x").unwrap();
            read_exactly(&mut old, 1);
            bytes(&bulk) - before
        })
        .collect();
    over.store(true, Ordering::Relaxed);
    meanwhile.sort_unstable();
    println!("meanwhile the downloads moved {meanwhile:?}");
    // In turns, each of them would have moved a message of 64 KiB.
    assert!(meanwhile[4] < DOWNLOADS * (64 << 10) / 2, "meanwhile the downloads moved {meanwhile:?}");
}

/// Returns how much eight downloads move while a server sends much whose connections have this class: the
/// lesser of two times.
fn moved_beside(class: &str) -> u64 {
    let home = Home::new(&format!("priority-{class}"));
    let slow = Slow::with(|[_, server]| {
        let rule = format!("[[priority]]\nto = [\"{server}\"]\nclass = \"{class}\"\n");
        format!("--config {}", home.write("far.toml", &rule))
    });
    let (bulk, over) = (Arc::default(), Arc::default());
    for _ in 0..8 {
        slow.download([127, 0, 0, 1], &bulk, &over);
    }
    let bytes = |count: &Arc<AtomicU64>| count.load(Ordering::Relaxed);
    while_it_moves("the downloads fill the path", || bytes(&bulk), || bytes(&bulk) > 6 << 20);
    let meanwhile = [(); 2].map(|()| {
        let before = bytes(&bulk);
        let mut asked = slow.connect_to(1, [127, 0, 0, 1], 4);
        read_exactly(&mut asked, MUCH);
        bytes(&bulk) - before
    });
    over.store(true, Ordering::Relaxed);
    meanwhile.into_iter().min().unwrap()
}

/// Rules for destinations decide what overtakes downloads: by default, the beginning of a connection does.
#[test]
fn rules_give_and_take_priority() {
    let [interactive, bulk] = ["interactive", "bulk"].map(moved_beside);
    // In equal shares they move eight times as much as the answer.
    assert!(interactive < 3 * MUCH as u64, "beside interactive {interactive}");
    assert!(bulk > 5 * MUCH as u64, "beside bulk {bulk}");
}

/// Bytes wait for their turn, in each direction; no machine is too fast for the limit.
#[test]
#[allow(clippy::disallowed_methods, reason = "the least time that a limit allows")]
fn bytes_of_a_peer_are_limited() {
    const RATE: f64 = 200_000.0;
    const LEN: usize = 150_000;
    let home = Home::new("rate");
    let file = home.write("far.toml", &format!("[limits]\nbytes_per_sec = {RATE}\n"));
    let world = World::with(&format!("--config {file}"), "");
    // Two connections of one peer share the limit.
    let [one, two] = [world.connect(), world.connect()];
    let data = bytes(LEN, 1);
    for is_up in [true, false] {
        let begun = Instant::now();
        std::thread::scope(|scope| {
            for (client, server) in [&one, &two] {
                let (mut from, mut to) = if is_up { (client, server) } else { (server, client) };
                let data = &data;
                scope.spawn(move || from.write_all(data).unwrap());
                scope.spawn(move || {
                    let mut got = vec![0; LEN];
                    to.read_exact(&mut got).unwrap();
                    assert!(got == *data);
                });
            }
        });
        // A tenth of a second's bytes are saved up, and the last turn may begin with room for less.
        let least = (2.0 * LEN as f64 - 0.2 * RATE) / RATE;
        assert!(begun.elapsed().as_secs_f64() > least, "up: {is_up}: {:?}", begun.elapsed());
    }
}
