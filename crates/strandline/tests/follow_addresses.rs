//! Associations that follow the addresses of the host's interfaces (RFC 5061), in network namespaces. Needs root.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::File;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::process::Command;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use strandline::{
    Association, AssociationConfig, ExtensionsConfig, Listener, Notification, Peer, SendInfo, Stack,
    StackError,
};
use tokio::time::timeout;

const PORT: u16 = 7;
const ENCAPSULATION: &str = "0.0.0.0:9899";
/// Maximum time of a step.
const PATIENCE: Duration = Duration::from_secs(60);

fn run(command: &str) {
    let mut words = command.split_whitespace();
    let output = Command::new(words.next().unwrap()).args(words).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A client and a server, each in a network namespace, joined by two links: v1 with 10.88.1.0/24 and v2 with
/// 10.88.2.0/24.
struct Hosts(String);

impl Hosts {
    fn new(test: &str) -> Self {
        assert!(rustix::process::geteuid().is_root(), "this test makes network namespaces: run it as root");
        let hosts = Self(format!("follow-{test}-{}", std::process::id()));
        for side in ["c", "s"] {
            run(&format!("ip netns add {}-{side}", hosts.0));
            hosts.ip(side, "link set lo up");
        }
        for link in ["v1", "v2"] {
            run(&format!("ip link add {link} netns {0}-c type veth peer name {link} netns {0}-s", hosts.0));
            hosts.ip("c", &format!("link set {link} up"));
            hosts.ip("s", &format!("link set {link} up"));
        }
        hosts.ip("s", "addr add 10.88.1.2/24 dev v1");
        hosts.ip("s", "addr add 10.88.2.2/24 dev v2");
        hosts.ip("c", "addr add 10.88.1.1/24 dev v1");
        hosts
    }

    fn ip(&self, side: &str, arguments: &str) {
        run(&format!("ip -n {}-{side} {arguments}", self.0));
    }

    /// Runs async code on a runtime of its own within a namespace.
    fn enter<T: Send>(&self, side: &str, inside: impl AsyncFnOnce() -> T + Send) -> T {
        let file = File::open(format!("/var/run/netns/{}-{side}", self.0)).unwrap();
        let outcome = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                runtime.block_on(inside())
            });
            thread.join()
        });
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        for side in ["c", "s"] {
            let _ = Command::new("ip").args(["netns", "del", &format!("{}-{side}", self.0)]).status();
        }
    }
}

fn stack(follow: bool) -> Result<Stack, StackError> {
    stack_at(follow, &[])
}

fn stack_at(follow: bool, addresses: &[IpAddr]) -> Result<Stack, StackError> {
    Stack::builder()
        .association(config(true))
        .follow_addresses(follow)
        .local_addresses(addresses.iter().copied())
        .udp(ENCAPSULATION.parse().unwrap())
}

fn config(dynamic_addresses: bool) -> AssociationConfig {
    AssociationConfig {
        extensions: ExtensionsConfig { dynamic_addresses, ..ExtensionsConfig::default() },
        rto_min: Duration::from_millis(200),
        rto_initial: Duration::from_millis(200),
        rto_max: Duration::from_secs(2),
        ..AssociationConfig::default()
    }
}

/// Echoes until the end, and says when it has begun to listen. Returns the addresses of the peer at that time.
async fn echo(listens: Sender<()>) -> Vec<IpAddr> {
    let listener = Listener::bind(&stack(false).unwrap(), PORT).unwrap();
    listens.send(()).unwrap();
    let association = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let mut peers = Vec::new();
    while let Some(message) = timeout(PATIENCE * 2, association.recv()).await.unwrap().unwrap() {
        peers = association.paths().iter().map(|path| path.address.ip()).collect();
        association.send_bytes(message.data, SendInfo::default()).await.unwrap();
    }
    peers
}

