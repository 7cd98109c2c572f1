//! `strandline load echo`.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, bail};

use crate::controller::Fleet;
use crate::job::{Encapsulation, Job, Style, Transport};
use crate::report::LoadReport;

/// Sets up associations at a steady rate, whether the server keeps up or not, and measures.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline load echo                                 SCTP, 2,500 new associations a second for 5 seconds
  strandline load echo --transport tcp --clients 2     the same over TCP, from two processes
  strandline load echo --style piggyback               data goes along with the COOKIE ECHO
  strandline load echo --persistent 100 --rate 20000   messages on 100 associations in turn
  strandline load echo --count 50000 --hold            keep them all; press Enter to let go
The server: strandline echo")]
pub struct Args {
    /// What to measure
    #[arg(long, value_enum, default_value = "sctp")]
    pub transport: Transport,
    /// When the first message goes
    #[arg(long, value_enum, default_value = "regular")]
    pub style: Style,
    /// The server: IP address, and TCP, UDP or SCTP port [default: 127.0.0.1:7007, sctp-many: port 7008]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub server: Option<SocketAddr>,
    /// The server's UDP port for SCTP
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    pub encapsulation: u16,
    /// SCTP on raw IP (needs CAP_NET_RAW)
    #[arg(long)]
    pub raw: bool,
    /// Bytes of a message
    #[arg(long, default_value_t = 1550, value_name = "BYTES")]
    pub size: usize,
    /// Operations a second, of all client processes together
    #[arg(long, default_value_t = 2500.0)]
    pub rate: f64,
    /// Operations in all [default: 5 seconds' worth]
    #[arg(long)]
    pub count: Option<u64>,
    /// Client processes
    #[arg(long, default_value_t = 1)]
    pub clients: usize,
    /// Set up so many associations beforehand and send on them in turn, instead of a new one each time
    #[arg(long, default_value_t = 0, value_name = "N")]
    pub persistent: u64,
    /// Keep every new association until Enter is pressed
    #[arg(long)]
    pub hold: bool,
    /// Seconds after which an operation has failed
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

    /// The job of each client process.
    fn jobs(&self) -> Result<Vec<Job>> {
        if !(self.rate > 0.0 && self.rate.is_finite()) {
            bail!("--rate must be more than 0");
        }
        if self.clients == 0 {
            bail!("--clients must be at least 1");
        }
        if self.pcap.is_some() && !self.transport.is_sctp() {
            bail!("--pcap captures SCTP only: for TCP and UDP use tcpdump");
        }
        let clients = self.clients as u64;
        let total = self.count.unwrap_or((self.rate * 5.0).ceil() as u64);
        let share = |all: u64, number: u64| all / clients + u64::from(number < all % clients);
        let encapsulation =
            if self.raw { Encapsulation::Raw } else { Encapsulation::Udp(self.encapsulation) };
        let job = |number: u64| Job {
            transport: self.transport,
            style: self.style,
            encapsulation,
            server: self.server(),
            message_bytes: self.size,
            rate: self.rate / clients as f64,
            count: share(total, number),
            offset_s: number as f64 / self.rate,
            persistent: share(self.persistent, number),
            hold: self.hold,
            timeout_s: self.timeout,
            trace: false,
            pcap: self.pcap.clone().filter(|_| number == 0),
        };
        Ok((0..clients).map(job).collect())
    }
}

/// Runs a load. Fails if nothing at all succeeded.
///
/// # Errors
/// If the arguments make no sense or a client process fails.
pub fn run(args: &Args) -> Result<ExitCode> {
    let jobs = args.jobs()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut fleet = Fleet::start(&jobs).await?;
        let outcome = fleet.run(&args.transport.to_string()).await?;
        let carrier = args.transport.is_sctp().then_some(if args.raw { "on raw IP" } else { "in UDP" });
        let what = (args.transport, args.style, carrier);
        let report = LoadReport::new(what, args.size, args.rate, args.clients, &outcome);
        if args.json {
            println!("{}", serde_json::to_string_pretty(&report)?);
        } else {
            report.print(&outcome);
        }
        if args.hold {
            eprintln!("Held until Enter is pressed.");
            let mut line = String::new();
            tokio::task::spawn_blocking(move || std::io::stdin().read_line(&mut line)).await??;
        }
        fleet.release().await?;
        Ok(if outcome.progress.completed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    })
}

#[cfg(test)]
mod tests;
