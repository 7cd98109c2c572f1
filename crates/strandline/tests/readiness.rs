//! Operations that don't wait, and readiness for event loops: `try_recv`, `try_recv_from`, `try_accept`, `try_send`,
//! `Readiness`.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests stop at the first error")]

use std::io::{Read, Write};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use crate::common::{SERVER, pair, pattern, server, stacks, stacks_with, udp_stack, until};
use strandline::memory::Network;
use strandline::{
    AcceptError, Association, AssociationConfig, Ended, Endpoint, Listener, NoNotification, Notification,
    Peer, Readiness, RecvError, SendInfo, Stack, TryAcceptError, TryRecvError, TrySendError,
};

/// Counts how often it is woken.
#[derive(Debug, Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

impl Count {
    fn woken(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn poll_readable(readiness: &mut Readiness, count: &Arc<Count>) -> Poll<()> {
    readiness.poll_readable(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
}

fn poll_writable(readiness: &mut Readiness, count: &Arc<Count>) -> Poll<()> {
    readiness.poll_writable(&mut Context::from_waker(&Waker::from(Arc::clone(count))))
}

#[tokio::test(start_paused = true)]
async fn try_functions_return_at_once() {
    let (here, there) = stacks();
    let listener = Listener::bind(&there, 7).unwrap();
    assert!(matches!(listener.try_accept(), Err(TryAcceptError::Empty)));
    let client = Association::connect(&here, server(7)).await.unwrap();
    let accepted = listener.try_accept().unwrap();
    assert_eq!(accepted.try_recv(), Err(TryRecvError::Empty));
    client.try_send(b"hello", SendInfo::default()).unwrap();
    until("it arrives", || accepted.status().unwrap().receive_buffered > 0).await;
    assert_eq!(accepted.try_recv().unwrap().unwrap().data, "hello");
    assert_eq!(accepted.try_recv(), Err(TryRecvError::Empty));

    listener.stop_accepting();
    assert!(matches!(listener.try_accept(), Err(TryAcceptError::Accept(AcceptError::Stopped))));
    client.shutdown().await;
    assert_eq!(accepted.try_recv(), Ok(None));
    assert!(matches!(client.try_send(b"late", SendInfo::default()), Err(TrySendError::Send(_))));
}

#[tokio::test(start_paused = true)]
async fn try_recv_from_takes_any_message() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    assert_eq!(endpoint.try_recv_from(), Err(TryRecvError::Empty));
    let mut readiness = endpoint.readiness();
    for text in ["one", "two"] {
        let client = Association::connect(&here, server(7)).await.unwrap();
        client.send(text.as_bytes(), SendInfo::default()).await.unwrap();
        readiness.readable().await;
        assert_eq!(endpoint.try_recv_from().unwrap().1.data, text);
        assert_eq!(endpoint.try_recv_from(), Err(TryRecvError::Empty));
        client.shutdown().await;
    }
    endpoint.shutdown_all().await;
    readiness.readable().await;
    let end = TryRecvError::Recv(RecvError::Ended(Ended::ShutDown));
    assert_eq!(endpoint.try_recv_from(), Err(end));
}

#[tokio::test(start_paused = true)]
async fn readable_is_a_state() {
    let (here, there) = stacks();
    let (client, server) = pair(&here, &there).await;
    let (mut readiness, count) = (server.readiness(), Arc::new(Count::default()));
    assert_eq!(poll_readable(&mut readiness, &count), Poll::Pending);
    for round in 1..=3 {
        client.send(b"one", SendInfo::default()).await.unwrap();
        client.send(b"two", SendInfo::default()).await.unwrap();
        until("it is woken", || count.woken() == round).await;
        until("both arrived", || server.status().unwrap().receive_buffered >= 6).await;
        for text in ["one", "two"] {
            // As often as asked, while there is a message.
            for _ in 0..3 {
                assert_eq!(poll_readable(&mut readiness, &count), Poll::Ready(()));
            }
            assert_eq!(server.try_recv().unwrap().unwrap().data, text);
        }
        // Without an `Empty` in between.
        assert_eq!(poll_readable(&mut readiness, &count), Poll::Pending, "{round}");
    }
    client.abort("enough");
    until("the end wakes it", || count.woken() == 4).await;
    assert_eq!(poll_readable(&mut readiness, &count), Poll::Ready(()));
    assert!(matches!(
        server.try_recv(),
        Err(TryRecvError::Recv(RecvError::Ended(Ended::PeerAborted { .. })))
    ));
}

#[tokio::test(start_paused = true)]
async fn writable_after_the_send_buffer_was_full() {
    let config = AssociationConfig { receive_buffer: Some(8192), ..AssociationConfig::default() };
    let (here, there) = stacks_with(Network::builder(), &config);
    let (client, server) = pair(&here, &there).await;
    let (mut readiness, count) = (client.readiness(), Arc::new(Count::default()));
    assert_eq!(poll_writable(&mut readiness, &count), Poll::Ready(()));
    let mut sent = 0;
    while client.try_send(&pattern(1000, 1), SendInfo::default()).is_ok() {
        sent += 1;
    }
    assert_eq!(poll_writable(&mut readiness, &count), Poll::Pending);
    let mut received = 0;
    while received < sent {
        server.recv().await.unwrap().unwrap();
        received += 1;
    }
    until("it is woken", || count.woken() > 0).await;
    assert_eq!(poll_writable(&mut readiness, &count), Poll::Ready(()));
    client.try_send(b"more", SendInfo::default()).unwrap();
    assert_eq!(server.recv().await.unwrap().unwrap().data, "more");
    server.abort("enough");
    client.closed().await;
    assert_eq!(poll_writable(&mut readiness, &count), Poll::Ready(()), "sending fails at once");
}

#[tokio::test(start_paused = true)]
async fn notifications_without_waiting() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let (mut of_endpoint, mut readiness) = (endpoint.notifications(), endpoint.readiness());
    let count = Arc::new(Count::default());
    let poll = |readiness: &mut Readiness| {
        readiness.poll_notified(&mut Context::from_waker(&Waker::from(Arc::clone(&count))))
    };
    assert_eq!((poll(&mut readiness), of_endpoint.try_next()), (Poll::Pending, Err(NoNotification)));
    let client = Association::connect(&here, server(7)).await.unwrap();
    assert_eq!(count.woken(), 1);
    assert_eq!(poll(&mut readiness), Poll::Ready(()));
    let (_, established) = of_endpoint.try_next().unwrap().unwrap();
    assert!(matches!(established, Notification::Established { incoming: true, .. }));
    assert_eq!((poll(&mut readiness), of_endpoint.try_next()), (Poll::Pending, Err(NoNotification)));

    let (mut of_client, mut readiness) = (client.events(), client.readiness());
    assert_eq!((poll(&mut readiness), of_client.try_next()), (Poll::Pending, Err(NoNotification)));
    client.abort("enough");
    assert_eq!(poll(&mut readiness), Poll::Ready(()));
    assert!(matches!(of_client.try_next(), Ok(Some(Notification::Closed { how: Ended::Aborted, .. }))));
    assert_eq!((poll(&mut readiness), of_client.try_next()), (Poll::Ready(()), Ok(None)));
}

/// A watcher that is woken and takes nothing leaves the message to those who wait for it.
#[tokio::test(start_paused = true)]
async fn watchers_take_nothing() {
    let (here, there) = stacks();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let listener = Listener::bind(&there, 8).unwrap();
    let count = Arc::new(Count::default());
    let mut watching = [endpoint.readiness(), listener.readiness()];
    assert!(watching.iter_mut().all(|readiness| poll_readable(readiness, &count).is_pending()));
    let receiver = tokio::spawn({
        let endpoint = endpoint.clone();
        async move { endpoint.recv_from().await }
    });
    let acceptor = tokio::spawn(async move { listener.accept().await });
    tokio::task::yield_now().await;
    let client = Association::connect(&here, server(7)).await.unwrap();
    client.send(b"hello", SendInfo::default()).await.unwrap();
    assert_eq!(receiver.await.unwrap().unwrap().1.data, "hello");
    let other = Association::connect(&here, server(8)).await.unwrap();
    acceptor.await.unwrap().unwrap();
    assert_eq!(count.woken(), 2);
    drop((watching, other));
}

#[tokio::test(start_paused = true)]
async fn readable_on_any_shard() {
    let network = Network::new();
    let here = Stack::builder().seed([1; 32]).memory(&network, [IpAddr::from([10, 0, 0, 1])]).unwrap();
    let there = Stack::builder().shards(4).seed([2; 32]).memory(&network, [IpAddr::from(SERVER)]).unwrap();
    let endpoint = Endpoint::bind(&there, 7).unwrap();
    let listener = Listener::bind(&there, 8).unwrap();
    let (mut messages, mut associations) = (endpoint.readiness(), listener.readiness());
    let mut accepted = Vec::new();
    for _ in 0..20 {
        let client = Association::connect(&here, server(7)).await.unwrap();
        client.send(b"hello", SendInfo::default()).await.unwrap();
        messages.readable().await;
        assert_eq!(endpoint.try_recv_from().unwrap().1.data, "hello");
        let client = Association::start(&here, server(8), 0, None).unwrap();
        associations.readable().await;
        accepted.push((listener.try_accept().unwrap(), client));
    }
    let shards = there.shard_stats().len();
    assert_eq!(shards, 4);
    listener.stop_accepting();
    associations.readable().await;
    assert!(matches!(listener.try_accept(), Err(TryAcceptError::Accept(AcceptError::Stopped))));
}

/// Wakes a thread that reads the other end.
#[derive(Debug)]
struct Bell(UnixStream);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        let _ = (&self.0).write(b"!");
    }
}

