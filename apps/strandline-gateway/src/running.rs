//! The peers and the listeners of a gateway that runs, and their changes by a reload.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::{Arc, Weak};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use strandline::{Stack, StackError};
use strandline_ops::{ConfigError, Document, Reload, Reloads};
use strandline_output::{out, outln};
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Handle;
use tokio::sync::{Mutex, watch};

use crate::accept_queue::AcceptQueue;
use crate::captures::{self, Captures};
use crate::client_socket::ClientSocket;
use crate::config::{Args, ListenerConfig, Reverse, Settings, UdpForward};
use crate::desired_listeners::{
    AnnouncedListener, DesiredListener, announced, captured, tcp_target, udp_target, wanted,
};
use crate::gateway::Gateway;
use crate::handover::{ListenerId, Successor};
use crate::hot_restart::HotRestart;
use crate::link::Link;
use crate::listeners::{self, Target, UdpTarget};
use crate::ruleset::{Captured, Ruleset};
use crate::stacks::{ClientStacks, Shared, encryption_of};

/// Tables and keys that only a new start changes.
const KEPT: [&str; 10] = [
    "listen",
    "sctp_port",
    "insecure",
    "shards",
    "congestion",
    "multipath",
    "admin",
    "access_log",
    "limits.buffer_mib",
    "limits.buffer_total_mib",
];

/// The changing part of a gateway. It belongs to the first thread.
pub(crate) struct Running {
    args: Args,
    pub(crate) gateway: Arc<Gateway>,
    runtimes: Vec<Handle>,
    /// The stack that listens.
    listening: Option<Stack>,
    document: Document,
    reloads: Reloads,
    state: RefCell<State>,
    pub(crate) captures: Captures,
    pub(crate) succession: HotRestart,
    /// Held by a reload and by a restart.
    changing: Mutex<()>,
    /// Nothing new is taken any more.
    is_stopped: Cell<bool>,
}

struct State {
    outgoing: ClientStacks,
    links: Vec<Arc<Link>>,
    /// Those that a reload has removed, until their last connections end.
    retired: Vec<Weak<Link>>,
    listeners: Vec<ActiveListener>,
}

/// A socket that is served.
struct ActiveListener {
    id: ListenerId,
    announced: AnnouncedListener,
    /// Where its connections go; `None` once it takes none any more.
    to: Option<TargetSender>,
    /// True while a TCP listener accepts nothing, because its socket has failed.
    has_failed: Arc<watch::Sender<bool>>,
    /// The socket, for the next process; none once this one ends.
    socket: Option<ServedSocket>,
}

/// A socket that is served, besides the task that serves it.
enum ServedSocket {
    /// Another descriptor of it.
    Tcp(OwnedFd),
    Udp(Arc<ClientSocket>),
}

impl ServedSocket {
    /// Returns another descriptor of the socket; `None` if that has failed for now.
    fn descriptor(&self) -> std::io::Result<Option<OwnedFd>> {
        match self {
            Self::Tcp(socket) => socket.try_clone().map(Some),
            Self::Udp(socket) => socket.descriptor(),
        }
    }
}

/// Tells a task where its connections or datagrams go.
enum TargetSender {
    Tcp(watch::Sender<Target>),
    Udp(watch::Sender<UdpTarget>),
}

/// A socket that is bound and not served yet, with everything that serving it needs.
struct Bound {
    id: ListenerId,
    socket: BoundSocket,
    address: SocketAddr,
    /// Another descriptor of the socket, for the next process.
    other: OwnedFd,
}

enum BoundSocket {
    Tcp(AcceptQueue),
    Udp(UdpSocket),
}

impl BoundSocket {
    fn tcp(listener: TcpListener) -> Result<Self> {
        Ok(Self::Tcp(AcceptQueue::new(listener).context("duplicating a socket")?))
    }
}

impl Bound {
    fn new(id: ListenerId, socket: BoundSocket) -> std::io::Result<Self> {
        let (address, other) = match &socket {
            BoundSocket::Tcp(AcceptQueue { listener, .. }) => {
                (listener.local_addr()?, listener.as_fd().try_clone_to_owned()?)
            }
            BoundSocket::Udp(socket) => (socket.local_addr()?, socket.as_fd().try_clone_to_owned()?),
        };
        Ok(Self { id, socket, address, other })
    }
}

