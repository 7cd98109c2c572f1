//! Load for servers on loopback sockets.

use std::fs;
use std::net::UdpSocket;

use bytes::Bytes;
use clap::Parser;
use futures_util::{StreamExt, stream};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;
use strandline::Listener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;
use crate::file_server::testing::Running;
use crate::server::{ServeOptions, serve};

#[derive(Debug, Parser)]
struct Program {
    #[command(flatten)]
    args: Args,
}

/// Runs a load, and returns the report as JSON and the exit code.
async fn load(arguments: &[&str]) -> (Value, u8) {
    let args = Program::try_parse_from(["load"].iter().chain(arguments)).unwrap().args;
    let plan = args.plan().unwrap();
    let (report, is_whole) = measure(&args, &plan, std::future::pending()).await.unwrap();
    assert!(is_whole);
    let text = report.to_string();
    assert!(text.starts_with("Total: connections "), "{text}");
    let leaves_out = format!("it leaves out {} requests that failed\n", report.failed_requests);
    assert_eq!(text.contains(&leaves_out), report.failed_requests > 0 && report.replies > 0, "{text}");
    (serde_json::to_value(&report).unwrap(), report.exit_code())
}

/// A server, and the ways to it.
struct Site {
    server: Running,
    udp: String,
}

/// HTTP/1.1 and HTTP/2 over TCP, and SCTP.
const WAYS: [&str; 3] = ["1.1", "2", "sctp"];

impl Site {
    async fn start() -> Self {
        let server = Running::start(&[]).await;
        fs::write(server.folder().join("site/kilobyte"), vec![7; 1024]).unwrap();
        let udp = server.udp_port().to_string();
        Self { server, udp }
    }

    fn url(&self, way: &str, path: &str) -> String {
        match way {
            "sctp" => format!("http+sctp://127.0.0.1:{}/{path}", self.server.sctp_port()),
            _ => format!("http://127.0.0.1:{}/{path}", self.server.tcp_port()),
        }
    }

    async fn load(&self, way: &str, path: &str, more: &[&str]) -> (Value, u8) {
        let url = self.url(way, path);
        let mut arguments = vec![url.as_str(), "--encapsulation-port", self.udp.as_str()];
        if way == "2" {
            arguments.push("--http2");
        }
        arguments.extend(more);
        load(&arguments).await
    }
}

fn number(report: &Value, pointer: &str) -> f64 {
    report.pointer(pointer).and_then(Value::as_f64).unwrap_or_else(|| panic!("{pointer} in {report:#}"))
}

#[tokio::test]
async fn bursts_take_streams_of_one_association() {
    let site = Site::start().await;
    let arguments = ["--sessions", "5", "--rate", "100", "--burst", "10"];
    for way in WAYS {
        let (report, code) = site.load(way, "kilobyte", &arguments).await;
        assert_eq!(code, 0, "{way}: {report:#}");
        for (pointer, value) in [
            ("/planned", 50.0),
            ("/requests", 50.0),
            ("/replies", 50.0),
            ("/status/2xx", 50.0),
            ("/errors_total", 0.0),
            ("/connections/attempted", 5.0),
            ("/connections/established", 5.0),
            ("/connections/replies_each", 10.0),
            ("/sessions/completed", 5.0),
            ("/sessions/lengths/10", 5.0),
            ("/content_bytes_received", 51_200.0),
            ("/connect_ms/count", 5.0),
            ("/latency_ms/count", 50.0),
        ] {
            assert_eq!(number(&report, pointer), value, "{way} {pointer}");
        }
        // Sessions begin 10 ms after one another.
        assert!(number(&report, "/seconds") >= 0.04, "{way}: {report:#}");
        let kbytes = (number(&report, "/bytes_sent") + number(&report, "/bytes_received")) / 1024.0;
        let net_io = number(&report, "/net_io_kbytes_per_s") * number(&report, "/seconds");
        assert!((kbytes - net_io).abs() < 1e-6, "{way}: {report:#}");
        assert!(number(&report, "/slowest_ms") <= number(&report, "/seconds") * 1e3);
    }
    let (report, _) = site.load("sctp", "kilobyte", &arguments).await;
    assert_eq!(report["streams"], 100);
    assert_eq!(report["reply_rate"]["samples"], 0, "the test is shorter than a sample");
}