/// A thread without a runtime serves an association over UDP, while the stacks run on tokio.
#[test]
fn a_foreign_event_loop_waits_for_a_descriptor() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let (listener, client, _stacks) = runtime.block_on(async {
        let (here, there) = (udp_stack(), udp_stack());
        let listener = Listener::bind(&there, 7).unwrap();
        let peer = Peer::encapsulated(there.local_addr().unwrap(), 7);
        (listener, Association::start(&here, peer, 0, None).unwrap(), (here, there))
    });
    let (bell, mut rings) = UnixStream::pair().unwrap();
    let waker = Waker::from(Arc::new(Bell(bell)));
    let mut cx = Context::from_waker(&waker);
    let mut wait = |poll: &mut dyn FnMut(&mut Context<'_>) -> Poll<()>| {
        while poll(&mut cx).is_pending() {
            rings.read_exact(&mut [0]).unwrap();
        }
    };
    let mut acceptable = listener.readiness();
    wait(&mut |cx| acceptable.poll_readable(cx));
    let accepted = listener.try_accept().unwrap();
    let (mut there, mut here) = (accepted.readiness(), client.readiness());
    for number in 0..100_u8 {
        wait(&mut |cx| here.poll_writable(cx));
        client.try_send(&[number], SendInfo::default()).unwrap();
        wait(&mut |cx| there.poll_readable(cx));
        let message = accepted.try_recv().unwrap().unwrap();
        accepted.try_send(&message.data, SendInfo::default()).unwrap();
        wait(&mut |cx| here.poll_readable(cx));
        assert_eq!(client.try_recv().unwrap().unwrap().data[..], [number]);
    }
}
