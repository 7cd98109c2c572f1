//! HTTP over the streams of associations: independence, reuse, failures, shutdown.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::client::conn::http1;
use hyper::{Request, Response};
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use strandline::memory::{Fate, Network, Passing};
use strandline_http::{Connector, HttpAssociation, HttpStream, ServeOptions, Settings};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::common::{Body, World, full};

/// Sends a request on a connection of its own, and returns the response's head.
async fn get(
    http: &HttpAssociation,
    path: &str,
) -> Result<(Response<hyper::body::Incoming>, u16), hyper::Error> {
    let stream = http.open().await.expect("a stream");
    let number = stream.stream();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = Request::get(path).header("host", "example.com").header("connection", "close");
    Ok((sender.send_request(request.body(full("")).expect("a request")).await?, number))
}

async fn raw(http: &HttpAssociation, request: &[u8]) -> HttpStream {
    let mut stream = http.open().await.expect("a stream");
    stream.write_all(request).await.expect("to write");
    stream
}

#[tokio::test(start_paused = true)]
async fn requests_use_streams_at_the_same_time() {
    let world = World::new();
    let http = world.client(10).await;
    let never = raw(&http, b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let ((one, first), (two, second)) = tokio::try_join!(get(&http, "/one"), get(&http, "/two")).unwrap();
    assert_ne!(first, second);
    assert_eq!(two.into_body().collect().await.unwrap().to_bytes(), "this is /two");
    assert_eq!(one.into_body().collect().await.unwrap().to_bytes(), "this is /one");
    drop(never);
}

#[tokio::test(start_paused = true)]
async fn one_stream_serves_one_connection_after_another() {
    let world = World::new();
    let http = world.client(1).await;
    for turn in 0..5 {
        let (response, stream) = get(&http, &format!("/{turn}")).await.unwrap();
        assert_eq!(stream, 0);
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), format!("this is /{turn}"));
    }
}

#[tokio::test(start_paused = true)]
async fn client_uses_idle_streams_again() {
    let world = World::new();
    let connector = Connector::new(world.here.clone());
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector.clone());
    for turn in 0..20 {
        let uri = format!("http+sctp://10.0.0.2/{turn}").parse().unwrap();
        let body = client.get(uri).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), format!("this is /{turn}"));
    }
    let association = connector.association("10.0.0.2", 80).await.unwrap();
    assert_eq!(association.open().await.unwrap().stream(), 1, "twenty requests took one stream");
}

#[tokio::test(start_paused = true)]
async fn a_stalled_reader_delays_no_other() {
    let world = World::new();
    let http = world.client(10).await;
    // More than the window of the stream, and nobody reads.
    let (stalled, _) = get(&http, "/size/8000000").await.unwrap();
    for _ in 0..3 {
        let (response, _) = get(&http, "/size/3000000").await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 3_000_000);
    }
    assert_eq!(stalled.into_body().collect().await.unwrap().to_bytes().len(), 8_000_000);
}

/// More of them than the buffer has room for windows of a megabyte.
#[tokio::test(start_paused = true)]
async fn many_stalled_readers_delay_no_other() {
    let world = World::new();
    let http = world.client(100).await;
    let mut stalled = Vec::new();
    for _ in 0..60 {
        stalled.push(get(&http, "/size/8000000").await.unwrap().0);
    }
    for _ in 0..3 {
        let other = async {
            let (response, _) = get(&http, "/size/3000000").await.unwrap();
            response.into_body().collect().await
        };
        let body = timeout(Duration::from_secs(5), other).await.expect("no delay").unwrap();
        assert_eq!(body.to_bytes().len(), 3_000_000);
    }
    let first = stalled.swap_remove(0).into_body().collect().await.unwrap();
    assert_eq!(first.to_bytes().len(), 8_000_000, "a reader that goes on gets everything");
}

#[tokio::test(start_paused = true)]
async fn short_responses_overtake_long_ones() {
    let world = World::new();
    let http = world.client(10).await;
    let received = Arc::new(AtomicUsize::new(0));
    for _ in 0..3 {
        let (long, _) = get(&http, "/size/8000000").await.unwrap();
        let (mut body, received) = (long.into_body(), Arc::clone(&received));
        tokio::spawn(async move {
            while let Some(Ok(frame)) = body.frame().await {
                received.fetch_add(frame.data_ref().map_or(0, Bytes::len), Ordering::Relaxed);
            }
        });
    }
    let before = received.load(Ordering::Relaxed);
    let (short, _) = get(&http, "/short").await.unwrap();
    assert_eq!(short.into_body().collect().await.unwrap().to_bytes(), "this is /short");
    // The server's send buffer of a megabyte was full when the request came.
    let meanwhile = received.load(Ordering::Relaxed) - before;
    assert!(meanwhile < 1_000_000, "{meanwhile}");
}

