//! `strandline demo sip`: the SIP server with its store, and phones that call one another over UDP, TCP and
//! SCTP.

use std::cell::Cell;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use strandline_output::outln;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::echo_process::{Announced, spawn_apart, this_program};
use crate::folder::Folder;

/// Starts a SIP server that keeps its bindings in SQLite, registers phones over UDP, TCP and SCTP and lets
/// them call one another. In a terminal the calls continue until interrupted, so that the live page shows
/// activity.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline demo sip                              3,000 phones, 300 calls per second
  strandline demo sip --phones 10000 --rate 500    more of both over each transport
  strandline demo sip --once --json                machine-readable")]
pub struct Args {
    /// Number of phones over each transport
    #[arg(long, default_value_t = 1000, value_name = "N")]
    pub phones: u32,
    /// Calls per second over each transport
    #[arg(long, default_value_t = 100.0, value_name = "N")]
    pub rate: f64,
    /// Duration of the measurement in seconds
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    pub time: f64,
    /// Exit after the measurement, even in a terminal
    #[arg(long)]
    pub once: bool,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The demo's result.
#[derive(Debug, Serialize)]
struct Report {
    /// Number of phones registered with the server at the end.
    registered: u64,
    /// Size of the server's store in bytes.
    store_bytes: u64,
    transports: Vec<Calls>,
}

/// Calls over one transport, as reported by `strandline load sip`.
#[derive(Debug, Serialize)]
struct Calls {
    transport: String,
    succeeded: u64,
    /// Calls that the server refused because it was overloaded.
    refused: u64,
    begun: u64,
    succeeded_each_second: f64,
    p50_ms: Option<f64>,
    p99_ms: Option<f64>,
}

/// Addresses that `strandline sip --json` reports.
#[derive(Debug, Deserialize)]
struct Announcement {
    listening: Vec<Announced>,
    metrics: SocketAddr,
}

/// Runs the demo.
///
/// # Errors
/// If the server or a load can't be started.
pub(super) async fn run(args: &Args) -> Result<ExitCode> {
    // The child processes are in their own process groups, so the terminal's Ctrl-C reaches only this
    // program, and they end with it.
    let mut signals = Signals::new()?;
    let going_on = Cell::new(false);
    tokio::select! {
        done = show(args, &going_on) => done,
        signal = signals.next() => Ok(if going_on.get() { ExitCode::SUCCESS } else { ExitCode::from(signal) }),
    }
}

/// The signals that end the demo early.
struct Signals([(Signal, u8); 3]);

impl Signals {
    fn new() -> Result<Self> {
        let of = |kind: SignalKind| anyhow::Ok((signal(kind)?, 128 + kind.as_raw_value() as u8));
        Ok(Self([of(SignalKind::interrupt())?, of(SignalKind::terminate())?, of(SignalKind::hangup())?]))
    }

    /// Returns the exit code of the first signal that arrives.
    async fn next(&mut self) -> u8 {
        let [(interrupt, first), (terminate, second), (hangup, third)] = &mut self.0;
        tokio::select! {
            _ = interrupt.recv() => *first,
            _ = terminate.recv() => *second,
            _ = hangup.recv() => *third,
        }
    }
}

async fn show(args: &Args, going_on: &Cell<bool>) -> Result<ExitCode> {
    let positive = |value: f64| value.is_finite() && value > 0.0;
    if args.phones < 2 || !positive(args.rate) || !positive(args.time) {
        bail!("--phones must be at least 2, --rate and --time more than 0");
    }
    let folder = Folder::new("demo-sip")?;
    let store = folder.path().join("sip.db");
    let (mut server, announcement) = start(&folder, &store).await?;
    let page = format!("http://{}/", announcement.metrics);
    if !args.json {
        outln!("SIP server for example.com, bindings in {}", store.display());
        outln!("Live page: {page}   (in a terminal: strandline sip top {})", announcement.metrics);
        outln!("{} phones over each of UDP, TCP and SCTP register and call one another ...", args.phones);
    }
    let load = |time: f64, again: bool| Loads { args, announcement: &announcement, time, again };
    let transports = load(args.time, false).run().await?;
    let registered = users(announcement.metrics).await?;
    let store_bytes = size(&store) + size(&store.with_extension("db-wal"));
    let report = Report { registered, store_bytes, transports };
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print(&report);
    }
    let all = report.transports.iter().all(|calls| calls.succeeded > 0);
    if all && !args.once && !args.json && std::io::stdout().is_terminal() {
        outln!("Phones keep calling; see {page} (Ctrl-C to stop)");
        going_on.set(true);
        load(86_400.0, true).run().await?;
    }
    server.kill().await.context("stopping the SIP server")?;
    Ok(if all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn start(folder: &Folder, store: &Path) -> Result<(tokio::process::Child, Announcement)> {
    let store = store.to_str().context("the path of the temporary directory is not valid UTF-8")?;
    let mut arguments = vec!["--domain", "example.com", "--store", store, "--metrics", "127.0.0.1:0"];
    for listen in ["udp:127.0.0.1:0", "tcp:127.0.0.1:0", "sctp:127.0.0.1:0"] {
        arguments.extend(["--listen", listen]);
    }
    let (child, line) = spawn_apart(folder, &["sip", "--json"], &arguments).await?;
    Ok((child, serde_json::from_str(&line)?))
}

/// The loads, one for each transport, all at once.
struct Loads<'a> {
    args: &'a Args,
    announcement: &'a Announcement,
    time: f64,
    /// Whether the phones have registered before, from other ports: these contacts are removed.
    again: bool,
}

impl Loads<'_> {
    async fn run(&self) -> Result<Vec<Calls>> {
        let one = |number| self.one(number);
        let (udp, tcp, sctp) = tokio::try_join!(one(0), one(1), one(2))?;
        Ok(vec![udp, tcp, sctp])
    }

