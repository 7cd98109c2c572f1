//! A far gateway that hands over again and again.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use strandline::{
    Association, AssociationConfig, Bind, DynamicStreams, ExtensionsConfig, Listener, RecvStream, SendStream,
    Stack, StreamCredit,
};
use tokio::sync::mpsc;

use crate::common::{Gateway, Home, PROGRAM, at_last, free_address, read_all, read_exactly};

/// The first messages of streams: for reports, and to say that the process hands over.
const REPORT: [u8; 4] = [1, 5, 0, 4];
const GO_AWAY: [u8; 4] = [1, 6, 0, 4];

/// Associations that a gateway leaves at the same time.
const LEFT_MAX: usize = 4;

/// A far gateway which lets its peer leave each association at once, and keeps it in use all the same.
struct Restless {
    address: SocketAddr,
    accepted: Arc<AtomicUsize>,
    /// Ends the oldest association.
    ends: mpsc::UnboundedSender<()>,
}

/// An association, with a stream that is in use.
type Held = (Association, RecvStream, SendStream);

impl Restless {
    fn start() -> Self {
        let (address, accepted) = (free_address(), Arc::<AtomicUsize>::default());
        let (ends, mut ended) = mpsc::unbounded_channel();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let count = Arc::clone(&accepted);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let extensions = ExtensionsConfig {
                    interleaving: true,
                    stream_credit: Some(StreamCredit::default()),
                    ..ExtensionsConfig::default()
                };
                let config = AssociationConfig { extensions, ..AssociationConfig::default() };
                let stack = Stack::builder().association(config).udp(address).unwrap();
                let listener = Listener::bind(&stack, Bind::port(5101)).unwrap();
                ready.send(()).unwrap();
                let mut held = std::collections::VecDeque::new();
                loop {
                    tokio::select! {
                        accepted = listener.accept() => {
                            held.push_back(drive_away(accepted.unwrap()).await);
                            count.fetch_add(1, Ordering::Relaxed);
                        }
                        end = ended.recv() => match end {
                            Some(()) => held.pop_front().unwrap().0.abort("the old process ends"),
                            None => return,
                        },
                    }
                }
            });
        });
        is_ready.recv().unwrap();
        Self { address, accepted, ends }
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::Relaxed)
    }
}

/// Uses an association, and tells its peer to set up another one.
async fn drive_away(association: Association) -> Held {
    association.set_dynamic_streams(DynamicStreams::default()).unwrap();
    let (recv, mut send) = association.open_stream().await.unwrap().into_split();
    send.send(REPORT.to_vec().into()).await.unwrap();
    let (_, mut told) = association.open_stream().await.unwrap().into_split();
    told.send(GO_AWAY.to_vec().into()).await.unwrap();
    told.finish().unwrap();
    (association, recv, send)
}

#[test]
fn a_peer_that_hands_over_often_is_left() {
    let far = Restless::start();
    let near = Gateway::start(&format!("--peer far={} --admin 127.0.0.1:0", far.address));
    at_last("the near gateway stays", || near.log().contains("the peer hands over again"));
    assert_eq!(far.accepted(), LEFT_MAX + 1);
    assert_eq!(near.status()["associations"].as_array().unwrap().len(), LEFT_MAX + 1);
    // It follows again once an association that it has left is over.
    far.ends.send(()).unwrap();
    at_last("another association", || far.accepted() == LEFT_MAX + 2);
}

/// Three old processes with connections are in the way of a restart: the oldest is ended on request.
#[test]
fn the_oldest_process_makes_room() {
    let (home, server) = (Home::new("oldest"), TcpListener::bind("127.0.0.1:0").unwrap());
    let address = server.local_addr().unwrap();
    let file = home.write("far.toml", "drain_timeout_secs = 1\n");
    let mut far = Gateway::start(&format!(
        "--listen 127.0.0.1:0 --allow {address} --admin 127.0.0.1:0 --config {file}"
    ));
    let near = Gateway::start(&format!("--peer far={} --forward 0={address}", far.listens()));
    let connect = || near.connect_to(&server);
    let mut open: Vec<_> = (0..3)
        .map(|_| {
            at_last("there is an association", || {
                far.status()["associations"].as_array().unwrap().len() == 1
            });
            // The near gateway goes on using the association with the process before until it has another one.
            let mut ends = None;
            at_last("a connection with this process", || {
                ends = Some(connect());
                far.status()["open"] == 1
            });
            let (is_done, text) = far.restart();
            assert!(is_done, "{text}");
            ends.unwrap()
        })
        .collect();
    at_last("the newest has an association", || far.status()["associations"].as_array().unwrap().len() == 1);
    let (is_done, text) = far.restart();
    assert!(!is_done && text.contains("--end-oldest"), "{text}");
    let admin = far.announced["admin"].as_str().unwrap().to_owned();
    let output = Command::new(PROGRAM).args(["restart", "--admin", &admin, "--end-oldest"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    far.note_successor();
    let (mut client, _served) = open.remove(0);
    assert_eq!(read_all(&mut client), (Vec::new(), false));
    for (mut client, mut served) in open {
        served.write_all(b"goes on").unwrap();
        assert_eq!(read_exactly(&mut client, 7), b"goes on");
    }
}
