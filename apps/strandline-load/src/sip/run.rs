//! From the command line to the result.

use std::process::ExitCode;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Result, bail};
use strandline_tls::ClientTls;
use tokio::task::LocalSet;

use crate::pace::{Schedule, now};
use crate::perf::usage::CpuTime;

use super::args::{Args, Lifetime, Transport};
use super::carrier::{passing, sctp, set, tcp, udp};
use super::digest::Credentials;
use super::engine::{Engine, Plan, Scenario};
use super::load::Load;
use super::outcome::SipReport;
use super::own::Own;
use super::text::Style;
use super::watch::{ServerReport, Taken, Watched};

/// How often it is looked at what is due.
const TICK: Duration = Duration::from_millis(1);
/// A server has done all when it was idle, and its memory the same, for as long.
const REST: Duration = Duration::from_millis(200);
/// How often that is looked at, at most.
const LOOKS_MAX: usize = 50;
/// How often all phones try to register before it is measured.
const ATTEMPTS: usize = 5;

/// Runs a load. Fails if nothing at all succeeded.
///
/// # Errors
/// If the arguments make no sense, or the server can't be reached.
pub fn run(args: &Args) -> Result<ExitCode> {
    args.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(31).build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut args = args.clone();
        let own = if args.serve { Some(Own::start(&mut args).await?) } else { None };
        let code = load(&args).await;
        if let Some(own) = own {
            own.end().await?;
        }
        code
    })
}

/// The load, at a server that is there.
async fn load(args: &Args) -> Result<ExitCode> {
    let watched = args.watch.map(Watched::new);
    let before = watched.map(Watched::look).transpose()?;
    let load = open(args).await?;
    let connected = rested(watched).await?;
    let all_first = args.registered || args.scenario == Scenario::Call;
    if all_first {
        register_all(args, &load).await?;
    }
    let registered = rested(watched.filter(|_| all_first)).await?;
    let mut report = measure(args, &load, args.rate, watched).await?;
    if let (Some(before), Some(connected), Some(server)) = (before, connected, &mut report.server) {
        server.memory_before = before.memory;
        server.memory_connected = connected.memory;
        server.memory_registered = registered.map(|taken| taken.memory);
        server.memory_each_source = (connected.memory as f64 - before.memory as f64) / args.sources() as f64;
    }
    let mut offered = Vec::new();
    for multiple in &args.offer {
        let rate = (report.succeeded_each_second * multiple).max(1.0);
        offered.push((*multiple, measure(args, &load, Some(rate), watched).await?));
    }
    report.offered(offered);
    if args.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    Ok(if report.succeeded > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What a server has taken once it has done all that it was asked for.
async fn rested(watched: Option<Watched>) -> Result<Option<Taken>> {
    let Some(watched) = watched else { return Ok(None) };
    let mut last = watched.look()?;
    for _ in 0..LOOKS_MAX {
        tokio::time::sleep(REST).await;
        let taken = watched.look()?;
        if taken.cpu.saturating_sub(last.cpu) <= REST / 20 && taken.memory == last.memory {
            return Ok(Some(taken));
        }
        last = taken;
    }
    Ok(Some(last))
}

async fn open(args: &Args) -> Result<Rc<Load>> {
    let (server, local, sources) = (args.server, args.local(), args.sources());
    let style = Style {
        transport: args.transport.name(),
        uri_parameter: args.transport.uri_parameter(),
        domain: args.domain.clone(),
        run: run_number(),
        first: args.first,
        expires_secs: args.expires,
    };
    let plan = plan(args, args.scenario, now(), args.rate.is_none());
    let load = |addresses| {
        let mut engine = Engine::new(style, addresses, plan);
        if let Some(password) = &args.password {
            engine.prove_by(Credentials::new(password.clone()));
        }
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
            let each = if dialog { passing::For::Dialog } else { passing::For::Transaction };
            let to = tcp::To { server, tls: None };
            let (passing, addresses) = passing::open(to, &local, sources, each).await?;
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
            let (sctp, addresses) = sctp::open(server, args.encapsulation, &local, sources).await?;
            let load = load(addresses);
            sctp.serve(&load);
            load.send_by(Box::new(sctp));
            load
        }
    })
}

/// What TLS needs, if there is TLS.
fn tls(args: &Args) -> Result<Option<(ClientTls, String)>> {
    let (Transport::Tls, Some(ca)) = (args.transport, &args.ca) else { return Ok(None) };
    let name = args.server_name.clone().unwrap_or_else(|| args.server.ip().to_string());
    Ok(Some((ClientTls::new(ca, None)?, name)))
}

/// Tells this run's Call-IDs from those of others.
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

/// Whoever is to be called registers first. Those that are refused while others come try again.
async fn register_all(args: &Args, load: &Rc<Load>) -> Result<()> {
    let patience = Duration::from_secs(600);
    let all = u64::from(args.users);
    let mut registered = 0;
    for _ in 0..ATTEMPTS {
        let begin = now();
        let plan = plan(args, Scenario::Register, begin, true);
        let until = begin + patience;
        load.engine.borrow_mut().restart(Plan { limit: all, counted_from: begin, until, ..plan });
        drive(load, Pace::Closed(args.outstanding)).await;
        registered = load.engine.borrow().outcome.succeeded;
        if registered == all {
            return Ok(());
        }
    }
    bail!(
        "only {registered} of {all} phones could register: is the server there, and is {} its domain?",
        args.domain
    )
}

/// What came of it: at a rate, or in a closed loop.
async fn measure(
    args: &Args,
    load: &Rc<Load>,
    rate: Option<f64>,
    watched: Option<Watched>,
) -> Result<SipReport> {
    let taken = watched.map(Watched::look).transpose()?;
    let begin = now();
    load.engine.borrow_mut().restart(plan(args, args.scenario, begin, rate.is_none()));
    load.lost.set(0);
    let cpu = CpuTime::now()?;
    let pace = match rate {
        Some(rate) => Pace::Open(Schedule { begin, rate }),
        None => Pace::Closed(args.outstanding),
    };
    drive(load, pace).await;
    let (cpu, wall) = (CpuTime::now()?.since(cpu), now().saturating_duration_since(begin));
    let mut report = SipReport {
        scenario: if args.scenario == Scenario::Call { "calls" } else { "REGISTER" },
        transport: args.transport.name(),
        sources: args.sources(),
        users: args.users,
        rate_asked: rate,
        outstanding: rate.is_none().then_some(args.outstanding),
        connections_lost: load.lost.get(),
        own_cpu_s: (cpu.user + cpu.system).as_secs_f64(),
        ..SipReport::default()
    };
    report.take(&load.engine.borrow().outcome, Duration::from_secs_f64(args.time));
    if let (Some(taken), Some(end)) = (taken, watched.map(Watched::look).transpose()?) {
        report.server = Some(ServerReport::of(taken, end, wall, load.engine.borrow().begun()));
    }
    Ok(report)
}

/// When operations begin.
#[derive(Debug, Clone, Copy)]
enum Pace {
    /// So many at once.
    Closed(usize),
    /// At their own times.
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
            // The runtime has other tasks, and the carrier waits without it.
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
