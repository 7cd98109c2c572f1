//! HTTP/3 by the crates h3 and quinn: a server of the files of a directory, and a client that fetches files in
//! bursts: one file many times at once, or a page and then its objects. The client does the work of `strandline load
//! http` with the same bursts, and prints the same members of JSON.
//!
//! Choices in its favour: UDP sockets of 4 MiB, one thread on each side, files in memory, AES-128-GCM, a certificate
//! that the client accepts without verification. Flow control: 1 MB for a stream, 8 MB for the connection.

mod client;
mod server;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Parser;
use quinn::{Endpoint, EndpointConfig, TokioRuntime, TransportConfig, VarInt};

/// The protocol's name in TLS.
const ALPN: &[u8] = b"h3";

#[derive(Debug, Parser)]
enum Command {
    /// Serve the files of a directory.
    Serve {
        #[arg(long, default_value = "127.0.0.1:4433")]
        listen: SocketAddr,
        directory: PathBuf,
    },
    /// Fetch files over one connection, and report.
    Get(client::Order),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Serve { listen, directory } => server::serve(listen, &directory).await,
        Command::Get(order) => client::get(&order).await,
    }
}

fn endpoint(address: SocketAddr, server: Option<quinn::ServerConfig>) -> anyhow::Result<Endpoint> {
    let socket = common::udp(address)?;
    Endpoint::new(EndpointConfig::default(), server, socket.into(), Arc::new(TokioRuntime))
        .context("an endpoint")
}

fn transport() -> Arc<TransportConfig> {
    let mut config = TransportConfig::default();
    config
        .stream_receive_window(VarInt::from_u32(1 << 20))
        .receive_window(VarInt::from_u32(8 << 20))
        .send_window(8 << 20)
        .max_concurrent_bidi_streams(VarInt::from_u32(256));
    Arc::new(config)
}
