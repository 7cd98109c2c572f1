//! Both proxies on loopback sockets.

mod http2;
mod memory;
mod tunnels;
mod upstream;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, Response};
use rustix::net::sockopt::set_socket_linger;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::testing::{Running, Upstream, raw_upstream, until};

async fn text(response: Response<Incoming>) -> String {
    String::from_utf8(response.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn reverse_passes_requests_from_both_transports() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let answer = proxy.exchange(&get("/head?a=b")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    for line in [
        "GET /head?a=b\n",
        "host: example.com\n",
        "via: 1.1 proxy\n",
        "x-forwarded-for: 127.0.0.1\n",
        "x-forwarded-host: example.com\n",
        "x-forwarded-proto: http\n",
        "forwarded: for=127.0.0.1;host=example.com;proto=http\n",
    ] {
        assert!(answer.contains(line), "{line}: {answer}");
    }
    assert!(!answer.contains("connection: close\n"), "{answer}");
    assert!(answer.contains("via: 1.1 proxy\r\n") && answer.contains("alt-svc: h1-sctp="), "{answer}");
    let client = proxy.over_sctp();
    let (one, two) = tokio::try_join!(
        client.get(proxy.sctp_url("/one").parse().unwrap()),
        client.get(proxy.sctp_url("/size/3000000").parse().unwrap()),
    )
    .unwrap();
    assert_eq!(text(two).await.len(), 3_000_000);
    assert_eq!(text(one).await, "this is /one");
    let log = proxy.end().await;
    assert_eq!(log.lines().count(), 3, "{log}");
    assert!(log.contains("\"GET /head?a=b HTTP/1.1\" 200 "), "{log}");
}

#[tokio::test]
async fn forward_fetches_over_tcp() {
    let upstream = Upstream::start().await;
    let proxy = Running::forward(&[]).await;
    let request = format!(
        "GET {}/head HTTP/1.1\r\nHost: wrong\r\nProxy-Connection: close\r\nConnection: close\r\n\r\n",
        upstream.url()
    );
    let answer = proxy.exchange(&request).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains(&format!("host: {}\nvia: 1.1 forward\n", upstream.address)), "{answer}");
    assert!(!answer.contains("forwarded") && !answer.contains("proxy-connection"), "{answer}");
    let log = proxy.end().await;
    assert!(log.contains("\"upstream\":\"tcp\"") && log.contains(&upstream.url()), "{log}");
}

#[tokio::test]
async fn tunnels_carry_bytes_both_ways() {
    let echo = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let target = echo.local_addr().unwrap();
    tokio::spawn(async move {
        let (mut tcp, _) = echo.accept().await.unwrap();
        let (mut read, mut write) = tcp.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        write.shutdown().await.unwrap();
    });
    let proxy = Running::forward(&["--allow", &target.port().to_string()]).await;
    let mut tcp = proxy.connect().await;
    tcp.write_all(format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n\r\n").as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.unwrap());
    }
    assert!(head.starts_with(b"HTTP/1.1 200 "), "{}", head.escape_ascii());
    // What looks like a request that would be refused is no request here.
    let data = "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n".repeat(5000);
    let (mut read, mut write) = tcp.split();
    let mut back = Vec::new();
    tokio::join!(
        async {
            write.write_all(data.as_bytes()).await.unwrap();
            write.shutdown().await.unwrap();
        },
        async { read.read_to_end(&mut back).await.unwrap() },
    );
    assert!(back == data.as_bytes());
    let log = proxy.end().await;
    let line: serde_json::Value = serde_json::from_str(log.trim()).unwrap();
    assert_eq!(line["target"], target.to_string());
    assert_eq!((&line["status"], &line["body_bytes"]), (&200.into(), &data.len().into()));
}

#[tokio::test]
async fn connect_is_restricted() {
    let proxy = Running::forward(&[]).await;
    let answer = proxy
        .exchange("CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: 127.0.0.1:22\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 403 ") && answer.contains("--allow 127.0.0.1:22"), "{answer}");
    let answer = proxy.exchange(&get("/path")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("forward proxy"), "{answer}");
}

#[tokio::test]
async fn malformed_ports_are_refused() {
    let proxy = Running::forward(&[]).await;
    for target in
        ["CONNECT 127.0.0.1", "CONNECT 127.0.0.1:0", "CONNECT 127.0.0.1:99999", "GET http://127.0.0.1:99999/"]
    {
        let request = format!("{target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = proxy.exchange(&request).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 400 "), "{target}: {answer}");
    }
}

