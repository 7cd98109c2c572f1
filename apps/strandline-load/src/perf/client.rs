//! The client: agrees on a test with a server, runs it, and prints the figures of both sides.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use serde_json::{Value, json};
use strandline::{Address, Association, ConnectError, Ended, ErrorCause, ParseAddressError, Peer, Stack};
use strandline_output::{errln, outln};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::args::{ClientArgs, Transport};
use super::channel::{Carrier, Channel, ControlError};
use super::flow::Link;
use super::open::{self, Opening};
use super::path_events::Watch;
use super::protocol::{ATTEMPTS_MAX, Message, Parameters, Role};
use super::report::{Connected, Test};
use super::session::{Outcome, Session, interrupted, run as run_session};
use super::shards::Shards;
use super::tally::now;
use super::tcp::Connection;
use super::text::{Live, summary};
use super::trace::Trace;
use super::track::Interval;
use super::tuning::Congestion;

/// Time limit for setting up an association or connection, and for the answer to a control message.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for graceful ends.
const END_TIMEOUT: Duration = Duration::from_secs(2);
/// Exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

/// Runs a test and prints its report.
pub(crate) async fn run(
    args: &ClientArgs,
    runtimes: Vec<Handle>,
    interrupt: watch::Receiver<bool>,
) -> Result<ExitCode> {
    let result = test(args, runtimes, interrupt).await;
    // Programs that read the report find the error there, too.
    if let Err(error) = &result {
        let error = format!("{error:#}");
        if args.common.json {
            outln!("{}", json!({ "start": {}, "intervals": [], "end": {}, "error": error }));
        } else if args.json_stream {
            print_event("error", json!(error));
        }
    }
    result
}

async fn test(
    args: &ClientArgs,
    runtimes: Vec<Handle>,
    mut interrupt: watch::Receiver<bool>,
) -> Result<ExitCode> {
    let began = now();
    let parameters = args.parameters()?;
    let server = resolve(args).await?;
    let trace = args.trace.as_deref().map(Trace::create).transpose()?;
    let dialler = Dialler::new(args, runtimes, server, trace.clone())?;
    let prepared = tokio::select! {
        prepared = prepare(&parameters, &dialler) => prepared,
        () = interrupted(&mut interrupt) => return Ok(ExitCode::from(INTERRUPTED)),
    };
    let (mut channel, links, token) = prepared?;
    let test = Test {
        role: Role::Client,
        transport: args.transport,
        encapsulation: encapsulation(args),
        other: (args.server.clone(), args.common.port),
        token,
        connected: connected(&links),
        parameters: parameters.clone(),
    };
    if args.json_stream {
        print_event("start", test.start());
    }
    if let Some(warning) = without_ecn(args, &links) {
        errln!("strandline: {warning}");
    }
    let (tell, mut told) = mpsc::unbounded_channel();
    let session = Session {
        role: Role::Client,
        parameters,
        links: links.clone(),
        shards: Shards::new(args.common.shards, dialler.stack.iter().cloned().collect()),
        every: args.common.every(),
        observe: observer(args, &test, tell),
        interrupt,
    };
    let watch = Watch::start(&links, began);
    let outcome = run_session(session, &mut channel).await?;
    let outcome = Outcome { path_changes: watch.finish(), ..outcome };
    let mut intervals = Vec::new();
    while let Ok(interval) = told.try_recv() {
        intervals.push(interval);
    }
    print(args, &test, intervals, &outcome)?;
    end(channel, links).await;
    if let Some(Err(failure)) = trace.map(|trace| trace.finish()) {
        errln!("strandline: {failure:#}");
        return Ok(ExitCode::FAILURE);
    }
    Ok(match &outcome.failure {
        None if outcome.interrupted => ExitCode::from(INTERRUPTED),
        None => ExitCode::SUCCESS,
        // After Ctrl-C the user wanted the end and has the figures.
        Some(_) if outcome.interrupted => ExitCode::from(INTERRUPTED),
        Some(failure) => {
            errln!("strandline: the test failed: {failure}");
            ExitCode::FAILURE
        }
    })
}

fn encapsulation(args: &ClientArgs) -> Option<&'static str> {
    match args.transport {
        Transport::Tcp => None,
        Transport::Sctp => Some(if args.common.raw { "raw" } else { "udp" }),
    }
}

/// Returns a note if ECN was requested and not agreed on, which only the server's answer shows.
fn without_ecn(args: &ClientArgs, links: &[Link]) -> Option<String> {
    let dctcp = args.common.tuning.congestion == Some(Congestion::Dctcp);
    if !dctcp && !args.common.tuning.ecn {
        return None;
    }
    let agreed = links.iter().filter_map(Link::figures).find_map(|figures| figures.ecn);
    let (what, option) = match (agreed, dctcp) {
        (Some(false), true) => {
            ("dctcp gets no congestion marks and reacts only to losses", "--congestion dctcp")
        }
        (Some(false), false) => ("congestion causes packet loss instead of marks", "--ecn"),
        _ => return None,
    };
    Some(format!("the server did not negotiate ECN: {what}. Start it with: strandline perf server {option}"))
}

