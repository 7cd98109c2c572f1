//! A gateway from its start to its end.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use strandline::{Association, Listener, Stack};
use strandline_ops::raise_open_files;
use strandline_output::{errln, outln};
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::access_log::AccessLog;
use crate::admin::{self, Admin};
use crate::config::{Args, Settings, WayKind};
use crate::far::{FarPeer, accept_streams};
use crate::flows::Flows;
use crate::gateway::{Gateway, Stage};
use crate::link::Link;
use crate::registry::Registry;
use crate::{shards, stacks, ways};

/// Exit code for wrong options, which is that of the parser of the command line, too.
const WRONG_OPTIONS: u8 = 2;
/// Time for the last steps of an end.
const LAST_STEPS: Duration = Duration::from_secs(2);

/// Runs a gateway until it is told to end.
///
/// # Errors
/// If it can't listen at one of its addresses.
pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let settings = match Settings::read(args) {
        Ok(settings) => settings,
        Err(error) => {
            errln!("strandline: {error}");
            return Ok(ExitCode::from(WRONG_OPTIONS));
        }
    };
    if args.check {
        return Ok(strandline_ops::report(&settings.flaws));
    }
    for flaw in &settings.flaws {
        tracing::warn!("{flaw}");
    }
    raise_open_files();
    let log = settings
        .access_log
        .as_ref()
        .map(|path| AccessLog::open(path).with_context(|| format!("opening {}", path.display())));
    let registry = Registry::new(log.transpose()?);
    let shards = shards(&settings);
    let gateway = Arc::new(Gateway::new(settings, registry));
    shards::run(shards, async |runtimes| {
        // Admin tasks stay on this thread.
        let tasks = LocalSet::new();
        tasks.run_until(serve(gateway, runtimes, args.json)).await
    })??;
    Ok(ExitCode::SUCCESS)
}

fn shards(settings: &Settings) -> usize {
    let cores = available_parallelism().map_or(1, usize::from);
    match settings.shards {
        Some(shards) => shards.into(),
        None if settings.listen.is_some() => cores.min(64),
        None => settings.peers.len().clamp(1, cores),
    }
}

/// The addresses of a gateway, for people and programs.
#[derive(Debug, Default, Serialize)]
struct Announced {
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<SocketAddr>,
    ways: Vec<AnnouncedWay>,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<SocketAddr>,
}

#[derive(Debug, Serialize)]
struct AnnouncedWay {
    way: &'static str,
    listen: SocketAddr,
    peer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<String>,
}

