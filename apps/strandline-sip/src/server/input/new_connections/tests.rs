use std::cell::Cell;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use rustix::event::epoll;
use rustix::io::Errno;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::LocalSet;

use super::super::epoll_set::{self, Watch};
use super::super::work::work;
use super::super::{accept, tcp};
use super::*;
use crate::server::socket::{ConnectionLimits, Udp};
use crate::service::{Advertised, Settings};
use crate::transaction::Flow;

/// Enough time for any machine.
const LONG: Duration = Duration::from_secs(60);
/// Minimum number of connections that can't be watched: more than log lines within `LONG`.
const COUNT_MIN: u32 = 10;

thread_local! {
    /// Number of attempts to watch a connection.
    static ATTEMPTS: Cell<u32> = const { Cell::new(0) };
}

fn count() -> u32 {
    ATTEMPTS.set(ATTEMPTS.get() + 1);
    ATTEMPTS.get()
}

/// Waits for so many attempts.
async fn attempts(count: u32) {
    let waiting = async {
        while ATTEMPTS.get() < count {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, waiting).await.expect("another attempt");
}

/// A server on one thread.
struct Server {
    hub: Rc<Hub>,
    address: SocketAddr,
}

impl Server {
    /// Must be called within a [`LocalSet`].
    fn start(watch: Watch) -> Self {
        let advertised = vec![
            Advertised::new(Protocol::Udp, "127.0.0.1".to_owned(), 5060),
            Advertised::new(Protocol::Tcp, "127.0.0.1".to_owned(), 5060),
        ];
        let domains = vec!["example.com".to_owned()];
        let settings = Settings { domains, advertised, ..Settings::default() };
        let ((hub, wanted), set) = (Hub::alone(settings), Set::watching_by(watch).unwrap());
        let listener = accept::listen("127.0.0.1:0".parse().unwrap(), &ConnectionLimits::default()).unwrap();
        let address = listener.get_ref().local_addr().unwrap();
        hub.transports.room.set(crate::server::socket::Room { connections: 1000, of_source: None });
        hub.transports.udp.replace(Some(Udp::bind("127.0.0.1:0".parse().unwrap()).unwrap()));
        tokio::task::spawn_local(accept::serve(listener, Rc::clone(&hub), Rc::clone(&set), Protocol::Tcp));
        tokio::task::spawn_local(epoll_set::serve(Rc::clone(&set), Rc::clone(&hub)));
        tokio::task::spawn_local(tcp::open_wanted(wanted, Rc::clone(&hub), set));
        tokio::task::spawn_local(work(Rc::clone(&hub)));
        Self { hub, address }
    }

    async fn connect(&self) -> tokio::net::TcpStream {
        tokio::net::TcpStream::connect(self.address).await.unwrap()
    }
}

fn request(method: &str, user: &str, cseq: u32, contact: &str) -> String {
    let uri =
        if method == "REGISTER" { "sip:example.com".to_owned() } else { format!("sip:{user}@example.com") };
    format!(
        "{method} {uri} SIP/2.0\r\nVia: SIP/2.0/TCP 127.0.0.1:5060;branch=z9hG4bK{user}{cseq};rport\r\n\
         Max-Forwards: 70\r\nFrom: <sip:{user}@example.com>;tag=1\r\nTo: <sip:{user}@example.com>\r\n\
         Call-ID: {method}{user}\r\nCSeq: {cseq} {method}\r\nContact: <sip:{user}@{contact}>\r\nContent-Length: 0\r\n\r\n"
    )
}

/// Sends a REGISTER and reads the response.
async fn register(stream: &mut tokio::net::TcpStream, user: &str, cseq: u32) {
    stream.write_all(request("REGISTER", user, cseq, "127.0.0.1").as_bytes()).await.unwrap();
    let mut answer = vec![0; 4096];
    let len = tokio::time::timeout(LONG, stream.read(&mut answer)).await.expect("a response").unwrap();
    let answer = String::from_utf8_lossy(&answer[..len]);
    assert!(answer.starts_with("SIP/2.0 200 OK\r\n"), "{user} {cseq}: {answer}");
}

/// A connection for which there is no watch is served, and is watched once strangers have made way.
#[tokio::test]
async fn connections_are_watched_once_that_is_possible() {
    let first_fails: Watch = |epoll, stream, mark, flags| match count() {
        1 => Err(Errno::NOSPC),
        _ => epoll::add(epoll, stream, mark, flags),
    };
    LocalSet::new()
        .run_until(async {
            let server = Server::start(first_fails);
            let mut phone = server.connect().await;
            register(&mut phone, "alice", 1).await;
            attempts(2).await;
            register(&mut phone, "alice", 2).await;
        })
        .await;
}

/// The lines of a log.
#[derive(Debug, Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Write::write(&mut *self.0.lock().unwrap(), bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Connections that can't be watched close those of strangers, and don't fill the log.
#[tokio::test]
async fn strangers_make_way_for_connections_without_watches() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone()).finish();
    let _logged = tracing::subscriber::set_default(subscriber);
    let first_succeeds: Watch = |epoll, stream, mark, flags| match count() {
        1 => epoll::add(epoll, stream, mark, flags),
        _ => Err(Errno::NOSPC),
    };
    let tasks = LocalSet::new();
    let ended = tasks.run_until(async {
        let server = Server::start(first_succeeds);
        let mut stranger = server.connect().await;
        attempts(1).await;
        let ended = tokio::task::spawn_local(async move { stranger.read(&mut [0]).await });
        for count in 1.. {
            let mut phone = server.connect().await;
            register(&mut phone, "alice", count).await;
            // It is closed after the second attempt.
            let _ = phone.read_to_end(&mut Vec::new()).await;
            if count >= COUNT_MIN && ended.is_finished() {
                assert_eq!(ended.await.unwrap().unwrap(), 0);
                return count;
            }
        }
        0
    });
    let count = tokio::time::timeout(LONG, ended).await.expect("the stranger's connection is closed");
    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let lines = text.lines().filter(|line| line.contains("adding a connection to epoll failed")).count();
    // There is a line at most every ten seconds.
    assert!(lines < COUNT_MIN as usize, "{count} connections: {text}");
}

