//! The command line of `strandline perf`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use clap::{Subcommand, ValueEnum};
use strandline::encryption::{self, Encryption};
use strandline::{Address, AssociationConfig};

use super::protocol::{Direction, Length, Parameters, SIZE_MAX};
use super::tuning::Tuning;

/// Arguments of `strandline perf`.
#[derive(Debug, Clone, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
Examples:
  strandline perf server                          on one host: serve tests over SCTP and TCP
  strandline perf client 192.0.2.7                on another: 10 s of 8 KiB messages over SCTP
  strandline perf client 192.0.2.7 --transport tcp             the same path over TCP
  strandline perf client 192.0.2.7 -l 64 --streams 8 -t 30     small messages on 8 streams
  strandline perf client 192.0.2.7 --bidir -P 4 --json         both directions, 4 associations
  strandline perf client 192.0.2.7 -R -n 1G                    1 GiB from the server to the client
  strandline perf client 192.0.2.7 --rate 200M                 at 200 Mbit/s
  strandline perf client 192.0.2.7 --congestion bbr            with BBR instead of CUBIC
  strandline perf client 192.0.2.7 --encrypt                   encrypted; the server needs --encrypt too
  strandline perf client 192.0.2.7 --trace run.jsonl           write a packet trace for strandline lab trace
  strandline perf server --address 192.0.2.7 --address 198.51.100.7
                                                               two paths; the client learns both addresses"
)]
pub struct Args {
    /// Role of this process
    #[command(subcommand)]
    pub side: Side,
}

/// The two sides of a test.
#[derive(Debug, Clone, Subcommand)]
pub enum Side {
    /// Serve tests until Ctrl-C
    Server(ServerArgs),
    /// Run a test with a server and print the results of both sides
    Client(ClientArgs),
}

/// The transport of the messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Transport {
    /// SCTP of this stack
    Sctp,
    /// TCP of the kernel, with a write for each message
    Tcp,
}

impl Transport {
    /// Returns the name as iperf3 writes it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Sctp => "SCTP",
            Self::Tcp => "TCP",
        }
    }
}

/// Arguments that both sides have.
#[derive(Debug, Clone, clap::Args)]
pub struct Common {
    /// SCTP port and TCP port of the server
    #[arg(short, long, default_value_t = 5001)]
    pub port: u16,
    /// UDP port of the server for SCTP encapsulation
    #[arg(long, default_value_t = 9899)]
    pub encapsulation_port: u16,
    /// Use SCTP directly over IP (protocol 132; requires CAP_NET_RAW); a server then accepts both
    #[arg(long)]
    pub raw: bool,
    /// Send raw IP by a packet socket, which bypasses most of the kernel's IP: faster, but the kernel's firewall
    /// does not see these packets
    #[arg(long, requires = "raw")]
    pub packet_socket: bool,
    /// Encrypt SCTP and authenticate the peer by its key (DTLS 1.3); both sides need it
    #[arg(long, conflicts_with = "raw")]
    pub encrypt: bool,
    /// File with this host's key, as strandline keygen makes it; implies --encrypt
    /// [default: ~/.config/strandline/key.pem]
    #[arg(long, value_name = "FILE", conflicts_with = "raw")]
    pub key: Option<PathBuf>,
    /// Peers to trust: SHA256:FINGERPRINT, a file of known hosts or of authorities' certificates, first-use for
    /// unknown servers, anyone for clients without a key; repeatable; implies --encrypt
    /// [default: ~/.config/strandline/known_hosts]
    #[arg(long, value_name = "WHO", conflicts_with = "raw")]
    pub trust: Vec<String>,
    /// Address of this host to announce to the peer; repeat for several paths, the preferred one first
    /// [default: the source address of the packets]
    #[arg(long, value_name = "ADDR")]
    pub address: Vec<Address>,
    /// Size of each receive buffer, which is the advertised window, in bytes [default: auto-tuned; with TCP by the
    /// kernel]
    #[arg(long, value_name = "BYTES", value_parser = buffer)]
    pub receive_buffer: Option<u32>,
    /// Size of each send buffer in bytes [default: auto-tuned; with TCP by the kernel]
    #[arg(long, value_name = "BYTES", value_parser = buffer)]
    pub send_buffer: Option<u32>,
    /// Number of threads, each with its own socket and engine, over which the associations are distributed in
    /// turn
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=SHARDS_MAX))]
    pub shards: u16,
    /// Seconds between interval lines on standard error; 0 disables them
    #[arg(short, long, default_value_t = 1.0, value_name = "SECS", value_parser = interval)]
    pub interval: f64,
    /// Print no interval lines
    #[arg(short, long)]
    pub quiet: bool,
    /// Print the report as JSON on standard output, with iperf3's names where they mean the same
    #[arg(short = 'J', long)]
    pub json: bool,
    /// Parameters of SCTP
    #[command(flatten)]
    pub tuning: Tuning,
}

