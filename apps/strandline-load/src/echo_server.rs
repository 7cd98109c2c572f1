//! The echo server: returns every message, or every byte.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use strandline::{
    Address, Association, AssociationConfig, AssociationId, Endpoint, EndpointConfig, Listener, Message,
    OutgoingPorts, RawOptions, SendInfo, Stack, StackBuilder, TrySendError,
};
use strandline_measure::raise_open_files;
use strandline_ops::{bind_udp, listen_tcp, not_listening};
use strandline_output::outln;
use strandline_tls::AcceptErrors;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::cores::Cores;

/// Default port. The registered echo port is 7, which needs privilege.
const PORT: u16 = 7007;
const MANY_PORT: u16 = 7008;

/// Runs an echo server. Without options it listens on 127.0.0.1 with all transports that need no privilege.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline echo                                   TCP, UDP and SCTP on 127.0.0.1
  strandline echo --sctp 5000 --encapsulation '[::]:9899'
                                                    only SCTP, one-to-one, on all addresses
  strandline echo --sctp 5000 --raw 0.0.0.0         SCTP over raw IP (requires CAP_NET_RAW)
  strandline load echo --transport sctp             load for this server")]
pub struct Args {
    /// Listen on TCP at this address and port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub tcp: Option<SocketAddr>,
    /// Listen on UDP at this address and port
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub udp: Option<SocketAddr>,
    /// Listen on this SCTP port with one-to-one sockets (0: any)
    #[arg(long, value_name = "PORT")]
    pub sctp: Option<u16>,
    /// Listen on this SCTP port with a one-to-many socket (0: any)
    #[arg(long, value_name = "PORT")]
    pub sctp_many: Option<u16>,
    /// Carry SCTP over UDP at this address and port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9899", value_parser = strandline::socket_address)]
    pub encapsulation: SocketAddr,
    /// Carry SCTP also over raw IP, at this address
    #[arg(long, value_name = "ADDRESS")]
    pub raw: Option<Address>,
    /// Send raw IP by a packet socket, which bypasses most of the kernel's IP: faster, but the kernel's firewall does
    /// not see these packets
    #[arg(long, requires = "raw")]
    pub packet_socket: bool,
    /// Number of shards for SCTP, each on its own core
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub shards: u16,
    /// Send no heartbeats on idle associations
    #[arg(long)]
    pub no_heartbeats: bool,
    /// Answer each complete line with an empty one instead of echoing everything, to measure the time until a
    /// line has arrived
    #[arg(long)]
    pub lines: bool,
    /// Print the addresses as JSON
    #[arg(long)]
    pub json: bool,
}

/// The addresses on which the server listens.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listening {
    /// Address of TCP.
    pub tcp: Option<SocketAddr>,
    /// Address of UDP.
    pub udp: Option<SocketAddr>,
    /// SCTP port of the one-to-one sockets.
    pub sctp: Option<u16>,
    /// SCTP port of the one-to-many socket.
    pub sctp_many: Option<u16>,
    /// The UDP socket that carries SCTP.
    pub encapsulation: Option<SocketAddr>,
    /// The address of SCTP on raw IP, with its zone if it has one.
    pub raw: Option<String>,
}

/// Serves until interrupted.
///
/// # Errors
/// If a requested address can't be listened on.
pub fn run(args: &Args) -> Result<()> {
    raise_open_files();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let cores = Cores::start(args.shards)?;
    runtime.block_on(async {
        let (listening, mut tasks) = start(args, &cores.handles).await?;
        print(&listening, args.json)?;
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => interrupted.context("waiting for an interrupt"),
            ended = tasks.join_next() => match ended {
                Some(Ok(Err(error))) => Err(error),
                other => bail!("a server stopped unexpectedly: {other:?}"),
            },
        }
    })
}