/// A request about a whole server has an absolute target without a path (RFC 9112 section 3.2.4).
#[tokio::test]
async fn options_of_a_server_are_passed_on() {
    let upstream = Upstream::start().await;
    let server = raw_upstream(b"HTTP/1.1 204 No Content\r\nAllow: GET\r\n\r\n", false).await;
    let proxy = Running::forward(&[]).await;
    let options = |target: &str| format!("OPTIONS {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    for (target, line) in [("", "OPTIONS *\n"), ("/head", "OPTIONS /head\n"), ("?/head", "")] {
        let answer = proxy.exchange(&options(&format!("{}{target}", upstream.url()))).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(line), "{target}: {answer}");
    }
    let answer = proxy.exchange(&options(&format!("http://{server}"))).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 204 ") && answer.contains("allow: GET\r\n"), "{answer}");
    assert_eq!(upstream.requests.load(Ordering::SeqCst), 3);
    // Another proxy gets it as it came.
    let via = ["--via", &format!("http://{}", proxy.listening.tcp)];
    let near = Running::forward_named("near", &via).await;
    for (target, line) in [("", "OPTIONS *\n"), ("/head", "OPTIONS /head\n"), ("", "OPTIONS *\n")] {
        let answer = near.exchange(&options(&format!("{}{target}", upstream.url()))).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains(line), "{target}: {answer}");
    }
    // A reverse proxy is the server.
    let reverse = Running::reverse(&upstream.url(), &[]).await;
    for target in ["*", "http://a", "http://a:80"] {
        let answer = reverse.exchange(&options(target)).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("allow: GET, HEAD"), "{answer}");
    }
    assert_eq!(upstream.requests.load(Ordering::SeqCst), 6);
}

#[tokio::test]
async fn upgrades_become_tunnels() {
    let upstream = Upstream::start().await;
    let reverse = Running::reverse(&upstream.url(), &[]).await;
    let forward = Running::forward(&[]).await;
    let absolute = format!("{}/socket", upstream.url());
    for (proxy, target) in [(&reverse, "/socket"), (&forward, absolute.as_str())] {
        let mut tcp = proxy.connect().await;
        let head = "Host: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
        tcp.write_all(format!("GET {target} HTTP/1.1\r\n{head}").as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            answer.push(tcp.read_u8().await.unwrap());
        }
        let answer = String::from_utf8(answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains("upgrade: websocket\r\n"), "{answer}");
        assert!(answer.contains("connection: upgrade\r\n"), "{answer}");
        for message in ["hello", "world"] {
            tcp.write_all(message.as_bytes()).await.unwrap();
            let mut back = [0; 5];
            tcp.read_exact(&mut back).await.unwrap();
            assert_eq!(&back, message.as_bytes());
        }
        tcp.shutdown().await.unwrap();
        assert_eq!(tcp.read(&mut [0]).await.unwrap(), 0, "the far end is passed on");
    }
    // On a stream.
    let connector = crate::client::Connector::new(
        crate::client::outgoing_stack(&strandline::AssociationConfig::default(), None).unwrap(),
    );
    let connector = connector.encapsulation_port(reverse.udp_port());
    let association = connector.association("127.0.0.1", reverse.listening.sctp.unwrap()).await.unwrap();
    let mut stream = association.open().await.unwrap();
    stream
        .write_all(b"GET /socket HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n")
        .await
        .unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\n") {
        answer.push(stream.read_u8().await.unwrap());
    }
    assert!(answer.starts_with(b"HTTP/1.1 101 "), "{}", answer.escape_ascii());
    stream.write_all(b"hello").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut back = Vec::new();
    stream.read_to_end(&mut back).await.unwrap();
    assert_eq!(back, b"hello");
}

