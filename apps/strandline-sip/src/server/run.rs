//! From the command line to a running server, and to its end.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result};
use strandline::{Address, AssociationConfig, Endpoint, Listener, SackFrequency, Stack};
use strandline_ops::{Files, http, raise_open_files, report};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::LocalSet;

use crate::service::{Advertised, Service};
use crate::store::StoreError;
use crate::transaction::{Protocol, Time};

use super::admin::Admin;
use super::args::{Args, Command};
use super::clock::{self, Clock};
use super::config::{self, Config, Listen, Users};
use super::hub::Hub;
use super::inbox::Looks;
use super::input;
use super::reload::Reloader;
use super::seeds::{NonceKey, authenticator, random_key, random_seeds};
use super::socket::{ConnectionLimits, Connections, Failed, Many, One, Opened, Room, Sctp, Udp};
use super::startup_message::{self, StartupMessage};
use super::storage::{self, Sought, Storage, Stored};
use super::style::{SctpCarrier, SctpStyle};
use super::workers::{self, Worker};
use super::{admin_client, hints, pages, parts, start_check, status, top};

/// Interval between checks of the timers.
const TICK: Duration = Duration::from_millis(10);
/// Interval between checks of the timers while none is due. Each wake-up of an idle server takes time from
/// other processes.
const IDLE_TICK: Duration = Duration::from_millis(100);
/// Interval for measuring the load that is reported to neighbours.
const LOOK: Duration = Duration::from_millis(500);
const SECOND: Duration = Duration::from_secs(1);
/// Time in which all users are checked for expired bindings, in seconds.
const SWEEP_SECS: usize = 300;
/// Minimum number of users checked for expired bindings per second.
const SWEEP: u32 = 1000;
/// Maximum duration of a graceful shutdown, longer than any transaction.
const DRAIN: Duration = Duration::from_secs(35);
/// Maximum time to write pending output at the end.
const WRITE: Duration = Duration::from_secs(2);

/// Runs the server until it is told to end.
///
/// # Errors
/// Returns an error if the configuration is invalid, or something can't be opened.
pub fn run(args: &Args) -> Result<ExitCode> {
    match &args.command {
        Some(Command::Top(args)) => return top::run(args),
        Some(Command::Admin(args)) => return admin_client::run(args),
        Some(Command::Parts(args)) => return parts::run(args),
        None => {}
    }
    if let Some(number) = args.worker {
        return work(number, args);
    }
    let mut files = Files::of_disk();
    let config = Config::of(args, &mut files)?;
    if args.check {
        let mut flaws = config.flaws(Clock::unix().as_secs());
        flaws.extend(start_check::flaws(&config));
        return Ok(report(&flaws));
    }
    config.warn();
    raise_open_files();
    if config.processes > 1 {
        return workers::supervise(&config, args, files);
    }
    drop(files);
    start(config, args, None)?;
    Ok(ExitCode::SUCCESS)
}

/// Runs one of several processes.
fn work(number: u8, args: &Args) -> Result<ExitCode> {
    raise_open_files();
    let (worker, config) = Worker::join(number, args)?;
    let _span = tracing::error_span!("worker", number = number + 1).entered();
    match start(config, args, Some(worker)) {
        Err(error) if error.is::<StoreError>() => {
            tracing::error!(%error, "the worker process ends");
            Ok(ExitCode::from(workers::LOST))
        }
        done => done.map(|()| ExitCode::SUCCESS),
    }
}

fn start(config: Config, args: &Args, mut worker: Option<Worker>) -> Result<()> {
    let prepared = Prepared::new(&config, worker.as_mut())?;
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().event_interval(31).on_thread_park(clock::waits).on_thread_unpark(clock::has_work);
    let runtime = builder.build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, serve(config, prepared, args, worker))
}

/// State that is prepared before the runtime starts, because it may wait for disks and databases.
struct Prepared {
    clock: Clock,
    service: Service,
    nonces: NonceKey,
    stored: Stored,
    sought: Option<Sought>,
}

