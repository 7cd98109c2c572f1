//! Tunnels that end by a reset, and options of the proxies.

use std::io::ErrorKind;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;
use tokio::net::TcpStream;

use super::*;

/// Reads a head.
async fn head(tcp: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

/// A listener, and the option that lets tunnels reach it.
async fn target() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port().to_string();
    (listener, port)
}

/// Makes a tunnel and carries a byte each way.
async fn tunnel(proxy: &Running, target: &TcpListener) -> (TcpStream, TcpStream) {
    let mut client = proxy.connect().await;
    let address = target.local_addr().unwrap();
    client.write_all(format!("CONNECT {address} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
    let (mut server, _) = target.accept().await.unwrap();
    assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "));
    client.write_all(b"1").await.unwrap();
    assert_eq!(server.read_u8().await.unwrap(), b'1');
    server.write_all(b"2").await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), b'2');
    (client, server)
}

async fn assert_reset(mut tcp: TcpStream) {
    let error = tcp.read_to_end(&mut Vec::new()).await.expect_err("no clean end");
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

/// The proxies of a way, the first one first.
async fn proxies(way: &str, port: &str) -> Vec<Running> {
    let more = ["--sctp", "0", "--encapsulation", "127.0.0.1:0", "--allow", port];
    let remote = Running::forward(&more).await;
    let via = match way {
        "tcp" => format!("http://{}", remote.listening.tcp),
        "sctp" => format!("http+sctp://127.0.0.1:{}", remote.listening.sctp.unwrap()),
        _ => return vec![remote],
    };
    let udp = remote.udp_port().to_string();
    let more = ["--via", &via, "--encapsulation-port", &udp, "--allow", port];
    vec![Running::forward_named("near", &more).await, remote]
}

#[tokio::test]
async fn resets_pass_tunnels_both_ways() {
    for way in ["direct", "tcp", "sctp"] {
        let (listener, port) = target().await;
        let proxies = proxies(way, &port).await;
        let (client, server) = tunnel(&proxies[0], &listener).await;
        set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
        drop(server);
        assert_reset(client).await;
        let (client, server) = tunnel(&proxies[0], &listener).await;
        set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
        drop(client);
        assert_reset(server).await;
        // After one side has ended.
        let (mut client, mut server) = tunnel(&proxies[0], &listener).await;
        client.shutdown().await.unwrap();
        assert_eq!(server.read(&mut [0]).await.unwrap(), 0);
        set_socket_linger(&server, Some(Duration::ZERO)).unwrap();
        drop(server);
        assert_reset(client).await;
    }
}

#[tokio::test]
async fn tunnels_without_a_byte_end() {
    let (listener, port) = target().await;
    let proxy = Running::forward(&["--tunnel-timeout", "1", "--allow", &port]).await;
    let (client, server) = tunnel(&proxy, &listener).await;
    assert_reset(client).await;
    assert_reset(server).await;
}

#[tokio::test]
async fn tunnels_end_with_the_proxy_by_a_reset() {
    let (listener, port) = target().await;
    let proxy = Running::forward(&["--drain-timeout", "1", "--allow", &port]).await;
    let (client, server) = tunnel(&proxy, &listener).await;
    proxy.end().await;
    assert_reset(client).await;
    assert_reset(server).await;
}

/// Another proxy would take the first bytes of the tunnel for the content.
#[tokio::test]
async fn connect_has_no_content() {
    let (listener, port) = target().await;
    let address = listener.local_addr().unwrap();
    for way in ["direct", "tcp", "sctp"] {
        let proxies = proxies(way, &port).await;
        for framing in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            let connect = format!("CONNECT {address} HTTP/1.1\r\nHost: a\r\n{framing}\r\n\r\n");
            let mut client = proxies[0].connect().await;
            client.write_all(connect.as_bytes()).await.unwrap();
            assert!(head(&mut client).await.starts_with("HTTP/1.1 400 "), "{way}: {framing}");
        }
        let mut client = proxies[0].connect().await;
        let connect = format!("CONNECT {address} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n");
        client.write_all(connect.as_bytes()).await.unwrap();
        assert!(head(&mut client).await.starts_with("HTTP/1.1 200 "), "{way}");
        let (mut server, _) = listener.accept().await.unwrap();
        client.write_all(b"hello").await.unwrap();
        let mut hello = [0; 5];
        server.read_exact(&mut hello).await.unwrap();
        assert_eq!(&hello, b"hello", "{way}");
    }
}

#[tokio::test]
async fn forwarded_headers_are_replaced_or_kept() {
    let upstream = Upstream::start().await;
    let sent = "Forwarded: for=192.0.2.1;proto=https\r\nX-Forwarded-For: 192.0.2.1\r\nX-Forwarded-Proto: https\r\n\
                X-Forwarded-Host: first.example\r\n";
    let request = format!("GET /head HTTP/1.1\r\nHost: example.com\r\n{sent}Connection: close\r\n\r\n");
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let answer = proxy.exchange(&request).await.unwrap();
    assert!(!answer.contains("192.0.2.1") && !answer.contains("first.example"), "{answer}");
    assert!(answer.contains("x-forwarded-for: 127.0.0.1\n"), "{answer}");
    let proxy = Running::reverse(&upstream.url(), &["--trust-forwarded"]).await;
    let answer = proxy.exchange(&request).await.unwrap();
    assert!(answer.contains("192.0.2.1") && answer.contains("127.0.0.1"), "{answer}");
    assert!(answer.contains("first.example"), "{answer}");
}

#[tokio::test]
async fn host_can_be_rewritten() {
    let upstream = Upstream::start().await;
    let own = upstream.address.to_string();
    for (more, host) in [(&[][..], "example.com"), (&["--rewrite-host"], &own)] {
        let proxy = Running::reverse(&upstream.url(), more).await;
        let answer = proxy.exchange(&get("/head")).await.unwrap();
        assert!(answer.contains(&format!("\nhost: {host}\n")), "{answer}");
        assert!(answer.contains("x-forwarded-host: example.com\n"), "{answer}");
    }
}
