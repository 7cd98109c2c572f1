//! Medians with ranges, over the valid runs of a point.

use std::collections::BTreeMap;

use super::{Record, Results};
use crate::plan::{Mode, Plan, Run};

/// Some measurements of the same thing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle one, or halfway between the two in the middle.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The most.
    pub max: f64,
    /// How many.
    pub count: usize,
}

impl Summary {
    /// Of some numbers; nothing of none.
    #[must_use]
    pub fn of(numbers: &[f64]) -> Option<Self> {
        let mut sorted: Vec<f64> = numbers.iter().copied().filter(|number| number.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let upper = *sorted.get(middle)?;
        let lower = if sorted.len().is_multiple_of(2) { *sorted.get(middle - 1)? } else { upper };
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        Some(Self { median: f64::midpoint(lower, upper), min, max, count: sorted.len() })
    }
}

/// A point of a series that was measured.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The sweep's value, as text.
    pub value: Option<String>,
    /// By measure.
    pub summaries: BTreeMap<String, Summary>,
    /// The numbers of runs that don't count, by measure.
    pub invalid: BTreeMap<String, Vec<f64>>,
    /// The runs that don't count, whether they gave numbers or not.
    pub invalid_runs: usize,
}

/// What is known of a plan.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// Which set.
    pub mode: Mode,
    /// Runs that there are to be.
    pub planned: usize,
    /// Those that were done and count.
    pub done: usize,
    /// By series, in the sweep's order.
    pub series: BTreeMap<String, Vec<Measured>>,
    /// The records used, in the plan's order, and those that don't count.
    pub records: Vec<&'a Record>,
}

/// Judges what was measured: of the set of which more was done, in doubt the whole one.
///
/// # Errors
/// The plan's runs can't be told.
pub fn evaluate<'a>(plan: &Plan, results: &'a Results) -> Result<Evaluation<'a>, String> {
    let whole = evaluate_mode(plan, results, Mode::Whole)?;
    let short = evaluate_mode(plan, results, Mode::Short)?;
    let share = |it: &Evaluation<'_>| if it.planned == 0 { 0.0 } else { it.done as f64 / it.planned as f64 };
    Ok(if share(&short) > share(&whole) { short } else { whole })
}

fn evaluate_mode<'a>(plan: &Plan, results: &'a Results, mode: Mode) -> Result<Evaluation<'a>, String> {
    let runs = plan.runs(mode)?;
    let mut records: Vec<&Record> = Vec::new();
    let mut done = 0;
    for run in &runs {
        let tries = results.standing(&run.key);
        done += usize::from(tries.iter().any(|record| record.valid));
        records.extend(tries);
    }
    let mut series = BTreeMap::new();
    for (place, one) in plan.series.iter().enumerate() {
        let own: Vec<&Record> = records.iter().copied().filter(|record| record.series == one.name).collect();
        let points = points(plan, &runs, place, (&own, &records));
        if !points.is_empty() {
            series.insert(one.name.clone(), points);
        }
    }
    Ok(Evaluation { mode, planned: runs.len(), done, series, records })
}

/// Whether one run gives many points: they are known only from what the program printed.
fn is_each(plan: &Plan) -> bool {
    plan.sweep.as_ref().is_some_and(|sweep| sweep.each.is_some())
}

/// The points of a series, whose records these are; `all` are those of all series.
fn points(
    plan: &Plan,
    runs: &[Run],
    series: usize,
    (records, all): (&[&Record], &[&Record]),
) -> Vec<Measured> {
    let planned = runs.iter().filter(|run| run.series == series);
    let planned = planned.map(|run| plan.value(run.value).map(ToString::to_string));
    let mut values = if is_each(plan) { found(records) } else { distinct(planned) };
    if values.is_empty() {
        // None of its runs gave a point: it failed wherever others have some.
        values = found(all);
    }
    if values.is_empty() {
        values.push(None);
    }
    values.into_iter().filter_map(|value| point(plan, value, records)).collect()
}

/// The values at which records have points, in their order.
fn found(records: &[&Record]) -> Vec<Option<String>> {
    distinct(records.iter().flat_map(|record| record.points.iter().map(|point| point.value.clone())))
}

fn distinct(values: impl Iterator<Item = Option<String>>) -> Vec<Option<String>> {
    let mut order = Vec::new();
    for value in values {
        if !order.contains(&value) {
            order.push(value);
        }
    }
    order
}

fn point(plan: &Plan, value: Option<String>, records: &[&Record]) -> Option<Measured> {
    let mut numbers: BTreeMap<String, [Vec<f64>; 2]> = BTreeMap::new();
    let (mut invalid_runs, mut any) = (0, false);
    let each = is_each(plan);
    for record in records {
        // A run that was to give many points and gave none failed at all of them.
        let failed_here = record.points.is_empty() && (each || record.value == value);
        let here: Vec<_> = record.points.iter().filter(|point| point.value == value).collect();
        any |= failed_here || !here.is_empty();
        invalid_runs += usize::from(!record.valid && (failed_here || !here.is_empty()));
        for point in here {
            for (measure, number) in &point.measured {
                let [good, bad] = numbers.entry(measure.clone()).or_default();
                if record.valid { good.push(*number) } else { bad.push(*number) }
            }
        }
    }
    let mut measured = Measured { value, summaries: BTreeMap::new(), invalid: BTreeMap::new(), invalid_runs };
    for measure in &plan.measures {
        let Some([good, bad]) = numbers.remove(&measure.name) else { continue };
        if let Some(summary) = Summary::of(&good) {
            measured.summaries.insert(measure.name.clone(), summary);
        }
        if !bad.is_empty() {
            measured.invalid.insert(measure.name.clone(), bad);
        }
    }
    any.then_some(measured)
}

impl Evaluation<'_> {
    /// What was measured of a series at a value of the sweep.
    #[must_use]
    pub fn summary(&self, series: &str, value: Option<&str>, measure: &str) -> Option<Summary> {
        let points = self.series.get(series)?;
        let point = points.iter().find(|point| point.value.as_deref() == value)?;
        point.summaries.get(measure).copied()
    }
}
