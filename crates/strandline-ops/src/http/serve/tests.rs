use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream as Client};

use super::*;

/// Starts a server on this thread that responds with the method of the request.
async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let handler: Handler =
        Rc::new(|request: &Request| Answer::text(200, "text/plain", request.method.clone()).into());
    let hosts = Hosts::new("metrics", address.ip(), &[]);
    tokio::task::spawn_local(serve(listener, Rc::new(hosts), handler));
    address
}

/// Sends `text`, and returns everything received until the end.
async fn ask(address: SocketAddr, text: &'static [u8]) -> String {
    let asked = tokio::task::spawn_blocking(move || {
        let mut client = Client::connect(address).unwrap();
        client.write_all(text).unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer
    });
    asked.await.unwrap()
}

#[tokio::test]
async fn requests_are_answered_with_their_headers() {
    tokio::task::LocalSet::new().run_until(requests_in_turn()).await;
}

async fn requests_in_turn() {
    let address = start().await;
    let answer = ask(address, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"), "{answer}");
    assert!(answer.contains("\r\nContent-Length: 3\r\n") && answer.ends_with("\r\n\r\nGET"), "{answer}");
    let head = ask(address, b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    assert!(head.contains("\r\nContent-Length: 3\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(ask(address, b"GET / HTTP/1.0\r\n\r\n").await.starts_with("HTTP/1.0 200 OK\r\n"));
}

#[tokio::test]
async fn nonsense_is_refused() {
    let local = tokio::task::LocalSet::new();
    let asked = local.run_until(async { ask(start().await, b"\x01\r\n\r\n").await }).await;
    assert!(asked.starts_with("HTTP/1.1 400 "), "{asked}");
}
