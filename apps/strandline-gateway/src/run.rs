//! A gateway from its start to its end.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;
use strandline::{Association, Listener, Stack, UdpGroup};
use strandline_ops::raise_open_files;
use strandline_output::{errln, outln};
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::LocalSet;
use tokio::time::timeout;

use crate::access_log::AccessLog;
use crate::admin;
use crate::clock::now;
use crate::config::{Args, Listen, Settings};
use crate::desired_listeners::AnnouncedListener;
use crate::fair_sharing::FairSharing;
use crate::far::accept_streams;
use crate::far_peer::{FarPeer, Services};
use crate::flows::Flows;
use crate::gateway::{Gateway, Stage};
use crate::handover::{Inherited, Program, Successor, SuccessorState};
use crate::hot_restart::HotRestart;
use crate::peer_identity::PeerIdentity;
use crate::protocol::Opening;
use crate::registry::Registry;
use crate::running::Running;
use crate::signals::Signals;
use crate::{init, shards, stacks, start_check};

/// Exit code for wrong options, which is that of the parser of the command line, too.
const WRONG_OPTIONS: u8 = 2;
/// Time for the last steps of an end.
const LAST_STEPS: Duration = Duration::from_secs(2);

/// Time for peers to leave a process that has handed over.
const LEAVING: Duration = Duration::from_secs(10);
/// Time between two looks whether they have.
const LOOK_EVERY: Duration = Duration::from_millis(250);

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
        return Ok(strandline_ops::report(&[settings.flaws.clone(), start_check::flaws(&settings)].concat()));
    }
    if init::is_first() {
        return init::run(&Program::current()?);
    }
    for flaw in &settings.flaws {
        tracing::warn!("{flaw}");
    }
    raise_open_files();
    let inherited = Inherited::receive()?;
    let succession = HotRestart::new(Program::current()?, inherited);
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
        tasks.run_until(serve(args.clone(), gateway, runtimes, succession)).await
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
    pid: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    listen: Option<SocketAddr>,
    /// Those of `listen` that the configuration lists, if there are several: the socket is bound to all addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    listen_addresses: Vec<SocketAddr>,
    /// The fingerprint of this gateway's key.
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    listeners: Vec<AnnouncedListener>,
    /// Where peers are asked to listen, for people.
    #[serde(skip)]
    reverses: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    admin: Option<SocketAddr>,
}

impl Announced {
    fn print(&self, is_json: bool) -> Result<()> {
        if is_json {
            outln!("{}", serde_json::to_string(self)?);
            return Ok(());
        }
        outln!("Gateway until interrupted:");
        if let Some(address) = self.listen {
            let plain = if self.key.is_some() { "" } else { ", NOT encrypted" };
            let listed =
                self.listen_addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
            let at = if listed.is_empty() { address.to_string() } else { listed };
            outln!("  associations  SCTP in UDP at {at}{plain}");
        }
        if let Some(key) = &self.key {
            outln!("  key           {key}");
        }
        for AnnouncedListener { listener, listen, peer, to, .. } in &self.listeners {
            let to = to.as_ref().map_or(String::new(), |to| format!(", to {to}"));
            outln!("  {listener:<12}  {listen}, by {peer}{to}");
        }
        for reverse in &self.reverses {
            outln!("  reverse       {reverse}");
        }
        if let Some(address) = self.admin {
            outln!("  admin         http://{address}/status, http://{address}/metrics");
        }
        Ok(())
    }
}