impl Announced {
    fn print(&self, is_json: bool) -> Result<()> {
        if is_json {
            outln!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        outln!("Gateway until interrupted:");
        if let Some(address) = self.listen {
            outln!("  associations  SCTP in UDP at {address}");
        }
        for AnnouncedWay { way, listen, peer, to } in &self.ways {
            let to = to.as_ref().map_or(String::new(), |to| format!(", to {to}"));
            outln!("  {way:<12}  {listen}, by {peer}{to}");
        }
        if let Some(address) = self.admin {
            outln!("  admin         http://{address}/status, http://{address}/metrics");
        }
        Ok(())
    }
}

async fn serve(gateway: Arc<Gateway>, runtimes: Vec<Handle>, is_json: bool) -> Result<()> {
    // Before the addresses are announced: a signal may follow at once.
    let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
    let mut hangup = signal(SignalKind::hangup())?;
    let mut announced = Announced::default();
    let listening = match gateway.settings.listen {
        Some(address) => Some(listen(address, &gateway, &runtimes)?),
        None => None,
    };
    announced.listen = listening.as_ref().and_then(|(stack, _)| stack.local_addr());
    let (outgoing, links) = connect(&gateway, &runtimes)?;
    for (listener, kind, link, runtime) in bind_ways(&gateway, &links, &runtimes)? {
        let to = match &kind {
            WayKind::Forward { to } => Some(to.to_string()),
            _ => None,
        };
        let (way, peer) = (kind.name(), link.name.to_string());
        announced.ways.push(AnnouncedWay { way, listen: listener.local_addr()?, peer, to });
        runtime.spawn(ways::serve(listener, kind, link, Arc::clone(&gateway)));
    }
    announced.ways.extend(serve_udp(&gateway, &links, &runtimes)?);
    if let Some(address) = gateway.settings.admin {
        let admin = Admin { gateway: Arc::clone(&gateway), links };
        announced.admin = Some(admin::listen(address, admin).await?);
    }
    announced.print(is_json)?;
    let mut told = async || {
        loop {
            tokio::select! {
                _ = interrupt.recv() => return,
                _ = terminate.recv() => return,
                _ = hangup.recv() => gateway.registry.reopen_log(),
            }
        }
    };
    told().await;
    gateway.set_stage(Stage::Draining);
    if let Some((_, listener)) = &listening {
        listener.stop_accepting();
    }
    tokio::select! {
        () = gateway.registry.wait_empty() => {}
        () = tokio::time::sleep(gateway.settings.drain_timeout) => {}
        () = told() => {}
    }
    end(&gateway, [listening.map(|(stack, _)| stack), outgoing]).await;
    Ok(())
}

/// Resets what is still open, and lets the peers know.
async fn end(gateway: &Gateway, stacks: [Option<Stack>; 2]) {
    let open = gateway.registry.open();
    if open > 0 {
        tracing::warn!(open, "ending with open connections: they are reset");
    }
    for association in gateway.associations() {
        if open > 0 {
            association.abort("the gateway ends");
        } else {
            association.control().start_shutdown();
        }
    }
    gateway.set_stage(Stage::Cut);
    let _ = timeout(LAST_STEPS, gateway.registry.wait_empty()).await;
    for stack in stacks.into_iter().flatten() {
        let _ = timeout(LAST_STEPS, stack.wait_idle()).await;
    }
}

/// Listens for associations, on each runtime for those of its shard.
fn listen(
    address: SocketAddr,
    gateway: &Arc<Gateway>,
    runtimes: &[Handle],
) -> Result<(Stack, Arc<Listener>)> {
    let (stack, listener) = stacks::listen(address, &gateway.settings, runtimes)?;
    let listener = Arc::new(listener);
    for (shard, runtime) in runtimes.iter().enumerate() {
        let (listener, gateway) = (Arc::clone(&listener), Arc::clone(gateway));
        runtime.spawn(async move {
            while let Ok(association) = listener.accept_on(shard).await {
                tokio::spawn(accepted(association, Arc::clone(&gateway)));
            }
        });
    }
    Ok((stack, listener))
}

/// Serves an association of a peer until it ends.
async fn accepted(association: Association, gateway: Arc<Gateway>) {
    let (Some(status), Some(path)) = (association.status(), association.paths().into_iter().next()) else {
        return;
    };
    let address = path.address.ip().to_canonical();
    if let Err(lack) = stacks::check_extensions(&status) {
        tracing::warn!(peer = %address, "refusing an association: {lack}");
        return association.abort("a gateway needs more extensions");
    }
    if association.set_dynamic_streams(stacks::dynamic_streams()).is_err() {
        return;
    }
    let listed = gateway.add(&association);
    tracing::info!(peer = %address, "association accepted");
    let name = address.to_string().into();
    let flows = Arc::<Flows>::default();
    let peer = FarPeer { gateway, name, address, reverses: Vec::new(), flows: Arc::clone(&flows) };
    let peer = Arc::new(peer);
    tokio::select! {
        _ = accept_streams(&association, &peer) => {}
        () = flows.receive(&association) => {}
    }
    let ended = association.closed().await;
    tracing::info!(peer = %address, %ended, "association ended");
    drop(listed);
}

/// Starts to keep the associations with the peers, each on a runtime of its own as far as they go.
fn connect(gateway: &Arc<Gateway>, runtimes: &[Handle]) -> Result<(Option<Stack>, Vec<Arc<Link>>)> {
    if gateway.settings.peers.is_empty() {
        return Ok((None, Vec::new()));
    }
    let stack = stacks::outgoing(&gateway.settings, runtimes)?;
    let mut links = Vec::new();
    for ((at, peer), runtime) in gateway.settings.peers.iter().enumerate().zip(runtimes.iter().cycle()) {
        let link = Arc::new(Link::new(peer.clone(), stack.on_shard(at % runtimes.len())));
        runtime.spawn(Arc::clone(&link).run(Arc::clone(gateway)));
        links.push(link);
    }
    Ok((Some(stack), links))
}

/// Starts the UDP forwards.
fn serve_udp(gateway: &Arc<Gateway>, links: &[Arc<Link>], runtimes: &[Handle]) -> Result<Vec<AnnouncedWay>> {
    let mut announced = Vec::new();
    for forward in &gateway.settings.udp_forwards {
        let at = forward.peer;
        let (Some(link), Some(runtime)) = (links.get(at), runtimes.get(at % runtimes.len())) else {
            continue;
        };
        // The socket belongs to the runtime on which it is made.
        let entered = runtime.enter();
        let socket = ways::bind_udp(forward)?;
        drop(entered);
        let (listen, to) = (socket.local_addr()?, Some(forward.to.to_string()));
        announced.push(AnnouncedWay { way: "udp", listen, peer: link.name.to_string(), to });
        runtime.spawn(ways::serve_udp(socket, forward.clone(), Arc::clone(link), Arc::clone(gateway)));
    }
    Ok(announced)
}

type BoundWay = (TcpListener, WayKind, Arc<Link>, Handle);

/// Listens for all ways in, each on the runtime of its peer's association.
fn bind_ways(gateway: &Gateway, links: &[Arc<Link>], runtimes: &[Handle]) -> Result<Vec<BoundWay>> {
    let mut bound = Vec::new();
    for way in &gateway.settings.ways {
        let (Some(link), Some(runtime)) = (links.get(way.peer), runtimes.get(way.peer % runtimes.len()))
        else {
            continue;
        };
        // The socket belongs to the runtime on which it is made.
        let entered = runtime.enter();
        let listener = ways::bind(way)?;
        drop(entered);
        bound.push((listener, way.kind.clone(), Arc::clone(link), runtime.clone()));
    }
    Ok(bound)
}
