//! `strandline lab`: its subcommands.

use std::process::ExitCode;

use anyhow::Result;
use clap::Subcommand;

use crate::instructions::{self, InstructionsArgs};
use crate::plan::{self, Mode, Plan};
use crate::report::{self, ReportArgs};
use crate::results::{Results, statistics};
use crate::run::{self, Places, RunArgs};
use crate::simulate::{self, SimulateArgs};
use crate::together::{self, TogetherArgs};

/// `strandline lab ...`
#[derive(Debug, Clone, Subcommand)]
pub enum Lab {
    /// Show the experiments, and which are done
    #[command(after_help = "Example:\n  strandline lab list jani-kant-2005")]
    List(ListArgs),
    /// Measure: run experiments and note what comes out
    Run(RunArgs),
    /// Draw what was measured beside what the papers published, as HTML and PNG
    Report(ReportArgs),
    /// A transfer over SCTP in virtual time, as plans use it
    Simulate(SimulateArgs),
    /// Count the instructions of a program in user space, as plans use it
    Instructions(InstructionsArgs),
    /// Run programs at the same time, as plans use it
    Together(TogetherArgs),
}

/// `strandline lab list`
#[derive(Debug, Clone, clap::Args)]
pub struct ListArgs {
    /// Papers or plans; all if not given
    #[arg(value_name = "PAPER|PLAN")]
    pub chosen: Vec<String>,
    /// Where plans and results are
    #[command(flatten)]
    pub places: Places,
}

impl Lab {
    /// Runs it.
    ///
    /// # Errors
    /// What went wrong, with what to do about it.
    pub fn run(self) -> Result<ExitCode> {
        match self {
            Self::List(args) => list(&args),
            Self::Run(args) => run::run(&args),
            Self::Report(args) => report::run(&args),
            Self::Simulate(args) => simulate::run(&args),
            Self::Instructions(args) => instructions::run(&args),
            Self::Together(args) => together::run(&args),
        }
    }
}

fn list(args: &ListArgs) -> Result<ExitCode> {
    let mut paper = String::new();
    for found in plan::find(&args.places.experiments, &args.chosen)? {
        let plan = plan::load(&found)?;
        if found.paper != paper {
            paper.clone_from(&found.paper);
            let about = plan::paper(&found)?;
            println!("{paper}: {}, \"{}\" ({})", about.authors, about.title, about.year);
        }
        if let Some(what) = &plan.waits_for {
            println!("{}", heading(&plan));
            println!("{:<41} waits for: {what}", "");
            continue;
        }
        let results = Results::load(&args.places.results, &plan)?;
        let judged = statistics::evaluate(&plan, &results).map_err(anyhow::Error::msg)?;
        let seconds = |mode| -> Result<String> {
            let runs = plan.runs(mode).map_err(anyhow::Error::msg)?;
            Ok(run::show_time(runs.iter().map(|run| run.takes).sum()))
        };
        let short = if plan.short.skip { "not in it".to_owned() } else { seconds(Mode::Short)? };
        println!("{}", heading(&plan));
        println!(
            "{:<41} all: {}; --short: {short}; done: {} of {}{}",
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
