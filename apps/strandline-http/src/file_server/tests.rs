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
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::testing::{Program, Running, certificate};
use super::*;
use crate::client::Connector;
use crate::files::testing::Folder;
use crate::front::TlsStream;
use crate::{HttpAssociation, HttpStream};

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
    server.signal_end();
    assert_eq!(text(sctp).await.len(), 20 << 20);
    assert_eq!(text(tcp).await.len(), 20 << 20);
    drop(over_sctp);
    server.end().await;
}

/// Reads the beginning of a response over TLS.
async fn begin_tls(server: &Running, certificate: &str) -> TlsStream {
    let tcp = TcpStream::connect(server.listening.tcp).await.unwrap();
    let tls = ClientTls::new(Path::new(certificate), None).unwrap();
    TlsStream::connect(tcp, &tls, "localhost").await.unwrap()
}

/// Asks for a file that is too large for all buffers, and reads its beginning.
async fn begin<T: AsyncRead + AsyncWrite + Unpin>(mut to: T) -> T {
    to.write_all(b"GET /large HTTP/1.0\r\n\r\n").await.unwrap();
    let mut beginning = [0; 1000];
    to.read_exact(&mut beginning).await.unwrap();
    assert!(beginning.starts_with(b"HTTP/1.0 200 OK\r\n"));
    to
}

/// What a server cuts off in the end must not look like the end of a response without a length.
#[tokio::test]
async fn responses_cut_off_end_by_a_reset() {
    let folder = Folder::new("certificate");
    let (certificate, key) = certificate(&folder);
    for drain in ["1", "1000"] {
        for has_tls in [false, true] {
            let files = ["--drain-timeout", drain, "--certificate", &certificate, "--key", &key];
            let more = if has_tls { &files[..] } else { &files[..2] };
            let mut server = Running::start(more).await;
            let connector = Connector::new(Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap());
            let connector = connector.encapsulation_port(server.udp_port());
            let association = connector.association("127.0.0.1", server.sctp_port()).await.unwrap();
            let mut stream = begin(association.open().await.unwrap()).await;
            let mut tcp: Box<dyn Both> = if has_tls {
                Box::new(begin(begin_tls(&server, &certificate).await).await)
            } else {
                Box::new(begin(TcpStream::connect(server.listening.tcp).await.unwrap()).await)
            };
            server.signal_end();
            if drain == "1000" {
                server.signal_again();
            }
            server.ended().await;
            let mut rest = Vec::new();
            for error in [tcp.read_to_end(&mut rest).await, stream.read_to_end(&mut rest).await] {
                assert_eq!(error.unwrap_err().kind(), io::ErrorKind::ConnectionReset, "{drain} {has_tls}");
            }
            let ended = association.association().closed().await;
            assert!(matches!(ended, strandline::Ended::PeerAborted { .. }), "{ended}");
        }
    }
}

trait Both: AsyncRead + AsyncWrite + Unpin {}
impl<T: AsyncRead + AsyncWrite + Unpin> Both for T {}

/// A server on several threads, with responses in progress on all of them.
struct Threads {
    tell: watch::Sender<u32>,
    server: std::thread::JoinHandle<()>,
    streams: Vec<(HttpStream, HttpAssociation)>,
}

impl Threads {
    /// Serves a file of this size, which has to be too large for all buffers.
    async fn start(size: usize) -> Self {
        let folder = Folder::new("threads");
        std::fs::write(folder.path().join("large"), vec![7; size]).unwrap();
        let (tell, told) = watch::channel(0);
        let (bound, listening) = tokio::sync::oneshot::channel();
        let server = std::thread::spawn(move || {
            let path = folder.path().to_str().unwrap();
            let local =
                ["program", path, "--listen", "127.0.0.1:0", "--encapsulation", "127.0.0.1:0", "--sctp", "0"];
            let args = Program::try_parse_from(local).unwrap().args;
            Shards::run(Some(4), async |shards| {
                let (front, site) = bind(&args, shards).await.unwrap();
                bound.send(front.listening.clone()).unwrap();
                front.run(site, told).await.unwrap();
            })
            .unwrap();
        });
        let listening = listening.await.unwrap();
        let mut streams = Vec::new();
        for client in 0..12 {
            // Each has a UDP port of its own, so that all shards get some, and an address of its own: at one
            // address two might choose the same SCTP port, and the second would be refused.
            let connector =
                Connector::new(Stack::builder().udp(([127, 0, 0, 10 + client], 0).into()).unwrap());
            let connector = connector.encapsulation_port(listening.encapsulation.unwrap().port());
            let association = connector.association("127.0.0.1", listening.sctp.unwrap()).await.unwrap();
            streams.push((begin(association.open().await.unwrap()).await, association));
        }
        Self { tell, server, streams }
    }
}

