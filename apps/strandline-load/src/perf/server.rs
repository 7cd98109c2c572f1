//! The server: accepts tests from any client, over SCTP and TCP, several at once within limits.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use strandline::{Association, Listener, Stack};
use strandline_output::{errln, outln};
use strandline_tls::AcceptErrors;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::args::{ServerArgs, Transport};
use super::channel::{Carrier, Channel, ControlError};
use super::flow::Link;
use super::open::{self, Opening};
use super::protocol::{ATTEMPTS_MAX, FLOWS_MAX, Message, Parameters, Role, TURN_MIB_MAX};
use super::report::Test;
use super::session::{Outcome, Session, interrupted, run as run_session};
use super::shards::Shards;
use super::tcp::Connection;
use super::text::{Live, summary};

/// Maximum number of concurrent tests.
const TESTS_MAX: usize = 16;
/// Maximum number of peers that have connected and not sent a request yet.
const STRANGERS_MAX: usize = 512;
/// Time limit for such a peer's request, and for a test to get its flows.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for a graceful end of the running tests at Ctrl-C.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// State that all tasks of the server share.
#[derive(Debug)]
struct Server {
    args: ServerArgs,
    /// The runtime of each shard.
    runtimes: Vec<Handle>,
    /// The stacks in UDP, and over raw IP if requested.
    stacks: Vec<Stack>,
    tests: Semaphore,
    /// MiB of messages that all tests together may have waiting: see [`Parameters::turn_mib`].
    memory: Semaphore,
    strangers: Arc<Semaphore>,
    /// Tests that wait for their flows, by token.
    waiting: Mutex<HashMap<String, Waiting>>,
    accepted: AtomicU64,
    taken: AtomicBool,
    finished: watch::Sender<bool>,
    interrupt: watch::Receiver<bool>,
}

/// A test that waits for its flows.
#[derive(Debug)]
struct Waiting {
    transport: Transport,
    nagle: bool,
    joined: mpsc::Sender<(u16, Link)>,
}

/// Removes a test from the waiting ones, whatever way it ends.
struct Registration<'a> {
    server: &'a Server,
    token: String,
}

impl Drop for Registration<'_> {
    fn drop(&mut self) {
        self.server.waiting().remove(&self.token);
    }
}

pub(crate) async fn run(
    args: &ServerArgs,
    runtimes: Vec<Handle>,
    mut interrupt: watch::Receiver<bool>,
) -> Result<ExitCode> {
    // Nothing is served without encryption if it was asked for.
    let tcp = match args.common.is_encrypted() {
        true => None,
        false => Some(open::tcp_listen(&args.common, args.bind.with_port(args.common.port))?),
    };
    let tcp_address = tcp.as_ref().map(TcpListener::local_addr).transpose()?;
    let mut port = tcp_address.map_or(args.common.port, |address| address.port());
    let udp_address = args.bind.with_port(args.common.encapsulation_port);
    let opening = Opening { common: &args.common, runtimes: &runtimes, nodelay: true, trace: None };
    let mut stacks = vec![open::udp(&opening, udp_address, 0)?];
    let udp_address = stacks.first().and_then(Stack::local_addr).unwrap_or(udp_address);
    if args.common.raw {
        stacks.push(open::raw(&opening, args.bind)?);
    }
    let mut listeners = Vec::new();
    for stack in &stacks {
        let listener = Listener::bind(stack, port);
        let listener = listener.with_context(|| format!("listening on SCTP port {port}"))?;
        port = listener.port();
        listeners.push(listener);
    }
    let raw = if args.common.raw { " and over raw IP" } else { "" };
    let tcp_text = tcp_address.map_or_else(|| " encrypted".to_owned(), |address| format!(", TCP {address}"));
    errln!("strandline perf serves SCTP port {port} over UDP {udp_address}{raw}{tcp_text}");

    let server = Arc::new(Server::new(args.clone(), runtimes, stacks.clone(), interrupt.clone()));
    let mut finish = server.finished.subscribe();
    let mut accepting = JoinSet::new();
    let (spawn, mut peers) = mpsc::channel(STRANGERS_MAX);
    for listener in listeners.into_iter().map(Arc::new) {
        // Each shard's association tasks run on its own thread.
        for (shard, runtime) in server.runtimes.iter().enumerate() {
            accepting.spawn_on(accept_sctp(Arc::clone(&listener), shard, spawn.clone()), runtime);
        }
    }
    if let Some(tcp) = tcp {
        accepting.spawn(accept_tcp(tcp, spawn));
    }
    let mut serving = JoinSet::new();
    loop {
        tokio::select! {
            Some((carrier, peer)) = peers.recv() => server.welcome(carrier, peer, &mut serving),
            Some(_) = serving.join_next() => {}
            Some(ended) = accepting.join_next() => ended.context("accepting an association")??,
            _ = finish.wait_for(|&done| done) => break,
            () = interrupted(&mut interrupt) => break,
        }
    }
    accepting.abort_all();
    drop(peers);
    // Running tests notify their clients. Peers that only wait are dropped.
    let orderly = async {
        while serving.join_next().await.is_some() {}
        for stack in &stacks {
            stack.wait_idle().await;
        }
    };
    let _ = timeout(END_TIMEOUT, orderly).await;
    Ok(ExitCode::SUCCESS)
}

