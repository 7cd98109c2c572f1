//! Tests of overload control between two servers (RFC 7339): one is overloaded and reports it, the other
//! reduces its rate.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::sip_server::Server;
use crate::waiting::{at_last, found_at_last};

fn request(method: &str, uri: &str, name: &str, at: SocketAddr) -> String {
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/UDP {at};branch=z9hG4bK{name};rport\r\nMax-Forwards: 70\r\n\
         From: <sip:alice@example.org>;tag=1\r\nTo: <{uri}>\r\nCall-ID: {name}\r\nCSeq: 1 {method}\r\n\
         Contact: <sip:alice@{at}>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Sends more than the server can handle until dropped.
struct Flood {
    over: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Flood {
    fn start(server: SocketAddr) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
            let at = socket.local_addr().unwrap();
            let mut count = 0;
            while !ends.load(Ordering::Relaxed) {
                count += 1;
                let text = request("INVITE", "sip:nobody@example.com", &format!("f{count}"), at);
                let _ = socket.send_to(text.as_bytes(), server);
            }
        });
        Self { over, thread: Some(thread) }
    }
}

impl Drop for Flood {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(std::thread::JoinHandle::join);
    }
}

#[test]
fn neighbour_reporting_overload_gets_less() {
    let config = std::env::temp_dir().join(format!("strandline-sip-neighbours-{}.toml", std::process::id()));
    std::fs::write(&config, "[overload]\nwait_ms_max = 10\n").unwrap();
    let busy = Server::start(&["--metrics", "127.0.0.1:0", "--config", config.to_str().unwrap()]);
    let upstream = Server::start(&["--metrics", "127.0.0.1:0", "--open-relay"]);
    let alice = UdpSocket::bind("127.0.0.1:0").unwrap();
    alice.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    // Over TCP, which the flood doesn't use.
    let to = format!("sip:nobody@{};transport=tcp", busy.address("tcp"));
    let mut count = 0;
    let mut answer = || {
        count += 1;
        let text = request("MESSAGE", &to, &format!("m{count}"), alice.local_addr().unwrap());
        alice.send_to(text.as_bytes(), upstream.address("udp")).unwrap();
        let mut room = [0; 4096];
        alice.recv(&mut room).ok().map(|len| String::from_utf8(room[..len].to_vec()).unwrap())
    };
    at_last("somebody answers", || answer().is_some_and(|answer| answer.starts_with("SIP/2.0 404")));
    // Both have negotiated overload control, and there is nothing to control yet, unless a busy host has let the first
    // requests wait.
    let is_zero = |page: &str, metric: &str| page.contains(&format!("strandline_sip_{metric} 0\n"));
    let withheld = "withheld_total{reason=\"overload\"}";
    let has_refused = !is_zero(&busy.metrics("/metrics"), "refused_total");
    assert!(has_refused || is_zero(&upstream.metrics("/metrics"), withheld));
    let heeded = |page: &str| !page.contains("strandline_sip_neighbour_limits_total 0\n");
    assert!(heeded(&upstream.metrics("/metrics")));
    let flood = Flood::start(busy.address("udp"));
    // A 503 without Retry-After comes from the upstream server itself: it converts another server's 503 to 500.
    let withheld = found_at_last("not all is sent on", || {
        let answer = answer().unwrap_or_default();
        if answer.starts_with("SIP/2.0 503") { Ok(answer) } else { Err(busy.metrics("/metrics")) }
    });
    assert!(!withheld.contains("Retry-After"), "{withheld}");
    let page = upstream.metrics("/metrics");
    assert!(!page.contains("strandline_sip_withheld_total{reason=\"overload\"} 0\n"), "{page}");
    drop(flood);
    // After the overload, all requests are forwarded again.
    at_last("it is limited no more", || {
        answer();
        !upstream.metrics("/metrics").contains("strandline_sip_neighbours_limited 1\n")
    });
    let _ = std::fs::remove_file(&config);
}
