//! A server whose association ends, and TCP in its place.

use std::path::PathBuf;
use std::sync::atomic::AtomicU64;

use indicatif::ProgressBar;
use strandline::Listener;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;
use crate::files::testing::Folder;
use crate::get::Report;
use crate::get::fetch::{Fetch, Limits, Search};
use crate::get::output::{Existing, Output};
use crate::get::tests::scripted;

const LONG: Duration = Duration::from_secs(60);

/// A server on TCP with scripted answers, and on the SCTP port with the same number.
struct Server {
    url: Url,
    listener: Option<Listener>,
    transports: Transports,
    requests: std::thread::JoinHandle<Vec<String>>,
}

fn stack() -> Stack {
    Stack::builder().udp("127.0.0.1:0".parse().unwrap()).unwrap()
}

impl Server {
    fn new(over_tcp: &'static [&'static str]) -> Self {
        let (port, requests) = scripted(over_tcp);
        let there = stack();
        let listener = Listener::bind(&there, port).unwrap();
        let udp_port = there.local_addr().unwrap().port();
        let trust = Trust { authorities: PathBuf::new(), is_insecure: false };
        let url = Url::parse(&format!("http://127.0.0.1:{port}/")).unwrap();
        Self {
            url,
            listener: Some(listener),
            transports: Transports::new(stack(), udp_port, trust, Patience { connect: LONG, stall: LONG }),
            requests,
        }
    }

    /// Waits until requests can use SCTP, and returns the server's side.
    async fn associate(&self) -> HttpAssociation {
        let mut sctp = self.transports.origin(&self.url).sctp.subscribe();
        let accepted = self.listener.as_ref().unwrap().accept().await.unwrap();
        assert!(usable(&mut sctp).await.is_some());
        HttpAssociation::server(accepted, Settings::default())
    }

    async fn fetch(&self, output: Output) -> (Report, Option<Failure>) {
        let fetch = Fetch {
            url: &self.url,
            output,
            resume: false,
            retries: 0,
            limits: Limits {
                time: LONG * 10,
                stall: LONG,
                bytes: u64::MAX,
                budget: None,
                texts: &AtomicU64::new(0),
            },
            search: Search::Nothing,
            bar: ProgressBar::hidden(),
        };
        let (report, failure, _) = fetch.run(&self.transports).await;
        (report, failure)
    }
}

/// Takes a request, and answers with the beginning of a response.
async fn answer(http: &HttpAssociation, begin: &[u8]) -> HttpStream {
    let mut stream = http.accept().await.unwrap();
    let mut request = Vec::new();
    while !request.ends_with(b"\r\n\r\n") {
        request.push(stream.read_u8().await.unwrap());
    }
    stream.write_all(begin).await.unwrap();
    stream
}

const WHOLE: &str = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\nnew";

#[tokio::test]
async fn requests_take_tcp_once_the_association_has_ended() {
    let mut server = Server::new(&[WHOLE; 3]);
    let http = server.associate().await;
    // The first is under way, and the association can't be set up again.
    let (ended, (first, failure)) = tokio::join!(
        async {
            let _stream = answer(&http, b"").await;
            server.listener.as_ref().unwrap().stop_accepting();
            http.association().abort("gone");
        },
        server.fetch(Output::Nothing)
    );
    let () = ended;
    assert!(failure.is_none(), "{failure:?}");
    assert_eq!((first.transport, first.bytes), (Some("tcp"), 3));
    drop(server.listener.take());
    for _ in 0..2 {
        let (next, failure) = server.fetch(Output::Nothing).await;
        assert!(failure.is_none(), "{failure:?}");
        assert_eq!((next.transport, next.bytes), (Some("tcp"), 3));
    }
    assert_eq!(server.requests.join().unwrap().len(), 3);
}

#[tokio::test]
async fn bodies_go_on_over_tcp() {
    const REST: &str =
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 4-6/7\r\nContent-Length: 3\r\n\r\nand";
    let known = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nETag: \"1\"\r\n\r\nhalf";
    let unknown = b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalf";
    let cases: [(&[u8], &'static [&'static str], _, _); 2] =
        [(known, &[REST], "halfand", true), (unknown, &[WHOLE], "new", false)];
    for (begin, over_tcp, text, resumes) in cases {
        let folder = Folder::new("get-fallback");
        let path = folder.path().join("file");
        let server = Server::new(over_tcp);
        let http = server.associate().await;
        let output = Output::File { path: path.clone(), existing: Existing::Kept };
        let ((), (report, failure)) = tokio::join!(
            async {
                let _stream = answer(&http, begin).await;
                while !std::fs::metadata(&path).is_ok_and(|file| file.len() == 4) {
                    // Sleeps because nothing tells when a file has grown.
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                http.association().abort("gone");
            },
            server.fetch(output)
        );
        assert!(failure.is_none(), "{failure:?}");
        assert_eq!((report.transport, std::fs::read_to_string(&path).unwrap().as_str()), (Some("tcp"), text));
        let requests = server.requests.join().unwrap();
        assert_eq!(requests[0].contains("range: bytes=4-"), resumes, "{}", requests[0]);
    }
}

#[tokio::test]
async fn associations_are_set_up_again_three_times() {
    let server = Server::new(&[]);
    for _ in 0..ASSOCIATIONS_MAX {
        let http = server.associate().await;
        let mut sctp = server.transports.origin(&server.url).sctp.subscribe();
        let over_sctp = async {
            let mut stream = answer(&http, WHOLE.as_bytes()).await;
            stream.shutdown().await.unwrap();
            stream
        };
        let (_stream, (report, failure)) = tokio::join!(over_sctp, server.fetch(Output::Nothing));
        assert!(failure.is_none(), "{failure:?}");
        assert_eq!(report.transport, Some("sctp"));
        http.association().abort("gone");
        sctp.wait_for(|state| !matches!(state, Sctp::Established(_))).await.unwrap();
    }
    let mut sctp = server.transports.origin(&server.url).sctp.subscribe();
    assert!(matches!(*sctp.wait_for(|state| !matches!(state, Sctp::Trying)).await.unwrap(), Sctp::Failed));
}

#[tokio::test]
async fn urls_that_name_sctp_take_nothing_else() {
    let mut server = Server::new(&[]);
    server.url = Url::parse(&server.url.as_str().replace("http:", "http+sctp:")).unwrap();
    let accept = async || {
        let accepted = server.listener.as_ref().unwrap().accept().await.unwrap();
        HttpAssociation::server(accepted, Settings::default())
    };
    // The first association ends before the response, the second in the middle.
    let failing = async {
        let first = accept().await;
        let _stream = answer(&first, b"").await;
        first.association().abort("gone");
        let second = accept().await;
        drop(answer(&second, b"HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\nhalf").await);
    };
    let ((), (_, failure)) = tokio::join!(failing, server.fetch(Output::Nothing));
    assert!(matches!(failure, Some(Failure::Partial { received: 4, .. })), "{failure:?}");
    drop(server.listener.take());
    let (_, failure) = server.fetch(Output::Nothing).await;
    let failure = failure.unwrap();
    assert_eq!(failure.exit_code(), 7, "{failure}");
    assert!(failure.to_string().contains("http:// takes TCP"), "{failure}");
}
