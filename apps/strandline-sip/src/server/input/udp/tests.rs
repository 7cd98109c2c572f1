use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use strandline_ops::bind_udp;
use tokio::io::unix::AsyncFd;
use tokio::task::{JoinHandle, LocalSet};

use super::*;
use crate::service::Settings;

/// Enough time for any machine.
const LONG: Duration = Duration::from_secs(120);
/// Number of datagrams sent before one of them is handled.
const AT_ONCE: usize = 100;

/// A shard in which only the receiver runs, and its socket.
fn shard() -> (Rc<Hub>, Rc<Udp>) {
    shard_at(bind_udp("127.0.0.1:0".parse().unwrap(), false).unwrap())
}

fn shard_at(socket: UdpSocket) -> (Rc<Hub>, Rc<Udp>) {
    let (hub, _) = Hub::alone(Settings::default());
    let udp = Udp::of(socket).unwrap();
    hub.transports.udp.replace(Some(Rc::clone(&udp)));
    (hub, udp)
}

/// Sends new calls.
fn flood(from: &UdpSocket, made: &mut u64) {
    for _ in 0..AT_ONCE {
        *made += 1;
        let invite = format!(
            "INVITE sip:b@example.com SIP/2.0\r\nVia: SIP/2.0/UDP 127.0.0.1:5060;branch=z9hG4bK{made};rport\r\n\
             Max-Forwards: 70\r\nFrom: <sip:a@example.com>;tag=7\r\nTo: <sip:b@example.com>\r\n\
             Call-ID: {made}@127.0.0.1\r\nCSeq: 1 INVITE\r\nContent-Length: 0\r\n\r\n"
        );
        from.send(invite.as_bytes()).unwrap();
    }
}

/// In a flood, timers are late, so the receiver itself must close the gate.
#[test]
fn who_reads_closes_the_gate() {
    let (hub, udp) = shard();
    let from = UdpSocket::bind("127.0.0.1:0").unwrap();
    from.connect(udp.local_addr().unwrap()).unwrap();
    let mut made = 0;
    while hub.intake.let_through.get() == 1.0 {
        flood(&from, &mut made);
        while take(&udp, &hub).0 > 0 {}
        // Handle one of them.
        hub.intake.inbox(|inbox| inbox.next(hub.clock.elapsed()));
        assert!(hub.clock.elapsed() < LONG, "of {made} calls that came at once nobody was stopped");
    }
    assert!(hub.intake.let_through.get() < 0.9, "{}", hub.intake.let_through.get());
    // The kernel drops the others.
    let before = udp.stopped();
    flood(&from, &mut made);
    assert!(udp.stopped() > before);
}

/// A client of the receiver of a shard.
struct Client {
    socket: tokio::net::UdpSocket,
    receiver: JoinHandle<()>,
}

impl Client {
    /// Starts the receiver, which never ends.
    async fn start(hub: &Rc<Hub>, udp: &Rc<Udp>) -> Self {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(udp.local_addr().unwrap()).await.unwrap();
        Self { socket, receiver: tokio::task::spawn_local(serve(Rc::clone(udp), Rc::clone(hub))) }
    }

    /// Sends a STUN binding request, which the receiver itself answers.
    async fn is_answered(&mut self) {
        self.socket.send(b"\x00\x01\x00\x00\x21\x12\xa4\x42abcdefghijkl").await.unwrap();
        let mut answer = [0; 100];
        tokio::select! {
            _ = &mut self.receiver => panic!("the receiver has ended"),
            answered = tokio::time::timeout(LONG, self.socket.recv(&mut answer)) => {
                assert!(answered.expect("an answer").unwrap() > 20);
            }
        }
    }
}

/// A socket that has been polled needs no descriptor to wait for datagrams again. The test runs in a process of its
/// own, because others need descriptors.
#[test]
fn polled_sockets_need_no_further_descriptor() {
    const ALONE: &str = "STRANDLINE_SIP_TEST_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let name = "server::input::udp::tests::polled_sockets_need_no_further_descriptor";
        let mut command = Command::new(std::env::current_exe().unwrap());
        let output = command.args(["--exact", name, "--nocapture"]).env(ALONE, "1").output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && text.contains("1 passed"), "{text}{errors}");
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new().block_on(&runtime, async {
        let (hub, udp) = shard();
        assert!(tokio::time::timeout(Duration::ZERO, udp.readable()).await.is_err(), "nothing has arrived");
        udp.look_away();
        let mut client = Client::start(&hub, &udp).await;
        let limit = Rlimit { current: Some(100), ..getrlimit(Resource::Nofile) };
        setrlimit(Resource::Nofile, limit).unwrap();
        let all: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        assert!(!all.is_empty());
        for _ in 0..3 {
            client.is_answered().await;
        }
        drop(all);
        client.is_answered().await;
    });
}

/// If the kernel has no memory to watch the socket, or the user has no watch left, the socket is polled.
#[tokio::test]
async fn sockets_that_cannot_be_watched_are_polled() {
    let socket = bind_udp("127.0.0.1:0".parse().unwrap(), false).unwrap();
    // The runtime refuses to watch a descriptor that it watches already.
    #[allow(deprecated, reason = "the socket is open for longer")]
    let watched = AsyncFd::new(socket.as_raw_fd()).unwrap();
    let (hub, udp) = shard_at(socket);
    LocalSet::new()
        .run_until(async {
            let mut client = Client::start(&hub, &udp).await;
            for _ in 0..3 {
                client.is_answered().await;
            }
            drop(watched);
            client.is_answered().await;
        })
        .await;
}
