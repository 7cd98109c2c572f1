//! Throughput: one side sends messages as fast as it may, the other receives them. Over SCTP, or over TCP with writes
//! of the same size, so that both can be compared in one run.

mod meter;
mod receive;
mod report;
mod send;
mod tcp;
mod usage;

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::{Subcommand, ValueEnum};
use strandline::{AssociationConfig, Stack};

/// The arguments of the throughput test.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    /// Which side this process is.
    #[command(subcommand)]
    pub side: Side,
}

/// The two sides of a throughput test.
#[derive(Debug, Clone, Subcommand)]
pub enum Side {
    /// Receive what comes and throw it away; a line each second and a report at the end.
    Receive(ReceiveArgs),
    /// Send messages as fast as the other side takes them.
    Send(SendArgs),
}

/// What carries the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// SCTP, by this stack.
    Sctp,
    /// TCP, by the kernel: a message is a write.
    Tcp,
}

/// What both sides need to know.
#[derive(Debug, Clone, clap::Args)]
pub struct Common {
    /// SCTP or TCP port of the receiver.
    #[arg(long, default_value_t = 5001)]
    pub port: u16,
    /// What carries the messages.
    #[arg(long, value_enum, default_value_t = Transport::Sctp)]
    pub transport: Transport,
    /// SCTP directly over IP (protocol 132) instead of UDP; needs CAP_NET_RAW.
    #[arg(long)]
    pub raw: bool,
    /// Bytes of the receive buffer of each association, which is the window that its peer sees.
    #[arg(long, default_value_t = AssociationConfig::default().receive_buffer)]
    pub receive_buffer: u32,
    /// Bytes of the send buffer of each association.
    #[arg(long, default_value_t = AssociationConfig::default().send_buffer)]
    pub send_buffer: u32,
    /// The report as JSON on standard output.
    #[arg(long)]
    pub json: bool,
    /// No line each second.
    #[arg(long)]
    pub quiet: bool,
}

/// Arguments of the receiver.
#[derive(Debug, Clone, clap::Args)]
pub struct ReceiveArgs {
    /// What both sides need to know.
    #[command(flatten)]
    pub common: Common,
    /// Local address.
    #[arg(long, default_value = "0.0.0.0")]
    pub bind: IpAddr,
    /// Local UDP port.
    #[arg(long, default_value_t = 9899)]
    pub encapsulation_port: u16,
    /// End with the report once every sender that came has finished, instead of waiting for Ctrl-C.
    #[arg(long)]
    pub once: bool,
    /// Connections to wait for before the end, over TCP.
    #[arg(long, default_value_t = 1)]
    pub connections: u32,
}

/// Arguments of the sender.
#[derive(Debug, Clone, clap::Args)]
pub struct SendArgs {
    /// What both sides need to know.
    #[command(flatten)]
    pub common: Common,
    /// The receiver's address.
    #[arg(long)]
    pub to: IpAddr,
    /// The receiver's UDP port.
    #[arg(long, default_value_t = 9899)]
    pub encapsulation_port: u16,
    /// Bytes of each message.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    pub size: u32,
    /// Seconds to send for.
    #[arg(long, default_value_t = 10.0)]
    pub duration: f64,
    /// Streams of each association that the messages go round.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    pub streams: u16,
    /// Unordered messages.
    #[arg(long)]
    pub unordered: bool,
    /// Associations (or connections) that send at the same time.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub associations: u16,
    /// Wait for acknowledgements to bundle small messages (Nagle's algorithm).
    #[arg(long)]
    pub nagle: bool,
}

/// Runs one side.
///
/// # Errors
/// What stopped it.
pub fn run(args: &Args) -> anyhow::Result<ExitCode> {
    let common = match &args.side {
        Side::Receive(args) => &args.common,
        Side::Send(args) => &args.common,
    };
    let report = match (&args.side, common.transport) {
        (Side::Receive(args), Transport::Sctp) => runtime()?.block_on(receive::run(args))?,
        (Side::Send(args), Transport::Sctp) => runtime()?.block_on(send::run(args))?,
        (Side::Receive(args), Transport::Tcp) => tcp::receive(args)?,
        (Side::Send(args), Transport::Tcp) => tcp::send(args)?,
    };
    report.print(common.json)?;
    Ok(ExitCode::SUCCESS)
}

/// One thread: an association lives on one core.
fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().context("starting the tokio runtime")
}

/// The stack of either side.
fn stack(
    common: &Common,
    bind: IpAddr,
    local_port: u16,
    remote_port: u16,
    nodelay: bool,
) -> anyhow::Result<Stack> {
    let association = AssociationConfig {
        receive_buffer: common.receive_buffer,
        send_buffer: common.send_buffer,
        partial_delivery_point: AssociationConfig::default()
            .partial_delivery_point
            .min(common.receive_buffer),
        nodelay,
        ..AssociationConfig::default()
    };
    let builder = Stack::builder().association(association).remote_encapsulation_port(remote_port);
    if common.raw {
        builder.raw(bind).context("opening raw IP")
    } else {
        let address = SocketAddr::new(bind, local_port);
        builder.udp(address).with_context(|| format!("opening UDP {address}"))
    }
}

/// The duration that an argument gives in seconds.
fn seconds(value: f64) -> anyhow::Result<Duration> {
    Duration::try_from_secs_f64(value).context("--duration")
}