#[tokio::test(start_paused = true)]
async fn uploads_go_beyond_the_window() {
    let world = World::new();
    let http = world.client(2).await;
    let stream = http.open().await.unwrap();
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let data = Bytes::from(vec![7; 5_000_000]);
    let request = Request::post("/echo").header("host", "a").body(full(data.clone())).unwrap();
    let response = sender.send_request(request).await.unwrap();
    assert!(response.into_body().collect().await.unwrap().to_bytes() == data);
}

#[tokio::test(start_paused = true)]
async fn failing_bodies_are_errors_at_the_client() {
    let world = World::new();
    let http = world.client(2).await;
    let (failed, stream) = get(&http, "/fail").await.unwrap();
    assert!(failed.into_body().collect().await.is_err());
    // HTTP/1.0 has no other end of the body than that of the connection.
    let mut old = raw(&http, b"GET /fail HTTP/1.0\r\n\r\n").await;
    assert_eq!(old.stream(), stream, "a stream is used again after a reset");
    let error = old.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    let (other, _) = get(&http, "/fine").await.unwrap();
    assert_eq!(other.into_body().collect().await.unwrap().to_bytes(), "this is /fine");
}

#[tokio::test(start_paused = true)]
async fn old_clients_read_up_to_the_end() {
    let world = World::new();
    let http = world.client(1).await;
    let mut old = raw(&http, b"GET /old HTTP/1.0\r\n\r\n").await;
    let mut text = String::new();
    old.read_to_string(&mut text).await.unwrap();
    assert!(text.ends_with("this is /old"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_vanished_server_is_an_error() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let judge = {
        let is_gone = Arc::clone(&is_gone);
        move |_: &Passing<'_>| if is_gone.load(Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver }
    };
    let network = Network::builder().delay(Duration::from_millis(20)).judge(judge).build();
    let world = World::on(&network, ServeOptions::default());
    let http = world.client(2).await;
    let (response, _) = get(&http, "/size/50000000").await.unwrap();
    let mut waiting = raw(&http, b"GET /never HTTP/1.0\r\n\r\n").await;
    is_gone.store(true, Ordering::Relaxed);
    waiting.write_all(b"more").await.unwrap();
    assert!(response.into_body().collect().await.is_err());
    let error = waiting.read_to_end(&mut Vec::new()).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(http.open().await.is_err());
    assert!(!http.is_usable());
}

/// A client that has sent all that it has may still wait.
#[tokio::test(start_paused = true)]
async fn half_closed_connections_are_answered() {
    let world = World::new();
    let http = world.client(4).await;
    for (request, answers) in [
        ("GET /slow HTTP/1.0\r\n\r\n", 1),
        ("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n", 1),
        ("GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /slow HTTP/1.1\r\nHost: a\r\n\r\n", 2),
        ("POST /slow HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab", 1),
    ] {
        let mut stream = raw(&http, request.as_bytes()).await;
        stream.shutdown().await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text.matches("slow").count(), answers, "{request}: {text}");
    }
    // A body that ends too early is none.
    let mut stream = raw(&http, b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab").await;
    stream.shutdown().await.unwrap();
    let mut text = String::new();
    let _ = stream.read_to_string(&mut text).await;
    assert!(!text.contains("200 OK"), "{text}");
}

/// A network that is cut by the returned switch.
fn cuttable() -> (Network, Arc<AtomicBool>) {
    let is_cut = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&is_cut);
    let judge = move |_: &Passing<'_>| {
        if asked.load(Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver }
    };
    (Network::builder().delay(Duration::from_millis(20)).judge(judge).build(), is_cut)
}

#[tokio::test(start_paused = true)]
async fn silent_servers_are_noticed_within_seconds() {
    for has_request in [false, true] {
        let (network, is_cut) = cuttable();
        let world = World::on(&network, ServeOptions::default());
        let http = world.client(2).await;
        let request: &[u8] = if has_request { b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n" } else { b"" };
        let mut stream = raw(&http, request).await;
        // Sleeps because an idle association is to stay.
        tokio::time::sleep(Duration::from_secs(40)).await;
        assert!(http.is_usable());
        is_cut.store(true, Ordering::Relaxed);
        // Sleeps because a suspicion isn't told; the time is virtual.
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert!(!http.is_usable(), "nothing new is begun on it");
        let mut nothing = Vec::new();
        let waiting = stream.read_to_end(&mut nothing);
        let ended = timeout(Duration::from_secs(8), waiting).await.expect("an end within 15 s").unwrap_err();
        assert_eq!(ended.kind(), std::io::ErrorKind::TimedOut);
    }
}

/// Answers to HEARTBEATs alone are a sign of life.
#[tokio::test(start_paused = true)]
async fn short_silences_are_survived() {
    let (network, is_cut) = cuttable();
    let world = World::on(&network, ServeOptions::default());
    let http = world.client(2).await;
    for _ in 0..3 {
        is_cut.store(true, Ordering::Relaxed);
        // Sleeps because nothing is to happen; the time is virtual.
        tokio::time::sleep(Duration::from_secs(7)).await;
        is_cut.store(false, Ordering::Relaxed);
        // Sleeps because nothing is to happen.
        tokio::time::sleep(Duration::from_secs(7)).await;
        assert!(http.is_usable());
    }
    let (response, _) = get(&http, "/fine").await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "this is /fine");
}

