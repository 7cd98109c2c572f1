//! Connections that can't be made, and their reasons.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use crate::common::{World, accept, at_last, free_address, is_closed, patient, read_all, read_exactly};

/// Destinations that fail at a far gateway with these options, with SOCKS's code and HTTP's status.
const FAR: &str = "--allow 127.0.0.1:1 --allow 255.255.255.255:80 --allow no-such-host.invalid:80";
const FAILURES: [(&str, u8, u16); 5] = [
    ("127.0.0.1:1", 5, 502),
    ("255.255.255.255:80", 3, 502),
    ("no-such-host.invalid:80", 4, 502),
    ("127.0.0.1:2", 2, 403),
    ("other.example:81", 2, 403),
];

/// Asks a SOCKS server for a destination. Returns the stream, and the code of the answer.
pub fn socks(address: std::net::SocketAddr, destination: &str) -> (TcpStream, u8) {
    let mut stream = patient(TcpStream::connect(address).unwrap());
    stream.write_all(&[5, 1, 0]).unwrap();
    assert_eq!(read_exactly(&mut stream, 2), [5, 0]);
    let (host, port) = destination.rsplit_once(':').unwrap();
    let mut request = vec![5, 1, 0, 3, host.len() as u8];
    request.extend_from_slice(host.as_bytes());
    request.extend_from_slice(&port.parse::<u16>().unwrap().to_be_bytes());
    stream.write_all(&request).unwrap();
    let code = read_exactly(&mut stream, 10)[1];
    (stream, code)
}

#[test]
fn socks_clients_get_the_reason() {
    let world = World::with(FAR, "--socks 0");
    for (destination, code, _) in FAILURES {
        let (mut stream, found) = socks(world.near.listener(0), destination);
        assert_eq!(found, code, "{destination}");
        assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0, "and then the end");
    }
}

#[test]
fn connect_clients_get_status_and_text() {
    let world = World::with(FAR, "--http-connect 0");
    for (destination, _, status) in FAILURES {
        let mut stream = patient(TcpStream::connect(world.near.listener(0)).unwrap());
        write!(stream, "CONNECT {destination} HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{destination}: {answer}");
        assert!(answer.ends_with('\n') && answer.contains("text/plain"), "{answer}");
    }
}

#[test]
fn forwarded_clients_get_a_reset() {
    let world = World::with("", "--forward 0=127.0.0.1:1");
    let mut client = patient(TcpStream::connect(world.near.listener(1)).unwrap());
    assert_eq!(read_all(&mut client), (Vec::new(), false));
}

#[test]
fn unsupported_requests_are_refused() {
    let world = World::with("", "--socks 0 --http-connect 0");
    let answer = |listener: usize, request: &[u8]| {
        let mut stream = patient(TcpStream::connect(world.near.listener(listener)).unwrap());
        stream.write_all(request).unwrap();
        read_all(&mut stream).0
    };
    assert_eq!(answer(0, &[5, 1, 2]), [5, 0xff]);
    assert_eq!(answer(0, &[5, 1, 0, 5, 2, 0, 1])[..4], [5, 0, 5, 7]);
    assert_eq!(answer(0, b"GET / HTTP/1.1\r\n\r\n"), b"");
    assert!(answer(1, b"GET / HTTP/1.1\r\n\r\n").starts_with(b"HTTP/1.1 405 "));
}

#[test]
fn limits_of_a_peer_hold() {
    let far = std::env::temp_dir().join(format!("strandline-gateway-limits-{}.toml", std::process::id()));
    std::fs::write(&far, "[limits]\nconnections_max = 2\n").unwrap();
    let world = World::with(&format!("--config {}", far.display()), "--socks 0");
    std::fs::remove_file(far).unwrap();
    let address = world.server.local_addr().unwrap().to_string();
    let open: Vec<TcpStream> = (0..2)
        .map(|_| {
            let (stream, code) = socks(world.near.listener(0), &address);
            assert_eq!(code, 0);
            stream
        })
        .collect();
    assert_eq!(socks(world.near.listener(0), &address).1, 1, "the third is one too many");
    drop(open);
    drop((world.accept(), world.accept()));
    at_last("there is room again", || socks(world.near.listener(0), &address).1 == 0);
}

/// What comes to a reverse listener beyond the limit gets no clean end, which an empty answer would look like.
#[test]
fn reverse_clients_beyond_the_limit_get_a_reset() {
    let far = std::env::temp_dir().join(format!("strandline-gateway-reversed-{}.toml", std::process::id()));
    std::fs::write(&far, "[limits]\nconnections_max = 1\n").unwrap();
    let (inner, free) = (TcpListener::bind("127.0.0.1:0").unwrap(), free_address());
    let reverse = format!("--reverse {free}={}", inner.local_addr().unwrap());
    let _world = World::with(&format!("--allow-listen {free} --config {}", far.display()), &reverse);
    let mut first = None;
    at_last("the far gateway listens", || {
        first = TcpStream::connect(free).ok();
        first.is_some()
    });
    // It counts from the moment when it was accepted, which is before it arrives here.
    let _served = accept(&inner);
    let mut second = patient(TcpStream::connect(free).unwrap());
    assert_eq!(read_all(&mut second), (Vec::new(), false));
    std::fs::remove_file(far).unwrap();
}

#[test]
fn listening_for_peers_must_be_allowed() {
    let free = free_address();
    let world = World::with("", &format!("--reverse {free}=127.0.0.1:1"));
    at_last("it is refused", || world.near.log().contains("the peer does not listen"));
    assert!(world.near.log().contains("see its --allow-listen\n"), "{}", world.near.log());
    assert!(is_closed(free), "the far gateway does not listen");
}
