//! Servers that fall silent, in virtual time. TCP is that of the loopback interface, served by tasks of the same runtime.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use indicatif::ProgressBar;
use strandline::Listener;
use strandline::memory::{Fate, Network};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;

use super::*;
use crate::get::Report;
use crate::get::fetch::{Fetch, Limits, Search};
use crate::get::output::Output;

const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew";
/// The time-outs of the tests.
const PATIENCE: Patience = Patience { connect: Duration::from_secs(30), stall: Duration::from_secs(60) };

/// A server on TCP, and on SCTP through a network that can be cut.
struct World {
    url: Url,
    listener: Listener,
    transports: Transports,
    is_cut: Arc<AtomicBool>,
}

impl World {
    /// Answers over TCP with a text, on each connection.
    async fn new(scheme: &str, over_tcp: &'static str) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        tokio::spawn(async move {
            loop {
                let (mut tcp, _) = tcp.accept().await.unwrap();
                read_head(&mut tcp).await;
                tcp.write_all(over_tcp.as_bytes()).await.unwrap();
                tokio::spawn(async move { tcp.read_u8().await });
            }
        });
        let is_cut = Arc::new(AtomicBool::new(false));
        let cut = Arc::clone(&is_cut);
        let network = Network::builder();
        let network = network
            .judge(move |_| if cut.load(Ordering::Relaxed) { Fate::Drop } else { Fate::Deliver })
            .build();
        let stack = |host: &str| Stack::builder().memory(&network, [host.parse().unwrap()]).unwrap();
        let listener = Listener::bind(&stack("127.0.0.1"), port).unwrap();
        let trust = Trust { authorities: PathBuf::new(), is_insecure: false };
        let url = Url::parse(&format!("{scheme}://127.0.0.1:{port}/")).unwrap();
        let transports = Transports::new(stack("10.0.0.1"), 9899, trust, PATIENCE);
        Self { url, listener, transports, is_cut }
    }

    fn cut(&self) {
        self.is_cut.store(true, Ordering::Relaxed);
    }

    async fn accept(&self) -> HttpAssociation {
        HttpAssociation::server(self.listener.accept().await.unwrap(), Settings::default())
    }

    /// Waits until requests can use SCTP, and returns the server's side.
    async fn associate(&self) -> HttpAssociation {
        let mut sctp = self.transports.origin(&self.url).sctp.subscribe();
        let http = self.accept().await;
        assert!(usable(&mut sctp).await.is_some());
        http
    }

    /// Fetches, and returns how many seconds that took.
    async fn fetch(&self) -> (Report, Option<Failure>, u64) {
        let begin = Instant::now();
        let limits = Limits {
            time: Duration::from_secs(3600),
            stall: PATIENCE.stall,
            bytes: u64::MAX,
            budget: None,
            texts: &AtomicU64::new(0),
        };
        let fetch = Fetch {
            url: &self.url,
            output: Output::Nothing,
            resume: false,
            retries: 0,
            limits,
            search: Search::Nothing,
            bar: ProgressBar::hidden(),
        };
        let (report, failure, _) = fetch.run(&self.transports).await;
        (report, failure, begin.elapsed().as_secs())
    }
}

async fn read_head(stream: &mut (impl tokio::io::AsyncRead + Unpin)) {
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
}

/// Takes a request and answers with the beginning of a response.
async fn begin(http: &HttpAssociation, response: &[u8]) -> HttpStream {
    let mut stream = http.accept().await.unwrap();
    read_head(&mut stream).await;
    stream.write_all(response).await.unwrap();
    stream
}

const HALF: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalf";

