//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::style::SctpStyle;
use super::{admin_client, parts, top};

/// Subcommands besides serving.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Command {
    /// Show a server's activity in the terminal
    Top(top::Args),
    /// Administer a running server: registrations, draining, reloading the configuration
    Admin(admin_client::Args),
    /// Measure what a REGISTER costs in each part of the server
    Parts(parts::Args),
}

/// `strandline sip`: without a configuration, serves UDP and TCP on 127.0.0.1:5060, and SCTP in UDP on port
/// 9899.
#[derive(Debug, Clone, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  strandline sip                              registrar and proxy for 127.0.0.1, on UDP, TCP and SCTP, in memory
  strandline sip --domain example.com --listen udp:0.0.0.0:5060 --listen tcp:0.0.0.0:5060 \\
      --advertise sip.example.com --store /var/lib/strandline/sip.db
                                              for a domain, with bindings that survive restarts and crashes
  strandline sip --config /etc/strandline/sip.toml --check
                                              check a configuration
  strandline sip --config /etc/strandline/sip.toml
  strandline sip --config /etc/strandline/sip.toml --processes auto
                                              one process per core, all on the same addresses
  strandline sip --listen ws:127.0.0.1:8080 --listen udp:127.0.0.1:5060
                                              for phones in browsers, over WebSocket, and over UDP
  strandline sip --front-end                  answer every request with 200, for measurements
  strandline sip top                          show the server that was started with --metrics 127.0.0.1:9090
  strandline sip admin --token FILE status    ask the server that was started with --admin 127.0.0.1:9091
SIGHUP reloads the configuration without closing connections. SIGTERM and SIGINT shut the server down gracefully: transactions may take up to 35 seconds to finish."
)]
pub struct Args {
    #[allow(missing_docs)]
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Configuration file; other options add to it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the configuration and exit
    #[arg(long)]
    pub check: bool,
    /// Listening address: udp:ADDRESS:PORT, tcp:, ws: (WebSocket), tls: or wss: (these two need a `tls` table
    /// in the configuration), sctp: (SCTP in UDP: the address is that of the UDP socket, and the SCTP port is
    /// 5060), or sctp-ip: (SCTP directly over IP at the given SCTP port; needs CAP_NET_RAW)
    #[arg(long, value_name = "PROTOCOL:ADDRESS:PORT")]
    pub listen: Vec<String>,
    /// Socket style of the SCTP listeners given by --listen or opened by default: one socket for all
    /// associations, or one for each
    #[arg(long, value_enum, default_value = "one-to-many", value_name = "STYLE")]
    pub sctp_style: SctpStyle,
    /// Serve the live page at http://ADDRESS:PORT/ and Prometheus metrics at http://ADDRESS:PORT/metrics
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub metrics: Option<SocketAddr>,
    /// Enable administration over HTTP at ADDRESS:PORT (`strandline sip admin`); needs --admin-token
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub admin: Option<SocketAddr>,
    /// File with the token that administration requests must present
    #[arg(long, value_name = "FILE")]
    pub admin_token: Option<PathBuf>,
    /// Domain of the users; repeat for several
    #[arg(long, value_name = "NAME")]
    pub domain: Vec<String>,
    /// Name or address that phones are given, if it differs from the listening address
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<String>,
    /// Store bindings in this SQLite file [default: in memory]
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Forward requests for other hosts from any sender; for closed networks only
    #[arg(long)]
    pub open_relay: bool,
    /// Answer every request with 200, for measurements
    #[arg(long)]
    pub front_end: bool,
    /// Number of processes that serve all addresses, or `auto` for one per available core [default: 1]
    #[arg(long, value_name = "N")]
    pub processes: Option<String>,
    /// Number of this process among several
    #[arg(long, hide = true, value_name = "N")]
    pub worker: Option<u8>,
    /// Print the listening addresses as JSON
    #[arg(long)]
    pub json: bool,
}