/// A request fails at once if the connection that was opened for it can't be watched.
#[tokio::test]
async fn requests_fail_whose_connection_cannot_be_watched() {
    LocalSet::new()
        .run_until(async {
            let server = Server::start(|_, _, _, _| {
                count();
                Err(Errno::NOSPC)
            });
            let phone = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            let caller = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
            let from = Flow::to(Protocol::Udp, caller.local_addr().unwrap());
            let contact = format!("{};transport=tcp", phone.local_addr().unwrap());
            let ask = |method: &str, number: u32| {
                let text = request(method, "bob", number, &contact).replace("SIP/2.0/TCP", "SIP/2.0/UDP");
                let text = text.replace("Call-ID: ", &format!("Call-ID: {number}"));
                server.hub.with(|service, now| service.handle_message(now, from, text.as_bytes()));
            };
            let hears = async |expected: &str| {
                let mut answer = [0; 4096];
                let received = tokio::time::timeout(LONG, caller.recv(&mut answer)).await;
                let answer = String::from_utf8_lossy(&answer[..received.expect("a response").unwrap()]);
                assert!(answer.starts_with(&format!("SIP/2.0 {expected} ")), "{answer}");
            };
            ask("REGISTER", 1);
            hears("200").await;
            ask("INVITE", 2);
            while ATTEMPTS.get() == 0 {
                tokio::task::yield_now().await;
            }
            // Another one joins before the second attempt.
            ask("INVITE", 3);
            hears("480").await;
            hears("480").await;
        })
        .await;
}
