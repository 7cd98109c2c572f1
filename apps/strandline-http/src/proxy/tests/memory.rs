//! Both proxies on an in-memory network, in virtual time.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::time::Duration;

use futures_util::future::join_all;
use hyper::client::conn::http1;
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::rt::{TokioExecutor, TokioIo};
use strandline::memory::{Fate, Network, Passing};
use strandline::{Listener, Stack};

use super::*;
use crate::client::Connector;
use crate::front::alt_svc::Announced;
use crate::front::over_sctp;
use crate::happy_eyeballs::testing::Silent;
use crate::proxy::dial;
use crate::proxy::forward::Forward;
use crate::proxy::origins::Origins;
use crate::proxy::relay::{Proxy, Routes, Settings};
use crate::proxy::reverse::Reverse;
use crate::proxy::testing::{Body, LIMIT, answer, full, settings};
use crate::server::{ServeOptions, serve};

const SERVER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 3));

/// Hosts of a network: the client, the proxy and the server.
struct World {
    connector: Connector,
    client: Client<Connector, Body>,
    proxy: Stack,
    /// Requests that arrived at the server.
    requests: Arc<AtomicUsize>,
}

fn stack(network: &Network, last: u8) -> Stack {
    Stack::builder().memory(network, [[10, 0, 0, last].into()]).unwrap()
}

impl World {
    /// Starts the server.
    fn new(network: &Network) -> Self {
        let requests = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&requests);
        let service = service_fn(move |request| {
            counted.fetch_add(1, Ordering::Relaxed);
            answer(request, Arc::default())
        });
        let listener = Listener::bind(&stack(network, 3), 80).unwrap();
        tokio::spawn(serve(listener, service, ServeOptions::default(), std::future::pending()));
        let connector = Connector::new(stack(network, 1));
        let client = Client::builder(TokioExecutor::new()).build(connector.clone());
        Self { connector, client, proxy: stack(network, 2), requests }
    }

    /// Starts a proxy.
    fn pass<R: Routes>(&self, routes: R) {
        self.pass_with(routes, settings());
    }

    fn pass_with<R: Routes>(&self, routes: R, settings: Settings) {
        let listener = Listener::bind(&self.proxy, 80).unwrap();
        let handler = over_sctp(Arc::new(Proxy::new(routes, settings)));
        tokio::spawn(serve(listener, handler, ServeOptions::default(), std::future::pending()));
    }

    fn reverse(&self) {
        self.pass(Reverse::over(Connector::new(self.proxy.clone()), "10.0.0.3"));
    }

    /// Connects to a forward proxy, as clients do that name whole URLs to it.
    async fn to_forward(&self) -> http1::SendRequest<Body> {
        let association = self.connector.association("10.0.0.2", 80).await.unwrap();
        let stream = TokioIo::new(association.open().await.unwrap());
        let (sender, connection) = http1::handshake(stream).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    async fn get(&self, path: &str) -> Response<Incoming> {
        self.client.get(format!("http+sctp://10.0.0.2{path}").parse().unwrap()).await.unwrap()
    }
}

/// Waits, and returns how long that took.
async fn timed<T>(waited_for: impl Future<Output = T>) -> (T, Duration) {
    #[allow(clippy::disallowed_methods, reason = "virtual time")]
    let begun = tokio::time::Instant::now();
    (waited_for.await, begun.elapsed())
}

