use std::net::SocketAddr;
use std::os::unix::net::UnixStream;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use strandline::{Association, Bind, Listener, Owner, Peer, Stack, UdpGroup, UdpOptions};
use strandline_ipc::receive_note;
use tokio::task::{LocalSet, yield_now};

use super::{HotRestart, PredecessorProcess, QUESTIONS_LAST};
use crate::config::{Args, Settings};
use crate::gateway::Gateway;
use crate::handover::{Inherited, Predecessor, Program};
use crate::program_sockets::Sockets;
use crate::questions::answer;
use crate::registry::Registry;

const DRAIN: Duration = Duration::from_secs(1);

fn gateway() -> Arc<Gateway> {
    #[derive(clap::Parser)]
    struct Options {
        #[command(flatten)]
        args: Args,
    }
    let args =
        <Options as clap::Parser>::try_parse_from(["gateway", "--listen", "127.0.0.1:0"]).unwrap().args;
    Arc::new(Gateway::new(Settings::read(&args).unwrap(), Registry::default()))
}

/// Joins a group, and listens for associations.
fn listen(group: &mut UdpGroup) -> (Stack, Listener) {
    let stack = Stack::builder().udp_group(group).unwrap();
    let listener = Listener::bind(&stack, Bind::port(5101)).unwrap();
    (stack, listener)
}

/// Returns the sockets of a group, as a new process gets them.
fn handed_over(group: &UdpGroup) -> Vec<(std::os::fd::OwnedFd, Owner)> {
    let descriptors = group.descriptors().map(|socket| socket.try_clone_to_owned().unwrap());
    descriptors.zip(group.owners()).collect()
}

/// Sets up an association with whichever process leads, and returns whether that is the first of two.
async fn leads(address: SocketAddr, first: &Listener, second: &Listener) -> bool {
    let stack = Stack::builder().udp(([127, 0, 0, 1], 0).into()).unwrap();
    let from = Bind::port(0);
    let association = Association::start(&stack, Peer::encapsulated(address, 5101), from, None).unwrap();
    association.established().await.unwrap();
    tokio::select! {
        accepted = first.accept() => accepted.is_ok(),
        _ = second.accept() => false,
    }
}

/// A process of before ends while a next one has begun to lead, and the process between them learns of it
/// first: it must not lead again, unless the next one fails.
#[tokio::test]
async fn one_process_leads_while_the_next_one_starts() {
    let options = UdpOptions::default();
    let mut group = UdpGroup::bind(([127, 0, 0, 1], 0).into(), &options).unwrap();
    let address = group.local_addr();
    let _before = listen(&mut group);
    group.lead().unwrap();

    let inherited = Inherited {
        listeners: Vec::new(),
        admin: None,
        group: handed_over(&group),
        predecessors: Vec::new(),
    };
    // A next process that never serves.
    let program = Program::of("sleep".into(), vec!["600".into()]);
    let between = Rc::new(HotRestart::new(program, Some(inherited)));
    let (_stack, own) = between.open_group(address, |group| Ok(listen(group))).unwrap();
    let gateway = gateway();
    between.group.borrow().as_ref().unwrap().lead().unwrap();
    let (before, other) = UnixStream::pair().unwrap();
    let tasks = LocalSet::new();
    tasks
        .run_until(async {
            between
                .follow(
                    Predecessor { pid: 1, generation: Some(0), drain_timeout_secs: None },
                    other,
                    &gateway,
                )
                .unwrap();
            let handing_over = {
                let between = Rc::clone(&between);
                tokio::task::spawn_local(
                    async move { between.hand_over(Vec::new(), Vec::new(), DRAIN).await },
                )
            };
            while !between.hands_over.get() {
                yield_now().await;
            }
            let members = handed_over(between.group.borrow().as_ref().unwrap());
            let mut next = UdpGroup::adopt(members, &options).unwrap();
            let (_stack, new) = listen(&mut next);
            next.lead().unwrap();
            assert!(leads(address, &new, &own).await);
            drop(before);
            while between.status().as_array().is_some_and(|predecessors| !predecessors.is_empty()) {
                yield_now().await;
            }
            assert!(leads(address, &new, &own).await, "the process between leads again");
            // The next one is ended, since this one is told to end.
            assert!(between.end_next().await.is_none());
            assert!(handing_over.await.unwrap().is_err());
            assert!(leads(address, &own, &new).await, "nobody leads");
        })
        .await;
}

/// A program's question that came just before the successor served has its answer. The stream of the predecessor, which
/// tells it when it is alone, stays open no longer.
#[tokio::test(start_paused = true)]
async fn predecessors_are_asked_a_while_longer() {
    let (gateway, sockets) = (gateway(), Arc::new(Sockets::default()));
    gateway.questions.begin();
    let key = ([127, 0, 0, 1].into(), 7);
    let _entry = sockets.begin(key, "192.0.2.7:443".parse().unwrap());
    let (before, own) = UnixStream::pair().unwrap();
    before.set_nonblocking(true).unwrap();
    let tasks = LocalSet::new();
    tasks
        .run_until(async {
            let predecessor = Predecessor { pid: 1, generation: None, drain_timeout_secs: None };
            PredecessorProcess::follow(predecessor, own, &gateway, || {}).unwrap().leave();
            yield_now().await;
            let answering = tokio::task::spawn_local({
                let (before, sockets) = (before.try_clone().unwrap(), Arc::clone(&sockets));
                async move {
                    let (_, socket) = receive_note(&before).unwrap().unwrap();
                    answer(socket.unwrap(), &sockets).await
                }
            });
            assert_eq!(gateway.questions.query(key).await, Some(sockets.answer(key)));
            answering.await.unwrap().unwrap();
            // Sleeps because the time is virtual.
            tokio::time::sleep(2 * QUESTIONS_LAST).await;
            assert!(receive_note(&before).unwrap().is_none(), "the stream is still open");
        })
        .await;
}

/// The oldest process has as much time as it has said itself, whatever the time of this one is.
#[tokio::test(start_paused = true)]
async fn the_oldest_process_drains_by_its_own_time() {
    let newest = HotRestart::new(Program::of("true".into(), Vec::new()), None);
    let (before, other) = UnixStream::pair().unwrap();
    let told = newest.list(Vec::new(), &mut Vec::new(), DRAIN).unwrap();
    assert_eq!(told.predecessors[0].drain_timeout_secs, Some(DRAIN.as_secs()));
    let oldest = Predecessor { pid: 1, generation: None, drain_timeout_secs: Some(100) };
    let ended = async {
        newest.follow(oldest, other, &gateway()).unwrap();
        let draining = async {
            // Sleeps because time is virtual: it passes at once.
            tokio::time::sleep(Duration::from_secs(100)).await;
            drop(before);
        };
        tokio::join!(newest.end_oldest(DRAIN), draining).0
    };
    LocalSet::new().run_until(ended).await.unwrap();
}
