//! `strandline lab run`: executes the runs of plans, and stores each result as soon as it is complete.

pub mod extract;
mod measure;
mod progress;
#[cfg(test)]
mod tests;
mod validity;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use strandline_output::{errln, outln};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use self::measure::Taken;
use self::progress::Progress;
pub use self::progress::show_time;
use crate::clock;
use crate::netem::namespace::require_root;
use crate::plan::{self, Found, Mode, Plan, Run};
use crate::results::{Machine, Record, Results};

/// Exit code if interrupted by Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Exit code if runs failed or were invalid, though all others were done.
const INCOMPLETE: u8 = 3;
/// Maximum number of tries of a run that is invalid.
const TRIES: u32 = 3;

/// Directories of plans and results.
#[derive(Debug, Clone, clap::Args)]
pub struct Places {
    /// Directory with the plans (PAPER/NAME.toml)
    #[arg(long, value_name = "DIR", default_value = "experiments")]
    pub experiments: PathBuf,
    /// Directory with the results (PAPER/NAME.jsonl)
    #[arg(long, value_name = "DIR", default_value = "lab-results")]
    pub results: PathBuf,
}

/// Arguments of `strandline lab run`.
#[derive(Debug, Clone, clap::Args)]
#[command(group(clap::ArgGroup::new("what").args(["chosen", "all"])), after_help = "\
Examples:
  strandline lab run --short jani-kant-2005      a paper's experiments, few repetitions
  strandline lab run jani-kant-2005/figure5      one figure, the full set
  strandline lab run osterdahl-2005/tables-path  HTTP over TCP and over SCTP streams
  strandline lab run --all                       everything, for hours
  strandline lab run --all --dry-run             list the runs, and how long they take

It needs root for network namespaces. Ctrl-C ends it; the next time it goes on where it
was, unless strandline has been built anew: then it begins again (--any-build goes on).
Results are lines of JSON in lab-results/PAPER/NAME.jsonl.

Exit code: 0; 3 if some runs failed or were not valid (they are tried again the next
time); 130 after Ctrl-C; 1 if it could not begin.")]
pub struct RunArgs {
    /// Papers (jani-kant-2005), plans (jani-kant-2005/figure5) or plan files
    #[arg(value_name = "PAPER|PLAN")]
    pub chosen: Vec<String>,
    /// Run the plans of all papers
    #[arg(long)]
    pub all: bool,
    /// Run the short set: fewer points, fewer and shorter repetitions
    #[arg(long)]
    pub short: bool,
    /// Repeat runs that already have results
    #[arg(long)]
    pub again: bool,
    /// Accept results of other builds of strandline instead of repeating them
    #[arg(long, conflicts_with = "again")]
    pub any_build: bool,
    /// Only list the runs
    #[arg(short = 'n', long)]
    pub dry_run: bool,
    /// Directories of plans and results
    #[command(flatten)]
    pub places: Places,
}

/// Describes the papers and plans to choose from.
fn nothing_chosen(places: &Places) -> Result<String> {
    let mut papers: Vec<String> = Vec::new();
    for found in plan::find(&places.experiments, &[])? {
        if papers.last() != Some(&found.paper) {
            papers.push(found.paper);
        }
    }
    Ok(format!(
        "no papers or plans given; name some, or use --all:\n  {}\nfor example: strandline lab run --short {}\n\
         `strandline lab list` shows the plans and how long they take",
        papers.join("\n  "),
        papers.first().map_or("PAPER", String::as_str),
    ))
}

/// A run to execute.
struct Task {
    plan: usize,
    run: Run,
}

/// A plan with its results.
struct Job {
    plan: Plan,
    hash: String,
    results: Results,
}