/// The threads of a server end with it, and only after its ABORTs have left.
#[tokio::test]
async fn peers_see_the_end_of_all_threads() {
    let Threads { tell, server, streams } = Threads::start(20 << 20).await;
    tell.send_replace(2);
    tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap();
    for (mut stream, association) in streams {
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
        let ended = association.association().closed().await;
        assert!(matches!(ended, strandline::Ended::PeerAborted { .. }), "{ended}");
    }
}

/// The first thread that learns of the end stops accepting for all.
#[tokio::test]
async fn requests_on_all_threads_outlive_the_signal() {
    let Threads { tell, server, streams } = Threads::start(4 << 20).await;
    tell.send_replace(1);
    for (mut stream, _association) in streams {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        assert!(rest.len() > (4 << 20) - 1000 && rest.ends_with(&[7; 1000]), "{}", rest.len());
    }
    tokio::task::spawn_blocking(move || server.join().unwrap()).await.unwrap();
}

#[tokio::test]
async fn connections_beyond_the_limit_wait() {
    let server = Running::start(&["--connections-max", "1"]).await;
    let request = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let answered = async |tcp: &mut TcpStream| {
        let mut answer = Vec::new();
        while !answer.ends_with(b"<h1>hello</h1>") {
            answer.push(tcp.read_u8().await.unwrap());
        }
    };
    let mut first = TcpStream::connect(server.listening.tcp).await.unwrap();
    first.write_all(request).await.unwrap();
    answered(&mut first).await;
    let mut second = TcpStream::connect(server.listening.tcp).await.unwrap();
    second.write_all(b"GET /second HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    for _ in 0..10 {
        first.write_all(request).await.unwrap();
        answered(&mut first).await;
    }
    assert!(!server.log().contains("/second"), "it waits");
    drop(first);
    let mut answer = [0; 12];
    second.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 404");
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

/// What `nc -N` and `openssl s_client` do.
#[tokio::test]
async fn half_closed_clients_are_answered() {
    let server = Running::start(&[]).await;
    for request in ["GET /large HTTP/1.0\r\n\r\n", "GET /large HTTP/1.1\r\nHost: a\r\n\r\n"] {
        let mut tcp = TcpStream::connect(server.listening.tcp).await.unwrap();
        tcp.write_all(request.as_bytes()).await.unwrap();
        tcp.shutdown().await.unwrap();
        let mut answer = Vec::new();
        tcp.read_to_end(&mut answer).await.unwrap();
        assert!(answer.len() > 20 << 20, "{request}: {}", answer.len());
    }
    let folder = Folder::new("half");
    let (certificate, key) = certificate(&folder);
    let server = Running::start(&["--certificate", &certificate, "--key", &key]).await;
    let tcp = TcpStream::connect(server.listening.tcp).await.unwrap();
    let tls = ClientTls::new(Path::new(&certificate), None).unwrap();
    let mut tls = TlsStream::connect(tcp, &tls, "localhost").await.unwrap();
    tls.write_all(b"GET /large HTTP/1.0\r\n\r\n").await.unwrap();
    tls.shutdown().await.unwrap();
    let mut answer = Vec::new();
    tls.read_to_end(&mut answer).await.unwrap();
    assert!(answer.len() > 20 << 20, "{}", answer.len());
}

/// A reset would cost a client the answer that writes its whole request first.
#[tokio::test]
async fn rest_of_a_refused_request_is_read() {
    let server = Running::start(&[]).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n";
    for (request, status) in [(head, "405"), ("nonsense\r\n", "400")] {
        let mut tcp = TcpStream::connect(server.listening.tcp).await.unwrap();
        tcp.write_all(request.as_bytes()).await.unwrap();
        tcp.write_all(&[b'x'; 70_000]).await.unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
        for _ in 0..100 {
            tcp.write_all(&[b'x'; 70_000]).await.unwrap();
        }
    }
}

#[tokio::test]
async fn heads_that_cannot_be_read_are_logged() {
    let server = Running::start(&[]).await;
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(70_000));
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(40_000));
    let twice = "GET / HTTP/1.1\r\nHost: a\r\n\r\nnonsense\r\n\r\n";
    let mut wanted = Vec::new();
    for (request, status) in [("nonsense\r\n\r\n", 400), (&long, 431), (&large, 431), (twice, 400)] {
        let mut tcp = TcpStream::connect(server.listening.tcp).await.unwrap();
        // The server may close before it has read everything.
        let _ = tcp.write_all(request.as_bytes()).await;
        let mut answer = Vec::new();
        let _ = tcp.read_to_end(&mut answer).await;
        wanted.push(format!(" \"- - HTTP/1.1\" {status} 0 \"-\" \"-\""));
    }
    let mut stream = over_streams(&server).await;
    stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    wanted.push(wanted[0].clone());
    let log = server.end().await;
    let refused: Vec<&str> = log.lines().filter(|line| !line.contains("GET / ")).collect();
    assert_eq!(refused.len(), wanted.len(), "{log}");
    assert_eq!(log.lines().count(), wanted.len() + 1, "the request before is logged once: {log}");
    for (line, wanted) in refused.iter().zip(&wanted) {
        assert!(line.starts_with("127.0.0.1 ") && line.ends_with(wanted), "{wanted}: {log}");
    }
}