/// Returns the receiver of intervals: live lines are printed at once; with `--json` the intervals are kept
/// for the report.
fn observer(
    args: &ClientArgs,
    test: &Test,
    tell: mpsc::UnboundedSender<Value>,
) -> Box<dyn FnMut(Interval) + Send> {
    let mut live = (!args.common.quiet && !args.common.every().is_zero())
        .then(|| Live::new(test.clone(), String::new(), args.common.every()));
    let (test, json, stream) = (test.clone(), args.common.json, args.json_stream);
    Box::new(move |interval| {
        if let Some(live) = &mut live {
            live.print(&interval);
        }
        if stream {
            print_event("interval", test.interval(&interval));
        }
        if json {
            // The receiver lives as long as the test.
            let _ = tell.send(test.interval(&interval));
        }
    })
}

fn print_event(name: &str, data: Value) {
    outln!("{}", json!({ "event": name, "data": data }));
}

fn print(args: &ClientArgs, test: &Test, intervals: Vec<Value>, outcome: &Outcome) -> Result<()> {
    if args.common.json {
        outln!("{}", serde_json::to_string(&test.report(intervals, outcome))?);
    } else if args.json_stream {
        if let Some(failure) = &outcome.failure {
            print_event("error", json!(failure));
        }
        print_event("end", test.end(outcome));
    } else {
        outln!("{}", summary(test, outcome));
    }
    Ok(())
}

async fn resolve(args: &ClientArgs) -> Result<SocketAddr> {
    let address = match args.server.parse::<Address>() {
        Err(ParseAddressError::NoIp(_)) => {
            let found = tokio::net::lookup_host((args.server.as_str(), args.common.port)).await;
            let mut found = found.with_context(|| format!("looking up {}", args.server))?;
            found.next().with_context(|| format!("{} has no address", args.server))?
        }
        parsed => parsed?.with_port(args.common.port),
    };
    if Address::of(address).lacks_zone() {
        return Err(ParseAddressError::NoZone(address.ip()).into());
    }
    Ok(address)
}

/// Sets up associations or connections with the server.
#[derive(Debug, Clone)]
struct Dialler {
    args: ClientArgs,
    server: SocketAddr,
    stack: Option<Stack>,
    /// The runtime of each shard.
    runtimes: Vec<Handle>,
}

impl Dialler {
    fn new(
        args: &ClientArgs,
        runtimes: Vec<Handle>,
        server: SocketAddr,
        trace: Option<Arc<Trace>>,
    ) -> Result<Self> {
        let any = if server.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let common = &args.common;
        let opening = Opening { common, runtimes: &runtimes, nodelay: !args.nagle, trace };
        let stack = match args.transport {
            Transport::Tcp => None,
            Transport::Sctp if common.raw => Some(open::raw(&opening, any)?),
            Transport::Sctp => {
                let address = SocketAddr::new(any, 0);
                Some(open::udp(&opening, address, common.encapsulation_port)?)
            }
        };
        Ok(Self { args: args.clone(), server, stack, runtimes })
    }

    /// Sets up an association on a shard, or a connection.
    async fn dial(&self, shard: usize) -> Result<Channel> {
        let dial = async {
            Ok::<_, anyhow::Error>(match &self.stack {
                Some(stack) => {
                    let peer =
                        Peer::new(Address::of(self.server), self.server.port()).named(&self.args.server);
                    Carrier::Sctp(Association::connect(&stack.on_shard(shard), peer).await?)
                }
                None => Carrier::Tcp(open::tcp_connect(&self.args.common, self.server).await?),
            })
        };
        let carrier = match timeout(ANSWER_TIMEOUT, dial).await {
            Ok(result) => result,
            Err(_) => Err(anyhow!("no response within {} s", ANSWER_TIMEOUT.as_secs())),
        };
        let with_hint = |error: anyhow::Error| {
            let hint = self.hint(has_answered(&error));
            error.context(hint)
        };
        Ok(Channel::new(carrier.map_err(with_hint)?))
    }

