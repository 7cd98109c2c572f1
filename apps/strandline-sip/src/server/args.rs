//! The command line.

use std::net::SocketAddr;
use std::path::PathBuf;

use super::style::SctpStyle;
use super::{admin_client, parts, top};

/// Other things than serving.
#[derive(Debug, Clone, clap::Subcommand)]
pub enum Command {
    /// Show what a server does, in the terminal
    Top(top::Args),
    /// Look after a running server: registrations, draining, the configuration read again
    Admin(admin_client::Args),
    /// Take a REGISTER apart: how long each part of the work takes, and how often it is done
    Parts(parts::Args),
}

/// `strandline sip`: without a configuration it serves UDP and TCP on 127.0.0.1:5060, and SCTP in UDP at 9899.
#[derive(Debug, Clone, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  strandline sip                              registrar and proxy for 127.0.0.1, on UDP, TCP and SCTP, in memory
  strandline sip --domain example.com --listen udp:0.0.0.0:5060 --listen tcp:0.0.0.0:5060 \\
      --advertise sip.example.com --store /var/lib/strandline/sip.db
                                              for a domain; bindings survive restarts and crashes
  strandline sip --config /etc/strandline/sip.toml --check
                                              tells what is wrong with a configuration, and ends
  strandline sip --config /etc/strandline/sip.toml
  strandline sip --config /etc/strandline/sip.toml --processes auto
                                              a process for each core, all at the same addresses
  strandline sip --listen ws:127.0.0.1:8080 --listen udp:127.0.0.1:5060
                                              phones in browsers, over WebSocket, and others
  strandline sip --front-end                  answers 200 to everything, for measurements
  strandline sip top                          what the server does whose metrics are at 127.0.0.1:9090
  strandline sip admin --token FILE status    the same of one that was started with --admin 127.0.0.1:9091
Reads its configuration again on SIGHUP, without dropping a connection. Ends gracefully on SIGTERM and SIGINT: transactions may finish first, for up to 35 seconds."
)]
pub struct Args {
    #[allow(missing_docs)]
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Configuration file; the options below add to it
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the configuration and end
    #[arg(long)]
    pub check: bool,
    /// Listen at udp:ADDRESS:PORT, tcp:, ws: (WebSocket), tls: and wss: (these two with a table `tls` in the configuration),
    /// sctp: (there the address is that of the UDP socket which carries it, and the SCTP port is 5060), or sctp-ip: (on IP itself,
    /// with an SCTP port; needs CAP_NET_RAW)
    #[arg(long, value_name = "PROTOCOL:ADDRESS:PORT")]
    pub listen: Vec<String>,
    /// Of those SCTP ports that --listen names or that are there by default: one socket for all associations, or one for
    /// each
    #[arg(long, value_enum, default_value = "one-to-many", value_name = "STYLE")]
    pub sctp_style: SctpStyle,
    /// The live page at http://ADDRESS:PORT/, metrics for Prometheus at http://ADDRESS:PORT/metrics
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub metrics: Option<SocketAddr>,
    /// Look after the server over HTTP at ADDRESS:PORT (`strandline sip admin`); needs --admin-token
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub admin: Option<SocketAddr>,
    /// A file with the secret that who looks after the server must show
    #[arg(long, value_name = "FILE")]
    pub admin_token: Option<PathBuf>,
    /// A domain of the users
    #[arg(long, value_name = "NAME")]
    pub domain: Vec<String>,
    /// The name or address that others reach this server at, if it isn't the one that it listens at
    #[arg(long, value_name = "HOST")]
    pub advertise: Option<String>,
    /// Keep bindings in this SQLite file
    #[arg(long, value_name = "FILE")]
    pub store: Option<PathBuf>,
    /// Send requests on to hosts that are none of ours, whoever asks: only for closed networks
    #[arg(long)]
    pub open_relay: bool,
    /// Answer 200 to everything
    #[arg(long)]
    pub front_end: bool,
    /// Serve with so many processes, all at the same addresses; `auto`: one for each core that they may use
    #[arg(long, value_name = "N")]
    pub processes: Option<String>,
    /// This process is one of those, with this number
    #[arg(long, hide = true, value_name = "N")]
    pub worker: Option<u8>,
    /// Say as JSON what listens where
    #[arg(long)]
    pub json: bool,
}
