//! Connections of HTTP/2 in virtual time, and the threads of a server.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{self, Poll};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use hyper::StatusCode;
use hyper::body::Frame;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::timeout;

use super::*;

/// Far beyond every time-out.
const LONG: Duration = Duration::from_secs(3600);

impl Lingering for DuplexStream {
    fn reset_on_close(&self) {}
}

/// A body of so many bytes, in frames of 1,000.
#[derive(Debug)]
struct Frames(usize);

impl Body for Frames {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _cx: &mut task::Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let size = self.0.min(1000);
        self.0 -= size;
        Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![7; size])))).filter(|_| size > 0))
    }

    fn is_end_stream(&self) -> bool {
        self.0 == 0
    }
}

/// Answers by path: as many bytes as it says, or never.
struct Sizes;

impl Handler for Sizes {
    type Body = Frames;

    async fn answer(self: Arc<Self>, request: Request<Incoming>, _: Sender) -> Response<Self::Body> {
        match request.uri().path().trim_start_matches('/').parse() {
            Ok(size) => Response::new(Frames(size)),
            Err(_) => std::future::pending().await,
        }
    }

    fn refused(&self, _: StatusCode, _: Version, _: Sender) {}
}

fn limits() -> Limits {
    Limits {
        connections_max: 10,
        head_timeout: Duration::from_secs(60),
        write_timeout: Duration::from_secs(20),
        idle_timeout: Duration::from_secs(100),
        drain_timeout: Duration::from_secs(30),
        head_bytes_max: 64 << 10,
    }
}

/// A client with a window for each stream, and its connection.
async fn http2(window: u32) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    http2_to(Sizes, window).await
}

async fn http2_to(
    handler: impl Handler,
    window: u32,
) -> (SendRequest<Bytes>, tokio::task::JoinHandle<Result<(), h2::Error>>) {
    let (here, there) = tokio::io::duplex(1 << 20);
    let sender = Sender { address: None, transport: Transport::Tcp, stream: None };
    let (stop, stopping) = watch::channel(());
    tokio::spawn(async move {
        let _stop = stop;
        let _ = tcp::connection(there, sender, Arc::new(handler), limits(), stopping).await;
    });
    let mut builder = h2::client::Builder::new();
    let (client, connection) = builder.initial_window_size(window).handshake(here).await.unwrap();
    (client, tokio::spawn(connection))
}

async fn get(client: &mut SendRequest<Bytes>, path: &str) -> h2::RecvStream {
    std::future::poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
    let request = Request::get(format!("http://a{path}")).body(()).unwrap();
    let response = client.send_request(request, true).unwrap().0.await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body()
}

/// Reads without making room, and returns the bytes and the end.
async fn read(mut body: h2::RecvStream) -> (usize, Option<h2::Reason>) {
    let mut bytes = 0;
    while let Some(data) = timeout(LONG, body.data()).await.expect("the stream ends") {
        match data {
            Ok(data) => bytes += data.len(),
            Err(error) => return (bytes, error.reason()),
        }
    }
    (bytes, None)
}