#[tokio::test]
async fn received_bytes_are_those_on_the_wire() {
    let site = Site::start().await;
    let mut stream = tokio::net::TcpStream::connect(("127.0.0.1", site.server.tcp_port())).await.unwrap();
    let request = b"GET /kilobyte HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut raw = Vec::new();
    stream.read_to_end(&mut raw).await.unwrap();
    let (report, _) = site.load("1.1", "kilobyte", &["--no-keep-alive"]).await;
    assert_eq!(number(&report, "/bytes_received"), raw.len() as f64);
}

#[tokio::test]
async fn sessions_pause_between_bursts() {
    let site = Site::start().await;
    let arguments = ["--burst", "1,3", "--session-requests", "7", "--think", "0.05", "--completions"];
    for way in WAYS {
        let (report, code) = site.load(way, "kilobyte", &arguments).await;
        assert_eq!((code, number(&report, "/replies")), (0, 7.0), "{way}: {report:#}");
        assert_eq!(number(&report, "/connections/attempted"), 1.0, "{way}");
        let completions = report["completions"].as_array().unwrap();
        let due = |number: u64| {
            let one = completions.iter().find(|completion| completion["request"] == number).unwrap();
            assert_eq!(
                (&one["session"], &one["status"], &one["bytes"]),
                (&0.into(), &200.into(), &1024.into())
            );
            one["due_ms"].as_f64().unwrap()
        };
        let bursts = [due(0), due(1), due(4)];
        assert_eq!(bursts, [due(0), due(3), due(6)], "{way}: requests of a burst are due at once");
        assert!(bursts[1] - bursts[0] >= 50.0 && bursts[2] - bursts[1] >= 50.0, "{way}: {bursts:?}");
    }
}

#[tokio::test]
async fn loops_share_their_connections() {
    let site = Site::start().await;
    for way in WAYS {
        let closed = ["--concurrency", "8", "--requests", "200", "--connections", "2"];
        let (report, code) = site.load(way, "kilobyte", &closed).await;
        assert_eq!((code, number(&report, "/replies")), (0, 200.0), "{way}: {report:#}");
        assert_eq!(number(&report, "/connections/attempted"), 2.0, "{way}");
        assert_eq!((&report["kind"], &report["sessions"]), (&"closed".into(), &Value::Null));
        let open = ["--rate", "2000", "--requests", "200", "--schedule", "poisson", "--connections", "2"];
        let (report, code) = site.load(way, "kilobyte", &open).await;
        assert_eq!((code, number(&report, "/replies")), (0, 200.0), "{way}: {report:#}");
        assert!(number(&report, "/connections/attempted") <= 2.0, "{way}");
    }
    let (report, code) = site.load("sctp", "", &["--concurrency", "2", "--duration", "0.2"]).await;
    assert_eq!((code, &report["planned"]), (0, &Value::Null));
    assert!(number(&report, "/seconds") >= 0.19, "{report:#}");
}

#[tokio::test]
async fn connections_end_with_requests_unless_kept() {
    let site = Site::start().await;
    let arguments = ["--concurrency", "4", "--requests", "40", "--no-keep-alive"];
    let (report, code) = site.load("1.1", "kilobyte", &arguments).await;
    assert_eq!((code, number(&report, "/connections/attempted")), (0, 40.0));
    assert_eq!(number(&report, "/connections/replies_each"), 1.0);
    // Streams are used again, of one association.
    let arguments = ["--concurrency", "4", "--requests", "40", "--no-keep-alive", "--streams", "2"];
    let (report, code) = site.load("sctp", "kilobyte", &arguments).await;
    assert_eq!((code, number(&report, "/connections/attempted")), (0, 1.0), "{report:#}");
}

