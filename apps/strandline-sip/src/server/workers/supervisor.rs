//! The process that starts the others.

use std::collections::VecDeque;
use std::io::BufReader;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};
use strandline_ipc::{Outlet, read_frame, send_descriptors};
use strandline_ops::Files;
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::LocalSet;
use tokio::time::Instant;

use crate::server::args::Args;
use crate::server::clock::Clock;
use crate::server::config::{Config, Store};
use crate::server::seeds::random_key;
use crate::server::startup_message::{self, StartupMessage};
use crate::service::Advertised;
use crate::store::{Damage, SqliteWorkers};
use crate::transaction::Protocol;

use super::accepted::Accepted;
use super::admin_requests::{AdminRequests, listen};
use super::exchange::{Exchange, ToStore, serve};
use super::frame::{Hello, ToSupervisor, ToWorker};
use super::group::Group;
use super::persistent_state::{Keep, Table};
use super::worker::has_sctp;

/// The pause before a worker that has died again is restarted; it doubles each time.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// From this pause on, the sockets of the worker are closed meanwhile, so that its input goes to the others.
const PAUSE_LONG: Duration = Duration::from_secs(1);
/// A worker that has served for this long resets the pause.
const PROVEN: Duration = Duration::from_secs(10);
/// How long workers may take to end; longer than they allow themselves.
const END: Duration = Duration::from_secs(42);
/// The exit code of a worker that must not be restarted.
pub(in crate::server) const LOST: u8 = 3;

/// Events concerning workers.
enum Event {
    Ready {
        worker: u8,
        users: usize,
        sctp: Option<(u16, u16)>,
    },
    Drained(u8),
    /// The link has ended, and everything that the worker had sent was handled.
    Gone(u8),
    Exited(u8, ExitStatus),
    Answer {
        id: u64,
        status: u16,
        body: Vec<u8>,
    },
    /// The reloaded configuration was applied, or why not.
    Reloaded {
        worker: u8,
        id: u64,
        error: Option<String>,
    },
}

/// The process of a worker.
#[derive(Default)]
struct Place {
    pid: Option<Pid>,
    /// True until its link has ended.
    linked: bool,
    ready: bool,
    drained: bool,
    begun: Option<Instant>,
    begun_unix_secs: u64,
    /// The last pause before a restart.
    pause: Duration,
    /// When it is restarted.
    start_at: Option<Instant>,
}

impl Place {
    fn is_over(&self) -> bool {
        self.pid.is_none() && !self.linked
    }
}

/// Serves with several processes until they have ended.
///
/// # Errors
/// Returns an error if something can't be opened, or no worker can serve.
pub(in crate::server) fn supervise(config: &Config, args: &Args, files: Files) -> Result<ExitCode> {
    let accepted = Accepted::new(args, config, &files).context("reading the configuration's files")?;
    drop(files);
    let mut group = Group::open(config)?;
    let mut keys = Keys::random()?;
    let (keep, table) = open_store(config, &mut keys)?;
    let exchange = Exchange::new(table, config.processes);
    let (to_store, work) = channel();
    let relays = keep.is_some();
    let storing = Arc::clone(&exchange);
    let keep = keep.unwrap_or(Keep::Memory);
    let store = std::thread::Builder::new().name("store".to_owned());
    let store = store.spawn(move || serve(&storing, keep, &work)).context("starting the store's thread")?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let code = local.block_on(&runtime, async {
        let (sender, events) = unbounded_channel();
        let supervisor = Supervisor {
            config,
            args,
            count: config.processes,
            group: &mut group,
            keys,
            relays,
            exchange: Arc::clone(&exchange),
            to_store,
            sender,
            places: (0..config.processes).map(|_| Place::default()).collect(),
            waiting: VecDeque::new(),
            sctp: None,
            admin: AdminRequests::new(Arc::clone(&exchange), config, Rc::clone(&accepted)),
            accepted,
            ends: None,
            worst: 0,
            announced: false,
        };
        supervisor.run(events).await
    });
    let code = code?;
    // All links have ended, and the store receives nothing more. After an error, workers end with this
    // process.
    if store.join().is_err() {
        tracing::error!("the thread that writes bindings panicked");
    }
    Ok(code)
}

/// Keys common to all workers.
#[derive(Clone, Copy)]
struct Keys {
    tokens: [u8; 16],
    nonces: [u8; 16],
    hashes: [u8; 16],
}