#[tokio::test(start_paused = true)]
async fn shutdown_answers_requests_in_progress() {
    let mut world = World::new();
    let http = world.client(4).await;
    let (response, _) = get(&http, "/size/4000000").await.unwrap();
    let idle = raw(&http, b"").await;
    world.stop.take().unwrap().send(()).unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 4_000_000);
    world.served.await.unwrap().unwrap();
    drop(idle);
    assert_eq!(http.association().closed().await, strandline::Ended::ShutDown);
}

/// A request that comes too late is refused at once, and doesn't wait for those in progress.
#[tokio::test(start_paused = true)]
async fn late_requests_are_refused_at_once() {
    let mut world = World::new();
    let http = world.client(4).await;
    let mut slow = raw(&http, b"GET /slow HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    // Sleeps because the request is to be in progress; the time is virtual.
    tokio::time::sleep(Duration::from_secs(1)).await;
    world.stop.take().unwrap().send(()).unwrap();
    let mut late = raw(&http, b"GET /late HTTP/1.1\r\nHost: a\r\n\r\n").await;
    let mut nothing = Vec::new();
    let refused = timeout(Duration::from_secs(1), late.read_to_end(&mut nothing)).await.expect("an end");
    assert_eq!(refused.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("slow"), "{answer}");
    drop((late, slow));
    world.served.await.unwrap().unwrap();
    assert_eq!(http.association().closed().await, strandline::Ended::ShutDown);
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_response_frees_its_stream() {
    let world = World::new();
    let http = world.client(1).await;
    let (response, _) = get(&http, "/size/50000000").await.unwrap();
    drop(response);
    let (next, stream) = get(&http, "/next").await.unwrap();
    assert_eq!(stream, 0);
    assert_eq!(next.into_body().collect().await.unwrap().to_bytes(), "this is /next");
}

#[tokio::test(start_paused = true)]
async fn dropped_handles_shut_the_association_down() {
    let world = World::new();
    let http = world.client(1).await;
    let association = http.association().clone();
    let (response, _) = get(&http, "/one").await.unwrap();
    drop((response, http));
    let (ended, received) = oneshot::channel();
    tokio::spawn(async move { drop(ended.send(association.closed().await)) });
    assert_eq!(received.await.unwrap(), strandline::Ended::ShutDown);
}

#[tokio::test(start_paused = true)]
async fn a_connector_keeps_its_association() {
    let world = World::new();
    let connector = Connector::new(world.here.clone());
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector.clone());
    let uri = || "http+sctp://10.0.0.2/one".parse().unwrap();
    client.get(uri()).await.unwrap().into_body().collect().await.unwrap();
    let association = connector.association("10.0.0.2", 80).await.unwrap().association().clone();
    drop(client);
    // The server closes idle connections after a minute, and the association goes on for four more.
    // Sleeps because nothing is to happen.
    tokio::time::sleep(Duration::from_secs(200)).await;
    let same = connector.association("10.0.0.2", 80).await.unwrap().association().id();
    assert_eq!(same, association.id());
    drop(connector);
    assert_eq!(association.closed().await, strandline::Ended::ShutDown);
}

#[tokio::test(start_paused = true)]
async fn an_ended_association_is_replaced() {
    let world = World::new();
    let connector = Connector::new(world.here.clone());
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector.clone());
    for _ in 0..3 {
        let uri = "http+sctp://10.0.0.2/one".parse().unwrap();
        let body = client.get(uri).await.unwrap().into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), "this is /one");
        let association = connector.association("10.0.0.2", 80).await.unwrap().association().clone();
        association.abort("enough");
        // Sleeps because the pool doesn't tell that it has noticed the end of its connection.
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn lossy_networks_deliver_every_response() {
    let network = Network::builder().delay(Duration::from_millis(30)).loss(0.1).seed(5).build();
    let world = World::on(&network, ServeOptions::default());
    let client: Client<_, Body> = Client::builder(TokioExecutor::new())
        .build(Connector::new(world.here.clone()).settings(Settings::default().stream_window(16 << 10)));
    let fetches = (0..50).map(|turn| {
        let client = client.clone();
        tokio::spawn(async move {
            let uri = format!("http+sctp://10.0.0.2/size/{}", 20_000 + turn).parse().unwrap();
            let body = client.get(uri).await.unwrap().into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes().len(), 20_000 + turn);
        })
    });
    for fetch in fetches.collect::<Vec<_>>() {
        fetch.await.unwrap();
    }
}