/// Opens a connection on a stream.
async fn over_streams(server: &Running) -> crate::HttpStream {
    let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let connector = Connector::new(stack).encapsulation_port(server.udp_port());
    connector.association("127.0.0.1", server.sctp_port()).await.unwrap().open().await.unwrap()
}

#[tokio::test]
async fn questions_about_the_server_are_answered() {
    let server = Running::start(&[]).await;
    std::fs::write(server.folder().join("site/a.txt"), "plain").unwrap();
    std::fs::write(server.folder().join("site/a.txt.zst"), "zstd").unwrap();
    for (request, status, wanted) in [
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n", 200, "allow: GET, HEAD, OPTIONS\r\n"),
        ("OPTIONS / HTTP/1.1\r\nHost: a\r\n", 200, "allow: GET, HEAD, OPTIONS\r\n"),
        ("POST / HTTP/1.1\r\nHost: a\r\n", 405, "allow: GET, HEAD, OPTIONS\r\n"),
        ("GET * HTTP/1.1\r\nHost: a\r\n", 400, ""),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n", 400, ""),
        ("GET / HTTP/1.0\r\nHost: user@a\r\n", 400, ""),
        ("GET http://a:99999/ HTTP/1.1\r\nHost: a\r\n", 400, ""),
        ("GET /a.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: zstd\r\n", 200, "content-encoding: zstd\r\n"),
        ("GET /a.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: zstd;Q=0\r\n", 200, "content-length: 5\r\n"),
        ("GET /a.txt HTTP/1.1\r\nHost: a\r\nAccept-Encoding: *;q=0\r\n", 406, "vary: accept-encoding\r\n"),
    ] {
        let mut tcp = TcpStream::connect(server.listening.tcp).await.unwrap();
        tcp.write_all(format!("{request}Connection: close\r\n\r\n").as_bytes()).await.unwrap();
        let mut answer = String::new();
        tcp.read_to_string(&mut answer).await.unwrap();
        let is_right =
            answer.contains(&format!("HTTP/1.{} {status} ", if request.contains("1.0") { 0 } else { 1 }));
        assert!(is_right && answer.contains(wanted), "{request}: {answer}");
        assert!(!wanted.contains("zstd") || answer.ends_with("\r\n\r\nzstd"), "{answer}");
    }
}