    /// Sets up an association or connection that carries a flow of the test.
    async fn join(self, token: String, flow: u16) -> Result<(u16, Link)> {
        let joined = async {
            for attempt in 0..=ATTEMPTS_MAX {
                let mut joining = self.dial(usize::from(flow)).await?;
                joining.send(&Message::Join { token: token.clone(), flow, attempt }).await?;
                match answer(&mut joining).await? {
                    Message::Joined {} => return Ok(joining),
                    Message::Elsewhere {} => {}
                    _ => bail!("unexpected response from the server"),
                }
            }
            bail!("the server announced no address for flow {flow}")
        };
        let link = match joined.await?.carrier {
            Carrier::Sctp(association) => {
                self.args.common.tuning.apply_to_paths(&association)?;
                let runtime = open::runtime_of(&self.runtimes, &association);
                Link::Sctp(association, runtime)
            }
            Carrier::Tcp(stream) => Link::Tcp(Connection::new(stream, !self.args.nagle)?),
        };
        Ok((flow, link))
    }

    /// Returns what was tried, and what to check if nobody has answered.
    fn hint(&self, has_answered: bool) -> String {
        let (ip, port) = (self.server.ip(), self.server.port());
        let (place, flags) = match self.args.transport {
            Transport::Tcp => (format!("TCP port {port}"), format!("-p {port}")),
            Transport::Sctp if self.args.common.raw => {
                (format!("SCTP port {port} over raw IP"), format!("-p {port} --raw"))
            }
            Transport::Sctp => {
                let udp = self.args.common.encapsulation_port;
                (
                    format!("SCTP port {port} over UDP port {udp}"),
                    format!("-p {port} --encapsulation-port {udp}"),
                )
            }
        };
        if has_answered {
            return format!("connecting to {ip}, {place}");
        }
        format!(
            "connecting to {ip}, {place}: is `strandline perf server {flags}` running there, and does a firewall block it?"
        )
    }
}

/// Returns whether the server has said why it doesn't serve this client, or has shown a key that is not trusted.
fn has_answered(error: &anyhow::Error) -> bool {
    match error.downcast_ref() {
        Some(ConnectError::Ended(Ended::NotEncrypted(_))) => true,
        Some(ConnectError::Ended(Ended::PeerAborted { cause, .. })) => *cause != ErrorCause::None,
        _ => false,
    }
}

/// Prepares the test up to the server's report that it begins.
async fn prepare(parameters: &Parameters, dialler: &Dialler) -> Result<(Channel, Vec<Link>, String)> {
    let mut channel = dialler.dial(0).await?;
    channel.send(&Message::Test(parameters.clone())).await?;
    let token = match answer(&mut channel).await? {
        Message::Accepted { token } => token,
        _ => bail!("unexpected response from the server"),
    };
    // All flows join at once: one after another could take longer than the server waits.
    let mut joining = JoinSet::new();
    for flow in 0..parameters.flows {
        joining.spawn(dialler.clone().join(token.clone(), flow));
    }
    let mut links = BTreeMap::new();
    while let Some(joined) = joining.join_next().await {
        let (flow, link) = joined.context("the task of a flow failed")??;
        links.insert(flow, link);
    }
    match answer(&mut channel).await? {
        Message::Begin {} => Ok((channel, links.into_values().collect(), token)),
        _ => bail!("unexpected response from the server"),
    }
}

async fn answer(channel: &mut Channel) -> Result<Message> {
    let answer = timeout(ANSWER_TIMEOUT, channel.recv()).await;
    match answer.context("the server does not answer: is it `strandline perf server`?")? {
        Ok(Message::Refused { reason }) => bail!("the server refused the test: {reason}"),
        Ok(message) => Ok(message),
        Err(ControlError::Gone(why)) => {
            bail!("the server closed before the test started ({why}): is it `strandline perf server`?")
        }
        Err(ControlError::Bad(why)) => bail!("unexpected response from the server: {why}"),
    }
}

fn connected(links: &[Link]) -> Vec<Connected> {
    let connected = links.iter().enumerate().filter_map(|(number, link)| {
        let (peer, (local_port, remote_port)) = (link.peer()?, link.ports());
        Some(Connected {
            socket: number + 1,
            local_port,
            local_host: match link {
                Link::Sctp(..) => None,
                Link::Tcp(connection) => Some(connection.local.ip().to_string()),
            },
            remote_host: peer.ip().to_string(),
            remote_port,
            remote_encapsulation_port: (peer.port() != remote_port && peer.port() != 0).then(|| peer.port()),
        })
    });
    connected.collect()
}

/// Shuts down in order: the flows first, so that the server sees the end of the test last.
async fn end(channel: Channel, links: Vec<Link>) {
    let graceful = async {
        for link in links {
            match link {
                Link::Sctp(association, _) => {
                    association.shutdown().await;
                }
                Link::Tcp(connection) => connection.close(),
            }
        }
        if let Carrier::Sctp(association) = channel.carrier {
            association.shutdown().await;
        }
    };
    // The figures are complete, so it doesn't matter if the server is gone.
    let _ = timeout(END_TIMEOUT, graceful).await;
}
