//! Requests that are not complete when a gateway restarts, reloads or ends.

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};

use crate::common::{Gateway, Home, PATIENCE, World, at_last, patient, read_all, read_exactly};

/// A client whose request has arrived in part.
struct Client {
    tcp: TcpStream,
    rest: Vec<u8>,
    /// What comes before the data of the server, with bytes that may differ.
    answer: usize,
}

impl Client {
    /// Sends the greeting of SOCKS5, which is answered, and the beginning of the request.
    fn of_socks(listener: SocketAddr, to: SocketAddr) -> Self {
        let mut tcp = patient(TcpStream::connect(listener).unwrap());
        tcp.write_all(&[5, 1, 0, 5]).unwrap();
        assert_eq!(read_exactly(&mut tcp, 2), [5, 0]);
        let [high, low] = to.port().to_be_bytes();
        Self { tcp, rest: vec![1, 0, 1, 127, 0, 0, 1, high, low], answer: 10 }
    }

    fn of_connect(listener: SocketAddr, to: SocketAddr) -> Self {
        let mut tcp = patient(TcpStream::connect(listener).unwrap());
        tcp.write_all(b"CONNECT ").unwrap();
        let success = "HTTP/1.1 200 Connection established\r\n\r\n".len();
        Self { tcp, rest: format!("{to} HTTP/1.1\r\n\r\n").into_bytes(), answer: success }
    }

    /// Sends as the library of `strandline run` does.
    fn of_preload(listener: SocketAddr, to: SocketAddr) -> Self {
        let mut tcp = patient(TcpStream::connect(listener).unwrap());
        tcp.write_all(b"SLp1\x01\x04").unwrap();
        let mut rest = [0; 30];
        rest[..2].copy_from_slice(&to.port().to_be_bytes());
        rest[2..6].copy_from_slice(&[127, 0, 0, 1]);
        Self { tcp, rest: rest.to_vec(), answer: 0 }
    }

    /// Sends the rest, and checks that the server is reached.
    fn complete(mut self, server: &TcpListener) {
        self.tcp.write_all(&self.rest).unwrap();
        server.set_nonblocking(true).unwrap();
        let mut served = None;
        at_last("the server is reached", || {
            served = server.accept().ok();
            served.is_some()
        });
        let mut served = patient(served.unwrap().0);
        served.set_nonblocking(false).unwrap();
        served.write_all(b"served").unwrap();
        drop(served);
        let (data, is_clean) = read_all(&mut self.tcp);
        assert!(is_clean && data.len() == self.answer + 6 && data.ends_with(b"served"), "{data:?}");
    }
}

/// Gateways with each listener whose clients say where they want to go, and a client of each.
fn clients(world: &World) -> [Client; 3] {
    let to = world.server.local_addr().unwrap();
    [
        Client::of_socks(world.near.listener(0), to),
        Client::of_connect(world.near.listener(1), to),
        Client::of_preload(world.near.listener(2), to),
    ]
}

#[test]
fn requests_outlast_a_restart() {
    let mut world = World::with("", "--socks 0 --http-connect 0 --preload 0");
    let clients = clients(&world);
    let (is_done, text) = world.near.restart();
    assert!(is_done, "{text}");
    for client in clients {
        client.complete(&world.server);
    }
    at_last("the old process ends", || world.near.has_ended());
}

#[test]
fn requests_outlast_the_end() {
    let world = World::with("", "--socks 0 --http-connect 0 --preload 0");
    let clients = clients(&world);
    world.near.terminate();
    for client in clients {
        client.complete(&world.server);
    }
    assert!(world.near.end());
}

#[test]
fn requests_outlast_a_removed_peer() {
    let home = Home::new("unfinished");
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let far = Gateway::start(&format!("--listen 127.0.0.1:0 --admin 127.0.0.1:0 --allow {address}"));
    let peer = |name| format!("[[peer]]\nname = \"{name}\"\naddresses = [\"{}\"]\n", far.listens());
    let file = home.write("near.toml", &format!("{}[[socks]]\nlisten = \"127.0.0.1:0\"\n", peer("far")));
    let near = Gateway::start(&format!("--admin 127.0.0.1:0 --config {file}"));
    at_last("there is an association", || near.status()["peers"][0]["up"] == true);
    let client = Client::of_socks(near.listener(0), address);
    home.write("near.toml", &peer("other"));
    near.hang_up();
    at_last("the other one is there", || {
        let peer = near.status()["peers"][0].clone();
        peer["name"] == "other" && peer["up"] == true
    });
    client.complete(&server);
    at_last("the first association ends", || far.status()["associations"].as_array().unwrap().len() == 1);
}

/// An answer that comes after the restart still finds its client.
#[test]
fn answers_of_udp_servers_outlast_a_restart() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    let mut world = World::with(&format!("--allow-udp {address}"), &format!("--forward udp/0={address}"));
    let client = UdpSocket::bind("127.0.0.1:0").unwrap();
    for socket in [&server, &client] {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
    }
    client.send_to(b"question", world.near.listener(1)).unwrap();
    let mut room = [0; 16];
    let (_, from) = server.recv_from(&mut room).unwrap();
    // The flow lasts as long as something passes, however long the restart takes.
    client.set_nonblocking(true).unwrap();
    let (is_done, text) = std::thread::scope(|scope| {
        let restarting = scope.spawn(|| world.near.restart());
        at_last("an answer after the restart", || {
            server.send_to(&[u8::from(restarting.is_finished())], from).unwrap();
            std::iter::from_fn(|| client.recv(&mut room).ok().map(|_| room[0])).any(|answer| answer == 1)
        });
        restarting.join().unwrap()
    });
    assert!(is_done, "{text}");
    at_last("the old process ends", || world.near.has_ended());
}
