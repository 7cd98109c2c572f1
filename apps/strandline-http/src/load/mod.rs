//! `strandline load http`: load for an HTTP server, with httperf's figures and latencies that include queueing.

mod args;
mod exchange;
mod failure;
mod link;
mod pool;
mod report;
mod requests;
mod run;
mod samples;
mod stats;
mod text;

pub use self::args::Args;

use std::future::Future;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use indicatif::{ProgressBar, ProgressStyle};
use strandline::Stack;
use strandline_measure::{CpuTime, now};
use strandline_output::outln;

use self::args::{Plan, Transport};
use self::link::{Dial, Server};
use self::report::Report;
use self::requests::Prepared;
use self::run::Test;
use self::stats::Stats;
use crate::client::outgoing_stack;
use crate::happy_eyeballs::resolve;
use crate::usage::{self, Usage};

/// Default port of HTTP.
const PORT: u16 = 80;
/// Time for the graceful end of associations.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);
/// Interval of the progress.
const PROGRESS: Duration = Duration::from_millis(250);
/// Exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;

/// Runs the test, and prints the report, after Ctrl-C that of the time until then.
///
/// # Errors
/// If the arguments contradict one another, the server's name has no address, or the test can't begin.
pub fn run(args: &Args) -> Result<ExitCode> {
    usage::report(run_plan(args))
}

fn run_plan(args: &Args) -> Result<ExitCode> {
    let plan = args.plan().map_err(|error| Usage(format!("{error:#}")))?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let interrupt = async { drop(tokio::signal::ctrl_c().await) };
    let (report, is_whole) = runtime.block_on(measure(args, &plan, interrupt))?;
    if args.json {
        outln!("{}", serde_json::to_string(&report)?);
    } else {
        outln!("{report}");
    }
    Ok(ExitCode::from(if is_whole { report.exit_code() } else { INTERRUPTED }))
}

/// Runs the test until it ends or is interrupted. Returns the report, and whether it is of the whole test.
async fn measure(args: &Args, plan: &Plan, interrupt: impl Future<Output = ()>) -> Result<(Report, bool)> {
    let first = plan.urls.first().context("a URL is required")?;
    let host = first.host_str().unwrap_or_default();
    let found = resolve(host, first.port().unwrap_or(PORT)).await;
    // The load goes to one address.
    let found = found.with_context(|| format!("can't resolve {host}"))?;
    let address = *found.first().with_context(|| format!("{host} has no address"))?;
    let stack = match plan.transport {
        Transport::Sctp => {
            Some(outgoing_stack(&args.association(plan.streams), args.encryption.load()?.as_ref())?)
        }
        Transport::Tcp => None,
    };
    let keeps_alive = !args.no_keep_alive;
    let prepare = |url| Prepared::new(url, &args.header, args.http2, keeps_alive);
    let requests = plan.urls.iter().map(prepare).collect::<Result<_>>()?;
    let cpu = CpuTime::now()?;
    let begin = now();
    let stats = Arc::new(Stats::new(begin, args.completions));
    let test = Arc::new(Test {
        load: plan.load.clone(),
        server: Arc::new(Server {
            address,
            dial: dial(args, stack.as_ref(), host),
            keeps_alive,
            timeout: plan.timeout,
            stats: Arc::clone(&stats),
        }),
        requests,
        connections: plan.connections,
        places: plan.streams,
        schedule: args.schedule,
        seed: args.seed,
    });
    let is_whole = tokio::select! {
        result = run::run(test, begin) => result.map(|()| true)?,
        () = interrupt => false,
        () = show_progress(args, plan, &stats) => false,
    };
    let cpu = CpuTime::now()?.since(cpu);
    if let Some(stack) = &stack {
        // The server learns that the associations end.
        let _ = tokio::time::timeout(CLOSE_TIMEOUT, stack.wait_idle()).await;
    }
    Ok((Report::new(args, plan, stats.counted(), cpu), is_whole))
}

fn dial(args: &Args, stack: Option<&Stack>, host: &str) -> Dial {
    match stack {
        Some(stack) => Dial::Sctp {
            stack: stack.clone(),
            encapsulation_port: args.encapsulation_port,
            host: host.to_owned(),
        },
        None if args.http2 => Dial::Http2,
        None => Dial::Http1,
    }
}

/// Shows replies and errors on a terminal. Never ends.
async fn show_progress(args: &Args, plan: &Plan, stats: &Stats) {
    if args.quiet || !std::io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let bar = match plan.load.planned() {
        Some(planned) => ProgressBar::new(planned),
        None => ProgressBar::no_length(),
    };
    let style = "  {bar:24} {pos}/{len} replies, {per_sec}, {msg}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style.progress_chars("=> "));
    }
    let _clear = ClearAtEnd(bar.clone());
    loop {
        let (replies, errors) = stats.progress();
        bar.set_position(replies);
        bar.set_message(format!("{errors} errors"));
        tokio::time::sleep(PROGRESS).await;
    }
}

/// Removes a bar when the progress is dropped.
struct ClearAtEnd(ProgressBar);

impl Drop for ClearAtEnd {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests;