/// A network on which a function decides which packets arrive.
fn judged(judge: impl Fn(&Passing<'_>) -> Fate + Send + Sync + 'static) -> Network {
    Network::builder().delay(Duration::from_millis(20)).judge(judge).build()
}

fn network() -> Network {
    Network::builder().delay(Duration::from_millis(20)).build()
}

#[tokio::test(start_paused = true)]
async fn requests_pass_despite_losses() {
    let world = World::new(&Network::builder().delay(Duration::from_millis(20)).loss(0.05).seed(7).build());
    world.reverse();
    let sizes = (0..40).map(|number| number * number * 100);
    let fetched = join_all(sizes.clone().map(|size| {
        let world = &world;
        async move { text(world.get(&format!("/size/{size}")).await).await.len() }
    }));
    assert_eq!(fetched.await, Vec::from_iter(sizes));
    let upload = Request::post("http+sctp://10.0.0.2/echo").body(full(vec![b'x'; 3_000_000])).unwrap();
    assert_eq!(text(world.client.request(upload).await.unwrap()).await.len(), 3_000_000);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stalls_times_out() {
    let world = World::new(&network());
    world.reverse();
    let (stalled, other) = tokio::join!(world.get("/never"), world.get("/other"));
    assert_eq!(stalled.status(), 504);
    assert_eq!(text(other).await, "this is /other");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_vanishes_resets_responses() {
    let is_gone = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&is_gone);
    let judge = move |packet: &Passing<'_>| {
        let is_server = [packet.source, packet.destination].contains(&SERVER);
        if is_server && cut.load(Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver }
    };
    let world = World::new(&judged(judge));
    world.reverse();
    let begun = world.get("/size/50000000").await;
    assert_eq!(begun.status(), 200);
    is_gone.store(true, Ordering::Relaxed);
    assert!(begun.into_body().collect().await.is_err(), "a response that breaks off never ends cleanly");
    assert!(matches!(world.get("/again").await.status().as_u16(), 502 | 504));
    is_gone.store(false, Ordering::Relaxed);
    // Retransmissions have become rare meanwhile.
    let mut statuses = Vec::new();
    while statuses.last() != Some(&200) && statuses.len() < 20 {
        statuses.push(world.get("/back").await.status().as_u16());
    }
    assert_eq!(statuses.last(), Some(&200), "{statuses:?}");
}

/// Far less than SCTP needs to notice, and than the time-out of responses.
#[tokio::test(start_paused = true)]
async fn associations_that_go_dark_time_out() {
    let patient = || Settings { response_timeout: Duration::from_secs(600), ..settings() };
    let is_gone = Arc::new(AtomicBool::new(false));
    let cut = Arc::clone(&is_gone);
    let judge = move |packet: &Passing<'_>| {
        let is_server = [packet.source, packet.destination].contains(&SERVER);
        if is_server && cut.load(Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver }
    };
    let world = World::new(&judged(judge));
    world.pass_with(Reverse::over(Connector::new(world.proxy.clone()), "10.0.0.3"), patient());
    assert_eq!(world.get("/first").await.status(), 200);
    is_gone.store(true, Ordering::Relaxed);
    let post = async {
        let post = Request::post("http+sctp://10.0.0.2/echo").body(full("order")).unwrap();
        timed(world.client.request(post)).await
    };
    let late = async {
        // Sleeps because this one comes while the association is suspect.
        tokio::time::sleep(Duration::from_secs(8)).await;
        timed(world.get("/late")).await
    };
    let ((get, get_took), (post, post_took), (late, late_took)) =
        tokio::join!(timed(world.get("/second")), post, late);
    assert_eq!(
        (get.status().as_u16(), post.unwrap().status().as_u16(), late.status().as_u16()),
        (504, 504, 504)
    );
    assert!(
        get_took < Duration::from_secs(20) && post_took < Duration::from_secs(15),
        "{get_took:?} {post_took:?}"
    );
    assert!(late_took < Duration::from_secs(15), "{late_took:?}");
    is_gone.store(false, Ordering::Relaxed);
    let (back, took) = timed(world.get("/back")).await;
    assert_eq!(back.status(), 200);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert_eq!(world.requests.load(Ordering::Relaxed), 2, "the order was not repeated");
}

#[tokio::test(start_paused = true)]
async fn forward_reaches_servers_over_sctp() {
    let world = World::new(&network());
    world.pass(Forward::over(world.proxy.clone()));
    let mut sender = world.to_forward().await;
    for _ in 0..3 {
        let asked = Request::get("http+sctp://10.0.0.3/head").header("host", "10.0.0.3");
        let asked = asked.body(full("")).unwrap();
        let head = text(sender.send_request(asked).await.unwrap()).await;
        assert!(head.contains("via: 1.1 proxy\n") && head.contains("host: 10.0.0.3\n"), "{head}");
    }
    let nobody = Request::get("http+sctp://10.0.0.9/").header("host", "10.0.0.9").body(full("")).unwrap();
    assert_eq!(sender.send_request(nobody).await.unwrap().status(), 504);
}

/// A server that doesn't answer would otherwise hold the request for as long as SCTP tries.
#[tokio::test(start_paused = true)]
async fn connecting_over_sctp_has_a_time_limit() {
    let is_back = Arc::new(AtomicBool::new(false));
    let heard = Arc::clone(&is_back);
    let judge = move |packet: &Passing<'_>| {
        let is_lost = packet.destination == SERVER && !heard.load(Ordering::Relaxed);
        if is_lost { Fate::Drop } else { Fate::Deliver }
    };
    let world = World::new(&judged(judge));
    world.reverse();
    // The second one waits for a stream of the same association, and has as long as the first one.
    let late = async {
        // Sleeps because the requests overlap in virtual time.
        tokio::time::sleep(LIMIT / 4).await;
        timed(world.get("/")).await
    };
    let (first, second) = tokio::join!(timed(world.get("/")), late);
    for (answer, took) in [first, second] {
        assert_eq!(answer.status(), 504);
        assert_eq!(answer.headers()["proxy-status"], "proxy; error=connection_timeout");
        assert!(LIMIT / 2 <= took && took < LIMIT / 2 + Duration::from_millis(300), "{took:?}");
    }
    assert_eq!(world.requests.load(Ordering::Relaxed), 0);
    is_back.store(true, Ordering::Relaxed);
    // A new association doesn't wait for the next INIT of the one before.
    let (answer, took) = timed(world.get("/")).await;
    assert_eq!(answer.status(), 200);
    assert!(took < Duration::from_millis(300), "{took:?}");
}

