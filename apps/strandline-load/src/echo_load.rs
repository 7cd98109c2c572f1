//! `strandline load echo`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};
use strandline_output::{errln, outln};

use crate::controller::Fleet;
use crate::job::{Content, Encapsulation, Job, Style, Transport};
use crate::report::LoadReport;
use crate::served::Servers;

/// Sets up associations at a steady rate, whether the server keeps up or not, and measures times.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline load echo                                 SCTP, 2,500 new associations per second for 5 seconds
  strandline load echo --transport tcp --clients 2     the same over TCP, from two processes
  strandline load echo --style piggyback               with data in the packet of the COOKIE ECHO
  strandline load echo --persistent 100 --rate 20000   messages on 100 associations in turn
  strandline load echo --count 50000 --hold            keep them all until you press Enter
  strandline load echo --serve --transport udp         start a server, and measure its processor time and memory
  strandline load echo --serve --hold --transport tcp --clients 3 --count 50000
                                                       memory of 50,000 connections: three servers, three clients
  strandline load echo --lines --size 100000 --rate 10
                                                       time for 100 KB to arrive on a new association
  strandline load echo --serve --sip --transport tcp   INVITEs, each answered with 200 by a SIP front end
Without --serve, start the server with: strandline echo (with --sip: strandline sip --front-end)

Exit code: 0 on success, 3 if some operations failed, 1 if all failed or none could start.")]
pub struct Args {
    /// Transport to measure
    #[arg(long, value_enum, default_value = "sctp")]
    pub transport: Transport,
    /// When to send the first message
    #[arg(long, value_enum, default_value = "regular")]
    pub style: Style,
    /// IP address of the server, with its TCP, UDP or SCTP port [default: 127.0.0.1:7007; sctp-many: port 7008]
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = strandline::socket_address)]
    pub server: Option<SocketAddr>,
    /// UDP port of the server that carries SCTP
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub encapsulation: u16,
    /// Use SCTP over raw IP (requires CAP_NET_RAW)
    #[arg(long)]
    pub raw: bool,
    /// Size of a message in bytes
    #[arg(long, default_value_t = 1550, value_name = "BYTES")]
    pub size: usize,
    /// Operations per second of all client processes together
    #[arg(long, default_value_t = 2500.0, value_name = "N")]
    pub rate: f64,
    /// Total number of operations [default: those of --duration]
    #[arg(long, conflicts_with = "duration", value_name = "N")]
    pub count: Option<u64>,
    /// Seconds during which operations start
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    pub duration: f64,
    /// Number of client processes
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub clients: usize,
    /// Number of associations to set up in advance and use in turn; 0 sets up a new one for each operation
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub persistent: u64,
    /// Keep all associations until Enter is pressed, or with --serve until their memory is measured
    #[arg(long)]
    pub hold: bool,
    /// Send INVITEs of --size bytes to a SIP front end, and expect a 200 for each
    #[arg(long)]
    pub sip: bool,
    /// Send lines of --size bytes to `strandline echo --lines`, which answers each with an empty line once it is
    /// complete
    #[arg(long, conflicts_with_all = ["sip", "serve"])]
    pub lines: bool,
    /// Start a server, and report its processor time and, with --hold, its memory
    #[arg(long, conflicts_with_all = ["server", "encapsulation"])]
    pub serve: bool,
    /// Report the time between the packets of a set-up and its transaction
    #[arg(long)]
    pub trace: bool,
    /// Seconds after which an operation fails
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS")]
    pub timeout: f64,
    /// Write the SCTP packets of the first client process to a pcapng file
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl Args {
    fn server(&self) -> SocketAddr {
        let port = if self.transport == Transport::SctpMany { 7008 } else { 7007 };
        self.server.unwrap_or((IpAddr::from([127, 0, 0, 1]), port).into())
    }

    /// Returns a hint for the case that no operation was answered.
    fn nothing_answered(&self) -> String {
        let server = self.server();
        if self.serve {
            return format!("no operation completed within {} s: lower --rate", self.timeout);
        }
        let start = match self.sip {
            true => "strandline sip --front-end",
            false => "strandline echo",
        };
        format!(
            "no response from {server}: start a server there with `{start}`, or use `strandline load echo --serve` to start \
             one"
        )
    }

    fn content(&self) -> Content {
        match (self.sip, self.lines) {
            (true, _) => Content::Invite,
            (false, true) => Content::Line,
            (false, false) => Content::Letters,
        }
    }

    /// Returns the job of each client process.
    fn jobs(&self) -> Result<Vec<Job>> {
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            bail!("--rate must be more than 0");
        }
        if !(self.duration > 0.0 && self.duration <= 86_400.0) {
            bail!("--duration must be more than 0 and at most 86400");
        }
        if self.clients == 0 {
            bail!("--clients must be at least 1");
        }
        if self.sip && (self.raw || (self.server.is_none() && !self.serve)) {
            bail!(
                "--sip requires --serve, or --server ADDRESS:PORT (and --encapsulation PORT), and conflicts with --raw"
            );
        }
        if self.pcap.is_some() && !self.transport.is_sctp() {
            bail!("--pcap captures only SCTP: for TCP and UDP use tcpdump");
        }
        let clients = self.clients as u64;
        let total = self.count.unwrap_or((self.rate * self.duration).ceil() as u64);
        let share = |all: u64, number: u64| all / clients + u64::from(number < all % clients);
        let encapsulation =
            if self.raw { Encapsulation::Raw } else { Encapsulation::Udp(self.encapsulation) };
        let job = |number: u64| Job {
            transport: self.transport,
            content: self.content(),
            style: self.style,
            encapsulation,
            server: self.server(),
            message_bytes: self.size,
            rate: self.rate / clients as f64,
            count: share(total, number),
            number,
            clients,
            offset_s: number as f64 / self.rate,
            persistent: share(self.persistent, number),
            hold: self.hold,
            timeout_s: self.timeout,
            trace: self.trace,
            pcap: self.pcap.clone().filter(|_| number == 0),
        };
        Ok((0..clients).map(job).collect())
    }
}

