//! A chat over SCTP: a one-to-many server, and clients with an association each.
//!
//! ```text
//! cargo run --example chat -- server 127.0.0.1:9920
//! cargo run --example chat -- client 127.0.0.1:9920 NAME
//! ```
//!
//! The address is that of the server's UDP socket. Ctrl-C ends the server gracefully.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example")]

use std::collections::HashMap;
use std::error::Error;
use std::net::SocketAddr;

use bytes::Bytes;
use strandline::{
    Association, AssociationId, Ended, Endpoint, EndpointJoiner, Joiner, Message, Notification, Peer, Ppid,
    RecvError, SendInfo, Stack, StreamId, TrySendError,
};
use tokio::io::{AsyncBufRead, AsyncBufReadExt, BufReader};

/// The server's SCTP port.
const PORT: u16 = 4000;

/// The purpose of each stream.
const NAME: StreamId = StreamId(0);
const TALK: StreamId = StreamId(1);
const PRESENCE: StreamId = StreamId(2);

/// Marks the messages of this protocol.
const PPID: Ppid = Ppid(0x6368_6174);

/// Bytes of the longest message.
const MESSAGE_MAX: usize = 64 << 10;

type Outcome = Result<(), Box<dyn Error>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["server", udp] => {
            let stack = Stack::builder().udp(udp.parse()?)?;
            let stop = async { drop(tokio::signal::ctrl_c().await) };
            Server::new(&stack)?.run(stop).await
        }
        ["client", udp, name] => {
            let udp: SocketAddr = udp.parse()?;
            let any = if udp.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
            let stack = Stack::builder().udp(any.parse()?)?;
            let peer = Peer::encapsulated(udp, PORT);
            client(&stack, peer, name, BufReader::new(tokio::io::stdin()), |line| println!("{line}")).await
        }
        _ => Err("usage: chat server UDP_ADDRESS | chat client UDP_ADDRESS NAME".into()),
    }
}

/// Returns the send options of a chat message on a stream.
fn on(stream: StreamId) -> SendInfo {
    SendInfo::on(stream).ppid(PPID)
}

struct Server {
    endpoint: Endpoint,
    names: HashMap<AssociationId, String>,
    joiner: EndpointJoiner,
}

impl Server {
    fn new(stack: &Stack) -> Result<Self, Box<dyn Error>> {
        let endpoint = Endpoint::bind(stack, PORT)?;
        Ok(Self { endpoint, names: HashMap::new(), joiner: EndpointJoiner::new(MESSAGE_MAX) })
    }

    /// Serves until `stop` completes, then shuts all associations down gracefully and serves them until they
    /// have ended.
    async fn run(mut self, stop: impl Future<Output = ()>) -> Outcome {
        let endpoint = self.endpoint.clone();
        let mut notifications = endpoint.notifications();
        let mut stopping = std::pin::pin!(async {
            stop.await;
            endpoint.shutdown_all().await;
        });
        loop {
            tokio::select! {
                received = endpoint.recv_from() => match received {
                    Ok((from, part)) => self.receive(from, part),
                    Err(RecvError::Ended(Ended::ShutDown)) => return Ok(()),
                    Err(error) => return Err(error.into()),
                },
                Some((Some(id), notification)) = notifications.next() => self.notice(id, notification),
                () = &mut stopping => return Ok(()),
            }
        }
    }

    fn receive(&mut self, from: AssociationId, part: Message) {
        let message = match self.joiner.push(from, part) {
            Ok(Some(message)) => message,
            Ok(None) => return,
            Err(error) => return eprintln!("{from}: {error}"),
        };
        let text = String::from_utf8_lossy(&message.data);
        match message.stream {
            NAME => {
                self.broadcast(Some(from), PRESENCE, &format!("* {text} is here"));
                self.names.insert(from, text.into_owned());
            }
            TALK => {
                let name = self.names.get(&from).map_or("?", String::as_str);
                self.broadcast(Some(from), TALK, &format!("<{name}> {text}"));
            }
            other => eprintln!("{from}: a message on stream {}", other.0),
        }
    }

    fn notice(&mut self, id: AssociationId, notification: Notification) {
        match notification {
            Notification::Established { outbound_streams, addresses, .. } => {
                println!("{id} is up: {outbound_streams} streams to {addresses:?}");
                if outbound_streams <= PRESENCE.0
                    && let Ok(control) = self.endpoint.control(id)
                {
                    control.abort("the chat needs three streams");
                }
            }
            Notification::Closed { how, addresses, stats, .. } => {
                println!("{id} at {addresses:?}: {how}, {} packets received", stats.packets_received);
                if self.joiner.forget(id) {
                    println!("{id} left in the middle of a message");
                }
                if let Some(name) = self.names.remove(&id) {
                    self.broadcast(None, PRESENCE, &format!("* {name} has left"));
                }
            }
            _ => {}
        }
    }

    /// Sends to all clients that have given their names. A client that reads too slowly misses messages: the
    /// others don't wait for it.
    fn broadcast(&self, except: Option<AssociationId>, stream: StreamId, text: &str) {
        let data = Bytes::copy_from_slice(text.as_bytes());
        for id in self.names.keys().filter(|id| Some(**id) != except) {
            match self.endpoint.try_send_to(*id, data.clone(), on(stream)) {
                Ok(()) => {}
                Err(TrySendError::Full) => eprintln!("{id} reads too slowly"),
                Err(error) => eprintln!("{id}: {error}"),
            }
        }
    }
}

/// Sends lines and prints received messages, until the lines or the association end.
async fn client(
    stack: &Stack,
    server: Peer,
    name: &str,
    lines: impl AsyncBufRead + Unpin,
    mut show: impl FnMut(&str),
) -> Outcome {
    let association = Association::connect(stack, server).await?;
    association.send(name.as_bytes(), on(NAME)).await?;
    let (mut lines, mut joiner) = (lines.lines(), Joiner::new(MESSAGE_MAX));
    loop {
        tokio::select! {
            line = lines.next_line() => match line? {
                Some(line) if line.is_empty() => {}
                Some(line) => association.send(line.as_bytes(), on(TALK)).await?,
                None => break,
            },
            part = association.recv() => match part? {
                Some(part) => if let Some(message) = joiner.push(part)? {
                    show(&printable(&String::from_utf8_lossy(&message.data)));
                },
                None => {
                    show("* the server has closed");
                    return Ok(());
                }
            },
        }
    }
    match association.shutdown().await {
        Ended::ShutDown => Ok(()),
        other => Err(other.into()),
    }
}

/// Returns what others have written as a line for a terminal. Control characters would move its cursor or change its
/// title, and characters that change the direction of text would hide what a line says: they are escaped.
fn printable(text: &str) -> String {
    let mut line = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                line.extend(char.escape_unicode());
            }
            char if char.is_control() => line.extend(char.escape_debug()),
            char => line.push(char),
        }
    }
    line
}

#[cfg(test)]
#[path = "chat/tests.rs"]
mod tests;