impl Keys {
    fn random() -> Result<Self> {
        Ok(Self { tokens: random_key()?, nonces: random_key()?, hashes: random_key()? })
    }
}

/// Opens the store; `None` if the workers use a database.
fn open_store(config: &Config, keys: &mut Keys) -> Result<(Option<Keep>, Table)> {
    match &config.store {
        Some(Store::Shared(_)) => Ok((None, Table::default())),
        None => Ok((Some(Keep::Memory), Table::new(Vec::new(), config.processes, Damage::default()))),
        Some(Store::Sqlite(path)) => {
            let mut store = SqliteWorkers::open(path, config.processes)?;
            keys.tokens = store.secret("flow tokens", keys.tokens)?;
            let (states, damage) = store.load()?;
            damage.sum_up();
            let table = Table::new(states, config.processes, damage);
            Ok((Some(Keep::Sqlite(store)), table))
        }
    }
}

struct Supervisor<'a> {
    config: &'a Config,
    args: &'a Args,
    count: u8,
    group: &'a mut Group,
    keys: Keys,
    relays: bool,
    exchange: Arc<Exchange>,
    to_store: Sender<ToStore>,
    sender: UnboundedSender<Event>,
    places: Vec<Place>,
    /// The workers that start once the first one serves, because they need its SCTP ports.
    waiting: VecDeque<u8>,
    sctp: Option<(u16, u16)>,
    admin: Rc<AdminRequests>,
    accepted: Rc<Accepted>,
    /// The deadline for ending, if the server is ending.
    ends: Option<Instant>,
    worst: u8,
    /// True once the listening addresses were printed.
    announced: bool,
}

