#![allow(clippy::unwrap_used, reason = "tests")]

use strandline::memory::Network;
use tokio::io::AsyncWriteExt;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::*;

/// A client in its own task: its input and its output.
struct Phone {
    input: tokio::io::DuplexStream,
    shown: mpsc::UnboundedReceiver<String>,
    task: JoinHandle<Result<(), String>>,
}

impl Phone {
    fn start(network: &Network, number: u8, name: &'static str) -> Self {
        let stack = Stack::builder().memory(network, [[10, 0, 0, number].into()]).unwrap();
        let (input, lines) = tokio::io::duplex(1 << 20);
        let (show, shown) = mpsc::unbounded_channel();
        let task = tokio::spawn(async move {
            let shows = move |line: &str| show.send(line.to_owned()).unwrap();
            let peer = Peer::new([10, 0, 0, 1], PORT);
            client(&stack, peer, name, BufReader::new(lines), shows).await.map_err(|error| error.to_string())
        });
        Self { input, shown, task }
    }

    async fn say(&mut self, line: &str) {
        self.input.write_all(line.as_bytes()).await.unwrap();
        self.input.write_all(b"\n").await.unwrap();
    }

    async fn hears(&mut self, line: &str) {
        assert_eq!(self.shown.recv().await.as_deref(), Some(line));
    }
}

#[tokio::test(start_paused = true)]
async fn a_chat_from_beginning_to_end() {
    let network = Network::new();
    let stack = Stack::builder().memory(&network, [[10, 0, 0, 1].into()]).unwrap();
    let (stop, stopped) = oneshot::channel();
    let server = Server::new(&stack).unwrap();
    let running =
        async move { server.run(async { drop(stopped.await) }).await.map_err(|error| error.to_string()) };
    let local = tokio::task::LocalSet::new();
    let running = local.spawn_local(running);
    local
        .run_until(async {
            let mut alice = Phone::start(&network, 2, "alice");
            alice.say("anybody?").await;
            let mut bob = Phone::start(&network, 3, "bob");
            alice.hears("* bob is here").await;
            bob.say("hello").await;
            alice.hears("<bob> hello").await;
            alice.say("\u{1b}]0;x\u{7}\t\u{202e}\u{85}\r\"e\u{301}\"").await;
            bob.hears("<alice> \\u{1b}]0;x\\u{7}\\t\\u{202e}\\u{85}\\r\"e\u{301}\"").await;
            let long = "x".repeat(MESSAGE_MAX - 100);
            alice.say(&long).await;
            bob.hears(&format!("<alice> {long}")).await;
            drop(bob.input);
            bob.task.await.unwrap().unwrap();
            alice.hears("* bob has left").await;
            stop.send(()).unwrap();
            alice.hears("* the server has closed").await;
            alice.task.await.unwrap().unwrap();
            running.await.unwrap().unwrap();
        })
        .await;
    assert_eq!(stack.association_count(), 0);
}
