//! Runs a load from the command line to the report.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use strandline_measure::now;
use strandline_output::outln;
use tokio::task::LocalSet;

use super::args::Args;
use super::local_server::Own;
use super::outcome::SipReport;
use super::plan::Scenario;
use super::processes::Stage;
use super::script::Script;
use super::watch::{ServerReport, Taken, Watched};

/// Time for which a server must be idle, with unchanged memory, to be considered at rest.
const REST: Duration = Duration::from_millis(200);
/// Maximum number of such checks.
const LOOKS_MAX: usize = 50;

/// Runs a load. Fails if nothing at all succeeded.
///
/// # Errors
/// If the arguments are invalid, or the server can't be reached.
pub fn run(args: &Args) -> Result<ExitCode> {
    args.check()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().event_interval(31).build()?;
    LocalSet::new().block_on(&runtime, async {
        let mut args = args.clone();
        if args.file.is_some() {
            args.scenario = Scenario::File;
        }
        let own = if args.serve { Some(Own::start(&mut args).await?) } else { None };
        let code = load(&args).await;
        if let Some(own) = own {
            own.end().await?;
        }
        code
    })
}

/// Runs the load against a running server.
async fn load(args: &Args) -> Result<ExitCode> {
    let script = args.file.as_deref().map(Script::open).transpose()?;
    let (name, all_first) = match (script, args.scenario) {
        (Some(script), _) => (script.name, args.preparation.registered || script.register),
        (None, Scenario::Call) => ("calls".to_owned(), true),
        (None, _) => ("REGISTER".to_owned(), args.preparation.registered),
    };
    let watched = args.watch.map(Watched::new);
    let before = watched.map(Watched::look).transpose()?;
    let mut stage = Stage::open(args).await?;
    let connected = rested(watched).await?;
    if args.preparation.remove_contacts {
        stage.remove_contacts(args).await?;
    }
    if all_first {
        stage.register_all(args).await?;
    }
    let registered = rested(watched.filter(|_| all_first)).await?;
    let mut report = reported(args, &mut stage, args.rate, watched).await?;
    if let (Some(before), Some(connected), Some(server)) = (before, connected, &mut report.server) {
        server.memory_before = before.memory;
        server.memory_connected = connected.memory;
        server.memory_registered = registered.map(|taken| taken.memory);
        server.memory_each_source = (connected.memory as f64 - before.memory as f64) / args.sources() as f64;
    }
    let mut offered = Vec::new();
    for multiple in &args.offer {
        let rate = (report.succeeded_each_second * multiple).max(1.0);
        offered.push((*multiple, reported(args, &mut stage, Some(rate), watched).await?));
    }
    stage.end().await?;
    report.offered(offered);
    report.name(&name);
    if args.json {
        outln!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    Ok(if report.succeeded > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Waits until a server is at rest, and returns the resources that it has used.
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

/// The figures of all processes, and of the server if it is watched.
async fn reported(
    args: &Args,
    stage: &mut Stage,
    rate: Option<f64>,
    watched: Option<Watched>,
) -> Result<SipReport> {
    let taken = watched.map(Watched::look).transpose()?;
    let begin = now();
    let measured = stage.measure(args, rate).await?;
    let wall = now().saturating_duration_since(begin);
    let mut report = SipReport {
        transport: args.transport.name(),
        processes: args.processes,
        sources: args.sources(),
        users: args.users,
        rate_asked: rate,
        outstanding: rate.is_none().then_some(args.outstanding),
        connections_lost: measured.lost,
        own_cpu_s: measured.cpu.as_secs_f64(),
        ..SipReport::default()
    };
    report.take(&measured.outcome, Duration::from_secs_f64(args.time));
    if let (Some(taken), Some(end)) = (taken, watched.map(Watched::look).transpose()?) {
        report.server = Some(ServerReport::of(taken, end, wall, measured.begun));
    }
    Ok(report)
}