impl Running {
    /// Connects to the peers and opens the listeners.
    ///
    /// # Errors
    /// If a socket can't be opened, or the rules of captured connections can't be set.
    pub(crate) async fn start(
        args: Args,
        gateway: Arc<Gateway>,
        runtimes: Vec<Handle>,
        succession: HotRestart,
        listening: Option<Stack>,
    ) -> Result<Self> {
        let settings = gateway.settings();
        let document = Document::new(settings.document.clone(), &KEPT, &[]);
        let shared = Shared { settings: Arc::clone(&settings), memory: Arc::clone(&gateway.memory) };
        let outgoing = ClientStacks::new(shared, runtimes.clone());
        let running = Self {
            args,
            gateway,
            runtimes,
            listening,
            document,
            reloads: Reloads::default(),
            state: RefCell::new(State {
                outgoing,
                links: Vec::new(),
                retired: Vec::new(),
                listeners: Vec::new(),
            }),
            captures: Captures::default(),
            succession,
            changing: Mutex::default(),
            is_stopped: Cell::new(false),
        };
        let links = running.links_for(&settings)?;
        let bound = running.bind(&settings)?;
        running.captures.set(running.captured(&settings, &bound), || Ok(())).await?;
        running.change(&settings, links, bound);
        Ok(running)
    }

    pub(crate) fn links(&self) -> Vec<Arc<Link>> {
        self.state.borrow().links.clone()
    }

    pub(crate) fn announced(&self) -> Vec<AnnouncedListener> {
        let listeners = &self.state.borrow().listeners;
        listeners
            .iter()
            .map(|served| AnnouncedListener { failed: served.has_failed(), ..served.announced.clone() })
            .collect()
    }

    /// Ends the next process if one is starting, since this one is told to end, and starts none any more.
    /// Returns one that serves already: it was told to end, too.
    pub(crate) async fn end_next(&self) -> Option<Rc<Successor>> {
        self.is_stopped.set(true);
        self.succession.end_next().await
    }

    /// Takes nothing new any more, and removes the rules of captured connections: new ones go straight to their
    /// destinations, or to the next process.
    pub(crate) async fn stop(&self) {
        self.is_stopped.set(true);
        // First: they lead to sockets that are closed next.
        self.captures.stop().await;
        let mut state = self.state.borrow_mut();
        state.listeners.iter_mut().for_each(|served| (served.to, served.socket) = (None, None));
        self.succession.stop();
    }

    /// Ends the associations with the peers once their last connections have ended.
    pub(crate) fn retire(&self) {
        self.state.borrow().links.iter().for_each(|link| link.retire());
    }

    /// Starts this program again, as it is now, and hands everything over to it. Connections stay here. If
    /// there are as many processes as there may be, the oldest is ended first, or it is an error.
    ///
    /// # Errors
    /// If the configuration is invalid, or the new process does not start: nothing has changed then.
    pub(crate) async fn restart(&self, ends_oldest: bool) -> Result<u32> {
        let Ok(_changing) = self.changing.try_lock() else {
            bail!("a restart or a reload is going on already");
        };
        self.check_is_serving()?;
        Settings::read(&self.args)?;
        if self.succession.is_full() {
            if !ends_oldest {
                bail!(
                    "three old processes still have connections; `strandline gateway restart --end-oldest` ends the oldest of them"
                );
            }
            self.succession.end_oldest(self.gateway.settings().drain_timeout).await?;
            self.check_is_serving()?;
        }
        let (mut listeners, mut all) = (Vec::new(), Vec::new());
        for served in &self.state.borrow().listeners {
            if let Some(socket) = &served.socket
                && let Some(socket) = socket.descriptor().context("duplicating a socket")?
            {
                listeners.push(served.id);
                all.push(socket);
            }
        }
        self.succession.hand_over(listeners, all, self.gateway.settings().drain_timeout).await
    }

    fn check_is_serving(&self) -> Result<()> {
        if self.is_stopped.get() {
            bail!("this process is ending");
        }
        Ok(())
    }

    pub(crate) fn stacks(&self) -> Vec<Stack> {
        let state = self.state.borrow();
        let listening = self.listening.iter().chain(state.outgoing.stacks()).cloned();
        let retired = state.retired.iter().filter_map(Weak::upgrade);
        let links = state.links.iter().cloned().chain(retired);
        listening.chain(links.map(|link| link.stack())).collect()
    }

    /// The number of reloads and the last error, for the status.
    pub(crate) fn reloads(&self) -> Value {
        self.reloads.status()
    }

    /// Returns whether there are files to reload.
    pub(crate) fn can_reload(&self) -> bool {
        self.args.has_file() || self.gateway.settings().encryption.is_some()
    }

