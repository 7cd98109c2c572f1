//! `strandline load flood`: a flood of INITs, to show that a server's established associations survive it.
//! For comparison, it can send as many plain UDP datagrams of the same size.

mod init;
mod sender;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use serde::Serialize;
use strandline_output::outln;

use self::init::Packets;
use self::sender::{Plan, Sent, flood};
use crate::report::thousands;

/// Maximum duration of a flood in seconds.
const DURATION_MAX_S: f64 = 600.0;

/// Arguments of `strandline load flood`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Only for your own servers: addresses that are neither local nor private are refused.
Examples:
  strandline load flood --to 127.0.0.1:9899 --port 7007                 as many INITs as one core can send
  strandline load flood --to 10.0.0.1:9899 --port 7007 --rate 100000    100,000 per second
  strandline load flood --to 10.0.0.1:9899 --port 7007 --plain          plain UDP datagrams, as a baseline")]
pub struct Args {
    /// The server's UDP socket that carries SCTP
    #[arg(long, default_value = "127.0.0.1:9899", value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub to: SocketAddr,
    /// SCTP port of the server
    #[arg(long, default_value_t = 7007, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: u16,
    /// Local address to send from
    #[arg(long, value_name = "ADDRESS")]
    pub from: Option<IpAddr>,
    /// Packets per second [default: as many as possible]
    #[arg(long, value_name = "N")]
    pub rate: Option<f64>,
    /// Duration in seconds, at most 600
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    pub duration: f64,
    /// Number of UDP sockets, each with its own port, to send from in turn
    #[arg(long, default_value_t = 16, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub sockets: u16,
    /// Packets per system call
    #[arg(long, default_value_t = 32, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    pub burst: u16,
    /// Send plain UDP datagrams of the same size instead of INITs
    #[arg(long)]
    pub plain: bool,
    /// Don't read responses, like a sender with forged addresses
    #[arg(long)]
    pub ignore_answers: bool,
    /// Allow any destination address: I own the network and the server, or have permission to flood them
    #[arg(long)]
    pub i_own_this_network: bool,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// The output of `--json`.
#[derive(Debug, Clone, Serialize)]
struct Report {
    to: SocketAddr,
    port: u16,
    plain: bool,
    packet_bytes: usize,
    rate: f64,
    #[serde(flatten)]
    sent: Sent,
}

impl Args {
    fn plan(&self) -> Result<Plan> {
        if self.rate.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            bail!("--rate must be more than 0");
        }
        if !(self.duration > 0.0 && self.duration <= DURATION_MAX_S) {
            bail!("--duration must be more than 0 and at most {DURATION_MAX_S} s");
        }
        let ip = self.to.ip();
        if self.to.port() == 0 || ip.is_unspecified() || is_many(ip) {
            bail!("--to must be the address and UDP port of one host");
        }
        if !is_near(ip) && !self.i_own_this_network {
            bail!(
                "{ip} is neither this machine nor a private address: flooding it requires --i-own-this-network"
            );
        }
        let any: IpAddr =
            if ip.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let from = self.from.unwrap_or(any);
        if from.is_ipv4() != ip.is_ipv4() {
            bail!("--from and --to must have the same address family");
        }
        Ok(Plan {
            to: self.to,
            from,
            sockets: usize::from(self.sockets),
            rate: self.rate,
            duration: Duration::from_secs_f64(self.duration),
            burst: usize::from(self.burst),
            ignore_answers: self.ignore_answers,
        })
    }
}

/// Returns whether an address is multicast or broadcast.
fn is_many(ip: IpAddr) -> bool {
    ip.is_multicast() || matches!(ip, IpAddr::V4(v4) if v4.is_broadcast())
}

/// Returns whether an address is this machine's, or one that no packet from the Internet reaches.
fn is_near(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(v4) => v4.is_loopback() || v4.is_private() || v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_loopback() || v6.is_unique_local() || v6.is_unicast_link_local(),
    }
}

/// Sends the flood and reports.
///
/// # Errors
/// If the arguments are invalid, the destination is not the user's own, or nothing can be sent.
pub fn run(args: &Args) -> Result<ExitCode> {
    let plan = args.plan()?;
    let mut packets = Packets::new(args.port, args.plain)?;
    let packet_bytes = packets.len();
    let sent = flood(&plan, &mut packets)?;
    let rate = sent.packets as f64 / sent.seconds.max(1e-9);
    let report = Report { to: args.to, port: args.port, plain: args.plain, packet_bytes, rate, sent };
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    Ok(if sent.packets > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

impl Report {
    fn print(&self) {
        let what = if self.plain { "plain datagrams" } else { "INITs" };
        outln!(
            "{} {what} of {} bytes to {} in {:.1} s: {}/s",
            thousands(self.sent.packets),
            self.packet_bytes,
            self.to,
            self.sent.seconds,
            thousands(self.rate as u64)
        );
        let answers = self.sent.init_acks + self.sent.aborts + self.sent.other_answers;
        outln!(
            "responses: {} ({} INIT ACK, {} ABORT)",
            thousands(answers),
            thousands(self.sent.init_acks),
            thousands(self.sent.aborts)
        );
    }
}

#[cfg(test)]
mod tests;
