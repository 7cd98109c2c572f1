//! `strandline load memory`: the memory of one association by item, as the stack accounts for it, and its
//! growth with gaps in the received TSNs. Everything runs in this process, on a network in memory.

mod gaps;
mod report;

use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use strandline::memory::Network;
use strandline::{
    Association, AssociationConfig, Endpoint, EndpointConfig, Listener, MemoryReport, Message, Peer,
    SendInfo, Stack,
};
use strandline_output::{out, outln};
use tokio::task::LocalSet;

use self::report::{Account, Report};

const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const PORT: u16 = 7;

/// Default gaps: numbers of segments received beyond the first missing one. The paper's default was 2,048.
const GAPS: [u16; 8] = [0, 1, 64, 256, 512, 1024, 1536, 2048];

/// Largest gap that a SACK can report (RFC 9260 section 3.3.4).
const GAP_MAX: u16 = u16::MAX - 1;

/// Time after which an idle association has released its memory (it does so after 2 s).
const SETTLE: Duration = Duration::from_millis(3200);

/// Time after which a step has failed.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Arguments of `strandline load memory`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline load memory                    an idle association, and one with missing segments
  strandline load memory --gaps 0,100,5000  with 0, 100 and 5,000 segments beyond the first missing one
To measure the memory of processes and kernel, also with TCP: strandline load associations")]
pub struct Args {
    /// Number of associations held while one is measured; each is charged its share of the tables
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=40_000))]
    pub count: u32,
    /// Numbers of segments received beyond a missing one
    #[arg(long, value_delimiter = ',', value_name = "N,N,...", default_values_t = GAPS, value_parser = clap::value_parser!(u16).range(..=i64::from(GAP_MAX)))]
    pub gaps: Vec<u16>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// Measures and prints the result.
///
/// # Errors
/// If an association fails, or segments don't arrive as expected.
pub fn run(args: &Args) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = LocalSet::new().block_on(&runtime, async {
        let one_to_many = idle(args.count, Style::OneToMany).await?;
        let one_to_one = idle(args.count, Style::OneToOne).await?;
        let mut gaps = Vec::new();
        for segments in &args.gaps {
            gaps.push(gaps::measure(*segments).await?);
        }
        anyhow::Ok(Report { count: args.count, one_to_many, one_to_one, gaps })
    })?;
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        let mut text = Vec::new();
        report.print(&mut text)?;
        out!("{}", String::from_utf8_lossy(&text));
    }
    Ok(ExitCode::SUCCESS)
}

/// The kind of the server's socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    OneToMany,
    OneToOne,
}

/// Sets up `count` associations, exchanges a message on each, lets them become idle, and returns the memory
/// of one on the server's side.
async fn idle(count: u32, style: Style) -> Result<Account> {
    let network = Network::new();
    let (here, there) = (stack(&network, CLIENT)?, stack(&network, SERVER)?);
    let held = tokio::time::timeout(TIMEOUT, held(&here, &there, count, style));
    let (clients, reports) = held.await.context("setting up the association timed out")??;
    drop(clients);
    let last = reports.last().context("no exchange was measured")?;
    Ok(Account::new(last))
}

async fn held(
    here: &Stack,
    there: &Stack,
    count: u32,
    style: Style,
) -> Result<(Vec<Association>, Vec<MemoryReport>)> {
    let mut clients = Vec::new();
    match style {
        Style::OneToMany => {
            let server = Endpoint::bind(there, PORT)?;
            for _ in 0..count {
                let client = connect(here).await?;
                client.send(b"there", SendInfo::default()).await?;
                let (from, message) = server.recv_from().await?;
                server.send_to(from, message.data, SendInfo::default()).await?;
                returned(client.recv().await?)?;
                clients.push(client);
            }
            tokio::time::sleep(SETTLE).await;
            let ids = server.associations();
            let reports = ids.iter().filter_map(|id| server.control(*id).ok()?.memory());
            Ok((clients, reports.collect()))
        }
        Style::OneToOne => {
            let listener = Listener::bind(there, PORT)?;
            let mut servers = Vec::new();
            for _ in 0..count {
                let client = connect(here).await?;
                let server = listener.accept().await?;
                client.send(b"there", SendInfo::default()).await?;
                let message = server.recv().await?.context("the client shut down")?;
                server.send_bytes(message.data, SendInfo::default()).await?;
                returned(client.recv().await?)?;
                clients.push(client);
                servers.push(server);
            }
            tokio::time::sleep(SETTLE).await;
            let reports = servers.iter().filter_map(|server| server.control().memory());
            Ok((clients, reports.collect()))
        }
    }
}

fn returned(message: Option<Message>) -> Result<()> {
    match message {
        Some(message) if message.data == "there" => Ok(()),
        other => bail!("expected the echo, received {other:?}"),
    }
}

fn stack(network: &Network, address: IpAddr) -> Result<Stack> {
    let association = AssociationConfig {
        heartbeat_interval: None,
        // A deliberately lost packet must not be retransmitted while the memory is measured.
        rto_initial: TIMEOUT,
        rto_min: TIMEOUT,
        rto_max: TIMEOUT * 2,
        ..AssociationConfig::default()
    };
    let config = EndpointConfig { association: Arc::new(association), ..EndpointConfig::default() };
    Ok(Stack::builder().config(config).memory(network, [address])?)
}

async fn connect(stack: &Stack) -> Result<Association> {
    Ok(Association::connect(stack, Peer::new(SERVER, PORT)).await?)
}