    /// Runs the load of the transport with this number. Each load has its own phones.
    async fn one(&self, number: u32) -> Result<Calls> {
        let protocol = ["udp", "tcp", "sctp"].get(number as usize).copied().unwrap_or("udp");
        let entry = self.announcement.listening.iter().find(|entry| entry.protocol == protocol);
        let entry = entry.with_context(|| format!("the SIP server has no {protocol} port"))?;
        let sources = if protocol == "udp" { 16 } else { self.args.phones.min(1000) };
        let arguments = [
            ("--transport", protocol.to_owned()),
            ("--server", SocketAddr::from((entry.host, entry.port)).to_string()),
            ("--encapsulation", entry.carrier.unwrap_or(9899).to_string()),
            ("--users", self.args.phones.to_string()),
            ("--first", (number * self.args.phones).to_string()),
            ("--sources", sources.to_string()),
            ("--rate", self.args.rate.to_string()),
            ("--time", self.time.to_string()),
        ];
        let output = this_program()?
            .args(["load", "sip", "call", "--json"])
            .args(self.again.then_some("--remove-contacts"))
            .args(arguments.iter().flat_map(|(name, value)| [*name, value.as_str()]))
            .stdout(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("phones over {protocol}"))?
            .wait_with_output()
            .await
            .with_context(|| format!("phones over {protocol}"))?;
        let report: Value = serde_json::from_slice(&output.stdout).map_err(|_| {
            anyhow!("phones over {protocol} failed ({}): see the message above", output.status)
        })?;
        let number = |name: &str| report[name].as_u64().unwrap_or_default();
        Ok(Calls {
            transport: protocol.to_ascii_uppercase(),
            succeeded: number("succeeded"),
            refused: number("refused"),
            begun: number("begun"),
            succeeded_each_second: report["succeeded_each_second"].as_f64().unwrap_or_default(),
            p50_ms: report["response"]["p50_ms"].as_f64(),
            p99_ms: report["response"]["p99_ms"].as_f64(),
        })
    }
}

/// Returns the number of phones registered with the server.
async fn users(metrics: SocketAddr) -> Result<u64> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(metrics).await.context("reading the live page")?;
    stream.write_all(b"GET /live.json HTTP/1.1\r\nHost: localhost\r\n\r\n").await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let live: Value = serde_json::from_str(answer.split_once("\r\n\r\n").map_or("", |(_, body)| body))?;
    live["users"].as_u64().context("the live page lacks the number of registered phones")
}

fn size(file: &Path) -> u64 {
    file.metadata().map_or(0, |metadata| metadata.len())
}

fn print(report: &Report) {
    outln!("\n{:<10}{:>12}{:>12}{:>12}{:>12}", "", "calls/s", "succeeded", "p50, ms", "p99, ms");
    for calls in &report.transports {
        let share = calls.succeeded as f64 / calls.begun.max(1) as f64 * 100.0;
        let millis = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
        outln!(
            "{:<10}{:>12.1}{:>10.2} %{:>12}{:>12}",
            calls.transport,
            calls.succeeded_each_second,
            share,
            millis(calls.p50_ms),
            millis(calls.p99_ms),
        );
    }
    outln!(
        "{} phones are registered; the store has {:.1} MB. Times are from INVITE to 200, through the proxy.\n",
        report.registered,
        report.store_bytes as f64 / 1e6
    );
}