impl Prepared {
    fn new(config: &Config, worker: Option<&mut Worker>) -> Result<Self> {
        let clock = Clock::start();
        let mut seeds = random_seeds()?;
        let mut nonces = NonceKey::random()?;
        if let Some(worker) = &worker {
            worker.agree(&mut seeds, &mut nonces);
        }
        let storage = match &worker {
            Some(worker) if worker.relays() => None,
            _ => Some(Storage::open(config, &mut seeds.tokens, &mut nonces, clock.epoch_unix_secs)?),
        };
        let mut service = Service::new(config.settings.clone(), &seeds, clock.epoch_unix_secs);
        let mut sought = None;
        if let Some(auth) = &config.auth {
            service.access_mut().set_authenticator(Some(authenticator(auth, nonces)?));
            if let Users::Table(table, _) = &auth.users {
                sought = Some(Sought::start(table.clone())?);
            }
        }
        let stored = storage.map(|storage| storage.start(&mut service)).transpose()?;
        let relayed = match worker {
            Some(worker) => worker.follow(&mut service)?,
            None => None,
        };
        let stored = stored.or(relayed).context("no store for bindings is open")?;
        Ok(Self { clock, service, nonces, stored, sought })
    }
}

async fn serve(config: Config, prepared: Prepared, args: &Args, mut worker: Option<Worker>) -> Result<()> {
    let Prepared { clock, mut service, nonces, stored, sought } = prepared;
    let sockets = Sockets::open(&config, worker.as_mut())?;
    service.setup_mut().add_addresses(&sockets.advertised);
    let Stored { writer, settled, following } = stored;
    let (connections, wanted) = Connections::new(clock.epoch_unix_secs);
    let overload = config.overload;
    let tokens = service.setup().tokens().clone();
    let hub = Hub::new(service, clock, connections, writer, overload.inbox(random_key()?));
    hub.intake.inbox(|inbox| inbox.set_tokens(tokens));
    let users = hub.service.borrow().registrations().locations().len();
    if let Some(worker) = worker.as_mut() {
        worker.open_mail(&hub)?;
    }
    let metrics = match config.metrics {
        Some(address) => Some(listen_for_metrics(address, &config.metrics_hosts, &hub).await?),
        None => None,
    };
    let processes = worker.as_ref().map_or(1, Worker::count);
    let reloader = Reloader::new(args.clone(), &config, nonces, sockets.local.clone(), processes);
    let admin = match &config.admin {
        Some(admin) => Some(listen_for_admin(admin, &hub, &reloader, config.store_timeout).await?),
        None => None,
    };
    let hangup = signal(SignalKind::hangup()).context("waiting for SIGHUP")?;
    let others = [("metrics", metrics), ("admin", admin)];
    hub.transports.tls.replace(config.tls_sides());
    hub.intake.inbox(|inbox| inbox.set_access(config.access.clone()));
    hub.intake.refusals_per_sec.set(overload.refusals_per_sec);
    hub.intake.gather.set(overload.gather);
    hub.transports
        .room
        .set(Room { connections: config.connections_max, of_source: overload.source_connections });
    hub.transports.connections.limits.set(config.connection_limits);
    if config.hep.is_some() {
        hub.set_hep(config.hep.clone(), sockets.local.clone());
    }
    hub.set_name_servers(config.dns.as_ref(), config.ours());
    hub.transports.websocket.replace(Rc::new(config.websocket));
    if let Some(worker) = worker.as_mut() {
        worker.catch_up(&hub, &reloader)?;
    }
    let set = input::epoll_set::Set::new().context("creating an epoll instance")?;
    sockets.serve(&hub, &set);
    tokio::task::spawn_local(input::epoll_set::serve(Rc::clone(&set), Rc::clone(&hub)));
    tokio::task::spawn_local(input::epoll_set::end_slow(Rc::clone(&set), Rc::clone(&hub)));
    tokio::task::spawn_local(input::tcp::open_wanted(wanted, Rc::clone(&hub), set));
    tokio::task::spawn_local(input::work::work(Rc::clone(&hub)));
    if let Some(sought) = sought {
        sought.serve(&hub);
    }
    match worker.as_mut() {
        Some(worker) => {
            let admin = Admin::new(&hub, String::new(), &reloader, config.store_timeout);
            worker.serve(users, sockets.sctp_ports(), admin)?;
        }
        None => sockets.announce(users, others, args.json),
    }
    tokio::task::spawn_local(storage::settle(Rc::clone(&hub), settled));
    let following = following.map(|following| following.serve(&hub));
    tokio::task::spawn_local(heed_hangups(hangup, reloader, Rc::clone(&hub), worker.is_some()));
    let timer = tokio::task::spawn_local(tick(Rc::clone(&hub), config.store_timeout));
    let lost = until_end(&hub, worker.as_ref()).await?;
    timer.abort();
    if let Some(following) = following {
        following.end().await;
    }
    lost.map_or(Ok(()), |error| Err(error.into()))
}

