//! Clients of HTTP/2, and interim responses.

use std::sync::atomic::AtomicUsize;

use futures_util::future::join_all;
use hyper::client::conn::http2::{self, SendRequest};
use hyper::header::{COOKIE, HOST};
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::*;
use crate::proxy::testing::{Body, full};

/// Connects to a proxy.
async fn connect(proxy: &Running) -> SendRequest<Body> {
    let io = TokioIo::new(proxy.connect().await);
    let (sender, connection) = http2::handshake(TokioExecutor::new(), io).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(uri: &str) -> hyper::http::request::Builder {
    Request::builder().uri(uri)
}

#[tokio::test]
async fn reverse_serves_many_streams() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let sender = connect(&proxy).await;
    let answers = join_all((0..200).map(|number| {
        let mut sender = sender.clone();
        async move {
            let uri = format!("http://example.com/size/{}", number * 100);
            let answer = sender.send_request(request(&uri).body(full("")).unwrap()).await.unwrap();
            text(answer).await.len() == number * 100
        }
    }));
    assert!(answers.await.into_iter().all(|is_right| is_right));
    let log = proxy.end().await;
    assert_eq!(log.matches("HTTP/2.0\" 200 ").count(), 200, "{log}");
}

#[tokio::test]
async fn reverse_translates_heads() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let mut sender = connect(&proxy).await;
    let asked = request("http://example.com/head?a=b").header(COOKIE, "a=1").header(COOKIE, "b=2");
    let head = text(sender.send_request(asked.body(full("")).unwrap()).await.unwrap()).await;
    for line in [
        "GET /head?a=b\n",
        "host: example.com\n",
        "via: 2.0 proxy\n",
        "cookie: a=1; b=2\n",
        "host=example.com",
    ] {
        assert!(head.contains(line), "{line}: {head}");
    }
    let hop = sender.send_request(request("http://example.com/hop").body(full("")).unwrap()).await.unwrap();
    assert!(["connection", "keep-alive", "x-secret"].iter().all(|name| !hop.headers().contains_key(*name)));
    let two = request("http://example.com/").header(HOST, "one").header(HOST, "two").body(full("")).unwrap();
    assert_eq!(sender.send_request(two).await.unwrap().status(), 400);
}

#[tokio::test]
async fn bodies_and_trailers_pass() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let mut sender = connect(&proxy).await;
    let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("11"))]);
    let frames = [Frame::data(Bytes::from(vec![b'x'; 1_000_000])), Frame::trailers(trailers)];
    let frames = frames.into_iter().map(Ok::<_, crate::proxy::testing::BoxError>);
    let body = BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)));
    let asked = request("http://a/echo").method("POST").header("te", "trailers").header("trailer", "x-sum");
    let answer = sender.send_request(asked.body(body).unwrap()).await.unwrap();
    let collected = answer.into_body().collect().await.unwrap();
    assert_eq!(
        collected.trailers().map(|trailers| &trailers["x-sum"]),
        Some(&HeaderValue::from_static("11"))
    );
    assert_eq!(collected.to_bytes().len(), 1_000_000);
}

#[tokio::test]
async fn vanished_clients_end_their_requests_alone() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let mut sender = connect(&proxy).await;
    let endless = sender.send_request(request("http://a/endless").body(full("")).unwrap()).await.unwrap();
    let never = tokio::spawn(sender.send_request(request("http://a/never").body(full("")).unwrap()));
    until(&upstream.requests, 2).await;
    drop(endless);
    never.abort();
    until(&upstream.given_up, 2).await;
    let other = sender.send_request(request("http://a/other").body(full("")).unwrap()).await.unwrap();
    assert_eq!(text(other).await, "this is /other");
}

#[tokio::test]
async fn forward_fetches_and_tunnels() {
    let upstream = Upstream::start().await;
    let port = upstream.address.port().to_string();
    let proxy = Running::forward(&["--allow", &port]).await;
    let mut sender = connect(&proxy).await;
    let uri = format!("{}/head", upstream.url());
    let head = text(sender.send_request(request(&uri).body(full("")).unwrap()).await.unwrap()).await;
    assert!(head.contains(&format!("host: {}\n", upstream.address)), "{head}");
    assert!(head.contains("via: 2.0 forward\n") && !head.contains("forwarded:"), "{head}");
    let tunnel = request(&upstream.address.to_string()).method("CONNECT").body(full("")).unwrap();
    let answer = sender.send_request(tunnel).await.unwrap();
    assert_eq!(answer.status(), 200);
    let mut tunnel = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    tunnel.write_all(super::get("/inside").as_bytes()).await.unwrap();
    let mut inside = String::new();
    tunnel.read_to_string(&mut inside).await.unwrap();
    assert!(inside.starts_with("HTTP/1.1 200 ") && inside.ends_with("this is /inside"), "{inside}");
    let refused = request("example.com:22").method("CONNECT").body(full("")).unwrap();
    assert_eq!(sender.send_request(refused).await.unwrap().status(), 403);
}