async fn accept_sctp(
    listener: Arc<Listener>,
    shard: usize,
    peers: mpsc::Sender<(Carrier, Option<SocketAddr>)>,
) -> Result<()> {
    loop {
        let association = listener.accept_on(shard).await?;
        let peer = association.status().map(|status| status.primary);
        if peers.send((Carrier::Sctp(association), peer)).await.is_err() {
            return Ok(());
        }
    }
}

async fn accept_tcp(listener: TcpListener, peers: mpsc::Sender<(Carrier, Option<SocketAddr>)>) -> Result<()> {
    let mut errors = AcceptErrors::default();
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if peers.send((Carrier::Tcp(stream), Some(peer))).await.is_err() {
                    return Ok(());
                }
            }
            Err(error) => errors.recover(error).await.context("accepting TCP connections")?,
        }
    }
}

impl Server {
    fn new(
        args: ServerArgs,
        runtimes: Vec<Handle>,
        stacks: Vec<Stack>,
        interrupt: watch::Receiver<bool>,
    ) -> Self {
        Self {
            args,
            runtimes,
            stacks,
            tests: Semaphore::new(TESTS_MAX),
            memory: Semaphore::new(TURN_MIB_MAX as usize),
            strangers: Arc::new(Semaphore::new(STRANGERS_MAX)),
            waiting: Mutex::default(),
            accepted: AtomicU64::new(0),
            taken: AtomicBool::new(false),
            finished: watch::Sender::new(false),
            interrupt,
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a peer in a task, unless too many peers have not sent a request yet.
    fn welcome(self: &Arc<Self>, carrier: Carrier, peer: Option<SocketAddr>, serving: &mut JoinSet<()>) {
        let Ok(place) = Arc::clone(&self.strangers).try_acquire_owned() else {
            if let Carrier::Sctp(association) = &carrier {
                association.abort("too many clients at once");
            }
            return;
        };
        let server = Arc::clone(self);
        // Uses the runtime that drives the association: a test that used it from another thread would contend
        // with its shard.
        let runtime = match &carrier {
            Carrier::Sctp(association) => open::runtime_of(&self.runtimes, association),
            Carrier::Tcp(_) => Handle::current(),
        };
        let served = async move {
            let mut channel = Channel::new(carrier);
            let first = timeout(TIMEOUT, channel.recv()).await;
            drop(place);
            let refused = match first {
                Ok(Ok(Message::Test(parameters))) => server.test(&mut channel, parameters, peer).await,
                Ok(Ok(Message::Join { token, flow, attempt })) => {
                    match server.join(channel, &token, flow, attempt).await {
                        Ok(()) => return,
                        Err((back, reason)) => {
                            channel = back;
                            Err(reason)
                        }
                    }
                }
                Ok(Ok(_)) => Err("the first message must request or join a test".to_owned()),
                Ok(Err(ControlError::Gone(_))) => return,
                Ok(Err(ControlError::Bad(why))) => Err(why),
                Err(_) => Err(format!("no request within {} s", TIMEOUT.as_secs())),
            };
            if let Err(reason) = refused {
                let peer = peer.map_or_else(String::new, |peer| format!(" {peer}"));
                errln!("refused{peer}: {reason}");
                channel.refuse(reason).await;
            }
        };
        serving.spawn_on(served, &runtime);
    }

    /// Hands a flow to the test that waits for it.
    async fn join(
        &self,
        mut channel: Channel,
        token: &str,
        flow: u16,
        attempt: u8,
    ) -> Result<(), (Channel, String)> {
        let (joined, transport, nagle) = match self.waiting().get(token) {
            Some(test) => (test.joined.clone(), test.transport, test.nagle),
            None => return Err((channel, "no such test is waiting for associations".to_owned())),
        };
        let answer =
            if self.is_at_home(&channel, flow, attempt) { Message::Joined {} } else { Message::Elsewhere {} };
        // If the answer can't be sent, the peer is gone; the test will notice that the flow is missing.
        if channel.send(&answer).await.is_err() || answer == (Message::Elsewhere {}) {
            return Ok(());
        }
        let link = match channel.carrier {
            Carrier::Sctp(association) if transport == Transport::Sctp => {
                self.prepare(&association, nagle);
                let runtime = open::runtime_of(&self.runtimes, &association);
                Link::Sctp(association, runtime)
            }
            Carrier::Tcp(stream) if transport == Transport::Tcp => match Connection::new(stream, !nagle) {
                Ok(connection) => Link::Tcp(connection),
                // The peer is gone; the test will notice that the flow is missing.
                Err(_) => return Ok(()),
            },
            carrier => {
                return Err((Channel::new(carrier), "the test uses the other transport".to_owned()));
            }
        };
        // If the test has given up, the link is dropped.
        let _ = joined.send((flow, link)).await;
        Ok(())
    }

    /// Returns whether a flow reached the shard that is to carry it, so that all shards have the same load.
    fn is_at_home(&self, channel: &Channel, flow: u16, attempt: u8) -> bool {
        match &channel.carrier {
            Carrier::Sctp(association) => {
                let home = usize::from(flow) % self.runtimes.len().max(1);
                association.id().shard() == home || attempt >= ATTEMPTS_MAX
            }
            Carrier::Tcp(_) => true,
        }
    }

    fn prepare(&self, association: &Association, nagle: bool) {
        if nagle {
            // If the association is gone, the test will notice.
            let _ = association.control().configure(self.args.common.association(false));
        }
        // A server also has clients with other addresses.
        if let Err(error) = self.args.common.tuning.apply_to_paths(association) {
            tracing::warn!(%error, "setting a path's congestion control failed; the association's is used");
        }
    }

    /// Runs a test from the client's request to the report.
    async fn test(
        &self,
        channel: &mut Channel,
        parameters: Parameters,
        peer: Option<SocketAddr>,
    ) -> Result<(), String> {
        parameters.validate()?;
        let busy = || "the server is busy with other tests: try again later".to_owned();
        let _place = self.tests.try_acquire().map_err(|_| busy())?;
        let _memory = self.memory.try_acquire_many(parameters.turn_mib()).map_err(|_| busy())?;
        let once = self.args.once;
        if once && self.taken.swap(true, Ordering::Relaxed) {
            return Err("the server runs only one test (--once), which has started already".to_owned());
        }
        let number = self.accepted.fetch_add(1, Ordering::Relaxed) + 1;
        let result = self.accepted(channel, parameters, peer, number).await;
        if once {
            self.finished.send_replace(true);
        }
        result.map_err(|error| format!("{error:#}"))
    }

    async fn accepted(
        &self,
        channel: &mut Channel,
        parameters: Parameters,
        peer: Option<SocketAddr>,
        number: u64,
    ) -> Result<()> {
        let token = token()?;
        let transport = match &channel.carrier {
            Carrier::Sctp(_) => Transport::Sctp,
            Carrier::Tcp(_) => Transport::Tcp,
        };
        let links = self.gather(channel, &parameters, transport, &token).await?;
        channel.send(&Message::Begin {}).await?;
        let test = Test {
            role: Role::Server,
            transport,
            encapsulation: match (transport, peer) {
                (Transport::Tcp, _) => None,
                (Transport::Sctp, Some(peer)) if peer.port() == 0 => Some("raw"),
                (Transport::Sctp, _) => Some("udp"),
            },
            other: peer.map_or_else(Default::default, |peer| (peer.ip().to_string(), peer.port())),
            token,
            connected: Vec::new(),
            parameters: parameters.clone(),
        };
        let (common, sctp) = (&self.args.common, transport == Transport::Sctp);
        let mut live =
            (!common.quiet).then(|| Live::new(test.clone(), format!("[{number}] "), common.every()));
        let session = Session {
            role: Role::Server,
            parameters,
            links,
            shards: Shards::new(common.shards, if sctp { self.stacks.clone() } else { Vec::new() }),
            every: if common.quiet { Duration::ZERO } else { common.every() },
            observe: Box::new(move |interval| {
                if let Some(live) = &mut live {
                    live.print(&interval);
                }
            }),
            interrupt: self.interrupt.clone(),
        };
        if !common.quiet {
            errln!("[{number}] {} test from {}", transport.name(), test.other.0);
        }
        let outcome = run_session(session, channel).await?;
        print(common.json, number, &test, &outcome)
    }

    /// Waits until all flows of a test have joined.
    async fn gather(
        &self,
        channel: &mut Channel,
        parameters: &Parameters,
        transport: Transport,
        token: &str,
    ) -> Result<Vec<Link>> {
        let (joined, mut joining) = mpsc::channel(usize::from(FLOWS_MAX));
        let waiting = Waiting { transport, nagle: parameters.nagle, joined };
        self.waiting().insert(token.to_owned(), waiting);
        let _registration = Registration { server: self, token: token.to_owned() };
        channel.send(&Message::Accepted { token: token.to_owned() }).await?;
        let mut places: Vec<Option<Link>> = (0..parameters.flows).map(|_| None).collect();
        let gather = async {
            while places.iter().any(Option::is_none) {
                tokio::select! {
                    Some((flow, link)) = joining.recv() => {
                        let place = places.get_mut(usize::from(flow));
                        let place = place.filter(|place| place.is_none());
                        *place.context("a flow that is not part of the test joined")? = Some(link);
                    }
                    message = channel.recv() => {
                        message?;
                        anyhow::bail!("control message before the test started");
                    }
                }
            }
            Ok(())
        };
        timeout(TIMEOUT, gather).await.context("some associations of the test are missing")??;
        Ok(places.into_iter().flatten().collect())
    }
}

/// Prints the report on standard output; live lines and errors go to standard error.
fn print(json: bool, number: u64, test: &Test, outcome: &Outcome) -> Result<()> {
    if json {
        outln!("{}", serde_json::to_string(&test.report(Vec::new(), outcome))?);
    } else {
        outln!("[{number}] {}", summary(test, outcome).replace('\n', &format!("\n[{number}] ")));
    }
    if let Some(failure) = &outcome.failure {
        errln!("[{number}] the test failed: {failure}");
    }
    Ok(())
}

/// Returns the secret that a flow must present to join a test.
#[allow(clippy::disallowed_methods, reason = "nobody else may guess it")]
fn token() -> Result<String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(std::io::Error::other)
        .context("reading random numbers from the system")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests;