/// Reloads the configuration on SIGHUP. One of several processes leaves that to its parent.
async fn heed_hangups(mut hangup: Signal, reloader: Rc<Reloader>, hub: Rc<Hub>, is_worker: bool) {
    while hangup.recv().await.is_some() {
        if is_worker {
            tracing::warn!(
                "SIGHUP ignored: send it to the supervisor, which reloads the configuration of all workers"
            );
            continue;
        }
        // Errors are logged.
        let _ = reloader.reload(&hub);
    }
}

/// Waits for the end. Returns the error that forces it, if any.
async fn until_end(hub: &Rc<Hub>, worker: Option<&Worker>) -> Result<Option<StoreError>> {
    tokio::select! {
        ended = end_wanted() => ended?,
        () = hub.store.is_lost.notified() => {}
    }
    let lost = hub.store.why_lost();
    if lost.is_none() {
        tracing::info!("shutting down gracefully");
        drain(hub).await;
        if let Some(worker) = worker {
            worker.end(hub).await;
        }
    }
    Ok(lost)
}

/// Drives the timers and removes expired bindings.
async fn tick(hub: Rc<Hub>, store_timeout: Duration) {
    let mut looks = Looks::default();
    let (mut look_at, mut second_at) = (LOOK, SECOND);
    loop {
        tokio::time::sleep(until_next_tick(&hub, store_timeout)).await;
        hub.refuse_overdue(store_timeout);
        let now = hub.clock.elapsed();
        hub.steer();
        if now >= look_at {
            look_at = now + LOOK;
            let load = hub.intake.inbox(|inbox| looks.look(now, &inbox.counters));
            hub.service.borrow_mut().overload_mut().on_load(&load);
        }
        let second = now >= second_at;
        if second {
            second_at = now + SECOND;
            let totals = status::totals(&hub);
            hub.watch.borrow_mut().look(now, totals);
            let idle = hub.transports.connections.limits.get().idle;
            let service = hub.service.borrow();
            hub.transports.connections.let_go(now, |connection| service.silence_max(connection, idle));
        }
        hub.with(|service, now| {
            if service.next_deadline().is_some_and(|deadline| deadline <= now) {
                service.handle_timeout(now);
            }
            if second {
                let users = (service.registrations().locations().len() / SWEEP_SECS) as u32;
                service.sweep(now, users.max(SWEEP));
            }
        });
    }
}

/// The time until the next check of the timers. Timers set meanwhile are at least T1 away, and none fires
/// later than by a twentieth of T1, so that several are handled together.
fn until_next_tick(hub: &Hub, store_timeout: Duration) -> Duration {
    if hub.intake.inbox(|inbox| !inbox.is_empty() || inbox.admission.is_overloaded()) {
        return TICK;
    }
    let now = hub.now();
    let mut service = hub.service.borrow_mut();
    let t1 = service.transactions().timings().t1;
    let most = (t1 / 5).clamp(TICK, IDLE_TICK);
    // Responses that wait for the store are at most a tenth of their timeout late.
    let most = if hub.store.is_settled() { most } else { (store_timeout / 10).clamp(TICK, most) };
    let least = (t1 / 20).clamp(TICK, most);
    service.next_deadline().map_or(most, |deadline| deadline - now).clamp(least, most)
}

async fn end_wanted() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("waiting for SIGTERM")?;
    tokio::select! {
        interrupted = tokio::signal::ctrl_c() => interrupted.context("waiting for SIGINT"),
        _ = terminate.recv() => Ok(()),
    }
}

/// Returns true if all transactions have ended, as far as this server can tell.
fn is_over(service: &Service, now: Time) -> bool {
    service.contexts().are_answered() && !service.awaits_ack(now)
}