#[tokio::test]
async fn bodies_and_trailers_stream_both_ways() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let client = proxy.over_sctp();
    let (parts, body) = tokio::sync::mpsc::channel::<Frame<Bytes>>(1);
    let body = futures_util::stream::unfold(body, |mut body| async move {
        let frame: Frame<Bytes> = body.recv().await?;
        Some((Ok::<_, super::testing::BoxError>(frame), body))
    });
    let body = BodyExt::boxed(StreamBody::new(super::testing::SyncStream(Box::pin(body))));
    let request = Request::post(proxy.sctp_url("/echo")).header("te", "trailers").header("trailer", "x-sum");
    let response = client.request(request.body(body).unwrap()).await.unwrap();
    let mut back = response.into_body();
    // Each part returns before the next one is sent.
    for part in ["one", "two", "three"] {
        parts.send(Frame::data(Bytes::from_static(part.as_bytes()))).await.unwrap();
        assert_eq!(back.frame().await.unwrap().unwrap().into_data().unwrap(), part);
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("x-sum", HeaderValue::from_static("11"));
    parts.send(Frame::trailers(trailers)).await.unwrap();
    drop(parts);
    let trailers = back.frame().await.unwrap().unwrap().into_trailers().unwrap();
    assert_eq!(trailers["x-sum"], "11");
}

/// Without a length hyper sends no body with a GET unless it is told to.
#[tokio::test]
async fn body_of_a_get_is_passed_on() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    for (method, framing) in [
        ("GET", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"),
        ("GET", "Content-Length: 4\r\n\r\nbody"),
        ("POST", "Transfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n"),
    ] {
        let head = format!("{method} /echo HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n");
        let answer = proxy.exchange(&format!("{head}{framing}")).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("body"), "{framing}: {answer}");
    }
}

#[tokio::test]
async fn expectations_are_decided_by_the_upstream_server() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let post = |path: &str| {
        format!("POST {path} HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
    };
    let mut tcp = proxy.connect().await;
    tcp.write_all(post("/collect").as_bytes()).await.unwrap();
    let mut line = vec![0; 25];
    tcp.read_exact(&mut line).await.unwrap();
    assert_eq!(line, b"HTTP/1.1 100 Continue\r\n\r\n");
    tcp.write_all(b"hello").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"hello") {
        answer.push(tcp.read_u8().await.unwrap());
    }
    let answer = proxy.exchange(&post("/refuse")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 417 "), "no 100 before: {answer}");
    let unknown = "POST /echo HTTP/1.1\r\nHost: a\r\nExpect: more\r\nConnection: close\r\n\r\n";
    assert!(proxy.exchange(unknown).await.unwrap().starts_with("HTTP/1.1 417 "));
}

#[tokio::test]
async fn failures_of_the_upstream_server_are_errors() {
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let garbage = raw_upstream(b"garbage\r\n\r\n", false).await;
    let nothing = raw_upstream(b"", false).await;
    let coded =
        raw_upstream(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", false).await;
    let switch =
        raw_upstream(b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n\r\n", false).await;
    let slow = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let slow = slow.local_addr().map(|address| (slow, address)).unwrap();
    // The last one waits for a time-out. The others fail on their own, however busy the machine is.
    let cases: [(String, &str, &str, &[&str]); 8] = [
        (format!("http://{closed}"), "502", "connection_refused", &[]),
        ("unix:/nonexistent/socket".to_owned(), "502", "destination_ip_unroutable", &[]),
        ("http://host.invalid".to_owned(), "502", "dns_error", &[]),
        (format!("http://{garbage}"), "502", "http_protocol_error", &[]),
        (format!("http://{nothing}"), "502", "connection_terminated", &[]),
        (format!("http://{coded}"), "502", "http_protocol_error", &[]),
        (format!("http://{switch}"), "502", "http_protocol_error", &[]),
        (format!("http://{}", slow.1), "504", "http_response_timeout", &["--response-timeout", "1"]),
    ];
    for (to, status, kind, options) in cases {
        let proxy = Running::reverse(&to, options).await;
        let answer = proxy.exchange(&get("/")).await.unwrap();
        let start = format!("HTTP/1.1 {status} ");
        let reason = format!("proxy-status: proxy; error={kind}\r\n");
        let body = answer.split_once("\r\n\r\n").unwrap().1;
        assert!(!body.contains("127.0.0.1") && !body.contains("os error") && !body.contains('/'), "{body}");
        assert!(answer.starts_with(&start) && answer.contains(&reason), "{to}: {answer}");
    }
}

#[tokio::test]
async fn responses_that_break_off_never_end_cleanly() {
    let answers: [&'static [u8]; 3] = [
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nxyz\r\n",
    ];
    for answer in answers {
        for resets in [false, true] {
            let upstream = raw_upstream(answer, resets).await;
            let proxy = Running::reverse(&format!("http://{upstream}"), &[]).await;
            for version in ["1.0", "1.1"] {
                let request = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
                match proxy.exchange(&request).await {
                    Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
                    // The reset came before the response's head was sent.
                    Ok(answer) => assert!(answer.starts_with(&format!("HTTP/{version} 502 ")), "{answer}"),
                }
            }
            let response = proxy.over_sctp().get(proxy.sctp_url("/").parse().unwrap()).await.unwrap();
            if response.status() == 200 {
                response.into_body().collect().await.unwrap_err();
            }
        }
    }
}

#[tokio::test]
async fn clients_that_vanish_end_the_upstream_request() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    for (count, path) in ["/never", "/endless"].into_iter().enumerate() {
        let mut tcp = proxy.connect().await;
        tcp.write_all(get(path).as_bytes()).await.unwrap();
        until(&upstream.requests, 2 * count + 1).await;
        // After a FIN alone a client may still wait for the response.
        set_socket_linger(&tcp, Some(std::time::Duration::ZERO)).unwrap();
        drop(tcp);
        until(&upstream.given_up, 2 * count + 1).await;
        let client = proxy.over_sctp();
        let asking = client.get(proxy.sctp_url(path).parse().unwrap());
        tokio::select! {
            response = asking => drop(response.unwrap()),
            () = until(&upstream.requests, 2 * count + 2) => {}
        }
        until(&upstream.given_up, 2 * count + 2).await;
    }
}

#[tokio::test]
async fn slow_clients_hold_the_upstream_server_back() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &["--write-timeout", "1"]).await;
    let mut tcp = proxy.connect().await;
    tcp.write_all(get("/endless").as_bytes()).await.unwrap();
    // An endless response to a client that reads nothing would take all memory.
    until(&upstream.given_up, 1).await;
    let log = proxy.end().await;
    let bytes: u64 = log.split(' ').nth(9).unwrap().parse().unwrap();
    assert!(bytes < 64 << 20, "{log}");
}

