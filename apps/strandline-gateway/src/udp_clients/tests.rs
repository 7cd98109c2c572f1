use std::cell::RefCell;

use super::*;
use crate::registry::{ConnectionInfo, Registry};

/// What became of a client: its entry, and whether another one has taken its place.
type Begun = (ConnectionGuard, tokio::task::JoinHandle<bool>);

/// The clients of a socket, whose flows do nothing.
struct Served {
    registry: Arc<Registry>,
    begun: RefCell<Vec<Begun>>,
    lost: AtomicU64,
}

impl Served {
    fn new() -> Self {
        Self { registry: Arc::default(), begun: RefCell::default(), lost: AtomicU64::new(0) }
    }

    fn begin(&self, client: NewClient) -> Option<Arc<Entry>> {
        let tracked = self.registry.begin(ConnectionInfo {
            listener: "udp",
            peer: "far".into(),
            client: Some(client.address),
            destination: String::new(),
            is_near: true,
        });
        let entry = Arc::clone(&tracked.entry);
        let flow = tokio::spawn(async move {
            client
                .run(async |mut client: NewClient| {
                    while client.following.recv().await.is_some() {}
                    Ok(())
                })
                .await
                .is_err()
        });
        self.begun.borrow_mut().push((tracked, flow));
        Some(entry)
    }

    /// Serves a socket while `sending` runs.
    async fn run(&self, per_sec: u32, sending: impl AsyncFn(SocketAddr)) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        tokio::select! {
            () = serve(&socket, || per_sec, &self.lost, |_| true, |client| self.begin(client)) => {}
            () = sending(address) => {}
        }
    }

    /// Sends a datagram from an address of its own, and waits until it has a flow or is lost.
    async fn send(&self, to: SocketAddr) -> std::net::UdpSocket {
        let count = || self.begun.borrow().len() as u64 + self.lost.load(Ordering::Relaxed);
        let before = count();
        let [.., high, low] = before.to_be_bytes();
        let socket = std::net::UdpSocket::bind(SocketAddr::from(([127, 9, high, low], 0))).unwrap();
        socket.send_to(b"first", to).unwrap();
        while count() == before {
            tokio::task::yield_now().await;
        }
        socket
    }
}

/// Forged sources, which nobody answers, take no place of clients that are answered.
#[tokio::test]
async fn unanswered_clients_make_room() {
    let served = Served::new();
    served
        .run(u32::MAX, async |to| {
            let own = served.send(to).await;
            served.begun.borrow()[0].0.entry.add_received(1);
            for _ in 1..CLIENTS_MAX + 10 {
                served.send(to).await;
            }
            own.send_to(b"again", to).unwrap();
            served.send(to).await;
        })
        .await;
    assert_eq!(served.lost.load(Ordering::Relaxed), 0);
    let begun = served.begun.take();
    assert_eq!(begun.len(), CLIENTS_MAX + 11, "the first one is a single client");
    let mut displaced = Vec::new();
    for (at, (tracked, flow)) in begun.into_iter().enumerate() {
        if flow.await.unwrap() {
            displaced.push(at);
        }
        drop(tracked);
    }
    // The oldest of those that were not answered.
    assert_eq!(displaced, (1..12).collect::<Vec<_>>());
}

/// Clients that are all in use keep their places, and the datagrams of others are counted.
#[tokio::test]
async fn answered_clients_keep_their_places() {
    let served = Served::new();
    served
        .run(u32::MAX, async |to| {
            for at in 0..CLIENTS_MAX {
                served.send(to).await;
                served.begun.borrow()[at].0.entry.add_received(1);
            }
            served.send(to).await;
        })
        .await;
    assert_eq!((served.begun.borrow().len(), served.lost.load(Ordering::Relaxed)), (CLIENTS_MAX, 1));
}

/// New clients of a socket leave connections per second to others.
#[test]
fn new_clients_have_a_rate() {
    let (mut clients, begun) = (Clients::default(), now());
    let mut come = |secs| {
        let now = begun + Duration::from_secs(secs);
        (0..200).filter(|_| clients.may_come(100, now)).count()
    };
    assert_eq!([come(0), come(0), come(1), come(9)], [50, 0, 50, 50]);
}