/// Runs a client that follows its host's addresses, beside a server that echoes, until the client's association is shut
/// down. Returns the addresses of the client at the last message.
fn with_echo(
    hosts: &Hosts,
    client: impl AsyncFnOnce(&Association, &mut strandline::Events) + Send,
) -> Vec<IpAddr> {
    std::thread::scope(|scope| {
        let (sender, listens) = channel();
        let server = scope.spawn(|| hosts.enter("s", async || echo(sender).await));
        listens.recv().unwrap();
        hosts.enter("c", async || {
            let to = Peer::new([10, 88, 1, 2], PORT);
            let association = Association::connect(&stack(true).unwrap(), to).await.unwrap();
            client(&association, &mut association.events()).await;
            association.shutdown().await;
        });
        server.join().unwrap()
    })
}

async fn exchange(association: &Association, data: &'static str) {
    association.send(data.as_bytes(), SendInfo::default()).await.unwrap();
    let answer = timeout(PATIENCE, association.recv()).await.expect(data).unwrap();
    assert_eq!(answer.expect("it lives").data, data);
}

/// Waits for the outcomes of this number of requests.
async fn outcomes(events: &mut strandline::Events, count: usize) -> Vec<Notification> {
    let mut outcomes = Vec::new();
    while outcomes.len() < count {
        let next = timeout(PATIENCE, events.next()).await.expect("an outcome").expect("it lives");
        if matches!(next, Notification::AddressRequest { .. }) {
            outcomes.push(next);
        }
    }
    outcomes
}

/// The client's only address is removed, then its other link gets one: the association moves there.
#[test]
fn association_moves_to_another_link() {
    let hosts = Hosts::new("move");
    let peers = with_echo(&hosts, async |association, events| {
        exchange(association, "on the first link").await;
        hosts.ip("c", "addr del 10.88.1.1/24 dev v1");
        hosts.ip("c", "addr add 10.88.2.1/24 dev v2");
        hosts.ip("c", "route add 10.88.1.0/24 via 10.88.2.2");
        outcomes(events, 2).await;
        exchange(association, "on the second link").await;
    });
    assert_eq!(peers, [IpAddr::from([10, 88, 2, 1])]);
}

/// A second address is added, and the first one is deleted once it is lost. Addresses that come and go within
/// the time in which changes are gathered cause nothing.
#[test]
fn second_address_replaces_the_first_one() {
    let hosts = Hosts::new("add");
    let peers = with_echo(&hosts, async |association, events| {
        exchange(association, "one address").await;
        hosts.ip("c", "addr add 10.88.1.9/24 dev v1");
        hosts.ip("c", "addr del 10.88.1.9/24 dev v1");
        hosts.ip("c", "addr add 10.88.2.1/24 dev v2");
        let added = outcomes(events, 1).await;
        assert!(format!("{added:?}").contains("Add(10.88.2.1)"), "{added:?}");
        exchange(association, "two addresses").await;
        hosts.ip("c", "addr del 10.88.1.1/24 dev v1");
        hosts.ip("c", "route add 10.88.1.0/24 via 10.88.2.2");
        let deleted = outcomes(events, 1).await;
        assert!(format!("{deleted:?}").contains("Delete(10.88.1.1)"), "{deleted:?}");
        exchange(association, "the second address").await;
    });
    assert_eq!(peers, [IpAddr::from([10, 88, 2, 1])]);
}

/// More addresses than a packet asks for are added, the rest once the peer has answered.
#[test]
fn all_gained_addresses_are_added() {
    let hosts = Hosts::new("many");
    let peers = with_echo(&hosts, async |association, events| {
        exchange(association, "one address").await;
        for last in 11..=16 {
            hosts.ip("c", &format!("addr add 10.88.2.{last}/24 dev v2"));
        }
        let added = outcomes(events, 6).await;
        let performed = |outcome: &&Notification| format!("{outcome:?}").contains("Performed");
        assert_eq!(added.iter().filter(performed).count(), 6, "{added:?}");
        exchange(association, "seven addresses").await;
    });
    assert_eq!(peers.len(), 7);
}

