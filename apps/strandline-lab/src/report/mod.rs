//! `strandline lab report`: the measurements beside the papers' published results, as one HTML file and as PNG.

mod baseline;
mod chart;
pub mod claims;
mod page;
mod tables;
#[cfg(test)]
mod tests;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use strandline_output::{errln, outln};

use self::claims::Verdict;
use crate::clock::unix_seconds;
use crate::figure::{EXTENSION, Theme, picture};
use crate::plan::{self, Paper, Plan};
use crate::results::Results;
use crate::results::statistics::{Evaluation, evaluate};
use crate::run::Places;

/// Widths of drawings in pixels: on a page, on a phone, on paper.
const WIDE: f64 = 820.0;
const NARROW: f64 = 360.0;
const PICTURE: f64 = 720.0;

/// Arguments of `strandline lab report`.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline lab report                        all results, in lab-report/index.html
  strandline lab report jani-kant-2005 --output /tmp/report
                                               one paper's, in another directory

The directory then contains index.html, which is self-contained, the figures as PNG, and the
data as lines of JSON. Plans without results are omitted unless --unmeasured is given.")]
pub struct ReportArgs {
    /// Papers or plans [default: all]
    #[arg(value_name = "PAPER|PLAN")]
    pub chosen: Vec<String>,
    /// Directory for the report
    #[arg(short, long, value_name = "DIR", default_value = "lab-report")]
    pub output: PathBuf,
    /// Include plans without results
    #[arg(long)]
    pub unmeasured: bool,
    /// Print the claims, with the numbers here
    #[arg(long)]
    pub claims: bool,
    /// Directories of plans and results
    #[command(flatten)]
    pub places: Places,
}

/// A figure of the report.
struct Drawn {
    wide: String,
    narrow: String,
    caption: String,
    picture_name: String,
}

/// A plan of the report.
struct Section<'a> {
    plan: &'a Plan,
    paper: &'a Paper,
    evaluation: Evaluation<'a>,
    verdicts: Vec<Verdict>,
    drawn: Vec<Drawn>,
    /// The file beside the report that contains the data.
    data_name: Option<String>,
}

impl Section<'_> {
    /// Returns the verdicts on the paper's claims, or on this project's own.
    fn verdicts(&self, own: bool) -> impl Iterator<Item = &Verdict> {
        let both = self.plan.claims.iter().zip(&self.verdicts);
        both.filter(move |(claim, _)| (claim.own || self.paper.own) == own).map(|(_, verdict)| verdict)
    }

    fn anchor(&self) -> String {
        format!("{}-{}", self.plan.paper, self.plan.name)
    }
}

/// Writes the report.
///
/// # Errors
/// If a plan or its results can't be read, a file can't be written, or there is nothing to report.
pub fn run(args: &ReportArgs) -> Result<ExitCode> {
    let mut loaded = Vec::new();
    for found in plan::find(&args.places.experiments, &args.chosen)? {
        let plan = plan::load(&found)?;
        let results = Results::load(&args.places.results, &plan)?;
        if results.unreadable() > 0 {
            errln!("lab: {}: {} malformed lines", results.path().display(), results.unreadable());
        }
        if args.unmeasured || !results.records().is_empty() {
            loaded.push((plan, plan::paper(&found)?, results));
        }
    }
    if loaded.is_empty() {
        bail!(
            "no results in {}: start with 'strandline lab run --short --all'",
            args.places.results.display()
        );
    }
    fs::create_dir_all(&args.output).with_context(|| format!("creating {}", args.output.display()))?;
    let mut sections = Vec::new();
    for (plan, paper, results) in &loaded {
        sections.push(section(plan, paper, results, &args.output)?);
    }
    let index = args.output.join("index.html");
    write(&index, page::page(&sections, &today()).as_bytes())?;
    for section in &sections {
        let evaluation = &section.evaluation;
        outln!(
            "{:<34} {:>3} of {:>3} runs; {}",
            format!("{}/{}", section.plan.paper, section.plan.name),
            evaluation.done,
            evaluation.planned,
            score(section)
        );
        if args.claims {
            for (claim, verdict) in section.plan.claims.iter().zip(&section.verdicts) {
                outln!("{}", claims::line(claim, verdict, claim.own || section.paper.own));
            }
        }
    }
    outln!("{}", index.display());
    Ok(ExitCode::SUCCESS)
}

fn section<'a>(plan: &'a Plan, paper: &'a Paper, results: &'a Results, output: &Path) -> Result<Section<'a>> {
    let evaluation = evaluate(plan, results).map_err(anyhow::Error::msg)?;
    let verdicts = plan.claims.iter().map(|claim| claims::judge(claim, plan, &evaluation)).collect();
    let mut drawn = Vec::new();
    for measure in plan.drawn() {
        let chart = chart::chart(plan, &evaluation, measure);
        if chart.is_empty() {
            continue;
        }
        let picture_name = format!("{}-{}-{}.{EXTENSION}", plan.paper, plan.name, measure.name);
        write(&output.join(&picture_name), &picture(&chart.svg(PICTURE, Theme::Picture))?)?;
        let better = match measure.better {
            Some(plan::Better::More) => " Higher is better.",
            Some(plan::Better::Less) => " Lower is better.",
            None => "",
        };
        drawn.push(Drawn {
            wide: chart.svg(WIDE, Theme::Page),
            narrow: chart.svg(NARROW, Theme::Page),
            caption: format!("{}: {}.{better}", plan.figure, measure.label),
            picture_name,
        });
    }
    let mut data_name = None;
    if !results.records().is_empty() {
        let name = format!("{}-{}.jsonl", plan.paper, plan.name);
        let from = results.path();
        fs::copy(from, output.join(&name)).with_context(|| format!("copying {}", from.display()))?;
        data_name = Some(name);
    }
    Ok(Section { plan, paper, evaluation, verdicts, drawn, data_name })
}

/// Describes how many claims of the paper, and how many of this project, hold.
fn score(section: &Section<'_>) -> String {
    if section.plan.claims.is_empty() {
        return "no claims".to_owned();
    }
    let [paper, own] = [false, true].map(|own| claims::count(section.verdicts(own)));
    let own_text = format!("{} of {} own claims", own[1] + own[2], own[0]);
    match (paper, own) {
        (_, [0, ..]) => claims::counted(paper),
        ([0, ..], _) => own_text,
        _ => format!("{}, {own_text}", claims::counted(paper)),
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))
}

/// Returns today's date in UTC, such as 2026-11-21.
fn today() -> String {
    let (year, month, day) = date(unix_seconds() / 86_400);
    format!("{year}-{month:02}-{day:02}")
}

/// Returns year, month and day of a number of days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    let (mut year, mut left) = (1970, days);
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = |year: u64| if leap(year) { 366 } else { 365 };
    while left >= length(year) {
        left -= length(year);
        year += 1;
    }
    let february = if leap(year) { 29 } else { 28 };
    let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    for (month, days) in (1..).zip(months) {
        if left < days {
            return (year, month, left + 1);
        }
        left -= days;
    }
    (year, 12, 31)
}