impl Supervisor<'_> {
    async fn run(mut self, mut events: UnboundedReceiver<Event>) -> Result<ExitCode> {
        let (metrics, admin) = listen(&self.admin, self.config).await?;
        let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).context("waiting for SIGINT")?;
        let mut hangup = signal(SignalKind::hangup()).context("waiting for SIGHUP")?;
        self.waiting.extend(1..self.count);
        self.start(0)?;
        while !self.is_over() {
            let next = self.next_step();
            let wait = async {
                match next {
                    Some(next) => tokio::time::sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                Some(event) = events.recv() => self.handle(event, metrics, admin)?,
                _ = terminate.recv() => self.end(),
                _ = interrupt.recv() => self.end(),
                _ = hangup.recv() => self.reload(),
                () = wait => self.step()?,
            }
        }
        Ok(ExitCode::from(self.worst))
    }

    fn is_over(&self) -> bool {
        self.ends.is_some() && self.places.iter().all(Place::is_over)
    }

    fn place(&mut self, worker: u8) -> Option<&mut Place> {
        self.places.get_mut(usize::from(worker))
    }

    /// The time of the next step.
    fn next_step(&self) -> Option<Instant> {
        let starts = self.places.iter().filter_map(|place| place.start_at).min();
        if self.ends.is_some() { self.ends } else { starts }
    }

    fn step(&mut self) -> Result<()> {
        if self.ends.is_some_and(|by| by <= Instant::now()) {
            tracing::error!("some workers did not end in time and are killed");
            self.signal(Signal::KILL);
            self.ends = Some(Instant::now() + END);
            return Ok(());
        }
        let now = Instant::now();
        for worker in 0..self.count {
            let is_due = self.place(worker).is_some_and(|place| place.start_at.is_some_and(|at| at <= now));
            if is_due && let Err(error) = self.start(worker) {
                tracing::error!(worker = worker + 1, %error, "starting a worker failed");
                self.pause(worker);
            }
        }
        Ok(())
    }

    /// Errors are logged.
    fn reload(&self) {
        let admin = Rc::clone(&self.admin);
        tokio::task::spawn_local(async move { admin.reload().await });
    }

    /// Sends a signal to all workers.
    fn signal(&self, signal: Signal) {
        for pid in self.places.iter().filter_map(|place| place.pid) {
            // It may have ended already; its process ID isn't reused until its exit was noticed.
            let _ = kill_process(pid, signal);
        }
    }

    /// Begins a graceful end.
    fn end(&mut self) {
        if self.ends.is_none() {
            tracing::info!("shutting down gracefully");
            self.ends = Some(Instant::now() + END);
            self.places.iter_mut().for_each(|place| place.start_at = None);
            self.waiting.clear();
            self.signal(Signal::TERM);
            self.end_drained();
        }
    }

    /// Ends the workers once all are drained.
    fn end_drained(&self) {
        let begun = |place: &&Place| place.pid.is_some();
        if self.ends.is_some() && self.places.iter().filter(begun).all(|place| place.drained) {
            for worker in 0..self.count {
                self.exchange.send(worker, &ToWorker::End, &[]);
            }
        }
    }

    fn start(&mut self, worker: u8) -> Result<()> {
        self.group.reopen(worker)?;
        let (ours, theirs) = UnixStream::pair().context("creating a socket pair for a worker")?;
        let (all, sockets) = self.group.of(worker);
        send_descriptors(&ours, &all).context("passing sockets to a worker")?;
        // This very program, even if the file was replaced since.
        let mut command = Command::new("/proc/self/exe");
        let mut words = std::env::args_os();
        words.next().map(|name| command.arg0(name));
        let child = command
            .args(words)
            .arg("--worker")
            .arg(worker.to_string())
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            // Signals from a terminal should reach only this process.
            .process_group(0)
            .spawn()
            .context("starting a worker process")?;
        let now = Clock::unix().as_secs();
        let (count, relays, sctp, Keys { tokens, nonces, hashes }) =
            (self.count, self.relays, self.sctp, self.keys);
        let Some(place) = self.places.get_mut(usize::from(worker)) else { return Ok(()) };
        place.begun_unix_secs = now.max(place.begun_unix_secs + 1);
        let begun_unix_secs = place.begun_unix_secs;
        place.pid = child.id().and_then(|pid| Pid::from_raw(pid as i32));
        (place.linked, place.ready, place.drained) = (true, false, false);
        (place.begun, place.start_at) = (Some(Instant::now()), None);
        let (alive, reloaded, draining) = (0, false, self.admin.draining.get());
        let hello = Hello {
            count,
            begun_unix_secs,
            tokens,
            nonces,
            hashes,
            alive,
            relays,
            sctp,
            sockets,
            reloaded,
            draining,
        };
        let (outlet, writer) = Outlet::new(ours.try_clone()?);
        std::thread::Builder::new().name("writer".to_owned()).spawn(move || writer.run())?;
        let last = self.accepted.last();
        self.exchange.begin(worker, hello, (self.accepted.started(), last.as_deref()), outlet);
        self.read_from(worker, ours)?;
        self.wait_for(worker, child);
        Ok(())
    }

    /// Starts the thread that reads from a worker.
    fn read_from(&self, worker: u8, stream: UnixStream) -> Result<()> {
        let (exchange, store) = (Arc::clone(&self.exchange), self.to_store.clone());
        let events = self.sender.clone();
        let read = move || {
            let mut from = BufReader::new(stream);
            while let Ok((head, body)) = read_frame(&mut from) {
                let event = match head {
                    ToSupervisor::Commit { number } => {
                        let commit = ToStore::Commit { worker, number, changes: body };
                        match store.send(commit) {
                            Ok(()) => continue,
                            Err(_) => break,
                        }
                    }
                    ToSupervisor::Merged { number } => {
                        exchange.merged(worker, number);
                        continue;
                    }
                    ToSupervisor::Ready { users, sctp } => Event::Ready { worker, users, sctp },
                    ToSupervisor::Answer { id, status } => Event::Answer { id, status, body },
                    ToSupervisor::Reloaded { id, error } => Event::Reloaded { worker, id, error },
                    ToSupervisor::Drained => Event::Drained(worker),
                };
                if events.send(event).is_err() {
                    break;
                }
            }
            // The receiver may have ended.
            let handled = Box::new(move || drop(events.send(Event::Gone(worker))));
            drop(store.send(ToStore::Gone { worker, handled }));
        };
        std::thread::Builder::new().name("reader".to_owned()).spawn(read)?;
        Ok(())
    }

    fn wait_for(&self, worker: u8, mut child: Child) {
        let events = self.sender.clone();
        tokio::task::spawn_local(async move {
            match child.wait().await {
                Ok(status) => drop(events.send(Event::Exited(worker, status))),
                Err(error) => tracing::error!(%error, "waiting for a worker's exit failed"),
            }
        });
    }

    fn handle(&mut self, event: Event, metrics: Option<SocketAddr>, admin: Option<SocketAddr>) -> Result<()> {
        match event {
            Event::Answer { id, status, body } => self.admin.answered(id, status, body),
            Event::Reloaded { id, error: None, .. } => self.admin.answered(id, 200, Vec::new()),
            Event::Reloaded { worker, error: Some(error), .. } => self.differs(worker, &error),
            Event::Drained(worker) => {
                if let Some(place) = self.place(worker) {
                    place.drained = true;
                }
                self.end_drained();
            }
            Event::Ready { worker, users, sctp } => {
                tracing::info!(worker = worker + 1, "worker ready");
                self.exchange.serves(worker);
                self.sctp = self.sctp.or(sctp);
                if let Some(place) = self.place(worker) {
                    place.ready = true;
                }
                while let Some(next) = self.waiting.pop_front() {
                    self.start(next)?;
                }
                if !self.announced && self.places.iter().all(|place| place.ready) {
                    self.announced = true;
                    self.announce(users, metrics, admin);
                }
            }
            Event::Gone(worker) => {
                if let Some(place) = self.place(worker) {
                    place.linked = false;
                }
                self.is_gone(worker);
            }
            Event::Exited(worker, status) => self.on_exit(worker, status),
        }
        Ok(())
    }

    /// Kills a worker that can't apply the configuration of all others; its replacement will have it.
    fn differs(&mut self, worker: u8, error: &str) {
        tracing::error!(worker = worker + 1, %error, "worker killed: it could not apply the new configuration");
        if let Some(pid) = self.place(worker).and_then(|place| place.pid) {
            // It may have ended already.
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    /// Handles the exit of a worker, which is restarted unless the exit was requested.
    fn on_exit(&mut self, worker: u8, status: ExitStatus) {
        let served = self.places.get(usize::from(worker)).is_some_and(|place| place.ready);
        if let Some(place) = self.place(worker) {
            place.pid = None;
        }
        let code = match status.code() {
            Some(code) if code == i32::from(LOST) => 1,
            Some(code) => code.clamp(0, 255) as u8,
            None => 1,
        };
        // A worker that can't start because the database is unavailable tries again; the others have what
        // they need.
        let lost = served && status.code() == Some(i32::from(LOST));
        if self.ends.is_some() {
            // A worker that didn't serve yet may have received the signal too early.
            self.worst = self.worst.max(if served { code } else { 0 });
        } else if lost || !self.announced {
            self.worst = self.worst.max(code.max(1));
            self.end();
        } else {
            tracing::error!(worker = worker + 1, %status, "worker exited and is restarted");
            self.admin.died(worker);
        }
        self.end_drained();
        self.is_gone(worker);
    }

    /// Restarts a worker once its process and its link have ended.
    fn is_gone(&mut self, worker: u8) {
        let ends = self.ends.is_some();
        if !ends && self.place(worker).is_some_and(|place| place.is_over()) {
            self.pause(worker);
        }
    }

    fn pause(&mut self, worker: u8) {
        let Some(place) = self.place(worker) else { return };
        let proven = place.ready && place.begun.is_some_and(|begun| begun.elapsed() >= PROVEN);
        place.pause = match place.pause {
            _ if proven => Duration::ZERO,
            Duration::ZERO if place.ready => PAUSE_MIN / 100,
            pause => (pause * 2).clamp(PAUSE_MIN, PAUSE_MAX),
        };
        let pause = place.pause;
        place.start_at = Some(Instant::now() + pause);
        if pause >= PAUSE_LONG {
            self.group.close(worker);
        }
    }

    fn announce(&self, users: usize, metrics: Option<SocketAddr>, admin: Option<SocketAddr>) {
        let (mut advertised, mut carriers) = (Vec::new(), Vec::new());
        for (listen, address) in self.config.listen.iter().zip(self.group.addresses()) {
            let host = listen.advertise.clone().unwrap_or_else(|| listen.address.ip().to_string());
            let sctp = self.sctp.filter(|_| listen.protocol == Protocol::Sctp && has_sctp(self.config));
            let port = address.map_or_else(|| sctp.map_or(0, |(port, _)| port), |address| address.port());
            carriers.push(sctp.map(|(_, carrier)| carrier));
            advertised.push(Advertised::new(listen.protocol, host, port));
        }
        startup_message::print(&StartupMessage {
            advertised: &advertised,
            carriers: &carriers,
            users,
            processes: self.count,
            others: [("metrics", metrics), ("admin", admin)],
            json: self.args.json,
        });
    }
}