    /// Reads the configuration again, and changes what has changed: connections stay.
    ///
    /// # Errors
    /// If it is invalid, or a socket can't be opened: nothing has changed then.
    pub(crate) async fn reload(&self) -> Result<Reload, ConfigError> {
        let result = self.try_reload().await;
        self.reloads.note(&result);
        match &result {
            Ok(Reload { changed, kept }) if kept.is_empty() => {
                tracing::info!(?changed, "configuration reloaded");
            }
            Ok(Reload { changed, kept }) => {
                tracing::warn!(?changed, ?kept, "configuration reloaded; some changes need a new start");
            }
            Err(error) => tracing::error!(%error, "configuration not reloaded; the old one stays in use"),
        }
        result
    }

    async fn try_reload(&self) -> Result<Reload, ConfigError> {
        if !self.can_reload() {
            return Err(ConfigError::NoFile);
        }
        let _changing = self.changing.lock().await;
        if self.is_stopped.get() {
            return Err(ConfigError::value("config", "this process is ending, and takes nothing new"));
        }
        // The stacks as they are, unless all succeeds.
        let outgoing = self.state.borrow().outgoing.clone();
        let reloaded = self.apply(Settings::read(&self.args)?).await;
        if reloaded.is_err() {
            self.state.borrow_mut().outgoing = outgoing;
        }
        reloaded
    }

    /// Changes to another configuration.
    ///
    /// # Errors
    /// As [`reload`](Self::reload).
    async fn apply(&self, new: Settings) -> Result<Reload, ConfigError> {
        if new.encryption.is_some() != self.gateway.settings().encryption.is_some() {
            let message = "turning encryption on or off needs a new start; nothing was changed";
            return Err(ConfigError::value("encryption", message));
        }
        let failed = |key: &str, error: &anyhow::Error| ConfigError::value(key, format!("{error:#}"));
        // Everything that can fail comes first.
        let planned = captured(&new, |id| id.listen);
        Captures::check(planned).await.map_err(|error| failed("capture", &error))?;
        let links = self.links_for(&new).map_err(|error| failed("peer", &error.into()))?;
        let bound = self.bind(&new).map_err(|error| failed("listen", &error))?;
        let captured = self.captured(&new, &bound);
        // Once the rules can be set, and before they are those that count.
        let encrypt = || self.replace_encryption(&new, &links).context("replacing key and trust");
        let has_other_keys = self.captures.set(captured, encrypt).await;
        let has_other_keys = has_other_keys.map_err(|error| {
            let is_of_stack = error.downcast_ref::<StackError>().is_some();
            failed(if is_of_stack { "encryption" } else { "capture" }, &error)
        })?;
        let mut differences = self.document.differences(&new.document);
        if has_other_keys && !differences.changed.iter().any(|changed| changed == "encryption") {
            differences.changed.push("encryption".to_owned());
        }
        self.document.replace(new.document.clone());
        self.change(&new, links, bound);
        self.gateway.replace_settings(new);
        self.succession.send_new_keys();
        Ok(differences)
    }

    /// Replaces keys and trust, also of established associations. Returns whether they were others.
    ///
    /// # Errors
    /// If a stack refuses them: all have those of before then.
    fn replace_encryption(&self, new: &Settings, links: &[Arc<Link>]) -> Result<bool, StackError> {
        let old = self.gateway.settings();
        let replaced = self.change_encryption(&old, new, links);
        if replaced.is_err()
            && let Err(error) = self.change_encryption(new, &old, links)
        {
            tracing::error!(%error, "going back to the key and trust of before failed");
        }
        replaced
    }

    /// Changes keys and trust from old ones to new ones. Returns whether they are others.
    fn change_encryption(
        &self,
        old: &Settings,
        new: &Settings,
        links: &[Arc<Link>],
    ) -> Result<bool, StackError> {
        let mut is_changed = false;
        if let (Some(old), Some(new)) = (&old.encryption, &new.encryption)
            && !old.shared.is_like(&new.shared)
        {
            is_changed = true;
            for stack in self.listening.iter().chain(self.state.borrow().outgoing.shared()) {
                stack.replace_encryption(&new.shared)?;
            }
        }
        for peer in &new.peers {
            if let Some(link) = links.iter().find(|link| link.peer.identity == peer.identity)
                && let Some(encryption) = encryption_of(peer, new)
            {
                is_changed |= link.replace_encryption(encryption)?;
            }
        }
        Ok(is_changed)
    }

    /// Reads keys and trust again whenever the process that has taken over says so.
    pub(crate) async fn follow_keys(&self, successor: &Successor) {
        loop {
            successor.has_new_keys().await;
            self.read_keys();
        }
    }

