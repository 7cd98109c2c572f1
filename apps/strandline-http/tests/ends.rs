//! Associations and servers that end: idle ones, peers that take nothing, limits, and ends in the middle of
//! responses.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "helpers of tests")]

use std::io::ErrorKind;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use strandline::memory::Network;
use strandline::{
    AcceptError, Association, AssociationConfig, Ended, Listener, Peer, Ppid, SendInfo, Stack, StreamId,
};
use strandline_http::{Budget, Connector, HttpAssociation, HttpStream, ServeOptions, Settings, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::common::{Body, World, answer};

/// Far beyond every time-out, in virtual time.
const LONG: Duration = Duration::from_secs(3600);
/// The label of data whose sender takes 1 GiB ahead.
const LARGEST_WINDOW: Ppid = Ppid(0x5348_011e);

async fn ended(association: &Association) -> Ended {
    timeout(LONG, association.closed()).await.expect("the association ends")
}

async fn ask(http: &HttpAssociation, request: &[u8]) -> HttpStream {
    let mut stream = http.open().await.unwrap();
    stream.write_all(request).await.unwrap();
    stream
}

/// Returns a client that closes no idle association itself.
async fn patient(world: &World) -> HttpAssociation {
    HttpAssociation::client(world.associate(4).await, Settings::default().idle_timeout(Duration::MAX))
}

#[tokio::test(start_paused = true)]
async fn servers_shut_idle_associations_down() {
    let mut options = ServeOptions::default();
    options.settings = Settings::default().idle_timeout(Duration::from_secs(100));
    let world = World::on(&Network::new(), options);
    let (idle, busy, unused) = (patient(&world).await, patient(&world).await, world.associate(4).await);
    let mut stream = ask(&idle, b"GET /one HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    drop(stream);
    let _waiting = ask(&busy, b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n").await;
    assert_eq!(ended(idle.association()).await, Ended::ShutDown);
    assert_eq!(ended(&unused).await, Ended::ShutDown);
    assert!(timeout(LONG, busy.association().closed()).await.is_err(), "a request is in progress");
    assert!(busy.is_usable() && !idle.is_usable());
}

#[tokio::test(start_paused = true)]
async fn connectors_shut_idle_associations_down() {
    let mut options = ServeOptions::default();
    options.settings = Settings::default().idle_timeout(Duration::MAX);
    let world = World::on(&Network::new(), options);
    let connector = Connector::new(world.here.clone());
    let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
    for _ in 0..2 {
        let response = client.get("http+sctp://10.0.0.2/one".parse().unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "this is /one");
        assert_eq!(world.here.association_count(), 1);
        timeout(LONG, world.here.wait_idle()).await.expect("the association ends");
    }
}

/// A peer that closes its window can't be told anything, not even that its connections are reset.
#[tokio::test(start_paused = true)]
async fn peers_that_take_nothing_are_aborted() {
    let world = World::on(&Network::new(), ServeOptions::default());
    let association = world.associate(4).await;
    let info = SendInfo::on(StreamId(0)).ppid(LARGEST_WINDOW);
    association.send(b"GET /size/90000000 HTTP/1.1\r\nHost: a\r\n\r\n", info).await.unwrap();
    assert!(matches!(ended(&association).await, Ended::PeerAborted { .. }));
}

/// What is left to send in a shutdown waits for the peer in the same way.
#[tokio::test(start_paused = true)]
async fn shutdowns_that_stall_are_aborted() {
    let mut options = ServeOptions::default();
    options.settings = Settings::default().idle_timeout(Duration::from_secs(1));
    let world = World::on(&Network::new(), options);
    let config = AssociationConfig {
        receive_buffer: Some(4096),
        partial_delivery_point: 4096,
        ..AssociationConfig::default()
    };
    let peer = Peer::new([10, 0, 0, 2], 80);
    let association = Association::connect_with(&world.here, peer, 0, config).await.unwrap();
    let info = SendInfo::on(StreamId(0)).ppid(LARGEST_WINDOW);
    // It fits the server's send buffer, but not this side's receive buffer, which nobody empties.
    let request = b"GET /size/20000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    association.send(request, info).await.unwrap();
    // Sleeps because hyper takes an earlier end for that of an interest in the response; the time is virtual.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let end = [&[1_u8][..], &[0; 15]].concat();
    association.send(&end, SendInfo::on(StreamId(0)).ppid(Ppid(0x5348_019e))).await.unwrap();
    let ended = ended(&association).await;
    assert!(matches!(ended, Ended::PeerAborted { .. }), "{ended}");
}

#[tokio::test(start_paused = true)]
async fn associations_beyond_the_limit_are_aborted() {
    let mut options = ServeOptions::default();
    options.associations_max = 2;
    let world = World::on(&Network::new(), options);
    let first = [world.client(2).await, world.client(2).await];
    let further = world.associate(2).await;
    assert!(matches!(ended(&further).await, Ended::PeerAborted { .. }));
    let request = b"GET /fine HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for http in &first {
        let mut answer = String::new();
        ask(http, request).await.read_to_string(&mut answer).await.unwrap();
        assert!(answer.ends_with("this is /fine"), "{answer}");
    }
    // Once one has ended there is room for another.
    first[0].shutdown().await;
    let mut answer = String::new();
    ask(&world.client(2).await, request).await.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("this is /fine"), "{answer}");
}

/// Of all associations together.
#[tokio::test(start_paused = true)]
async fn connections_beyond_the_budget_are_reset() {
    let mut options = ServeOptions::default();
    options.settings = Settings::default().budget(Budget::new(1 << 20, 3));
    let world = World::on(&Network::new(), options);
    let (one, two) = (world.client(4).await, world.client(4).await);
    let request = b"GET /never HTTP/1.1\r\nHost: a\r\n\r\n";
    let mut open = vec![ask(&one, request).await, ask(&one, request).await, ask(&two, request).await];
    for http in [&one, &two] {
        // Sleeps because the requests have to arrive first; the time is virtual.
        tokio::time::sleep(Duration::from_secs(1)).await;
        let mut further = ask(http, request).await;
        let error = timeout(LONG, further.read_u8()).await.expect("an end").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
    drop(open.pop());
    // Sleeps because the RESET has to arrive; the time is virtual.
    tokio::time::sleep(Duration::from_secs(1)).await;
    let mut answer = String::new();
    let fine = b"GET /fine HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    ask(&one, fine).await.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("this is /fine"), "{answer}");
}

/// Without a length the end of the connection would be that of the response.
#[tokio::test(start_paused = true)]
async fn ends_of_servers_cut_responses_off_as_errors() {
    let mut options = ServeOptions::default();
    options.drain_timeout = Duration::from_secs(10);
    let mut world = World::on(&Network::new(), options);
    let http = world.client(4).await;
    let mut cut = ask(&http, b"GET /begun HTTP/1.0\r\n\r\n").await;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\nhalf") {
        head.push(cut.read_u8().await.unwrap());
    }
    // A peer without control messages: only the end of its association tells it.
    let plain = world.associate(4).await;
    plain.send(b"GET /begun HTTP/1.0\r\n\r\n", SendInfo::on(StreamId(1))).await.unwrap();
    assert!(plain.recv().await.unwrap().is_some());
    world.stop.take().unwrap().send(()).unwrap();
    timeout(LONG, world.served).await.expect("the server ends").unwrap().unwrap();
    let error = timeout(LONG, cut.read_to_end(&mut Vec::new())).await.expect("an end").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    assert!(matches!(ended(http.association()).await, Ended::PeerAborted { .. }));
    assert!(matches!(ended(&plain).await, Ended::PeerAborted { .. }));
}

#[test]
fn servers_whose_stack_is_gone_return_an_error() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let listener = {
        let _entered = runtime.enter();
        let stack = Stack::builder().memory(&Network::new(), [[10, 0, 0, 1].into()]).unwrap();
        Listener::bind(&stack, 80).unwrap()
    };
    drop(runtime);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let serving = serve(listener, service_fn(answer), ServeOptions::default(), std::future::pending());
    assert_eq!(runtime.block_on(serving), Err(AcceptError::StackClosed));
}
