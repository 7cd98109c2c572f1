#![allow(clippy::unwrap_used, reason = "tests stop at the first error")]

use clap::Parser;
use tokio::net::TcpStream;

use super::super::protocol::tests::parameters;
use super::*;

#[derive(Debug, Parser)]
struct Command {
    #[command(flatten)]
    args: ServerArgs,
}

/// A server that is reachable only through this value. The clock is tokio's, which can be paused.
struct Hosted {
    server: Arc<Server>,
    serving: JoinSet<()>,
    listener: TcpListener,
}

impl Hosted {
    async fn new() -> Self {
        let args = Command::parse_from(["server", "--quiet"]).args;
        let server = Arc::new(Server::new(
            args,
            vec![tokio::runtime::Handle::current()],
            Vec::new(),
            watch::channel(false).1,
        ));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self { server, serving: JoinSet::new(), listener }
    }

    /// Returns a connected client.
    async fn client(&mut self) -> Channel {
        let client = TcpStream::connect(self.listener.local_addr().unwrap()).await.unwrap();
        let (stream, peer) = self.listener.accept().await.unwrap();
        self.server.welcome(Carrier::Tcp(stream), Some(peer), &mut self.serving);
        Channel::new(Carrier::Tcp(client))
    }

    /// Asserts that the server has no state of any client left.
    async fn is_clean(&mut self) {
        while let Some(ended) = self.serving.join_next().await {
            ended.unwrap();
        }
        assert_eq!(self.server.tests.available_permits(), TESTS_MAX);
        assert_eq!(self.server.memory.available_permits(), TURN_MIB_MAX as usize);
        assert_eq!(self.server.strangers.available_permits(), STRANGERS_MAX);
        assert!(self.server.waiting().is_empty());
    }
}

async fn refusal(channel: &mut Channel) -> String {
    match channel.recv().await {
        Ok(Message::Refused { reason }) => reason,
        other => format!("not refused: {other:?}"),
    }
}

async fn token_of(channel: &mut Channel) -> String {
    match channel.recv().await {
        Ok(Message::Accepted { token }) => token,
        other => format!("not accepted: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_says_nothing_is_let_go() {
    let mut hosted = Hosted::new().await;
    let mut client = hosted.client().await;
    assert!(refusal(&mut client).await.contains("within 10 s"));
    hosted.is_clean().await;
}

#[tokio::test(start_paused = true)]
async fn test_without_flows_is_dropped() {
    let mut hosted = Hosted::new().await;
    let mut client = hosted.client().await;
    client.send(&Message::Test(Parameters { flows: 2, ..parameters() })).await.unwrap();
    let token = token_of(&mut client).await;
    let mut flow = hosted.client().await;
    flow.send(&Message::Join { token, flow: 1, attempt: 0 }).await.unwrap();
    assert!(refusal(&mut client).await.contains("some associations of the test are missing"));
    hosted.is_clean().await;
}

#[tokio::test]
async fn misbehaving_peer_ends_only_its_own_test() {
    let mut hosted = Hosted::new().await;
    let mut good = hosted.client().await;
    good.send(&Message::Test(parameters())).await.unwrap();
    let token = token_of(&mut good).await;

    let mut bad = hosted.client().await;
    bad.send(&Message::Test(Parameters { flows: 2, ..parameters() })).await.unwrap();
    let bad_token = token_of(&mut bad).await;
    let mut twice = [hosted.client().await, hosted.client().await];
    for joining in &mut twice {
        joining.send(&Message::Join { token: bad_token.clone(), flow: 0, attempt: 0 }).await.unwrap();
        assert_eq!(joining.recv().await, Ok(Message::Joined {}));
    }
    assert!(refusal(&mut bad).await.contains("not part of the test"));

    let mut early = hosted.client().await;
    early.send(&Message::Test(parameters())).await.unwrap();
    token_of(&mut early).await;
    early.send(&Message::Begin {}).await.unwrap();
    assert!(refusal(&mut early).await.contains("before the test started"));

    let mut flow = hosted.client().await;
    flow.send(&Message::Join { token, flow: 0, attempt: 0 }).await.unwrap();
    assert_eq!(flow.recv().await, Ok(Message::Joined {}));
    assert_eq!(good.recv().await, Ok(Message::Begin {}));
    good.send(&Message::Begin {}).await.unwrap();
    assert!(refusal(&mut good).await.contains("unexpected control message"));
    drop((good, flow));
    hosted.is_clean().await;
}

#[tokio::test]
async fn tests_beyond_limits_wait_for_room() {
    let mut hosted = Hosted::new().await;
    let large = Parameters { flows: 64, message_bytes: 16 << 20, ..parameters() };
    let mut first = hosted.client().await;
    first.send(&Message::Test(large.clone())).await.unwrap();
    token_of(&mut first).await;
    let mut second = hosted.client().await;
    second.send(&Message::Test(parameters())).await.unwrap();
    assert!(refusal(&mut second).await.contains("busy"));
    drop(first);
    hosted.is_clean().await;

    let mut clients = Vec::new();
    for _ in 0..TESTS_MAX {
        let mut client = hosted.client().await;
        client.send(&Message::Test(parameters())).await.unwrap();
        assert_eq!(token_of(&mut client).await.len(), 32);
        clients.push(client);
    }
    let mut next = hosted.client().await;
    next.send(&Message::Test(parameters())).await.unwrap();
    assert!(refusal(&mut next).await.contains("busy"));
    clients.clear();
    hosted.is_clean().await;
}

#[tokio::test]
async fn invalid_request_is_answered_with_its_reason() {
    let mut hosted = Hosted::new().await;
    for (message, reason) in [
        (Message::Begin {}, "must request or join a test"),
        (Message::Join { token: "guessed".to_owned(), flow: 0, attempt: 0 }, "no such test"),
        (Message::Test(Parameters { flows: 0, ..parameters() }), "1 to 256"),
        (Message::Test(Parameters { message_bytes: u32::MAX, ..parameters() }), "16 MiB"),
    ] {
        let mut client = hosted.client().await;
        client.send(&message).await.unwrap();
        assert!(refusal(&mut client).await.contains(reason));
    }
    hosted.is_clean().await;
}
