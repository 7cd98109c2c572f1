//! Baselines of the kernel without SCTP: throughput of TCP, of plain UDP datagrams, and of raw IP datagrams
//! by raw sockets and by packet sockets; and TCP's set-up with a first echo.
//!
//! TCP uses plain blocking sockets, one thread on each side, and `TCP_NODELAY`. UDP and raw IP have no flow
//! control, so only received data counts; nothing is acknowledged or retransmitted.

mod datagrams;
mod packets;
mod tcp;
mod transactions;

use std::net::IpAddr;

use clap::{Args, Parser, ValueEnum};

#[derive(Debug, Parser)]
enum Command {
    /// Receive from one sender, then report.
    Receive(Receive),
    /// Send for a number of seconds, then report.
    Send(Send),
    /// Accept TCP connections and echo one message on each, until killed.
    Serve(Serve),
    /// Set up a TCP connection, send a message, wait for its echo, close; one after another.
    Call(Call),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Tcp,
    Udp,
    /// Raw IP, protocol 132.
    Raw,
    /// Raw IP, protocol 132, sent by a packet socket; `raw` receives it.
    Packet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Batch {
    /// One system call for each datagram.
    One,
    /// `sendmmsg` with 32.
    Many,
    /// UDP only: one call for as many datagrams as fit 64 KiB, segmented by the kernel or the device.
    Gso,
}

#[derive(Debug, Args)]
struct Receive {
    #[arg(value_enum)]
    kind: Kind,
    #[arg(long, default_value_t = 5001)]
    port: u16,
    /// Receive coalesced batches of datagrams (UDP_GRO).
    #[arg(long)]
    gro: bool,
}

#[derive(Debug, Args)]
struct Send {
    #[arg(value_enum)]
    kind: Kind,
    #[arg(long)]
    to: IpAddr,
    #[arg(long, default_value_t = 5001)]
    port: u16,
    /// Bytes of each write or datagram.
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    size: u32,
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    #[arg(long, value_enum, default_value_t = Batch::Many)]
    batch: Batch,
}

#[derive(Debug, Args)]
struct Serve {
    #[arg(long, default_value_t = 5001)]
    port: u16,
    #[arg(long, default_value_t = 1550)]
    size: usize,
}

#[derive(Debug, Args)]
struct Call {
    #[arg(long)]
    to: IpAddr,
    #[arg(long, default_value_t = 5001)]
    port: u16,
    #[arg(long, default_value_t = 1550)]
    size: usize,
    /// Duration in seconds.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
}

fn main() -> anyhow::Result<()> {
    match Command::parse() {
        Command::Receive(args) if args.kind == Kind::Tcp => tcp::receive(&args),
        Command::Receive(args) => datagrams::receive(&args),
        Command::Send(args) if args.kind == Kind::Tcp => tcp::send(&args),
        Command::Send(args) => datagrams::send(&args),
        Command::Serve(args) => transactions::serve(&args),
        Command::Call(args) => transactions::call(&args),
    }
}