/// Exit code if some operations failed and others didn't.
const SOME_FAILED: u8 = 3;

/// Runs a load.
///
/// # Errors
/// If the arguments are invalid or a client process fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let mut jobs = args.jobs()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let servers = if args.serve { Some(Servers::start(args.raw, &mut jobs).await?) } else { None };
        let mut fleet = Fleet::start(&jobs).await?;
        let before = servers.as_ref().map(Servers::look).transpose()?;
        let outcome = fleet.run(&args.transport.to_string()).await?;
        let served = match (&servers, &before) {
            (Some(servers), Some(before)) => Some(servers.took(before, &outcome).await?),
            _ => None,
        };
        let carrier = args.transport.is_sctp().then_some(if args.raw { "over raw IP" } else { "over UDP" });
        let what = (args.transport, args.style, carrier);
        let mut report = LoadReport::new(what, args.size, args.rate, args.clients, &outcome);
        report.server = served;
        report.steps_ms = args.trace.then(|| outcome.steps.by_name());
        if args.json {
            outln!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            report.print(&outcome);
        }
        if args.hold && !args.serve {
            errln!("Holding the associations; press Enter to stop.");
            let mut line = String::new();
            tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut line)).await??;
        }
        if args.hold && args.serve {
            // Their servers end too, so no graceful end is needed.
            fleet.end().await?;
        } else {
            fleet.release().await?;
        }
        if let Some(servers) = servers {
            servers.end().await?;
        }
        Ok(match (outcome.progress.completed, outcome.progress.failed) {
            (0, _) => {
                errln!("strandline: {}", args.nothing_answered());
                ExitCode::FAILURE
            }
            (_, 0) => ExitCode::SUCCESS,
            _ => ExitCode::from(SOME_FAILED),
        })
    })
}

#[cfg(test)]
mod tests;