#[tokio::test]
async fn error_responses_are_replies_and_no_success() {
    let site = Site::start().await;
    for way in WAYS {
        let (report, code) = site.load(way, "missing", &["--sessions", "3"]).await;
        assert_eq!((code, number(&report, "/status/4xx")), (1, 3.0), "{way}: {report:#}");
        assert_eq!((number(&report, "/replies"), number(&report, "/errors_total")), (3.0, 0.0), "{way}");
    }
    let (one, two) = (site.url("1.1", ""), site.url("1.1", "missing"));
    let (report, code) = load(&[&one, &two, "--session-requests", "4"]).await;
    assert_eq!((code, number(&report, "/status/2xx"), number(&report, "/status/4xx")), (3, 2.0, 2.0));
}

#[tokio::test]
async fn refused_connections_count_once_each() {
    let site = Site::start().await;
    let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let udp = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let arguments = ["--sessions", "2", "--burst", "3"];
    let cases = [
        vec![format!("http://{tcp}/")],
        vec![format!("http://{tcp}/"), "--http2".to_owned()],
        // An SCTP port without a listener, and a UDP port without SCTP.
        vec!["http+sctp://127.0.0.1:9/".to_owned(), "--encapsulation-port".to_owned(), site.udp.clone()],
        vec!["http+sctp://127.0.0.1:9/".to_owned(), "--encapsulation-port".to_owned(), udp],
    ];
    for case in &cases {
        let all: Vec<&str> = case.iter().map(String::as_str).chain(arguments).collect();
        let (report, code) = load(&all).await;
        assert_eq!((code, number(&report, "/sessions/failed")), (1, 2.0), "{case:?}: {report:#}");
        assert_eq!(number(&report, "/errors/connrefused"), 2.0, "{case:?}: {report:#}");
        assert_eq!(number(&report, "/errors_total"), 2.0, "{case:?}: {report:#}");
        assert_eq!((number(&report, "/requests"), &report["latency_ms"]), (0.0, &Value::Null), "{case:?}");
        assert_eq!(number(&report, "/connections/established"), 0.0, "{case:?}");
    }
}

/// Serves a service on TCP connections that it gets, one after another.
async fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn silent_servers_cause_client_time_outs() {
    let (listener, url) = listen().await;
    let silent = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            held.push(stream);
        }
    });
    let arguments = ["--sessions", "2", "--timeout", "0.1"];
    for more in [&[][..], &["--http2"]] {
        let all: Vec<&str> =
            [url.as_str()].into_iter().chain(arguments).chain(more.iter().copied()).collect();
        let (report, code) = load(&all).await;
        assert_eq!((code, number(&report, "/errors/client-timo")), (1, 2.0), "{report:#}");
        assert_eq!((number(&report, "/requests"), number(&report, "/errors_total")), (2.0, 2.0));
        assert!(number(&report, "/sessions/failtime_ms/min") >= 99.0, "{report:#}");
    }
    silent.abort();
    // Nobody answers the INIT.
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let udp = socket.local_addr().unwrap().port().to_string();
    let mut all = vec!["http+sctp://127.0.0.1:80/", "--encapsulation-port", &udp, "--burst", "3"];
    all.extend(arguments);
    let (report, code) = load(&all).await;
    assert_eq!((code, number(&report, "/errors/client-timo")), (1, 2.0), "{report:#}");
    assert_eq!((number(&report, "/requests"), number(&report, "/errors_total")), (0.0, 2.0));
}

type Body = BoxBody<Bytes, std::io::Error>;

/// A body that fails after its first part has been sent.
fn failing() -> Body {
    let first = std::future::ready(Ok(Frame::data(Bytes::from_static(b"half"))));
    let second = async {
        tokio::task::yield_now().await;
        Err(std::io::Error::other("the disk is gone"))
    };
    BodyExt::boxed(StreamBody::new(stream::once(first).chain(stream::once(second))))
}

/// Answers `/never` not at all, `/fail` with a body that breaks off, and everything else.
async fn answer(request: Request<Incoming>) -> Result<Response<Body>, std::io::Error> {
    let body = match request.uri().path() {
        "/never" => std::future::pending().await,
        "/fail" => failing(),
        _ => BodyExt::boxed(Full::from("done").map_err(|never| match never {})),
    };
    Ok(Response::new(body))
}