/// Maximum number of shards of a stack.
const SHARDS_MAX: i64 = 64;

/// Arguments of the server.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline perf server                           SCTP over UDP, and TCP, on all addresses
  strandline perf server --bind 192.0.2.7 --raw    on one address, also SCTP over IP
  strandline perf server --once --json             serve one test, and print its report
  strandline perf server --shards 4                on four threads
  strandline perf server --address 192.0.2.7 --address 198.51.100.7
                                                   two paths
On the other host: strandline perf client 192.0.2.7")]
pub struct ServerArgs {
    /// Arguments that both sides have
    #[command(flatten)]
    pub common: Common,
    /// Local address; `::` accepts IPv4 and IPv6, and a link-local address requires its interface, as in fe80::7%eth0
    #[arg(short, long, default_value = "0.0.0.0")]
    pub bind: Address,
    /// Exit after one test
    #[arg(short = '1', long)]
    pub once: bool,
}

/// Arguments of the client.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline perf client 192.0.2.7                          10 s of 8 KiB messages over SCTP
  strandline perf client 192.0.2.7 --transport tcp          the same path over TCP
  strandline perf client 192.0.2.7 -R -t 30 --omit 3        from server to client, without the first 3 s
  strandline perf client 192.0.2.7 -n 1G -P 4               1 GiB over 4 associations
  strandline perf client 192.0.2.7 -l 64 --rate 20M         small messages at a steady rate
  strandline perf client 192.0.2.7 --raw                    SCTP over raw IP (requires CAP_NET_RAW)
  strandline perf client 192.0.2.7 --congestion bbr --json
                                                            with BBR, and a machine-readable report
  strandline perf client 192.0.2.7 --trace run.jsonl        write a packet trace for strandline lab trace
On the other host: strandline perf server. The output is described in docs/perf.md")]
pub struct ClientArgs {
    /// Address or name of the server
    #[arg(value_name = "ADDR")]
    pub server: String,
    /// Arguments that both sides have
    #[command(flatten)]
    pub common: Common,
    /// Transport of the messages
    #[arg(long, value_enum, default_value_t = Transport::Sctp)]
    pub transport: Transport,
    /// Duration of the test in seconds
    #[arg(short, long, default_value_t = 10.0, value_name = "SECS")]
    pub time: f64,
    /// Number of bytes to send instead of --time; K, M and G are powers of 1024
    #[arg(short = 'n', long, value_name = "BYTES", value_parser = bytes, conflicts_with_all = ["time", "omit"])]
    pub bytes: Option<u64>,
    /// Size of a message, or with TCP of a write, in bytes [default: 8K with SCTP, 128K with TCP]
    #[arg(short = 'l', long, value_name = "BYTES", value_parser = size)]
    pub size: Option<u32>,
    /// Number of streams of each association, used in turn
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub streams: u16,
    /// Number of concurrent associations, or TCP connections
    #[arg(short = 'P', long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    pub associations: u16,
    /// Send messages unordered
    #[arg(long)]
    pub unordered: bool,
    /// Send from the server to the client
    #[arg(short = 'R', long)]
    pub reverse: bool,
    /// Send in both directions
    #[arg(long, conflicts_with = "reverse")]
    pub bidir: bool,
    /// Pass messages to SCTP without copying them, as applications with shared buffers do
    #[arg(long)]
    pub no_copy: bool,
    /// Write and read through the byte stream of one stream, as applications written for TCP do
    #[arg(long, conflicts_with_all = ["no_copy", "unordered", "streams"])]
    pub byte_stream: bool,
    /// Report the longest time without received data, and when paths failed and recovered (SCTP)
    #[arg(long)]
    pub pauses: bool,
    /// Enable Nagle's algorithm, which gathers small messages until earlier data is acknowledged
    #[arg(long)]
    pub nagle: bool,
    /// Seconds at the start to omit from the results
    #[arg(short = 'O', long, default_value_t = 0.0, value_name = "SECS")]
    pub omit: f64,
    /// Send at this rate in bits per second, all associations together; K, M and G are powers of 1000 [default:
    /// as fast as possible]
    #[arg(short = 'b', long, value_name = "BITS", value_parser = rate)]
    pub rate: Option<u64>,
    /// Write each packet's content and each path's state to a file, as lines of JSON (SCTP); draw it with
    /// `strandline lab trace FILE`
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Print a line of JSON for the start, each interval and the end, as they occur
    #[arg(long, conflicts_with = "json")]
    pub json_stream: bool,
}

