//! Servers that fall silent, in virtual time. TCP is that of the loopback interface, served by tasks of the
//! same runtime.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hyper::header::ALT_SVC;
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
use crate::happy_eyeballs::testing::Silent;

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
        Self::scripted(scheme, Vec::leak(vec![over_tcp])).await
    }

    /// Answers over TCP with texts in turn, on a connection each; the last one repeats. `PORT` in them is the port.
    async fn scripted(scheme: &str, over_tcp: &'static [&'static str]) -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = tcp.local_addr().unwrap().port();
        tokio::spawn(async move {
            let last = over_tcp.last().unwrap();
            for text in over_tcp.iter().chain(std::iter::repeat(last)) {
                let (mut tcp, _) = tcp.accept().await.unwrap();
                read_head(&mut tcp).await;
                let text = text.replace("PORT", &port.to_string());
                tcp.write_all(text.as_bytes()).await.unwrap();
                tokio::spawn(async move { tcp.read_u8().await });
            }
        });
        Self::beside_tcp(scheme, port)
    }

    /// Listens on SCTP alone, beside whatever is at a TCP port.
    fn beside_tcp(scheme: &str, port: u16) -> Self {
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

    /// Waits for an association after others that may have been given up.
    async fn associate_anew(&self) -> HttpAssociation {
        loop {
            let http = tokio::time::timeout(Duration::from_secs(60), self.associate()).await;
            let http = http.expect("an association");
            if http.is_usable() {
                return http;
            }
        }
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
async fn silent_tcp_delays_no_sctp() {
    let tcp = Silent::new().await;
    let world = World::beside_tcp("http", tcp.address.port());
    let serving = async {
        let http = world.accept().await;
        let mut stream = begin(&http, WHOLE.as_bytes()).await;
        stream.shutdown().await.unwrap();
        (http, stream)
    };
    let (_serving, (report, failure, seconds)) = tokio::join!(serving, world.fetch());
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!((report.transport, report.bytes, seconds), (Some("sctp"), 3, 0));
}

/// A body goes on over the next association if TCP is silent.
#[tokio::test(start_paused = true)]
async fn the_next_association_replaces_silent_tcp() {
    let tcp = Silent::new().await;
    let world = World::beside_tcp("http", tcp.address.port());
    let serving = async {
        let first = world.accept().await;
        let half = begin(&first, HALF).await;
        // What was written arrives before the end.
        tokio::time::sleep(Duration::from_millis(100)).await;
        first.association().abort("gone");
        let second = world.accept().await;
        let mut stream = begin(&second, WHOLE.as_bytes()).await;
        stream.shutdown().await.unwrap();
        (half, second, stream)
    };
    let (_serving, (report, failure, seconds)) = tokio::join!(serving, world.fetch());
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!((report.transport, report.bytes, seconds), (Some("sctp"), 3, 0));
}

const CLEARS: &str = "HTTP/1.1 200 OK\r\nAlt-Svc: clear\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew";

#[tokio::test(start_paused = true)]
async fn sctp_is_learned_again_after_clear() {
    const ANNOUNCES: &str = "HTTP/1.1 200 OK\r\nAlt-Svc: h1-sctp=\":PORT\"; udp=9899\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew";
    let world = World::scripted("http", &[CLEARS, ANNOUNCES, ANNOUNCES]).await;
    for _ in 0..2 {
        assert_eq!(world.fetch().await.0.transport, Some("tcp"));
    }
    let http = world.associate_anew().await;
    // What is taken back meanwhile doesn't end the response.
    let clearing = async {
        let mut stream = begin(&http, HALF).await;
        let clear = HeaderMap::from_iter([(ALT_SVC, "clear".parse().unwrap())]);
        world.transports.learn(&world.transports.origin(&world.url), &world.url, &clear);
        stream.write_all(b"end").await.unwrap();
        stream.shutdown().await.unwrap();
        stream
    };
    let (_stream, (report, failure, _)) = tokio::join!(clearing, world.fetch());
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!((report.transport, report.bytes), (Some("sctp"), 7));
    assert_eq!(world.fetch().await.0.transport, Some("tcp"));
    world.associate_anew().await;
}

#[tokio::test(start_paused = true)]
async fn alt_svc_clear_ends_the_use_of_sctp() {
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
