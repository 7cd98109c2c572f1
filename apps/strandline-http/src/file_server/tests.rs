//! The whole server on loopback sockets.

use std::io;
use std::path::Path;

use bytes::Bytes;
use clap::Parser;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{ALT_SVC, HeaderName};
use hyper::{Response, Uri, Version};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use strandline::Stack;
use strandline_tls::{ClientTls, Wire};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::testing::{Program, Running, certificate};
use super::*;
use crate::client::Connector;
use crate::files::testing::Folder;

fn uri(port: u16, path: &str) -> Uri {
    format!("http://127.0.0.1:{port}{path}").parse().unwrap()
}

fn tcp(server: &Running, path: &str) -> Uri {
    uri(server.tcp_port(), path)
}

fn sctp(server: &Running, path: &str) -> Uri {
    uri(server.sctp_port(), path)
}

fn over_sctp(server: &Running) -> Client<Connector, Empty<Bytes>> {
    let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
    Client::builder(TokioExecutor::new()).build(Connector::new(stack).encapsulation_port(server.udp_port()))
}

fn over_tcp(http2_only: bool) -> Client<HttpConnector, Empty<Bytes>> {
    Client::builder(TokioExecutor::new()).http2_only(http2_only).build_http()
}

async fn text(response: Response<Incoming>) -> Bytes {
    response.into_body().collect().await.unwrap().to_bytes()
}

fn header(response: &Response<Incoming>, name: HeaderName) -> &str {
    response.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn one_site_is_served_on_every_transport() {
    let server = Running::start(&[]).await;
    let old = over_tcp(false).get(tcp(&server, "/")).await.unwrap();
    assert_eq!(old.version(), Version::HTTP_11);
    let (port, udp) = (server.sctp_port(), server.udp_port());
    assert_eq!(header(&old, ALT_SVC), format!("h1-sctp=\":{port}\"; udp={udp}; ma=86400"));
    assert_eq!(text(old).await, "<h1>hello</h1>");
    let new = over_tcp(true).get(tcp(&server, "/")).await.unwrap();
    assert_eq!(new.version(), Version::HTTP_2);
    assert_eq!(text(new).await, "<h1>hello</h1>");
    let streams = over_sctp(&server).get(sctp(&server, "/")).await.unwrap();
    assert_eq!(header(&streams, ALT_SVC), "", "a client of SCTP needn't be told");
    assert_eq!(text(streams).await, "<h1>hello</h1>");
    let log = server.end().await;
    let lines: Vec<&str> = log.lines().collect();
    for (line, version) in lines.iter().zip(["HTTP/1.1", "HTTP/2.0", "HTTP/1.1"]) {
        assert!(line.ends_with(&format!("\"GET / {version}\" 200 14 \"-\" \"-\"")), "{log}");
    }
    assert_eq!(lines.len(), 3);
}

#[tokio::test]
async fn large_files_arrive_whole() {
    let server = Running::start(&[]).await;
    let over_sctp = over_sctp(&server);
    let (sctp, tcp) =
        tokio::join!(async { text(over_sctp.get(sctp(&server, "/large")).await.unwrap()).await }, async {
            text(over_tcp(true).get(tcp(&server, "/large")).await.unwrap()).await
        },);
    assert!(sctp == tcp && sctp.len() == 20 << 20 && sctp.iter().all(|byte| *byte == 7));
}

#[tokio::test]
async fn requests_in_progress_outlive_the_signal() {
    let server = Running::start(&[]).await;
    let over_sctp = over_sctp(&server);
    let sctp = over_sctp.get(sctp(&server, "/large")).await.unwrap();
    let tcp = over_tcp(false).get(tcp(&server, "/large")).await.unwrap();
    server.tell();
    assert_eq!(text(sctp).await.len(), 20 << 20);
    assert_eq!(text(tcp).await.len(), 20 << 20);
    drop(over_sctp);
    server.end().await;
}

#[tokio::test]
async fn slow_clients_are_closed() {
    let server = Running::start(&["--head-timeout", "1", "--write-timeout", "1"]).await;
    for head in ["", "PRI * HT", "GET / HTTP/1.1\r\nHost"] {
        let mut slow = TcpStream::connect(server.listening.tcp).await.unwrap();
        slow.write_all(head.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = slow.read_to_end(&mut answer).await;
        assert!(!answer.starts_with(b"HTTP/1.1 200"), "{head:?}");
    }
    let mut deaf = TcpStream::connect(server.listening.tcp).await.unwrap();
    deaf.write_all(b"GET /large HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    // Its line appears in the log once the server has given up.
    while !server.log().contains("/large") {
        tokio::task::yield_now().await;
    }
    let mut part = Vec::new();
    let end = deaf.read_to_end(&mut part).await;
    assert_eq!(end.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "no clean end after {}", part.len());
}

#[tokio::test]
async fn tls_offers_http2_on_tcp() {
    let folder = Folder::new("certificate");
    let (certificate, key) = certificate(&folder);
    let files = ["--certificate", &certificate, "--key", &key];
    let server = Running::start(&files).await;
    assert!(server.listening.tls);
    let tcp = TcpStream::connect(server.listening.tcp).await.unwrap();
    let wire =
        Wire::opened(tcp, &ClientTls::new(Path::new(&certificate), None).unwrap(), "localhost").unwrap();
    wire.handshake().await.unwrap();
    wire.try_write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    let (mut answer, mut room) = (Vec::new(), vec![0; 32 << 10]);
    loop {
        match wire.try_read(&mut room) {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&room[..count]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                std::future::poll_fn(|context| wire.poll_read_ready(context)).await.unwrap();
            }
            Err(error) => panic!("{error}"),
        }
    }
    let answer = String::from_utf8(answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with("<h1>hello</h1>"), "{answer}");
    assert!(!answer.to_ascii_lowercase().contains("alt-svc"), "https has no alternative without TLS");
}

#[tokio::test]
async fn a_directory_that_is_none_is_an_error() {
    let args = Program::try_parse_from(["program", "/nonexistent/site"]).unwrap().args;
    let error = bind(&args, Shards::current()).await.unwrap_err();
    assert!(format!("{error:#}").contains("opening /nonexistent/site"), "{error:#}");
}

#[tokio::test]
async fn ambiguous_requests_are_refused_on_tcp() {
    let server = Running::start(&[]).await;
    let fine = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let both = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (requests, wanted) in [
        (format!("{fine}{both}0\r\n\r\n{fine}"), &["", "200", "400"][..]),
        // The beginning of the first head is read apart from the rest.
        (both.to_owned(), &["", "400"]),
    ] {
        let mut tcp = TcpStream::connect(server.listening.tcp).await.unwrap();
        tcp.write_all(requests.as_bytes()).await.unwrap();
        let mut answers = String::new();
        tcp.read_to_string(&mut answers).await.unwrap();
        let found: Vec<&str> =
            answers.split("HTTP/1.1 ").map(|answer| answer.get(..3).unwrap_or_default()).collect();
        assert_eq!(found, wanted, "{answers}");
    }
}
