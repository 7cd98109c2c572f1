//! Compares the results with the bounds.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::plan::{Alternative, Check, Metric, Row};
use crate::reports::Metrics;
use crate::statistics::Summary;

/// The metrics of a row: for each subject, those of each round that succeeded.
pub(crate) type Rounds = BTreeMap<String, BTreeMap<usize, Metrics>>;

/// A check and its outcome.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Verdict {
    pub(crate) of: String,
    pub(crate) metric: Metric,
    pub(crate) against: Vec<String>,
    /// The metric of the references, or of the same run, if it isn't the same metric.
    pub(crate) against_metric: Option<Metric>,
    /// Number of rounds that gave a ratio, and number of rounds that there should have been.
    pub(crate) rounds: usize,
    pub(crate) rounds_wanted: usize,
    /// The subject's values.
    pub(crate) ours: Option<Summary>,
    /// The best reference of each round.
    pub(crate) reference: Option<Summary>,
    /// The subject's value divided by the reference, in each round; without a reference, the subject's value.
    pub(crate) ratio: Option<Summary>,
    pub(crate) less_is_better: bool,
    pub(crate) must: Option<f64>,
    pub(crate) aim: Option<f64>,
    /// The bound that may hold instead of `must`, and the ratio to its references.
    pub(crate) or: Option<(Alternative, Option<Summary>)>,
    /// `None` if there is no such bound, or too little was measured.
    pub(crate) must_is_met: Option<bool>,
    pub(crate) aim_is_met: Option<bool>,
}

pub(crate) fn summary(rounds: &Rounds, subject: &str, metric: Metric) -> Option<Summary> {
    let values = rounds.get(subject)?.values().filter_map(|metrics| metrics.get(&metric).copied());
    Summary::of(values.collect())
}

/// Maximum ratio of the background loads beside two subjects that still counts as the same load.
const BESIDE_RATIO_MAX: f64 = 1.1;

/// Operations per second that a reference which serves nothing under overload counts as.
const SERVED_MIN: f64 = 1.0;

/// The requirements on a run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Demand {
    /// Number of rounds that there should have been.
    pub(crate) rounds: usize,
    /// Whether all rounds must have given a ratio for a bound to be met or missed. Otherwise more than half
    /// must have: the median of a run that mostly failed is meaningless.
    pub(crate) all: bool,
}

pub(crate) fn judge(row: &Row, rounds: &Rounds, demand: Demand) -> Vec<Verdict> {
    row.checks.iter().filter_map(|check| verdict(row, check, rounds, demand)).collect()
}

fn verdict(row: &Row, check: &Check, rounds: &Rounds, demand: Demand) -> Option<Verdict> {
    let of = check.of.as_ref().or(row.subjects.first())?;
    let metric = check.metric;
    let less_is_better = metric.less_is_better();
    let (references, ratios) = compare(check, &check.against, of, rounds);
    let counted = ratios.len();
    let is_enough = |counted| if demand.all { counted >= demand.rounds } else { 2 * counted > demand.rounds };
    let ratio = Summary::of(ratios);
    let holds = |ratio: Option<Summary>, bound: Option<f64>| {
        let (bound, ratio) = (bound?, ratio?);
        // Times vary with the machine; a count must hold in every round.
        let (most, least) =
            if metric.is_count() { (ratio.most, ratio.least) } else { (ratio.median, ratio.median) };
        Some(if less_is_better { most <= bound } else { least >= bound })
    };
    let or = check.or.clone().map(|or| {
        let ratios = compare(check, &or.against, of, rounds).1;
        let enough = is_enough(ratios.len());
        (or, Summary::of(ratios).filter(|_| enough))
    });
    let by_or = or.as_ref().and_then(|(or, ratio)| holds(*ratio, Some(or.must)));
    let measured = ratio.filter(|_| is_enough(counted));
    let must_is_met = match (holds(measured, check.must), by_or) {
        (_, Some(true)) => Some(true),
        // What was not measured could hold.
        (Some(false), None) if or.is_some() => None,
        (is_met, _) => is_met,
    };
    Some(Verdict {
        of: of.clone(),
        metric,
        against: check.against.clone(),
        against_metric: check.against_metric,
        rounds: counted,
        rounds_wanted: demand.rounds,
        ours: summary(rounds, of, metric),
        reference: Summary::of(references),
        ratio,
        less_is_better,
        must: check.must,
        aim: check.aim,
        or,
        must_is_met,
        aim_is_met: holds(measured, check.aim),
    })
}

/// Returns the best reference of each round, and the subject's value divided by it; without a reference, the subject's
/// value.
fn compare(check: &Check, against: &[String], of: &str, rounds: &Rounds) -> (Vec<f64>, Vec<f64>) {
    let (mut references, mut ratios) = (Vec::new(), Vec::new());
    for (round, metrics) in rounds.get(of).into_iter().flatten() {
        let Some(ours) = metrics.get(&check.metric).copied() else { continue };
        let reference = match check.against_metric {
            Some(own) if against.is_empty() => metrics.get(&own).copied(),
            None if against.is_empty() => {
                ratios.push(ours);
                continue;
            }
            _ => best(check, against, rounds, *round)
                .filter(|_| against.iter().all(|name| same_load(rounds, (of, name), *round))),
        };
        let collapses = check.metric.is_offered_rate();
        let reference = reference.map(|rate| if collapses { rate.max(SERVED_MIN) } else { rate });
        // Nothing is a multiple of zero or of a negative value.
        if let Some(reference) = reference.filter(|reference| *reference > 0.0) {
            references.push(reference);
            ratios.push(ours / reference);
        }
    }
    (references, ratios)
}

/// Returns whether the background loads beside both subjects sent as much in a round.
fn same_load(rounds: &Rounds, subjects: (&str, &str), round: usize) -> bool {
    let beside = |name: &str| rounds.get(name)?.get(&round)?.get(&Metric::Beside).copied();
    match (beside(subjects.0), beside(subjects.1)) {
        (Some(one), Some(other)) => one.max(other) <= BESIDE_RATIO_MAX * one.min(other),
        (None, None) => true,
        _ => false,
    }
}

/// Returns the best of the references in a round. All must have been measured, because the best of the
/// remaining ones could be too easy to beat.
fn best(check: &Check, against: &[String], rounds: &Rounds, round: usize) -> Option<f64> {
    let mut best: Option<f64> = None;
    let metric = check.against_metric.unwrap_or(check.metric);
    for name in against {
        let value = *rounds.get(name)?.get(&round)?.get(&metric)?;
        best = Some(match best {
            Some(other) if check.metric.less_is_better() => value.min(other),
            Some(other) => value.max(other),
            None => value,
        });
    }
    best
}

#[cfg(test)]
mod tests;