async fn serve(
    args: Args,
    gateway: Arc<Gateway>,
    runtimes: Vec<Handle>,
    succession: HotRestart,
) -> Result<()> {
    let is_json = args.json;
    // Before the addresses are announced: a signal may follow at once.
    let mut signals = Signals::catch()?;
    let settings = gateway.settings();
    let mut announced = Announced { pid: std::process::id(), ..Announced::default() };
    let listening = match &settings.listen {
        Some(at) => {
            let open = |group: &mut UdpGroup| listen(at, group, &gateway, &runtimes);
            Some(succession.open_group(at.socket, open)?)
        }
        None => None,
    };
    let encryption = settings.encryption.as_ref();
    announced.key = encryption.map(|encrypted| encrypted.shared.fingerprint().to_string());
    announced.listen = listening.as_ref().and_then(|(stack, _)| stack.local_addr());
    if let (Some(at), Some(socket)) = (&settings.listen, announced.listen) {
        announced.listen_addresses = at.addresses.iter().map(|ip| (*ip, socket.port()).into()).collect();
    }
    let running = Rc::new(
        Running::start(
            args,
            Arc::clone(&gateway),
            runtimes,
            succession,
            listening.as_ref().map(|(stack, _)| stack.clone()),
        )
        .await?,
    );
    announced.listeners = running.announced();
    announced.reverses = settings.reverses.iter().map(|reverse| settings.describe(reverse)).collect();
    if let Some(address) = settings.admin {
        announced.admin = Some(admin::listen(address, Rc::clone(&running)).await?);
    }
    announced.print(is_json)?;
    running.succession.lead(&gateway)?;
    // A signal that came before the next process serves is for that, too.
    let (successor, is_ending) = tokio::select! {
        biased;
        () = signals.handle_until_end(&gateway, &running) => (running.end_next().await, true),
        successor = running.succession.succeeded() => (Some(successor), false),
    };
    running.stop().await;
    gateway.set_stage(Stage::Draining);
    if let Some(successor) = &successor {
        attend(Rc::clone(successor), Arc::clone(&gateway), Rc::clone(&running));
    }
    let mut was_noted = false;
    if let Some(successor) = &successor {
        tokio::select! {
            noted = drain_beside(&gateway, &running, successor) => was_noted = noted && !is_ending,
            () = signals.handle_until_end(&gateway, &running) => {}
        }
    }
    if let Some((_, listener)) = &listening {
        listener.stop_accepting();
    }
    drain(&gateway, &running, &mut signals, was_noted).await;
    end(&gateway, running.stacks()).await;
    Ok(())
}

/// Tells the process that has taken over about this one, and does what it says.
fn attend(successor: Rc<Successor>, gateway: Arc<Gateway>, running: Rc<Running>) {
    tokio::task::spawn_local(async move {
        tokio::select! {
            () = successor.attend(|| gateway.registry.open(), &gateway.sockets) => {}
            () = running.follow_keys(&successor) => {}
        }
    });
}

impl Signals {
    /// Does what signals ask for, until one asks for the end.
    async fn handle_until_end(&mut self, gateway: &Gateway, running: &Rc<Running>) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => return,
                _ = self.hangup.recv() => {
                    gateway.registry.reopen_log();
                    if running.can_reload() {
                        let running = Rc::clone(running);
                        // The result is logged.
                        tokio::task::spawn_local(async move { running.reload().await });
                    }
                }
                _ = self.restart.recv() => {
                    let running = Rc::clone(running);
                    tokio::task::spawn_local(async move {
                        if let Err(error) = running.restart(false).await {
                            tracing::error!(error = format!("{error:#}"), "not restarted; this process goes on");
                        }
                    });
                }
            }
        }
    }
}