    /// Reads keys and trust again, in a process that has handed over: a key that is no longer trusted counts here, too.
    pub(crate) fn read_keys(&self) {
        let new = match Settings::read(&self.args) {
            Ok(new) => new,
            Err(error) => return tracing::error!(%error, "keys not read again; the old ones stay in use"),
        };
        match self.replace_encryption(&new, &self.links()) {
            Ok(true) => {
                tracing::info!("keys and trust read again");
                // The process that has taken over counts on the time that it was told.
                let drain_timeout = self.gateway.settings().drain_timeout;
                self.gateway.replace_settings(Settings { drain_timeout, ..new });
            }
            Ok(false) => {}
            Err(error) => tracing::error!(%error, "keys not read again; the old ones stay in use"),
        }
    }

    /// Returns the links of all peers: those that exist for peers that are as they were.
    fn links_for(&self, settings: &Settings) -> Result<Vec<Arc<Link>>, StackError> {
        let mut state = self.state.borrow_mut();
        let State { outgoing, links, .. } = &mut *state;
        let mut all = Vec::new();
        for (at, peer) in settings.peers.iter().enumerate() {
            if let Some(known) = links.iter().find(|link| link.peer.identity == peer.identity) {
                all.push(Arc::clone(known));
                continue;
            }
            let encryption = encryption_of(peer, settings);
            let stack = outgoing.stack_for(peer, encryption, at % self.runtimes.len())?;
            let reverses: Vec<Reverse> =
                settings.reverses.iter().filter(|reverse| reverse.peer == at).cloned().collect();
            let reopen = outgoing.reopen(at % self.runtimes.len());
            all.push(Arc::new(Link::new(peer.clone(), reverses, stack, (reopen, encryption.cloned()))));
        }
        Ok(all)
    }

    /// Returns the runtime of the association with a peer.
    fn runtime_of(&self, peer: usize) -> Option<&Handle> {
        self.runtimes.get(peer % self.runtimes.len())
    }

    /// Opens the sockets that are not open yet.
    fn bind(&self, settings: &Settings) -> Result<Vec<Bound>> {
        let state = self.state.borrow();
        let mut bound = Vec::new();
        let all = wanted(settings);
        let is_wanted = |id: ListenerId| all.iter().any(|(of, _)| *of == id);
        let mut leaving = self.succession.leaving(is_wanted, settings.admin)?;
        for socket in state
            .listeners
            .iter()
            .filter(|desired| !is_wanted(desired.id))
            .filter_map(|desired| desired.socket.as_ref())
        {
            leaving.extend(socket.descriptor()?);
        }
        for (id, desired) in all.iter().copied() {
            if state.listeners.iter().any(|served| served.id == id) {
                continue;
            }
            let (DesiredListener::Tcp(ListenerConfig { peer, .. })
            | DesiredListener::Udp(UdpForward { peer, .. })) = desired;
            // The socket belongs to the runtime on which it is made.
            let _entered = self.runtime_of(*peer).map(Handle::enter);
            let socket = match (desired, self.succession.take_listener(id)) {
                (DesiredListener::Tcp(_), Some(inherited)) => {
                    BoundSocket::tcp(TcpListener::from_std(inherited.into())?)?
                }
                (DesiredListener::Udp(_), Some(inherited)) => {
                    BoundSocket::Udp(UdpSocket::from_std(inherited.into())?)
                }
                (DesiredListener::Tcp(desired), None) => {
                    BoundSocket::tcp(listeners::bind(desired, &leaving)?)?
                }
                (DesiredListener::Udp(forward), None) => {
                    BoundSocket::Udp(listeners::bind_udp(forward, &leaving)?)
                }
            };
            bound.push(Bound::new(id, socket).context("duplicating a socket")?);
        }
        Ok(bound)
    }