/// Starts everything that the arguments request.
async fn start(args: &Args, others: &[Handle]) -> Result<(Listening, JoinSet<Result<()>>)> {
    let mut args = args.clone();
    if args.tcp.is_none() && args.udp.is_none() && args.sctp.is_none() && args.sctp_many.is_none() {
        let local: IpAddr = [127, 0, 0, 1].into();
        args.tcp = Some((local, PORT).into());
        args.udp = args.tcp;
        args.sctp = Some(PORT);
        args.sctp_many = Some(MANY_PORT);
    }
    let (mut listening, mut tasks) = (Listening::default(), JoinSet::new());
    if let Some(address) = args.tcp {
        let listener = listen_tcp(address, false).and_then(TcpListener::from_std);
        let listener =
            listener.map_err(|error| not_listening(&format!("listening on TCP {address}"), error))?;
        listening.tcp = Some(listener.local_addr()?);
        tasks.spawn(serve_tcp(listener, args.lines));
    }
    if let Some(address) = args.udp {
        let socket = bind_udp(address, false).and_then(UdpSocket::from_std);
        let socket = socket.map_err(|error| not_listening(&format!("listening on UDP {address}"), error))?;
        listening.udp = Some(socket.local_addr()?);
        tasks.spawn(serve_udp(socket, args.lines));
    }
    if args.sctp.is_some() || args.sctp_many.is_some() {
        let runtimes: Vec<Handle> =
            std::iter::once(Handle::current()).chain(others.iter().cloned()).collect();
        let builder = || builder(&args).shards(args.shards.into()).runtimes(runtimes.clone());
        let stack = builder().udp(args.encapsulation)?;
        listening.encapsulation = stack.local_addr();
        serve_sctp(&stack, &args, &runtimes, &mut listening, &mut tasks)?;
        if let Some(address) = args.raw {
            // Ports that were chosen for UDP are the same on raw IP.
            let same = Args { sctp: listening.sctp, sctp_many: listening.sctp_many, ..args.clone() };
            let stack = builder().raw_with(address, raw_options(&args), OutgoingPorts::default())?;
            serve_sctp(&stack, &same, &runtimes, &mut listening, &mut tasks)?;
            listening.raw = Some(address.to_string());
        }
    }
    Ok((listening, tasks))
}

fn raw_options(args: &Args) -> RawOptions {
    RawOptions { packet_socket: args.packet_socket, ..RawOptions::default() }
}

fn builder(args: &Args) -> StackBuilder {
    let defaults = AssociationConfig::default();
    let heartbeat_interval = if args.no_heartbeats { None } else { defaults.heartbeat_interval };
    let association = AssociationConfig { heartbeat_interval, ..defaults };
    Stack::builder()
        .config(EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() })
}

fn print(listening: &Listening, json: bool) -> Result<()> {
    if json {
        outln!("{}", serde_json::to_string(listening)?);
        return Ok(());
    }
    outln!("Echo server (Ctrl-C to stop):");
    if let Some(address) = listening.tcp {
        outln!("  TCP                {address}");
    }
    if let Some(address) = listening.udp {
        outln!("  UDP                {address}");
    }
    let mut carriers = Vec::new();
    carriers.extend(listening.encapsulation.map(|address| format!("over UDP at {address}")));
    carriers.extend(listening.raw.as_ref().map(|address| format!("over raw IP at {address}")));
    let carriers = carriers.join(", ");
    if let Some(port) = listening.sctp {
        outln!("  SCTP one-to-one    port {port}, {carriers}");
    }
    if let Some(port) = listening.sctp_many {
        outln!("  SCTP one-to-many   port {port}, {carriers}");
    }
    Ok(())
}

async fn serve_tcp(listener: TcpListener, lines: bool) -> Result<()> {
    let mut errors = AcceptErrors::default();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(async move {
                    if let Err(error) = echo_tcp(stream, lines).await {
                        tracing::debug!(%error, "TCP connection ended");
                    }
                });
            }
            Err(error) => errors.recover(error).await.context("accepting TCP connections")?,
        }
    }
}

