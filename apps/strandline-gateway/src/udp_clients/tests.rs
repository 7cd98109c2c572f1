use std::cell::{Cell, RefCell};

use tokio::net::UdpSocket;

use super::*;
use crate::registry::{ConnectionInfo, Registry};

thread_local! {
    /// Number of walks over the clients of a socket.
    pub(super) static SEARCHES: Cell<u64> = const { Cell::new(0) };
}

/// What became of a client: its entry, and how its flow ended, if not by itself.
type Begun = (ConnectionGuard, tokio::task::JoinHandle<Option<CloseReason>>);

const NO_LIMIT: FlowsMax = FlowsMax { open: u32::MAX, per_sec: u32::MAX };

/// The clients of a socket, whose flows do nothing.
struct Served {
    registry: Arc<Registry>,
    begun: RefCell<Vec<Begun>>,
    lost: AtomicU64,
    limit: Arc<FlowLimit>,
    /// The limit that a reload has set.
    reloaded: Cell<Option<FlowsMax>>,
}

impl Served {
    fn new() -> Self {
        Self {
            registry: Arc::default(),
            begun: RefCell::default(),
            lost: AtomicU64::new(0),
            limit: Arc::default(),
            reloaded: Cell::default(),
        }
    }

    fn begin(&self, client: NewClient) -> Arc<Entry> {
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
                .err()
        });
        self.begun.borrow_mut().push((tracked, flow));
        entry
    }

    /// Serves a socket while `sending` runs.
    async fn run(&self, most: FlowsMax, sending: impl AsyncFn(SocketAddr)) {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let socket = ClientSocket::new(socket, address);
        let most = || self.reloaded.get().unwrap_or(most);
        tokio::select! {
            () = serve(&socket, (|| Arc::clone(&self.limit), most), &self.lost, |_| true, |client| self.begin(client)) => {}
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
        .run(NO_LIMIT, async |to| {
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
        if let Some(end) = flow.await.unwrap() {
            assert_eq!(end, CloseReason::FlowLimit, "it is no limit of connections");
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
        .run(NO_LIMIT, async |to| {
            for at in 0..CLIENTS_MAX {
                served.send(to).await;
                served.begun.borrow()[at].0.entry.add_received(1);
            }
            served.send(to).await;
        })
        .await;
    assert_eq!((served.begun.borrow().len(), served.lost.load(Ordering::Relaxed)), (CLIENTS_MAX, 1));
}

/// Datagrams that find no place are lost without a walk over all clients for each of them.
#[tokio::test(start_paused = true)]
async fn floods_of_full_sockets_cost_little() {
    let most = FlowsMax { open: 16, per_sec: u32::MAX };
    let served = Served::new();
    let searches = || SEARCHES.with(Cell::get);
    served
        .run(most, async |to| {
            for at in 0..12 {
                served.send(to).await;
                served.begun.borrow()[at].0.entry.add_received(1);
            }
            for _ in 0..100 {
                served.send(to).await;
            }
            assert_eq!((served.lost.load(Ordering::Relaxed), searches()), (100, 1));
            tokio::time::advance(KEPT).await;
            served.send(to).await;
        })
        .await;
    assert_eq!((served.begun.borrow().len(), searches()), (13, 2), "the place of a silent one");
}

/// A socket that is flooded displaces clients of its own, and leaves room for those of other sockets.
#[tokio::test]
async fn flooded_sockets_leave_room_for_others() {
    let most = FlowsMax { open: 16, per_sec: u32::MAX };
    let served = Served::new();
    served
        .run(most, async |to| {
            for _ in 0..50 {
                served.send(to).await;
            }
        })
        .await;
    assert_eq!((served.begun.borrow().len(), served.lost.load(Ordering::Relaxed)), (50, 0));
    // Those that were displaced count no longer, also while they end.
    assert!(served.limit.take_beside(0, most).is_some());
}

/// Floods of one socket leave flows of each second to other sockets, also if it has room for none of them.
#[tokio::test]
async fn flooded_sockets_leave_new_flows_to_others() {
    for open in [1000, 0] {
        let served = Served::new();
        let flood = async |to| {
            for _ in 0..50 {
                served.send(to).await;
            }
        };
        served.run(FlowsMax { open, per_sec: 8 }, flood).await;
        assert!(served.lost.load(Ordering::Relaxed) > 0, "the flood is beyond the limit");
        let begun = served.begun.borrow().len();
        served.run(FlowsMax { open: 1000, per_sec: 8 }, async |to| drop(served.send(to).await)).await;
        assert_eq!(served.begun.borrow().len(), begun + 1, "with room for {open}");
    }
}

/// After the limit was lowered, clients give way for another one: as many as it takes, or none.
#[tokio::test(start_paused = true)]
async fn no_client_gives_way_for_nothing() {
    let most = |open| FlowsMax { open, per_sec: u32::MAX };
    let served = Served::new();
    served
        .run(most(16), async |to| {
            for at in 0..12 {
                if at == 3 {
                    tokio::time::advance(KEPT).await;
                }
                served.send(to).await;
                served.begun.borrow()[at].0.entry.add_received(1);
            }
            served.reloaded.set(Some(most(8)));
            served.send(to).await;
            assert_eq!((served.begun.borrow().len(), served.lost.load(Ordering::Relaxed)), (12, 1));
        })
        .await;
    for (tracked, flow) in served.begun.take() {
        assert_eq!(flow.await.unwrap(), None, "three silent ones are not enough");
        drop(tracked);
    }
    let served = Served::new();
    served
        .run(most(16), async |to| {
            for at in 0..12 {
                served.send(to).await;
                served.begun.borrow()[at].0.entry.add_received(1);
            }
            served.reloaded.set(Some(most(8)));
            tokio::time::advance(KEPT).await;
            served.send(to).await;
        })
        .await;
    assert_eq!((served.begun.borrow().len(), served.lost.load(Ordering::Relaxed)), (13, 0));
    let mut displaced = 0;
    for (tracked, flow) in served.begun.take() {
        displaced += usize::from(flow.await.unwrap().is_some());
        drop(tracked);
    }
    assert_eq!(displaced, 7, "5 are less than three times what is left of 8");
}