    /// Changes to these peers and sockets, which can't fail: a reload does all of it or nothing. What isn't
    /// wanted any more takes nothing new.
    fn change(&self, settings: &Settings, links: Vec<Arc<Link>>, bound: Vec<Bound>) {
        let mut state = self.state.borrow_mut();
        let old_links = std::mem::take(&mut state.links);
        for (at, link) in links.iter().enumerate() {
            let is_new = !old_links.iter().any(|old| Arc::ptr_eq(old, link));
            if let Some(runtime) = self.runtime_of(at).filter(|_| is_new) {
                runtime.spawn(Arc::clone(link).run(Arc::clone(&self.gateway)));
            }
        }
        for old in old_links.iter().filter(|old| !links.iter().any(|link| Arc::ptr_eq(old, link))) {
            old.retire();
            state.retired.push(Arc::downgrade(old));
        }
        state.retired.retain(|link| link.strong_count() > 0);
        let mut old = std::mem::take(&mut state.listeners);
        let mut bound = bound;
        for (id, desired) in wanted(settings) {
            let (DesiredListener::Tcp(ListenerConfig { peer, .. })
            | DesiredListener::Udp(UdpForward { peer, .. })) = desired;
            let (Some(link), Some(runtime)) = (links.get(*peer), self.runtime_of(*peer)) else { continue };
            if let Some(at) = old.iter().position(|served| served.id == id) {
                let mut served = old.swap_remove(at);
                served.turn_to(desired, link);
                state.listeners.push(served);
            } else if let Some(at) = bound.iter().position(|bound| bound.id == id) {
                state.listeners.extend(self.serve(bound.swap_remove(at), desired, link, runtime));
            }
        }
        // Their tasks end, since nothing says any more where connections go.
        drop(old);
        state.links = links;
    }

    /// Returns what rules bring to each socket, those that are bound and not served yet included.
    fn captured(&self, settings: &Settings, bound: &[Bound]) -> Vec<Captured> {
        let state = self.state.borrow();
        captured(settings, |id| {
            let served = state.listeners.iter().find(|served| served.id == id);
            let bound = bound.iter().find(|bound| bound.id == id).map(|bound| bound.address);
            served.map(|served| served.announced.listen).or(bound).unwrap_or(id.listen)
        })
    }

    /// Serves a socket; `None` if it is of another kind than what is wanted.
    fn serve(
        &self,
        bound: Bound,
        desired: DesiredListener<'_>,
        link: &Arc<Link>,
        runtime: &Handle,
    ) -> Option<ActiveListener> {
        let (gateway, has_failed) = (Arc::clone(&self.gateway), Arc::<watch::Sender<bool>>::default());
        let Bound { id, socket, address, other: other_descriptor } = bound;
        let (to, socket) = match (socket, desired) {
            (BoundSocket::Tcp(queue), DesiredListener::Tcp(desired)) => {
                let (sender, target) = watch::channel(tcp_target(desired, link));
                runtime.spawn(listeners::serve(queue, target, gateway, Arc::clone(&has_failed)));
                (TargetSender::Tcp(sender), ServedSocket::Tcp(other_descriptor))
            }
            (BoundSocket::Udp(socket), DesiredListener::Udp(forward)) => {
                let (sender, target) = watch::channel(udp_target(forward, link));
                let socket = Arc::new(ClientSocket::new(socket, address));
                runtime.spawn(listeners::serve_udp(Arc::clone(&socket), target, gateway));
                (TargetSender::Udp(sender), ServedSocket::Udp(socket))
            }
            _ => return None,
        };
        let announced = announced(address, desired, link);
        Some(ActiveListener { id, announced, to: Some(to), has_failed, socket: Some(socket) })
    }
}

/// Prints the rules that a gateway with these options would set.
///
/// # Errors
/// If the options are wrong.
pub(crate) fn print_rules(args: &Args) -> Result<ExitCode> {
    let settings = Settings::read(args)?;
    let rules = Ruleset::new(captures::number(), captured(&settings, |id| id.listen));
    if rules.is_empty() {
        bail!("nothing is captured: give --capture NETWORK[:PORTS]");
    }
    let open = rules.needs().map(|open| Ruleset::for_open(captures::number(), open));
    for rules in open.chain([rules.clone()]) {
        for words in rules.routes() {
            outln!("# ip {words}");
        }
        // A port that is chosen at the start.
        out!("{}", rules.nft().replace(":0;", ":PORT;").replace(":0 accept", ":PORT accept"));
    }
    Ok(ExitCode::SUCCESS)
}

impl ActiveListener {
    fn has_failed(&self) -> bool {
        let is_udp_failed = matches!(&self.socket, Some(ServedSocket::Udp(socket)) if socket.has_failed());
        is_udp_failed || *self.has_failed.borrow()
    }

    /// Sends new connections elsewhere, if that has changed.
    fn turn_to(&mut self, desired: DesiredListener<'_>, link: &Arc<Link>) {
        match (&self.to, desired) {
            (Some(TargetSender::Tcp(target)), DesiredListener::Tcp(desired)) => {
                drop(target.send_replace(tcp_target(desired, link)))
            }
            (Some(TargetSender::Udp(target)), DesiredListener::Udp(forward)) => {
                drop(target.send_replace(udp_target(forward, link)))
            }
            _ => {}
        }
        self.announced = announced(self.announced.listen, desired, link);
    }
}