/// Returns the answer: all bytes, or the end of each line that is complete.
fn answer(received: Bytes, lines: bool) -> Bytes {
    if !lines {
        return received;
    }
    received.iter().copied().filter(|byte| *byte == b'\n').collect()
}

/// Echoes on one connection, without a buffer for each waiting connection.
async fn echo_tcp(mut stream: TcpStream, lines: bool) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    loop {
        stream.readable().await?;
        let received = {
            let mut buffer = [0; 16_384];
            match stream.try_read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(count) => Bytes::copy_from_slice(buffer.get(..count).unwrap_or_default()),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            }
        };
        stream.write_all(&answer(received, lines)).await?;
    }
}

async fn serve_udp(socket: UdpSocket, lines: bool) -> Result<()> {
    let mut buffer = vec![0; 65_536];
    loop {
        // Errors are about datagrams that were sent before.
        let Ok((count, from)) = socket.recv_from(&mut buffer).await else { continue };
        let received = buffer.get(..count).unwrap_or_default();
        let answer = if lines { answer(Bytes::copy_from_slice(received), lines) } else { Bytes::new() };
        let _ = socket.send_to(if lines { &answer } else { received }, from).await;
    }
}

/// Serves each shard on its own runtime.
fn serve_sctp(
    stack: &Stack,
    args: &Args,
    runtimes: &[Handle],
    listening: &mut Listening,
    tasks: &mut JoinSet<Result<()>>,
) -> Result<()> {
    let lines = args.lines;
    let shards = || (0..stack.shards()).zip(runtimes.iter().cycle());
    if let Some(port) = args.sctp {
        let listener = Arc::new(Listener::bind(stack, port)?);
        listening.sctp = Some(listener.port());
        for (shard, runtime) in shards() {
            let listener = Arc::clone(&listener);
            let accept = async move {
                loop {
                    tokio::spawn(echo_sctp(listener.accept_on(shard).await?, lines));
                }
            };
            tasks.spawn_on(accept, runtime);
        }
    }
    if let Some(port) = args.sctp_many {
        let endpoint = Arc::new(Endpoint::bind(stack, port)?);
        listening.sctp_many = Some(endpoint.port());
        for (shard, runtime) in shards() {
            let endpoint = Arc::clone(&endpoint);
            let answer = async move {
                loop {
                    let (from, message) = endpoint.recv_on(shard).await?;
                    if let Err(error) = echo_many(&endpoint, from, message, lines) {
                        tracing::debug!(%error, association = %from, "sending an echo failed");
                    }
                }
            };
            tasks.spawn_on(answer, runtime);
        }
    }
    Ok(())
}

/// Echoes messages on the same stream, with the same payload protocol identifier.
async fn echo_sctp(association: Association, lines: bool) {
    while let Ok(Some(message)) = association.recv().await {
        let info = SendInfo::like(&message);
        let answer = answer(message.data, lines);
        if answer.is_empty() {
            continue;
        }
        if let Err(error) = association.send_bytes(answer, info).await {
            tracing::debug!(%error, "sending an echo failed");
            return;
        }
    }
}

/// Echoes a message of a one-to-many socket without waiting for room. A peer that leaves no room, because it
/// doesn't read, is peeled off the socket and served by its own task. That task holds one message; what the
/// peer sends beyond its receive buffer waits at the peer, whose window closes. Other peers are not delayed.
fn echo_many(endpoint: &Endpoint, from: AssociationId, message: Message, lines: bool) -> Result<()> {
    let info = SendInfo::like(&message);
    let answer = answer(message.data, lines);
    if answer.is_empty() {
        return Ok(());
    }
    match endpoint.try_send_to(from, answer.clone(), info) {
        Err(TrySendError::Full) => {}
        sent => return Ok(sent?),
    }
    let association = endpoint.peel_off(from)?;
    tokio::spawn(async move {
        match association.send_bytes(answer, info).await {
            Ok(()) => echo_sctp(association, lines).await,
            Err(error) => tracing::debug!(%error, "sending an echo failed"),
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests;