/// Runs the plans.
///
/// # Errors
/// If a plan is invalid, the user is not root, a program is missing, or a network can't be created.
pub fn run(args: &RunArgs, commit: &str) -> Result<ExitCode> {
    if args.chosen.is_empty() && !args.all {
        bail!(nothing_chosen(&args.places)?);
    }
    let machine = Machine::this(commit)?;
    let build = if args.any_build { None } else { Some(machine.build.as_str()) };
    let mode = if args.short { Mode::Short } else { Mode::Whole };
    let found = plan::find(&args.places.experiments, &args.chosen)?;
    let mut jobs = found.iter().map(|found| Job::open(found, args)).collect::<Result<Vec<_>>>()?;
    let (mut tasks, mut done, mut others) = (Vec::new(), 0, 0);
    for (place, job) in jobs.iter().enumerate() {
        for run in job.plan.runs(mode).map_err(anyhow::Error::msg)? {
            if !args.again && job.results.has(&run.key, build) {
                done += 1;
            } else {
                others += usize::from(!args.again && job.results.has(&run.key, None));
                tasks.push(Task { plan: place, run });
            }
        }
    }
    if others > 0 {
        errln!(
            "lab: {others} runs were done by another build of strandline and are repeated (--any-build accepts them)"
        );
    }
    if args.dry_run {
        return Ok(show(&jobs, &tasks, done));
    }
    if tasks.is_empty() {
        match done {
            0 => errln!("lab: nothing to run: see 'strandline lab list'"),
            _ => errln!("lab: all {done} runs are done already (--again repeats them)"),
        }
        return Ok(ExitCode::SUCCESS);
    }
    check_programs(&jobs, &tasks)?;
    for task in &tasks {
        if let Some(job) = jobs.get(task.plan) {
            job.results.check()?;
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(run_all(&mut jobs, &tasks, (done, mode), &machine)).map(ExitCode::from)
}

fn show(jobs: &[Job], tasks: &[Task], done: usize) -> ExitCode {
    for task in tasks {
        let run = &task.run;
        if let Some(server) = &run.server {
            outln!("{}  server: {server}", describe(jobs, task));
        }
        outln!("{}  client: {}", describe(jobs, task), run.client);
    }
    let seconds: f64 = tasks.iter().map(|task| task.run.takes).sum();
    errln!("lab: {} runs, about {}; {done} done already", tasks.len(), progress::show_time(seconds));
    ExitCode::SUCCESS
}

/// Describes a task: plan, series, value and repetition.
fn describe(jobs: &[Job], task: &Task) -> String {
    let Some(job) = jobs.get(task.plan) else { return String::new() };
    let series = job.plan.series.get(task.run.series).map(|series| series.name.as_str()).unwrap_or_default();
    let value = job.plan.value(task.run.value).map(|value| format!(" at {value}")).unwrap_or_default();
    format!("{}/{} {series}{value} #{}", job.plan.paper, job.plan.name, task.run.repetition)
}

/// Reports missing programs before anything is measured.
fn check_programs(jobs: &[Job], tasks: &[Task]) -> Result<()> {
    if !tasks.iter().all(|task| task.run.network.kind.is_alone()) {
        require_root()?;
    }
    let mut seen = Vec::new();
    for task in tasks {
        for program in measure::programs(&task.run) {
            let name = program.shown().split_whitespace().next().map(str::to_owned);
            if !seen.contains(&name) {
                program.check().with_context(|| describe(jobs, task))?;
                seen.push(name);
            }
        }
    }
    Ok(())
}

async fn run_all(
    jobs: &mut [Job],
    tasks: &[Task],
    (done, mode): (usize, Mode),
    machine: &Machine,
) -> Result<u8> {
    let mut interrupt = interrupts()?;
    let mut progress = Progress::new(tasks.iter().map(|task| task.run.takes).collect(), done);
    let mut bad = 0;
    for (number, task) in tasks.iter().enumerate() {
        progress.begin(number, &describe(jobs, task));
        let mut good = false;
        for tried in 1..=TRIES {
            let Some(job) = jobs.get_mut(task.plan) else { break };
            let record = job.measure(task, mode, machine, &mut interrupt).await?;
            if *interrupt.borrow() {
                progress.end("interrupted: the next 'strandline lab run' continues here");
                return Ok(INTERRUPTED);
            }
            good = record.valid;
            // A program that fails would fail again; other disturbances may pass.
            let failed = record.points.is_empty();
            let reasons = record.invalid_because.join("; ");
            job.results.add(record)?;
            if good {
                break;
            }
            let last = failed || tried == TRIES;
            let again = if last { "giving up" } else { "retrying" };
            progress.say(&format!("{}: invalid, {again}: {reasons}", describe(jobs, task)));
            if last {
                break;
            }
        }
        bad += usize::from(!good);
        progress.finish(number);
    }
    let all = tasks.len();
    if bad > 0 {
        progress.end(&format!("{bad} of {all} runs are invalid; the next 'strandline lab run' repeats them"));
        return Ok(INCOMPLETE);
    }
    progress.end(&format!("{all} runs done; show them with 'strandline lab report'"));
    Ok(0)
}

/// Returns a channel that becomes true with the first signal to end this process.
fn interrupts() -> Result<watch::Receiver<bool>> {
    let (tell, told) = watch::channel(false);
    for kind in [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()] {
        let (mut signals, tell) = (signal(kind)?, tell.clone());
        tokio::spawn(async move {
            signals.recv().await;
            // The receiver is gone if everything is over.
            let _ = tell.send(true);
        });
    }
    Ok(told)
}

impl Job {
    fn open(found: &Found, args: &RunArgs) -> Result<Self> {
        let plan = plan::load(found)?;
        let hash = plan::hash(&found.path)?;
        let results = Results::load(&args.places.results, &plan)?;
        Ok(Self { plan, hash, results })
    }

    async fn measure(
        &self,
        task: &Task,
        mode: Mode,
        machine: &Machine,
        interrupt: &mut watch::Receiver<bool>,
    ) -> Result<Record> {
        let run = &task.run;
        let Some(series) = self.plan.series.get(run.series) else { bail!("the run belongs to no series") };
        let value = self.plan.value(run.value).map(ToString::to_string);
        let began = clock::unix_seconds();
        let start = clock::now();
        let name = format!("lab-{}", std::process::id());
        let Taken { printed, mut invalid_because } = measure::take(&name, series, run, interrupt).await?;
        let mut record = Record {
            key: run.key.clone(),
            series: series.name.clone(),
            value: value.clone(),
            repetition: run.repetition,
            seed: run.seed,
            mode,
            valid: false,
            invalid_because: Vec::new(),
            points: Vec::new(),
            began,
            took_seconds: start.elapsed().as_secs_f64(),
            network: run.network.as_made(),
            client: run.client.clone(),
            server: run.server.clone(),
            plan: self.hash.clone(),
            machine: machine.clone(),
            client_report: serde_json::Value::Null,
            server_report: None,
            netem_report: None,
        };
        match printed {
            Ok(printed) => {
                invalid_because.extend(validity::invalidity_reasons(&self.plan, run, &printed.client));
                match extract::points(&self.plan, series, value.as_deref(), &printed, &run.variables) {
                    Ok(points) => record.points = points,
                    Err(wrong) => invalid_because.push(wrong),
                }
                record.client_report = extract::without_intervals(printed.client);
                record.server_report = printed.server.map(extract::without_intervals);
                record.netem_report = printed.netem;
            }
            Err(error) => invalid_because.push(format!("{error:#}")),
        }
        record.valid = invalid_because.is_empty();
        record.invalid_because = invalid_because;
        Ok(record)
    }
}