/// Waits until existing transactions have ended.
async fn drain(hub: &Rc<Hub>) {
    hub.service.borrow_mut().setup_mut().set_draining(true);
    let over = async {
        let mut interval = tokio::time::interval(TICK);
        loop {
            interval.tick().await;
            let idle = hub.intake.inbox(|inbox| inbox.is_empty()) && hub.store.is_settled();
            if idle && is_over(&hub.service.borrow(), hub.now()) {
                break;
            }
        }
        // Wait until the last messages are written, if possible.
        let written = async {
            while hub.transports.connections.has_unwritten() {
                interval.tick().await;
            }
        };
        if tokio::time::timeout(WRITE, written).await.is_err() {
            tracing::warn!("some responses were not written before the shutdown time limit");
        }
    };
    if tokio::time::timeout(DRAIN, over).await.is_err() {
        tracing::warn!("some transactions did not end before the shutdown time limit");
    }
}

/// Serves the metrics page, and returns its address.
async fn listen_for_metrics(address: SocketAddr, names: &[String], hub: &Rc<Hub>) -> Result<SocketAddr> {
    let hub = Rc::clone(hub);
    let handler = Rc::new(move |request: &_| pages::answer(&hub, request).into());
    http::listen_for("metrics", address, names, handler).await
}

async fn listen_for_admin(
    admin: &config::Admin,
    hub: &Rc<Hub>,
    reloader: &Rc<Reloader>,
    store_timeout: Duration,
) -> Result<SocketAddr> {
    let (address, names) = (admin.address, &admin.hosts);
    let admin = Admin::new(hub, admin.token.clone(), reloader, store_timeout);
    http::listen_for("admin", address, names, Rc::new(move |request: &_| admin.answer(request))).await
}

/// The settings of SCTP associations. Phones send little at a time, and SACKs travel with the responses.
/// Separate packets for every second request would cost more than the requests that there is no time for.
fn association() -> AssociationConfig {
    AssociationConfig { sack_frequency: SackFrequency::Every(8), ..AssociationConfig::default() }
}

/// The SCTP sockets over one carrier.
struct OfSctp {
    sctp: Sctp,
    /// Associations that the server sets up itself.
    opened: Option<Opened>,
    /// Messages that could not be sent.
    failed: Failed,
}

/// The listening sockets.
#[derive(Default)]
struct Sockets {
    udp: Option<Rc<Udp>>,
    /// Connection-oriented listeners, with and without TLS and WebSocket.
    connections: RefCell<Vec<(Protocol, input::accept::Listening)>>,
    sctp: RefCell<Vec<OfSctp>>,
    advertised: Vec<Advertised>,
    /// The UDP ports that carry SCTP, for those that are SCTP in UDP.
    carriers: Vec<Option<u16>>,
    /// The listening addresses, as far as known.
    local: Vec<(Protocol, SocketAddr)>,
}

impl Sockets {
    fn open(config: &Config, mut worker: Option<&mut Worker>) -> Result<Self> {
        let mut sockets = Self::default();
        for listen in &config.listen {
            sockets.carriers.push(None);
            let opened = sockets.open_one(listen, &config.connection_limits, worker.as_deref_mut());
            let port = opened.map_err(|error| {
                let (name, hint) = (listen.protocol.name(), hints::of_chain(&error));
                error.context(format!("listening on {name} {}{hint}", listen.address))
            })?;
            let mut local = listen.address;
            local.set_port(port);
            sockets.local.push((listen.protocol, local));
            sockets.advertised.push(Advertised::new(listen.protocol, listen.host(), port));
        }
        Ok(sockets)
    }