#[tokio::test]
async fn requests_beyond_the_limit_get_503() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &["--requests-max", "1"]).await;
    let mut first = proxy.connect().await;
    first.write_all(get("/never").as_bytes()).await.unwrap();
    until(&upstream.requests, 1).await;
    let answer = proxy.exchange(&get("/")).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    set_socket_linger(&first, Some(std::time::Duration::ZERO)).unwrap();
    drop(first);
    until(&upstream.given_up, 1).await;
    while !proxy.exchange(&get("/")).await.unwrap().starts_with("HTTP/1.1 200 ") {}
}

#[tokio::test]
async fn requests_with_a_doubt_are_refused() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let cases = [
        ("GET / HTTP/1.1\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a/b\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nVia: 1.1 proxy\r\n", 508),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n", 501),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n", 405),
        ("GET http://b:99999/head HTTP/1.1\r\nHost: b\r\n", 400),
        ("OPTIONS * HTTP/1.1\r\nHost: a\r\n", 200),
        ("GET * HTTP/1.1\r\nHost: a\r\n", 400),
        ("TRACE / HTTP/1.1\r\nHost: a\r\nMax-Forwards: x\r\n", 400),
        ("OPTIONS / HTTP/1.1\r\nHost: a\r\nMax-Forwards: 0\r\n", 200),
        ("GET http://b/head HTTP/1.1\nHost: a\n", 400),
        // An absolute target has the say over Host.
        ("GET http://b/head HTTP/1.1\r\nHost: a\r\n", 200),
    ];
    for (head, status) in cases {
        let answer = proxy.exchange(&format!("{head}Connection: close\r\n\r\n")).await.unwrap();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        assert!(status != 200 || head.starts_with("OPTIONS") || answer.contains("host: b\n"), "{answer}");
    }
    assert_eq!(upstream.requests.load(Ordering::SeqCst), 1, "only the last one was passed on");
    let trace = "TRACE / HTTP/1.1\r\nHost: a\r\nCookie: c\r\nMax-Forwards: 0\r\nConnection: close\r\n\r\n";
    let answer = proxy.exchange(trace).await.unwrap();
    assert!(answer.contains("message/http") && answer.contains("\r\n\r\nTRACE / HTTP/1.1\r\n"), "{answer}");
    assert!(!answer.to_ascii_lowercase().contains("cookie"), "{answer}");
}