#[tokio::test(start_paused = true)]
async fn stalled_http2_streams_are_reset_alone() {
    for window in [0, 1000] {
        let (mut client, _connection) = http2(window).await;
        let stalled = get(&mut client, "/100000").await;
        assert_eq!(read(stalled).await, (window as usize, Some(h2::Reason::CANCEL)), "{window}");
        let small = get(&mut client, "/0").await;
        assert_eq!(read(small).await, (0, None), "the connection goes on");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_and_responses_are_counted() {
    let traffic = Arc::new(Traffic::default());
    let counted = Counted { handler: Arc::new(Sizes), traffic: Arc::clone(&traffic) };
    let (mut client, _connection) = http2_to(counted, 1000).await;
    assert_eq!(read(get(&mut client, "/10").await).await, (10, None));
    let request = Request::get("http://a/never").body(()).unwrap();
    let (response, _) = client.send_request(request, true).unwrap();
    assert_eq!(read(get(&mut client, "/20").await).await, (20, None));
    assert_eq!(traffic.responses(), [("1xx", 0), ("2xx", 2), ("3xx", 0), ("4xx", 0), ("5xx", 0)]);
    assert_eq!(traffic.in_progress(), 1, "one is never answered");
    // A client that gives its request up takes it out of the count.
    drop((response, client));
    let sender = Sender { address: None, transport: Transport::Tcp, stream: None };
    let refusing = Counted { handler: Arc::new(Sizes), traffic: Arc::clone(&traffic) };
    refusing.refused(StatusCode::BAD_REQUEST, Version::HTTP_11, sender);
    assert_eq!(traffic.responses()[3], ("4xx", 1));
    let given_up = async {
        while traffic.in_progress() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(LONG, given_up).await.expect("the request ends with its connection");
}

#[tokio::test(start_paused = true)]
async fn http2_connections_without_requests_end() {
    let (client, connection) = http2(1000).await;
    timeout(LONG, connection).await.expect("an end").unwrap().unwrap();
    drop(client);
    // One with a request in progress doesn't, as long as the client answers pings.
    let (mut client, connection) = http2(1000).await;
    let request = Request::get("http://a/never").body(()).unwrap();
    let response = client.send_request(request, true).unwrap().0;
    assert!(timeout(LONG, connection).await.is_err());
    drop(response);
}

/// The end of a response that hyper has handed over may wait in the connection for a window that stays closed.
#[tokio::test(start_paused = true)]
async fn http2_connections_end_although_a_client_takes_nothing() {
    let (mut client, connection) = http2(999).await;
    let stalled = get(&mut client, "/1000").await;
    assert!(timeout(LONG, connection).await.is_ok(), "the connection ends");
    assert_eq!(read(stalled).await.0, 999);
}

#[tokio::test(start_paused = true)]
async fn idle_http1_connections_end() {
    let (mut here, there) = tokio::io::duplex(1 << 20);
    let sender = Sender { address: None, transport: Transport::Tcp, stream: None };
    let (_stop, stopping) = watch::channel(());
    let serving = tokio::spawn(tcp::connection(there, sender, Arc::new(Sizes), limits(), stopping));
    here.write_all(b"GET /5 HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    timeout(LONG, here.read_to_end(&mut answer)).await.expect("an end").unwrap();
    assert!(answer.ends_with(b"5\r\n\x07\x07\x07\x07\x07\r\n0\r\n\r\n"), "{}", answer.escape_ascii());
    assert!(serving.await.unwrap().is_err(), "the next head didn't come in time");
}

/// A connection of HTTP/2 whose frames the test writes itself.
struct Frames2 {
    io: DuplexStream,
}

impl Frames2 {
    async fn open() -> Self {
        let (mut here, there) = tokio::io::duplex(1 << 20);
        let sender = Sender { address: None, transport: Transport::Tcp, stream: None };
        let (stop, stopping) = watch::channel(());
        tokio::spawn(async move {
            let _stop = stop;
            let _ = tcp::connection(there, sender, Arc::new(Sizes), limits(), stopping).await;
        });
        here.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut frames = Self { io: here };
        frames.write(SETTINGS, 0, 0, &[]).await;
        frames
    }

    /// Writes a frame. Returns false once the server has closed the connection.
    async fn write(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let len = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let head = [&len[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        self.io.write_all(&[&head, payload].concat()).await.is_ok()
    }

    /// Asks for a path that is never answered.
    async fn ask(&mut self, stream: u32) -> bool {
        // RFC 7541: indexed :method GET and :scheme http, literal :path and :authority.
        let block = [&[0x82, 0x86, 0x04, 6][..], b"/never", &[0x01, 1], b"a"].concat();
        self.write(HEADERS, END_STREAM | END_HEADERS, stream, &block).await
    }

    /// Reads the next frame of a type; `None` if the connection ends before. Returns its stream and its last
    /// four bytes.
    async fn next(&mut self, wanted: u8) -> Option<(u32, u32)> {
        loop {
            let mut head = [0; 9];
            timeout(LONG, self.io.read_exact(&mut head)).await.expect("a frame or the end").ok()?;
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let mut payload = vec![0; len];
            self.io.read_exact(&mut payload).await.ok()?;
            if head[3] == wanted {
                let number = |bytes: &[u8]| u32::from_be_bytes(bytes.try_into().unwrap());
                let code = if wanted == GOAWAY { &payload[4..8] } else { &payload[..4] };
                return Some((number(&head[5..]), number(code)));
            }
        }
    }
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

#[tokio::test(start_paused = true)]
async fn http2_streams_beyond_the_limit_are_refused() {
    let mut frames = Frames2::open().await;
    for number in 0..=128 {
        assert!(frames.ask(2 * number + 1).await);
    }
    let refused_stream = 7;
    assert_eq!(frames.next(RST_STREAM).await, Some((257, refused_stream)));
}

#[tokio::test(start_paused = true)]
async fn large_http2_heads_get_431() {
    let (mut client, _connection) = http2(1000).await;
    for (size, status) in [(60_000, 200), (70_000, 431)] {
        std::future::poll_fn(|cx| client.poll_ready(cx)).await.unwrap();
        let request = Request::get("http://a/0").header("x", "y".repeat(size)).body(()).unwrap();
        let response = client.send_request(request, true).unwrap().0.await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{size}");
    }
}

/// CVE-2023-44487.
#[tokio::test(start_paused = true)]
async fn floods_of_http2_resets_end_the_connection() {
    let mut frames = Frames2::open().await;
    let cancel = 8_u32.to_be_bytes();
    for number in 0..10_000 {
        let stream = 2 * number + 1;
        if !frames.ask(stream).await || !frames.write(RST_STREAM, 0, stream, &cancel).await {
            break;
        }
    }
    let enhance_your_calm = 11;
    assert_eq!(frames.next(GOAWAY).await.map(|(_, code)| code), Some(enhance_your_calm));
    assert_eq!(frames.next(GOAWAY).await, None, "the connection ends");
}

#[test]
fn alerts_are_documented_and_have_metrics() {
    let rules = include_str!("../../../../docs/strandline-http-alerts.yml");
    let page = include_str!("../../../../docs/http.md");
    let alerts: Vec<&str> = rules.split("- alert: ").skip(1).collect();
    assert_eq!(page.lines().filter(|line| line.starts_with("| Http")).count(), alerts.len());
    for alert in alerts {
        let name = alert.lines().next().unwrap();
        let severity =
            alert.split_once("        labels:\n          severity: ").unwrap_or_else(|| panic!("{name}")).1;
        let severity = severity.lines().next().unwrap();
        assert!(["critical", "warning"].contains(&severity), "{name}: {severity}");
        assert!(page.contains(&format!("| {name} | {severity} |")), "{name} isn't in the table");
        for rest in alert.split("strandline_http_").skip(1) {
            let end = rest.find(|letter: char| !letter.is_ascii_lowercase() && letter != '_').unwrap();
            assert!(page.contains(&format!("| `strandline_http_{}", &rest[..end])), "{}", &rest[..end]);
        }
    }
}
