use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::*;
use crate::server::socket::ConnectionLimits;

const GET: &str = "GET / HTTP/1.1\r\nHost: sip\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: sip\r\n";

/// The server's end of a connection, and the browser's.
fn pair() -> (Wire, TcpStream) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let browser = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (stream, _) = listener.accept().unwrap();
    stream.set_nonblocking(true).unwrap();
    (Wire::plain(tokio::net::TcpStream::from_std(stream).unwrap()), browser)
}

/// Runs a handshake until this number of bytes is kept of it.
async fn until(connections: &Connections, bytes: usize, greeting: &mut (impl Future + Unpin)) {
    let kept = async {
        while connections.heads_bytes() != bytes {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        biased;
        () = kept => {}
        _ = greeting => panic!("it has ended"),
    }
}

#[tokio::test]
async fn partial_handshake_keeps_only_its_bytes() {
    let (connections, _wanted) = Connections::new(1);
    let settings = WebSockets::default();
    let (wire, mut browser) = pair();
    {
        let mut greeting = std::pin::pin!(greet_by(&wire, &connections, &settings));
        browser.write_all(GET.as_bytes()).unwrap();
        until(&connections, GET.len(), &mut greeting).await;
        browser.write_all(b"X: y\r\n").unwrap();
        until(&connections, GET.len() + 6, &mut greeting).await;
        // A client may send before it has the response.
        browser.write_all(b"\r\n\x81\x80").unwrap();
        assert_eq!(greeting.await.unwrap(), b"\x81\x80");
    }
    assert_eq!(connections.heads_bytes(), 0);
    let mut room = [0; 1024];
    let len = browser.read(&mut room).unwrap();
    assert!(room[..len].starts_with(b"HTTP/1.1 101 "));
}

#[tokio::test]
async fn oversized_head_is_refused_and_freed() {
    let (connections, _wanted) = Connections::new(1);
    let settings = WebSockets::default();
    let (wire, mut browser) = pair();
    {
        let mut greeting = std::pin::pin!(greet_by(&wire, &connections, &settings));
        let half = format!("{GET}X: {}", "x".repeat(8000 - GET.len()));
        browser.write_all(half.as_bytes()).unwrap();
        until(&connections, half.len(), &mut greeting).await;
        browser.write_all(&[b'x'; 1000]).unwrap();
        assert_eq!(greeting.await.unwrap_err().to_string(), TOO_LARGE.why);
    }
    assert_eq!(connections.heads_bytes(), 0);
    let mut room = [0; 1024];
    let len = browser.read(&mut room).unwrap();
    assert!(room[..len].starts_with(b"HTTP/1.1 431 "));
}

#[tokio::test]
async fn partial_handshakes_have_a_quarter_of_memory() {
    let (connections, _wanted) = Connections::new(1);
    connections
        .limits
        .set(ConnectionLimits { buffered_bytes_max: 4 * GET.len() * 2, ..ConnectionLimits::default() });
    let settings = WebSockets::default();
    let pairs = [pair(), pair(), pair()];
    let [first, second, third] = &pairs;
    {
        let mut greetings =
            [first, second].map(|(wire, _)| Box::pin(greet_by(wire, &connections, &settings)));
        for (number, (greeting, pair)) in greetings.iter_mut().zip([first, second]).enumerate() {
            (&pair.1).write_all(GET.as_bytes()).unwrap();
            until(&connections, (number + 1) * GET.len(), greeting).await;
        }
        (&third.1).write_all(GET.as_bytes()).unwrap();
        assert!(greet_by(&third.0, &connections, &settings).await.is_err());
        assert_eq!(connections.heads_bytes(), 2 * GET.len(), "those that were there go on");
    }
    assert_eq!(connections.heads_bytes(), 0);
}