#[tokio::test]
async fn headers_of_a_hop_stay_there() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let answer = proxy.exchange(&get("/hop")).await.unwrap();
    assert!(!answer.contains("x-secret") && !answer.contains("keep-alive"), "{answer}");
    let head = proxy.exchange("HEAD /size/7 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await.unwrap();
    assert!(head.contains("content-length: 7\r\n") && head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn a_remote_proxy_takes_everything_as_streams() {
    let upstream = Upstream::start().await;
    let port = upstream.address.port().to_string();
    let remote = Running::forward(&["--sctp", "0", "--encapsulation", "127.0.0.1:0", "--allow", &port]).await;
    let via = format!("http+sctp://127.0.0.1:{}", remote.listening.sctp.unwrap());
    let udp = remote.udp_port().to_string();
    let more = ["--via", &via, "--encapsulation-port", &udp, "--allow", &port];
    let local = Running::forward_named("near", &more).await;
    let request = format!("GET {}/head HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", upstream.url());
    let answer = local.exchange(&request).await.unwrap();
    assert!(answer.contains("via: 1.1 near\nvia: 1.1 forward\n"), "{answer}");
    let address = upstream.address;
    let connect = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    let mut tcp = local.connect().await;
    tcp.write_all(connect.as_bytes()).await.unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(tcp.read_u8().await.unwrap());
    }
    tcp.write_all(get("/inside").as_bytes()).await.unwrap();
    let mut answer = String::new();
    tcp.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("this is /inside"), "{answer}");
    drop(tcp);
    assert!(local.end().await.lines().all(|line| line.contains("\"upstream\":\"sctp\"")));
    assert!(remote.end().await.lines().all(|line| line.contains("\"transport\":\"sctp\"")));
}

#[tokio::test]
async fn origins_that_speak_sctp_are_found() {
    let upstream = Upstream::start().await;
    let origin = Running::reverse(&upstream.url(), &["--access-log-format", "json"]).await;
    let udp = origin.udp_port().to_string();
    let proxy = Running::forward(&["--encapsulation-port", &udp]).await;
    // The SCTP port differs from the TCP port: Alt-Svc names it.
    let request =
        format!("GET http://{}/x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", origin.listening.tcp);
    loop {
        assert!(proxy.exchange(&request).await.unwrap().ends_with("this is /x"));
        let log = std::fs::read_to_string(proxy.path("log")).unwrap();
        let last = log.lines().last().unwrap_or_default();
        if last.contains("\"upstream\":\"sctp\"") {
            break;
        }
    }
    let first = std::fs::read_to_string(proxy.path("log")).unwrap();
    assert!(first.lines().next().unwrap().contains("\"upstream\":\"tcp\""), "TCP isn't delayed");
    let post = format!(
        "POST http://{}/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
        origin.listening.tcp
    );
    assert!(proxy.exchange(&post).await.unwrap().ends_with("hello"));
    let log = origin.end().await;
    assert!(log.lines().last().unwrap().contains("\"transport\":\"sctp\""), "{log}");
    // The origin is gone, and so is its association.
    assert!(proxy.exchange(&request).await.unwrap().starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn origins_on_sctp_alone_are_reached() {
    let upstream = Upstream::start().await;
    let origin = Running::reverse(&upstream.url(), &[]).await;
    let udp = origin.udp_port().to_string();
    let proxy = Running::forward(&["--encapsulation-port", &udp]).await;
    // Nothing listens on TCP at the SCTP port.
    for scheme in ["http", "http+sctp"] {
        let post = format!(
            "POST {scheme}://127.0.0.1:{}/echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello",
            origin.listening.sctp.unwrap()
        );
        let answer = proxy.exchange(&post).await.unwrap();
        assert!(answer.ends_with("hello"), "{answer}");
    }
}

#[tokio::test]
async fn proxies_end_once_their_requests_are_answered() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let client = proxy.over_sctp();
    let response = client.get(proxy.sctp_url("/size/3000000").parse().unwrap()).await.unwrap();
    let mut tcp = proxy.connect().await;
    tcp.write_all(get("/size/3000000").as_bytes()).await.unwrap();
    tcp.read_u8().await.unwrap();
    let ending = tokio::spawn(proxy.end());
    let mut rest = Vec::new();
    tcp.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() > 3_000_000);
    assert_eq!(text(response).await.len(), 3_000_000);
    drop(client);
    assert_eq!(ending.await.unwrap().lines().count(), 2);
}