/// Echoes one message of each of two associations, and waits for the end of the second one. Returns the
/// addresses of its peer.
async fn accept_two(listens: Sender<()>) -> Vec<IpAddr> {
    let listener = Listener::bind(&stack(false).unwrap(), PORT).unwrap();
    listens.send(()).unwrap();
    let mut accepted = Vec::new();
    for _ in 0..2 {
        let association = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
        let message = timeout(PATIENCE, association.recv()).await.unwrap().unwrap().unwrap();
        association.send_bytes(message.data, SendInfo::default()).await.unwrap();
        accepted.push(association);
    }
    let peers = accepted[1].paths().iter().map(|path| path.address.ip()).collect();
    assert_eq!(timeout(PATIENCE, accepted[1].recv()).await.unwrap(), Ok(None));
    peers
}

/// New associations list the addresses of now, also those that agree on no changes later.
#[test]
fn new_associations_list_what_the_host_has() {
    let hosts = Hosts::new("new");
    hosts.ip("c", "addr add 10.88.2.1/24 dev v2");
    let [first, second, third] = [[10, 88, 1, 1], [10, 88, 2, 1], [10, 88, 1, 9]].map(IpAddr::from);
    std::thread::scope(|scope| {
        let (sender, listens) = channel();
        let server = scope.spawn(|| hosts.enter("s", async || accept_two(sender).await));
        listens.recv().unwrap();
        hosts.enter("c", async || {
            let (stack, to) = (stack_at(true, &[first, second]).unwrap(), Peer::new([10, 88, 1, 2], PORT));
            let association = Association::connect(&stack, to.clone()).await.unwrap();
            let mut events = association.events();
            exchange(&association, "before").await;
            hosts.ip("c", "addr del 10.88.2.1/24 dev v2");
            hosts.ip("c", "addr add 10.88.1.9/24 dev v1");
            outcomes(&mut events, 2).await;
            let later = Association::connect_with(&stack, to, 0, config(false)).await.unwrap();
            exchange(&later, "afterwards").await;
            later.shutdown().await;
        });
        assert_eq!(server.join().unwrap(), [first, third]);
    });
}

/// An address of the server's host moves to the client's: the server takes it for the client's, although it
/// follows no addresses for its associations.
#[test]
fn address_moves_to_the_peer() {
    let hosts = Hosts::new("moved");
    let addresses = [[10, 88, 1, 1], [10, 88, 2, 2]].map(IpAddr::from);
    std::thread::scope(|scope| {
        let (sender, listens) = channel();
        let (seen, mut paths) = tokio::sync::mpsc::unbounded_channel();
        scope.spawn(|| {
            hosts.enter("s", async move || {
                let listener = Listener::bind(&stack(false).unwrap(), PORT).unwrap();
                sender.send(()).unwrap();
                loop {
                    let accepted = tokio::select! {
                        accepted = listener.accept() => accepted,
                        () = seen.closed() => break,
                    };
                    let association = accepted.unwrap();
                    let known: Vec<_> = association.paths().iter().map(|path| path.address.ip()).collect();
                    if seen.send(known).is_err() {
                        break;
                    }
                }
            });
        });
        listens.recv().unwrap();
        hosts.enter("c", async || {
            let (stack, to) = (stack_at(false, &addresses).unwrap(), Peer::new([10, 88, 1, 2], PORT));
            let mut connect = async || {
                let association = Association::connect(&stack, to.clone()).await.unwrap();
                let known = paths.recv().await.unwrap();
                association.shutdown().await;
                known
            };
            assert_eq!(connect().await, addresses[..1]);
            hosts.ip("s", "addr del 10.88.2.2/24 dev v2");
            hosts.ip("c", "addr add 10.88.2.2/24 dev v2");
            let moved = async { while connect().await != addresses {} };
            timeout(PATIENCE, moved).await.expect("the server learns that the address is no longer its own");
        });
    });
}

#[tokio::test]
async fn socket_at_one_address_follows_nothing() {
    let builder = Stack::builder().follow_addresses(true);
    let refused = builder.udp("127.0.0.1:0".parse().unwrap());
    assert!(matches!(refused, Err(StackError::Config(_))), "{refused:?}");
}