/// Both associations take a round trip until the request can leave, and one until the response is here.
#[tokio::test(start_paused = true)]
async fn first_requests_leave_with_the_cookie_echo() {
    let four_round_trips = Duration::from_millis(4 * 40);
    let world = World::new(&network());
    world.reverse();
    let (answer, took) = timed(world.get("/")).await;
    assert_eq!((answer.status().as_u16(), took.as_millis()), (200, four_round_trips.as_millis()));

    let world = World::new(&network());
    world.pass(Forward::over(world.proxy.clone()));
    let asked = Request::get("http+sctp://10.0.0.3/").header("host", "10.0.0.3").body(full("")).unwrap();
    let (answer, took) = timed(async { world.to_forward().await.send_request(asked).await.unwrap() }).await;
    assert_eq!((answer.status().as_u16(), took.as_millis()), (200, four_round_trips.as_millis()));
}

/// The server may have acted on a request that left with the COOKIE ECHO.
#[tokio::test(start_paused = true)]
async fn requests_are_sent_once_after_the_cookie_echo() {
    // All that arrives is the INIT ACK.
    let packets = AtomicUsize::new(0);
    let judge = move |packet: &Passing<'_>| {
        let is_lost = packet.source == SERVER && packets.fetch_add(1, Ordering::Relaxed) > 0;
        if is_lost { Fate::Drop } else { Fate::Deliver }
    };
    let world = World::new(&judged(judge));
    world.reverse();
    let post = Request::post("http+sctp://10.0.0.2/echo").body(full("order")).unwrap();
    let (answer, took) = timed(async { world.client.request(post).await.unwrap() }).await;
    assert_eq!(answer.status(), 504);
    assert_eq!(answer.headers()["proxy-status"], "proxy; error=connection_timeout");
    assert!(took < LIMIT, "{took:?}");
    assert_eq!(world.requests.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn servers_that_refuse_associations_are_errors() {
    let world = World::new(&network());
    // A host on which nothing listens.
    world.pass(Reverse::over(Connector::new(world.proxy.clone()), "10.0.0.1"));
    let answer = world.get("/").await;
    assert_eq!(answer.status(), 502);
    assert_eq!(answer.headers()["proxy-status"], "proxy; error=connection_refused");
}

/// An in-memory network has no TCP: that of the loopback interface drops each SYN.
#[tokio::test(start_paused = true)]
async fn silent_tcp_delays_no_sctp() {
    let tcp = Silent::new().await;
    let network = network();
    let world = World::new(&network);
    world.pass(Forward::over(world.proxy.clone()));
    let server = Stack::builder().memory(&network, ["127.0.0.1".parse().unwrap()]).unwrap();
    let listener = Listener::bind(&server, tcp.address.port()).unwrap();
    let service = service_fn(|request| answer(request, Arc::default()));
    tokio::spawn(serve(listener, service, ServeOptions::default(), std::future::pending()));
    let mut sender = world.to_forward().await;
    for body in ["", "content"] {
        let asked = Request::post(format!("http://{}/collect", tcp.address)).header("host", "a");
        let answering = sender.send_request(asked.body(full(body)).unwrap());
        let (answer, took) = timed(answering).await;
        let answer = answer.unwrap();
        assert_eq!(answer.status(), 200);
        assert_eq!(text(answer).await, body);
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sctp_is_learned_again_after_clear() {
    let world = World::new(&network());
    let timeouts = dial::Timeouts { connect: LIMIT, write: LIMIT, silence: LIMIT };
    let origins = Origins::new(world.proxy.clone(), 9899, timeouts);
    let key = (SERVER.to_string(), 80);
    assert!(origins.established(&key).is_none());
    let announced = Announced::Sctp { port: 80, udp_port: None, lifetime: Duration::from_secs(60) };
    for _ in 0..2 {
        assert!(origins.wait(&key, LIMIT).await.is_some());
        origins.learn(&key, Announced::Nothing);
        assert!(origins.established(&key).is_none());
        assert!(origins.wait(&key, LIMIT).await.is_none(), "nothing is tried");
        origins.learn(&key, announced);
    }
    // The same ports once more change nothing.
    assert!(origins.wait(&key, LIMIT).await.is_some());
    origins.learn(&key, announced);
    assert!(origins.established(&key).is_some());
}
