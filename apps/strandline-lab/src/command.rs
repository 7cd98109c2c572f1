//! The subcommands of `strandline lab`.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;
use strandline_output::outln;

use crate::instructions::{self, InstructionsArgs};
use crate::plan::{self, Mode, Plan};
use crate::report::{self, ReportArgs};
use crate::results::{Machine, Results, statistics};
use crate::run::{self, Places, RunArgs};
use crate::sequence::{self, SequenceArgs};
use crate::simulate::{self, SimulateArgs};
use crate::site::{self, SiteArgs};
use crate::together::{self, TogetherArgs};
use crate::trace::{self, TraceArgs};

/// The subcommands of `strandline lab`.
#[derive(Debug, Clone, Subcommand)]
pub enum Lab {
    /// List the experiments and the state of their results
    #[command(after_help = "\
Examples:
  strandline lab list                          all experiments
  strandline lab list jani-kant-2005           experiments of one paper")]
    List(ListArgs),
    /// Run experiments and store their results
    Run(RunArgs),
    /// Draw the results beside those published in the papers, as HTML and PNG
    Report(ReportArgs),
    /// Draw a trace of `strandline perf --trace`: TSNs and windows over time
    Trace(TraceArgs),
    /// Simulate an SCTP transfer in virtual time; used by plans
    Simulate(SimulateArgs),
    /// Count the user-space instructions of a program; used by plans
    Instructions(InstructionsArgs),
    /// Run programs concurrently; used by plans
    Together(TogetherArgs),
    /// Run programs in turn beside helper programs, and time them; used by plans
    Sequence(SequenceArgs),
    /// Create the files that experiments with HTTP fetch; used by plans
    Site(SiteArgs),
}

/// Arguments of `strandline lab list`.
#[derive(Debug, Clone, clap::Args)]
pub struct ListArgs {
    /// Papers or plans [default: all]
    #[arg(value_name = "PAPER|PLAN")]
    pub chosen: Vec<String>,
    /// Directories of plans and results
    #[command(flatten)]
    pub places: Places,
}

impl Lab {
    /// Runs the subcommand. `commit` is the commit that this program was built from; empty if unknown.
    ///
    /// # Errors
    /// The failure, with advice on how to fix it.
    pub fn run(self, commit: &str) -> Result<ExitCode> {
        match self {
            Self::List(args) => list(&args, commit),
            Self::Run(args) => run::run(&args, commit),
            Self::Report(args) => report::run(&args),
            Self::Trace(args) => trace::run(&args),
            Self::Simulate(args) => simulate::run(&args),
            Self::Instructions(args) => instructions::run(&args),
            Self::Together(args) => together::run(&args),
            Self::Sequence(args) => sequence::run(&args),
            Self::Site(args) => site::run(&args),
        }
    }
}

fn list(args: &ListArgs, commit: &str) -> Result<ExitCode> {
    let build = Machine::this(commit)?.build;
    let mut paper = String::new();
    for found in plan::find(&args.places.experiments, &args.chosen)? {
        let plan = plan::load(&found)?;
        if found.paper != paper {
            paper.clone_from(&found.paper);
            let about = plan::paper(&found)?;
            outln!("{paper}: {}, \"{}\" ({})", about.authors, about.title, about.year);
        }
        if let Some(what) = &plan.waits_for {
            outln!("{}", heading(&plan));
            outln!("{:<41} waiting for: {what}", "");
            continue;
        }
        let results = Results::load(&args.places.results, &plan)?;
        let judged = statistics::evaluate(&plan, &results).map_err(anyhow::Error::msg)?;
        let seconds = |mode| -> Result<String> {
            let runs = plan.runs(mode).map_err(anyhow::Error::msg)?;
            Ok(run::show_time(runs.iter().map(|run| run.takes).sum()))
        };
        let short = if plan.short.skip { "not included".to_owned() } else { seconds(Mode::Short)? };
        let others = judged.records.iter().filter(|record| record.valid && record.machine.build != build);
        let others = match others.count() {
            0 => String::new(),
            count => format!(", {count} of them by another build"),
        };
        outln!("{}", heading(&plan));
        outln!(
            "{:<41} all: {}; --short: {short}; done: {} of {}{}{others}",
            "",
            seconds(Mode::Whole)?,
            judged.done,
            judged.planned,
            if judged.mode == Mode::Short && judged.done > 0 { " (short)" } else { "" },
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn heading(plan: &Plan) -> String {
    format!("  {:<28} {:<10} {}", format!("{}/{}", plan.paper, plan.name), plan.figure, plan.title)
}