impl ClientArgs {
    /// Returns the parameters of the test.
    pub(crate) fn parameters(&self) -> Result<Parameters> {
        let tcp = self.transport == Transport::Tcp;
        ensure!(!tcp || !self.common.is_encrypted(), "--encrypt requires SCTP: omit it with --transport tcp");
        ensure!(!tcp || !self.common.raw, "--raw requires SCTP: omit it with --transport tcp");
        ensure!(!tcp || self.streams == 1, "TCP has no streams: omit --streams, or use -P");
        ensure!(!tcp || !self.no_copy, "TCP always copies: omit --no-copy");
        ensure!(!tcp || !self.byte_stream, "TCP is a byte stream: omit --byte-stream");
        ensure!(!self.byte_stream || !self.pauses, "--pauses requires messages: omit it with --byte-stream");
        ensure!(!tcp || !self.pauses, "--pauses requires SCTP: omit it with --transport tcp");
        ensure!(!tcp || self.trace.is_none(), "--trace requires SCTP: omit it with --transport tcp");
        ensure!(!tcp || self.common.address.is_empty(), "TCP has one path: omit --address");
        ensure!(!tcp || !self.unordered, "TCP is always ordered: omit --unordered");
        ensure!(!tcp || self.common.shards == 1, "TCP uses a thread for each connection: omit --shards");
        if tcp {
            self.common.tuning.check_tcp()?;
        }
        let parameters = Parameters {
            direction: match (self.reverse, self.bidir) {
                (true, _) => Direction::Down,
                (_, true) => Direction::Both,
                _ => Direction::Up,
            },
            length: self.bytes.map_or(Length::Seconds(self.time), Length::Bytes),
            omit_seconds: self.omit,
            message_bytes: self.size.unwrap_or(if tcp { 128 << 10 } else { 8 << 10 }),
            streams: self.streams,
            flows: self.associations,
            unordered: self.unordered,
            nagle: self.nagle,
            no_copy: self.no_copy,
            byte_stream: self.byte_stream,
            pauses: self.pauses,
            bits_per_second: self.rate,
        };
        parameters.validate().map_err(|wrong| anyhow!(wrong))?;
        Ok(parameters)
    }
}

impl Common {
    /// Returns how to encrypt, if it was asked for.
    pub(crate) fn encryption(&self) -> Result<Option<Encryption>> {
        if !self.is_encrypted() {
            return Ok(None);
        }
        let options = encryption::Options { key: self.key.clone(), trust: self.trust.clone() };
        Ok(Some(options.load()?))
    }

    pub(crate) fn is_encrypted(&self) -> bool {
        self.encrypt || self.key.is_some() || !self.trust.is_empty()
    }

    /// Returns the time between live lines; zero: none.
    pub(crate) fn every(&self) -> Duration {
        Duration::try_from_secs_f64(self.interval).unwrap_or(Duration::ZERO)
    }

    /// Returns the configuration of the associations.
    pub(crate) fn association(&self, nodelay: bool) -> AssociationConfig {
        let usual = self.tuning.base();
        let receive_buffer = self.receive_buffer.or(usual.receive_buffer);
        let partial_delivery_point = receive_buffer
            .map_or(usual.partial_delivery_point, |bytes| usual.partial_delivery_point.min(bytes));
        self.tuning.apply(AssociationConfig {
            receive_buffer,
            send_buffer: self.send_buffer.or(usual.send_buffer),
            partial_delivery_point,
            nodelay,
            ..usual
        })
    }
}

fn interval(text: &str) -> Result<f64> {
    let value: f64 = text.parse()?;
    ensure!(value == 0.0 || (0.05..=3600.0).contains(&value), "must be 0, or 0.05 to 3600 s");
    Ok(value)
}

fn bytes(text: &str) -> Result<u64> {
    scaled(text, 1024)
}

fn size(text: &str) -> Result<u32> {
    let value = u32::try_from(scaled(text, 1024)?).unwrap_or(u32::MAX);
    ensure!((1..=SIZE_MAX).contains(&value), "must be 1 byte to 16M");
    Ok(value)
}

fn buffer(text: &str) -> Result<u32> {
    let value = u32::try_from(scaled(text, 1024)?).unwrap_or(u32::MAX);
    ensure!((1500..=1 << 30).contains(&value), "must be 1500 bytes to 1G");
    Ok(value)
}

fn rate(text: &str) -> Result<u64> {
    let value = scaled(text, 1000)?;
    ensure!(value > 0, "must be more than 0 bit/s");
    Ok(value)
}

/// Parses a number with the suffix K, M, G or T.
fn scaled(text: &str, unit: u64) -> Result<u64> {
    let powers = [('K', 1), ('M', 2), ('G', 3), ('T', 4)];
    let last = text.chars().last().map(|c| c.to_ascii_uppercase());
    let power = powers.iter().find(|(letter, _)| last == Some(*letter)).map_or(0, |&(_, power)| power);
    let digits = if power > 0 { text.get(..text.len() - 1).unwrap_or_default() } else { text };
    let value: f64 = digits.parse().context("expected a number such as 1500, 64K, 1.5M or 2G")?;
    let value = value * unit.pow(power) as f64;
    ensure!((0.0..=(1_u64 << 60) as f64).contains(&value), "must be 0 to 2^60");
    Ok(value as u64)
}

#[cfg(test)]
mod tests;