#[tokio::test]
async fn failing_streams_leave_the_others_alone() {
    let stack = Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap();
    let udp = stack.local_addr().unwrap().port().to_string();
    let listener = Listener::bind(&stack, 8080).unwrap();
    let serving =
        tokio::spawn(serve(listener, service_fn(answer), ServeOptions::default(), std::future::pending()));
    let url = |path: &str| format!("http+sctp://127.0.0.1:8080/{path}");
    let (good, never, fail) = (url(""), url("never"), url("fail"));
    let arguments =
        [&good, &never, &fail, &good, "--burst", "4", "--timeout", "0.3", "--encapsulation-port", &udp];
    let (report, code) = load(&arguments.map(|argument| argument as &str)).await;
    assert_eq!((code, number(&report, "/replies")), (3, 2.0), "{report:#}");
    for class in ["client-timo", "connreset"] {
        assert_eq!(number(&report, &format!("/errors/{class}")), 1.0, "{report:#}");
    }
    assert_eq!((number(&report, "/failed_requests"), number(&report, "/latency_ms/count")), (2.0, 2.0));
    assert_eq!(number(&report, "/partial_bytes_received"), 4.0);
    assert_eq!(number(&report, "/connections/established"), 1.0);
    assert_eq!(number(&report, "/sessions/lengths/2"), 1.0);
    serving.abort();
}

#[tokio::test]
async fn broken_connections_count_as_reset() {
    let (listener, url) = listen().await;
    let broken = tokio::spawn(async move {
        // One connection ends within the body, the next is reset before the head, the third within the body.
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf";
        for turn in 0.. {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 1024]).await;
            if turn != 1 {
                stream.write_all(head).await.unwrap();
            }
            if turn > 0 {
                set_socket_linger(&stream, Some(Duration::ZERO)).unwrap();
            }
        }
    });
    let (report, code) = load(&[&url, "--concurrency", "1", "--requests", "3"]).await;
    assert_eq!((code, number(&report, "/errors/connreset")), (1, 3.0), "{report:#}");
    assert_eq!((number(&report, "/requests"), number(&report, "/replies")), (3.0, 0.0));
    assert_eq!(number(&report, "/bytes_received"), 0.0, "partial replies don't count");
    broken.abort();
}

#[tokio::test]
async fn latencies_count_from_the_schedule() {
    // A server that answers one request at a time, each after 20 ms, on one connection.
    let (listener, url) = listen().await;
    let slow = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut ticks = tokio::time::interval(Duration::from_millis(20));
        loop {
            let _ = stream.read(&mut [0; 1024]).await;
            ticks.tick().await;
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
        }
    });
    let (report, code) = load(&[&url, "--rate", "1000", "--requests", "11", "--connections", "1"]).await;
    assert_eq!((code, number(&report, "/replies")), (0, 11.0), "{report:#}");
    // The last one was due after 10 ms, and answered after ten ticks at least.
    assert!(number(&report, "/slowest_ms") >= 189.0, "{report:#}");
    assert!(number(&report, "/latency_ms/max") >= 5.0 * number(&report, "/response_ms/mean"), "{report:#}");
    slow.abort();
}

#[tokio::test]
async fn interrupted_tests_report_what_was_done() {
    let site = Site::start().await;
    let url = site.url("1.1", "kilobyte");
    let args =
        Program::try_parse_from(["load", &url, "--concurrency", "1", "--duration", "1000"]).unwrap().args;
    let plan = args.plan().unwrap();
    let log = site.server.folder().join("log");
    // Interrupted once the server has answered.
    let answered = async {
        while fs::metadata(&log).map_or(0, |log| log.len()) == 0 {
            tokio::task::yield_now().await;
        }
    };
    let (report, is_whole) = measure(&args, &plan, answered).await.unwrap();
    assert!(!is_whole && report.requests > 0, "{report}");
    assert!(report.seconds < 1000.0);
}
