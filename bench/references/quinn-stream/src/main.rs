//! Throughput of QUIC by quinn: one connection, one stream, writes of the given size; AES-128-GCM, which is
//! the fastest of its ciphers here, with a certificate made for the run that the sender accepts without
//! verification.
//!
//! Choices in its favour: windows of 8 MB, UDP sockets of 4 MiB, one thread with one task on each side.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Parser;
use common::{Stopwatch, content};
use quinn::{Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt};

const WINDOW_BYTES: u32 = 8 << 20;
const CHECK_BYTES: usize = 1 << 20;
const CHECK_WRITES: usize = 1 << 10;

#[derive(Debug, Parser)]
enum Command {
    /// Receive one stream to its end, then report.
    Receive {
        #[arg(long, default_value_t = 4433)]
        port: u16,
    },
    /// Send for a number of seconds, then report.
    Send {
        #[arg(long)]
        to: IpAddr,
        #[arg(long, default_value_t = 4433)]
        port: u16,
        #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
        size: u32,
        #[arg(long, default_value_t = 10.0)]
        seconds: f64,
    },
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Receive { port } => receive(port).await,
        Command::Send { to, port, size, seconds } => {
            send(SocketAddr::new(to, port), &content(size as usize), Duration::try_from_secs_f64(seconds)?)
                .await
        }
    }
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(WINDOW_BYTES))
        .receive_window(VarInt::from_u32(WINDOW_BYTES))
        .send_window(WINDOW_BYTES.into());
    Arc::new(config)
}

fn endpoint(port: u16, server: Option<quinn::ServerConfig>) -> anyhow::Result<Endpoint> {
    let socket = common::udp(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port))?;
    Endpoint::new(EndpointConfig::default(), server, socket.into(), Arc::new(TokioRuntime))
        .context("an endpoint")
}

async fn receive(port: u16) -> anyhow::Result<()> {
    let mut config = quic_identity::server(b"")?;
    config.transport_config(transport());
    let endpoint = endpoint(port, Some(config))?;
    let connection = endpoint.accept().await.context("nobody came")?.await?;
    let mut stream = connection.accept_uni().await?;
    let watch = Stopwatch::start()?;
    let (mut bytes, mut reads) = (0, 0);
    while let Some(chunk) = stream.read_chunk(usize::MAX, true).await? {
        bytes += chunk.bytes.len() as u64;
        reads += 1;
    }
    watch.report("receiver", "quic", bytes, reads)?.print()?;
    connection.close(VarInt::from_u32(0), b"");
    endpoint.wait_idle().await;
    Ok(())
}

async fn send(to: SocketAddr, data: &[u8], duration: Duration) -> anyhow::Result<()> {
    let mut config = quic_identity::client(b"")?;
    config.transport_config(transport());
    let endpoint = endpoint(0, None)?;
    let connection = endpoint.connect_with(config, to, "localhost")?.await?;
    let mut stream = connection.open_uni().await?;
    let step = (CHECK_BYTES / data.len()).clamp(1, CHECK_WRITES);
    let watch = Stopwatch::start()?;
    let end = watch.begin + duration;
    let mut writes = 0;
    while Instant::now() < end {
        for _ in 0..step {
            stream.write_all(data).await?;
        }
        writes += step as u64;
    }
    stream.finish()?;
    // Waits until the other side has received everything.
    connection.closed().await;
    watch.report("sender", "quic", writes * data.len() as u64, writes)?.print()
}