/// Serves the connections that are left, beside the process that has taken over. Returns once there are none,
/// the time is over, or that process has ended. Returns whether that process has passed on that this one is
/// to end.
async fn drain_beside(gateway: &Arc<Gateway>, running: &Running, successor: &Successor) -> bool {
    let open = gateway.registry.open();
    tracing::info!(pid = successor.pid, open, "another process has taken over; connections go on here");
    gateway.set_moved();
    running.retire();
    let begun = now();
    let drained = async {
        loop {
            gateway.registry.wait_empty().await;
            if gateway.accepted() == 0 || begun.elapsed() >= LEAVING {
                return;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    tokio::select! {
        () = drained => {}
        () = tokio::time::sleep(gateway.settings().restart_timeout) => {}
        () = refuse_later(gateway) => {}
        () = successor.has_reached(SuccessorState::Ending) => {
            tracing::info!(pid = successor.pid, "the process that had taken over is told to end, or has ended");
        }
    }
    successor.state() == SuccessorState::Ending
}

/// Refuses streams that peers open once they have had the time to leave.
async fn refuse_later(gateway: &Gateway) {
    tokio::time::sleep(LEAVING).await;
    gateway.refuse_streams();
    std::future::pending().await
}

/// Waits until the connections that are left have ended, here and in the processes of before, or their time
/// has, or a signal asks for the end. `was_noted` says that another process has passed on that this one is to
/// end.
async fn drain(gateway: &Arc<Gateway>, running: &Rc<Running>, signals: &mut Signals, was_noted: bool) {
    // The peers set up another association, or do without one.
    gateway.refuse_streams();
    gateway.set_moved();
    let drained = async {
        gateway.registry.wait_empty().await;
        running.succession.formers_ended().await;
    };
    let told = async {
        signals.handle_until_end(gateway, running).await;
        if was_noted {
            // The first may be of the same end: a service manager signals all processes.
            signals.handle_until_end(gateway, running).await;
        }
    };
    tokio::select! {
        () = drained => {}
        () = tokio::time::sleep(gateway.settings().drain_timeout) => {}
        () = told => {}
    }
}

/// Lets the peer of an association set up another one with the process that takes over.
async fn send_go_away(association: &Association, gateway: &Gateway) {
    gateway.moved().await;
    if let Ok(stream) = association.open_stream().await {
        let (_recv, mut send) = stream.into_split();
        if send.send(Opening::GoAway.encode(&[]).into()).await.is_ok() && send.finish().is_ok() {
            let _ = send.finished().await;
        }
    }
    std::future::pending().await
}

/// Resets what is still open, and lets the peers know.
async fn end(gateway: &Gateway, stacks: Vec<Stack>) {
    let open = gateway.registry.open();
    gateway.registry.set_cut();
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
    let idle = async {
        for stack in &stacks {
            stack.wait_idle().await;
        }
    };
    if timeout(LAST_STEPS, idle).await.is_err() {
        tracing::warn!("not all peers have answered the end of their associations");
    }
}

/// Listens for associations, on each runtime for those of its shard.
fn listen(
    at: &Listen,
    group: &mut UdpGroup,
    gateway: &Arc<Gateway>,
    runtimes: &[Handle],
) -> Result<(Stack, Arc<Listener>)> {
    let shared = stacks::Shared { settings: gateway.settings(), memory: Arc::clone(&gateway.memory) };
    let (stack, listener) = stacks::listen(at, group, &shared, runtimes)?;
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
    let key = association.peer_identity().map(|identity| identity.fingerprint);
    let who = PeerIdentity { address: path.address.ip().to_canonical(), key };
    let (address, name) = (who.address, gateway.name_of(who));
    if let Err(lack) = stacks::check_extensions(&status) {
        gateway.warnings.refused_association(&name, address, &lack);
        return association.abort("a gateway needs more extensions");
    }
    let joined = match gateway.limits.join(who, now()) {
        Ok(joined) => joined,
        Err(most) => {
            let error = format!("the peer has {most} associations already (limits.associations_max)");
            gateway.warnings.refused_association(&name, address, &error);
            return association.abort(error);
        }
    };
    if association.set_dynamic_streams(stacks::dynamic_streams()).is_err() {
        return;
    }
    let (listed, counted) = (gateway.add(&association), gateway.count_accepted());
    let key = who.key.map(|key| key.to_string());
    tracing::info!(peer = %name, %address, key, "association accepted");
    let flows = Arc::<Flows>::default();
    let peer = Arc::new(FarPeer {
        gateway: Arc::clone(&gateway),
        name: Arc::clone(&name),
        who,
        reverses: Vec::new(),
        flows: Arc::clone(&flows),
        sharing: FairSharing::new(association.clone()),
        moved: Notify::new(),
        services: Services::new(&gateway.settings().limits),
    });
    tokio::select! {
        _ = accept_streams(&association, &peer) => {}
        () = flows.receive(&association) => {}
        () = send_go_away(&association, &gateway) => {}
    }
    let ended = association.closed().await;
    tracing::info!(peer = %name, %address, %ended, "association ended");
    drop((listed, counted, joined));
}