#[tokio::test(start_paused = true)]
async fn tcp_replaces_associations_that_fall_silent() {
    for response in [&b""[..], HALF] {
        let world = World::new("http", WHOLE).await;
        let http = world.associate().await;
        let serving = async {
            let stream = begin(&http, response).await;
            // What was written arrives before the cut.
            tokio::time::sleep(Duration::from_millis(100)).await;
            world.cut();
            stream
        };
        let (_stream, (report, failure, seconds)) = tokio::join!(serving, world.fetch());
        assert!(failure.is_none(), "{failure:?}");
        assert_eq!((report.transport, report.bytes), (Some("tcp"), 3));
        assert!(seconds <= 15, "{seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn slow_servers_keep_their_association() {
    let world = World::new("http", WHOLE).await;
    let http = world.associate().await;
    let serving = async {
        let mut stream = begin(&http, b"").await;
        // Longer than a silent peer has, shorter than a response may take.
        tokio::time::sleep(Duration::from_secs(50)).await;
        stream.write_all(WHOLE.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        stream
    };
    let (_stream, (report, failure, seconds)) = tokio::join!(serving, world.fetch());
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!((report.transport, seconds), (Some("sctp"), 50));
}

#[tokio::test(start_paused = true)]
async fn tcp_replaces_responses_that_stall() {
    for response in [&b""[..], HALF] {
        let world = World::new("http", WHOLE).await;
        let http = world.associate().await;
        let (_stream, (report, failure, seconds)) = tokio::join!(begin(&http, response), world.fetch());
        assert!(failure.is_none(), "{failure:?}");
        assert_eq!((report.transport, report.bytes, seconds), (Some("tcp"), 3, 60));
    }
}

#[tokio::test(start_paused = true)]
async fn stalled_responses_over_tcp_fail() {
    for response in ["", "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalf"] {
        let world = World::new("http", response).await;
        world.cut();
        let (_, failure, seconds) = world.fetch().await;
        let failure = failure.unwrap();
        assert_eq!((failure.exit_code(), seconds), (28, 60), "{failure}");
    }
}

#[tokio::test(start_paused = true)]
async fn urls_that_name_sctp_fail_in_bounded_time() {
    let world = World::new("http+sctp", WHOLE).await;
    let serving = async {
        let http = world.accept().await;
        let stream = begin(&http, HALF).await;
        tokio::time::sleep(Duration::from_millis(100)).await;
        world.cut();
        (stream, http)
    };
    let (_serving, (_, failure, seconds)) = tokio::join!(serving, world.fetch());
    assert!(matches!(failure, Some(Failure::Partial { received: 4, .. })), "{failure:?}");
    assert!(seconds <= 15, "{seconds} s");
    // Nothing answers the INIT.
    let (_, failure, seconds) = world.fetch().await;
    let failure = failure.unwrap();
    assert_eq!((failure.exit_code(), seconds), (28, 30), "{failure}");
}

#[tokio::test(start_paused = true)]
async fn alt_svc_clear_ends_the_use_of_sctp() {
    const CLEARS: &str =
        "HTTP/1.1 200 OK\r\nAlt-Svc: clear\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew";
    for (over_tcp, transport) in [(CLEARS, "tcp"), (WHOLE, "sctp")] {
        let world = World::new("http", over_tcp).await;
        // The first request begins before the association is established.
        let (first, _, _) = world.fetch().await;
        assert_eq!(first.transport, Some("tcp"));
        let accepted = tokio::time::timeout(Duration::from_secs(5), world.accept()).await;
        if transport == "sctp" {
            let http = accepted.unwrap();
            let mut sctp = world.transports.origin(&world.url).sctp.subscribe();
            assert!(usable(&mut sctp).await.is_some());
            let serving = async {
                let mut stream = begin(&http, WHOLE.as_bytes()).await;
                stream.shutdown().await.unwrap();
                stream
            };
            let (_stream, (second, _, _)) = tokio::join!(serving, world.fetch());
            assert_eq!(second.transport, Some("sctp"));
        } else {
            assert_eq!(world.fetch().await.0.transport, Some("tcp"));
            let state = world.transports.origin(&world.url).sctp.borrow().usable().is_none();
            assert!(state, "SCTP isn't tried again");
        }
    }
}
