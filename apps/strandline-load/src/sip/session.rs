//! The user agents of one process: opens their sources, registers them, and runs their operations.

use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use strandline_measure::{CpuTime, Schedule, now};
use strandline_tls::ClientTls;

use super::args::{Args, Lifetime, Transport};
use super::carrier::{sctp, set, short_lived_tcp, tcp, udp};
use super::digest::Credentials;
use super::engine::Engine;
use super::keep_alive::{KeepAlives, Kind};
use super::load::Load;
use super::outcome::Measured;
use super::plan::{Plan, Scenario};
use super::script::{Players, Script};
use super::text::Style;

/// Interval at which timers are checked.
const TICK: Duration = Duration::from_millis(1);
/// Maximum number of attempts to register all phones before the measurement.
const ATTEMPTS: usize = 5;

/// Opens user agents, with the scenario of a file if one is given.
pub(super) async fn open_with_script(args: &Args) -> Result<Rc<Load>> {
    let script = args.file.as_deref().map(Script::open).transpose()?;
    let load = open(args).await?;
    if let Some(script) = script {
        load.engine.borrow_mut().play_by(Players::new(script));
    }
    Ok(load)
}

async fn open(args: &Args) -> Result<Rc<Load>> {
    let (server, local, sources) = (args.server, args.local(), args.sources());
    let style = style(args);
    let encryption = args.encryption.load(args.transport == Transport::Sctp && args.encapsulation != 0)?;
    let plan = plan(args, args.scenario, now(), args.rate.is_none());
    let load = |addresses| {
        let mut engine = Engine::new(style, addresses, plan);
        if let Some(password) = &args.password {
            engine.prove_by(Credentials::new(password.clone()));
        }
        keep_alives(args).into_iter().for_each(|keeps| engine.keep_alive_by(keeps));
        Load::new(engine)
    };
    Ok(match args.transport {
        Transport::Udp => {
            let (udp, addresses) = udp::open(server, &local, sources).await?;
            let load = load(addresses);
            udp.serve(&load);
            load.send_by(Box::new(udp));
            load
        }
        Transport::Tcp if args.scenario == Scenario::Call && args.lifetime != Lifetime::Persistent => {
            let dialog = args.lifetime == Lifetime::Dialog;
            let each = if dialog { short_lived_tcp::For::Dialog } else { short_lived_tcp::For::Transaction };
            let to = tcp::To { server, tls: None };
            let (passing, addresses) = short_lived_tcp::open(to, &local, sources, each).await?;
            let load = load(addresses);
            passing.serve(&load);
            load.send_by(Box::new(passing));
            load
        }
        Transport::Tcp if args.lifetime != Lifetime::Open => {
            let persistent = args.lifetime == Lifetime::Persistent;
            let (set, addresses) = set::open(server, &local, sources, persistent).await?;
            let load = load(addresses);
            load.send_by(Box::new(set));
            load
        }
        Transport::Tcp | Transport::Tls => {
            let each = match args.lifetime {
                Lifetime::Persistent => tcp::Each::Persistent,
                Lifetime::Open => tcp::Each::Request { kept: sources },
                Lifetime::Dialog | Lifetime::Transaction => tcp::Each::Request { kept: 0 },
            };
            let to = tcp::To { server, tls: tls(args)? };
            let (tcp, addresses) = tcp::open(to, &local, sources, each).await?;
            let load = load(addresses);
            tcp.serve(&load);
            load.send_by(Box::new(tcp));
            load
        }
        Transport::Sctp => {
            let heartbeat = args.keep_alive();
            let (sctp, addresses) =
                sctp::open(server, args.encapsulation, &local, sources, heartbeat, encryption.as_ref())
                    .await?;
            let load = load(addresses);
            sctp.serve(&load);
            load.send_by(Box::new(sctp));
            load
        }
    })
}

fn style(args: &Args) -> Style {
    Style {
        transport: args.transport.name(),
        uri_parameter: args.transport.uri_parameter(),
        domain: args.domain.clone(),
        run: run_number(),
        first: args.first,
        expires_secs: args.expires,
        removes: false,
    }
}

/// Returns the keep-alives of flows, if requested; SCTP has its own heartbeats.
fn keep_alives(args: &Args) -> Option<KeepAlives> {
    let kind = match args.transport {
        Transport::Udp => Kind::Stun,
        Transport::Tcp | Transport::Tls => Kind::LineEnds,
        Transport::Sctp => return None,
    };
    args.keep_alive().map(|every| KeepAlives::new(kind, every, args.sources(), now()))
}

