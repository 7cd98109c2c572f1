//! Medians and ranges over the valid runs of a point.

use std::collections::BTreeMap;

use super::{Record, Results};
use crate::plan::{Mode, Plan, Run};

/// Summary of repeated measurements.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The median; the mean of the middle two if the count is even.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
    /// Number of values.
    pub count: usize,
}

impl Summary {
    /// Summarises numbers; `None` if there are none.
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

/// A measured point of a series.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// The sweep's value, as text.
    pub value: Option<String>,
    /// Summaries by measure.
    pub summaries: BTreeMap<String, Summary>,
    /// The numbers of invalid runs, by measure.
    pub invalid: BTreeMap<String, Vec<f64>>,
    /// Number of invalid runs, with or without numbers.
    pub invalid_runs: usize,
}

/// The evaluation of a plan's results.
#[derive(Debug)]
pub struct Evaluation<'a> {
    /// The evaluated set.
    pub mode: Mode,
    /// Number of planned runs.
    pub planned: usize,
    /// Number of valid runs done.
    pub done: usize,
    /// Points by series, in the order of the sweep.
    pub series: BTreeMap<String, Vec<Measured>>,
    /// The records used, in the plan's order, and the invalid ones.
    pub records: Vec<&'a Record>,
}

/// Evaluates the results, of the set of which more was done; if equal, of the whole set.
///
/// # Errors
/// If the plan's runs can't be determined.
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

/// Returns whether one run gives many points, which are known only from the program's output.
fn is_each(plan: &Plan) -> bool {
    plan.sweep.as_ref().is_some_and(|sweep| sweep.each.is_some())
}

/// Returns the points of a series with its records; `all` are the records of all series.
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
        // None of its runs gave a point: it failed at all values of other series.
        values = found(all);
    }
    if values.is_empty() {
        values.push(None);
    }
    values.into_iter().filter_map(|value| point(plan, value, records)).collect()
}

/// Returns the values at which records have points, in order.
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
        // A run that should have given many points but gave none failed at all of them.
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
    /// Returns the point of a series at a value of the sweep.
    #[must_use]
    pub fn summary(&self, series: &str, value: Option<&str>, measure: &str) -> Option<Summary> {
        let points = self.series.get(series)?;
        let point = points.iter().find(|point| point.value.as_deref() == value)?;
        point.summaries.get(measure).copied()
    }
}