    /// Opens a socket, and returns its port.
    fn open_one(
        &mut self,
        listen: &Listen,
        limits: &ConnectionLimits,
        worker: Option<&mut Worker>,
    ) -> Result<u16> {
        match listen.protocol {
            Protocol::Udp => {
                let udp = match worker {
                    Some(worker) => Udp::of(worker.socket(listen)?.into())?,
                    None => Udp::bind(listen.address)?,
                };
                let port = udp.local_addr()?.port();
                self.udp = Some(udp);
                Ok(port)
            }
            Protocol::Tcp | Protocol::Tls | Protocol::Ws | Protocol::Wss => {
                let listener = match worker {
                    Some(worker) => input::accept::listening(worker.socket(listen)?.into())?,
                    None => input::accept::listen(listen.address, limits)?,
                };
                let port = listener.get_ref().local_addr()?.port();
                self.connections.borrow_mut().push((listen.protocol, listener));
                Ok(port)
            }
            Protocol::Sctp => {
                let (of_worker, told) = match worker {
                    Some(worker) => worker.sctp(listen),
                    None => (listen.clone(), None),
                };
                let listen = &of_worker;
                let stack = Stack::builder().association(association()).mixed_trains(true);
                let stack = match &listen.sctp_encryption {
                    Some(options) => stack.encryption(options.load()?),
                    None => stack,
                };
                let stack = match listen.sctp_carrier {
                    SctpCarrier::Udp => stack.udp(listen.address)?,
                    SctpCarrier::Ip => stack.raw(Address::of(listen.address))?,
                };
                let in_udp = listen.sctp_carrier == SctpCarrier::Udp;
                self.carriers.pop();
                self.carriers.push(stack.local_addr().filter(|_| in_udp).map(|address| address.port()));
                let (of_sctp, port) = match listen.sctp_style {
                    SctpStyle::OneToMany => {
                        let endpoint = Endpoint::bind(&stack, listen.sctp_port)?;
                        let port = endpoint.port();
                        let (many, failed) = Many::new(endpoint);
                        (OfSctp { sctp: Sctp::Many(Rc::new(many)), opened: None, failed }, port)
                    }
                    SctpStyle::OneToOne => {
                        let listener = Listener::bind(&stack, listen.sctp_port)?;
                        let port = listener.port();
                        let (one, opened, failed) = One::new(stack, listener);
                        (OfSctp { sctp: Sctp::One(Rc::new(one)), opened: Some(opened), failed }, port)
                    }
                };
                self.sctp.borrow_mut().push(of_sctp);
                Ok(told.unwrap_or(port))
            }
        }
    }

    /// Prints the listening addresses, for a server with one process.
    fn announce(&self, users: usize, others: [(&str, Option<SocketAddr>); 2], json: bool) {
        let (advertised, carriers) = (&self.advertised, &self.carriers);
        startup_message::print(&StartupMessage { advertised, carriers, users, processes: 1, others, json });
    }

    /// The SCTP port, and the UDP port that carries it.
    fn sctp_ports(&self) -> Option<(u16, u16)> {
        let mut all = self.advertised.iter().zip(&self.carriers);
        all.find_map(|(one, carrier)| Some((one.port, (*carrier)?)))
    }

    fn serve(&self, hub: &Rc<Hub>, set: &Rc<input::epoll_set::Set>) {
        if let Some(udp) = &self.udp {
            hub.transports.udp.replace(Some(Rc::clone(udp)));
            tokio::task::spawn_local(input::udp::serve(Rc::clone(udp), Rc::clone(hub)));
        }
        for (protocol, listener) in self.connections.take() {
            tokio::task::spawn_local(input::accept::serve(
                listener,
                Rc::clone(hub),
                Rc::clone(set),
                protocol,
            ));
        }
        for OfSctp { sctp, opened, failed } in self.sctp.take() {
            tokio::task::spawn_local(input::sctp::report_failed(failed, Rc::clone(hub)));
            match &sctp {
                Sctp::Many(many) => {
                    tokio::task::spawn_local(input::sctp::serve_many(Rc::clone(many), Rc::clone(hub)));
                    tokio::task::spawn_local(input::sctp::watch_many(Rc::clone(many), Rc::clone(hub)));
                }
                Sctp::One(one) => {
                    let accepting = input::sctp::serve_one(Rc::clone(one), Rc::clone(hub));
                    tokio::task::spawn_local(accepting);
                    if let Some(opened) = opened {
                        let opening = input::sctp::open_wanted(opened, Rc::clone(one), Rc::clone(hub));
                        tokio::task::spawn_local(opening);
                    }
                }
            }
            hub.transports.sctp.borrow_mut().push(sctp);
        }
    }
}