/// Returns the TLS settings, if the transport is TLS.
fn tls(args: &Args) -> Result<Option<(ClientTls, String)>> {
    let (Transport::Tls, Some(ca)) = (args.transport, &args.ca) else { return Ok(None) };
    let name = args.server_name.clone().unwrap_or_else(|| args.server.ip().to_string());
    Ok(Some((ClientTls::new(ca, None)?, name)))
}

/// Returns a number that distinguishes this run's Call-IDs from those of others.
#[allow(clippy::disallowed_methods, reason = "a load generator is a program of its own")]
fn run_number() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as u64
}

fn plan(args: &Args, scenario: Scenario, begin: Instant, closed: bool) -> Plan {
    let counted_from = begin + Duration::from_secs_f64(args.warm_up);
    Plan {
        scenario,
        renewals: args.renewals,
        users: args.users,
        closed,
        limit: u64::MAX,
        timeout: Duration::from_secs_f64(args.timeout),
        unreliable: args.transport == Transport::Udp,
        counted_from,
        until: counted_from + Duration::from_secs_f64(args.time),
    }
}

/// Removes all contacts that the phones have, of earlier runs, too.
pub(super) async fn remove_contacts(args: &Args, load: &Rc<Load>) -> Result<()> {
    load.engine.borrow_mut().remove_contacts(true);
    let removed = register_all(args, load).await;
    load.engine.borrow_mut().remove_contacts(false);
    removed
}

/// Registers every phone that may be called. Refused ones try again.
pub(super) async fn register_all(args: &Args, load: &Rc<Load>) -> Result<()> {
    let timeout = Duration::from_secs(600);
    let all = u64::from(args.users);
    let mut registered = 0;
    for _ in 0..ATTEMPTS {
        let begin = now();
        let plan = plan(args, Scenario::Register, begin, true);
        let until = begin + timeout;
        load.engine.borrow_mut().restart(Plan { limit: all, counted_from: begin, until, ..plan });
        drive(load, Pace::Closed(args.outstanding)).await;
        registered = load.engine.borrow().outcome.succeeded;
        if registered == all {
            return Ok(());
        }
    }
    bail!(
        "only {registered} of {all} phones could register: is the server running, and is {} its domain?",
        args.domain
    )
}

/// Measures at a rate, or in a closed loop.
pub(super) async fn measure(args: &Args, load: &Rc<Load>, rate: Option<f64>) -> Result<Measured> {
    let begin = now();
    load.engine.borrow_mut().restart(plan(args, args.scenario, begin, rate.is_none()));
    load.lost.set(0);
    let cpu = CpuTime::now()?;
    let pace = match rate {
        Some(rate) => Pace::Open(Schedule { begin, rate }),
        None => Pace::Closed(args.outstanding),
    };
    drive(load, pace).await;
    let cpu = CpuTime::now()?.since(cpu);
    let engine = load.engine.borrow();
    Ok(Measured {
        outcome: engine.outcome.clone(),
        begun: engine.begun(),
        lost: load.lost.get(),
        cpu: cpu.user + cpu.system,
    })
}

/// The times at which operations begin.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// A fixed number of concurrent operations.
    Closed(usize),
    /// Operations at scheduled times.
    Open(Schedule),
}

/// Begins operations, and returns when all are over.
async fn drive(load: &Rc<Load>, pace: Pace) {
    let mut interval = tokio::time::interval(TICK);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    if let Pace::Closed(outstanding) = pace {
        load.with(|engine, now| (0..outstanding).for_each(|_| engine.begin(now, now)));
    }
    let mut others_at = now();
    loop {
        load.send();
        if !load.wait(TICK) {
            interval.tick().await;
        } else if now() >= others_at {
            // The runtime has other tasks, and the transport waits outside of it.
            tokio::task::yield_now().await;
            others_at = now() + TICK;
        }
        load.with(|engine, now| {
            if let Pace::Open(schedule) = pace {
                let mut due = schedule.moment(engine.begun());
                while due <= now && !engine.all_begun(due) {
                    engine.begin(due, due);
                    engine.note_beginning(now);
                    due = schedule.moment(engine.begun());
                }
            }
            engine.handle_timeout(now);
        });
        let engine = load.engine.borrow();
        if engine.under_way() == 0 && engine.all_begun(now()) {
            return;
        }
    }
}