const HINTS: &[u8] = b"HTTP/1.1 103 Early Hints\r\nLink: </a.css>; rel=preload\r\nKeep-Alive: 1\r\n\r\n\
HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

#[tokio::test]
async fn early_hints_reach_clients() {
    let upstream = raw_upstream(HINTS, false).await;
    let proxy = Running::reverse(&format!("http://{upstream}"), &[]).await;
    let answer = proxy.exchange(&get("/")).await.unwrap();
    let (hints, last) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(hints, "HTTP/1.1 103 Early Hints\r\nlink: </a.css>; rel=preload");
    assert!(last.starts_with("HTTP/1.1 200 OK\r\n") && last.ends_with("\r\n\r\nok"), "{last}");
    let old = proxy.exchange("GET / HTTP/1.0\r\nHost: a\r\n\r\n").await.unwrap();
    assert!(old.starts_with("HTTP/1.0 200 OK\r\n"), "HTTP/1.0 has no interim responses: {old}");
    let hinted = Arc::new(AtomicUsize::new(0));
    let mut asked = request(&proxy.sctp_url("/")).body(full("")).unwrap();
    let counted = Arc::clone(&hinted);
    hyper::ext::on_informational(&mut asked, move |response| {
        assert_eq!(response.status(), 103);
        counted.fetch_add(1, Ordering::SeqCst);
    });
    assert_eq!(text(proxy.over_sctp().request(asked).await.unwrap()).await, "ok");
    assert_eq!(hinted.load(Ordering::SeqCst), 1);
    let asked = request("http://a/").body(full("")).unwrap();
    let answer = connect(&proxy).await.send_request(asked).await.unwrap();
    assert_eq!(text(answer).await, "ok", "hyper sends none over HTTP/2");
}

/// hyper's service never sees such a request.
#[tokio::test]
async fn heads_that_are_too_large_are_logged() {
    let upstream = Upstream::start().await;
    let proxy = Running::reverse(&upstream.url(), &[]).await;
    let mut sender = connect(&proxy).await;
    let large = "x".repeat(70_000);
    for (value, status) in [(large.as_str(), 431), ("small", 200), (&large, 431), (&large, 431)] {
        let asked = request("http://a/echo").header("x-large", value).header("te", "trailers");
        assert_eq!(sender.send_request(asked.body(full("")).unwrap()).await.unwrap().status(), status);
    }
    let asked = request("http://b:99999/").body(full("")).unwrap();
    assert_eq!(sender.send_request(asked).await.unwrap().status(), 400);
    drop(sender);
    let log = proxy.end().await;
    let refused = log.lines().filter(|line| line.ends_with(" \"- - HTTP/2.0\" 431 0 \"-\" \"-\""));
    assert_eq!((refused.count(), log.lines().count()), (3, 5), "{log}");
}

/// In HTTP/2 the path of such a request is `*` (RFC 9113 section 8.3.1).
#[tokio::test]
async fn options_of_a_server_name_it_by_authority() {
    let upstream = Upstream::start().await;
    let proxy = Running::forward(&[]).await;
    let mut frames = connect(&proxy).await;
    let mut parts = hyper::http::uri::Parts::default();
    parts.scheme = Some(hyper::http::uri::Scheme::HTTP);
    parts.authority = Some(upstream.address.to_string().parse().unwrap());
    parts.path_and_query = Some("*".parse().unwrap());
    let asked = Request::options(hyper::Uri::from_parts(parts).unwrap()).body(full("")).unwrap();
    let answer = frames.send_request(asked).await.unwrap();
    assert!(text(answer).await.starts_with("OPTIONS *\n"));
    drop(frames);
    let log = proxy.end().await;
    assert!(log.contains(&format!("\"target\":\"http://{}/\"", upstream.address)), "{log}");
}
