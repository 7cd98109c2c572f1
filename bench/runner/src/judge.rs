//! What came out, against what must.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::plan::{Check, Metric, Row};
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
    /// Ours.
    pub(crate) ours: Option<Summary>,
    /// The best of the references, in each round.
    pub(crate) reference: Option<Summary>,
    /// Ours divided by the reference, in each round; without a reference, ours.
    pub(crate) ratio: Option<Summary>,
    pub(crate) less_is_better: bool,
    pub(crate) must: Option<f64>,
    pub(crate) aim: Option<f64>,
    /// `None`: there is no such bound, or nothing was measured.
    pub(crate) must_is_met: Option<bool>,
    pub(crate) aim_is_met: Option<bool>,
}

pub(crate) fn summary(rounds: &Rounds, subject: &str, metric: Metric) -> Option<Summary> {
    let values = rounds.get(subject)?.values().filter_map(|metrics| metrics.get(&metric).copied());
    Summary::of(values.collect())
}

pub(crate) fn judge(row: &Row, rounds: &Rounds) -> Vec<Verdict> {
    row.checks.iter().filter_map(|check| verdict(row, check, rounds)).collect()
}

fn verdict(row: &Row, check: &Check, rounds: &Rounds) -> Option<Verdict> {
    let of = check.of.as_ref().or(row.subjects.first())?;
    let metric = check.metric;
    let less_is_better = metric.less_is_better();
    let (mut references, mut ratios) = (Vec::new(), Vec::new());
    for (round, metrics) in rounds.get(of).into_iter().flatten() {
        let Some(ours) = metrics.get(&metric).copied() else { continue };
        if check.against.is_empty() {
            ratios.push(ours);
        } else if let Some(reference) = best(check, rounds, *round) {
            references.push(reference);
            ratios.push(ours / reference);
        }
    }
    let ratio = Summary::of(ratios);
    let holds = |bound: Option<f64>| {
        let (bound, ratio) = (bound?, ratio?);
        Some(if less_is_better { ratio.median <= bound } else { ratio.median >= bound })
    };
    Some(Verdict {
        of: of.clone(),
        metric,
        against: check.against.clone(),
        ours: summary(rounds, of, metric),
        reference: Summary::of(references),
        ratio,
        less_is_better,
        must: check.must,
        aim: check.aim,
        must_is_met: holds(check.must),
        aim_is_met: holds(check.aim),
    })
}

/// The best of the references in a round. All must have been measured: the best of what is left could be too easy.
fn best(check: &Check, rounds: &Rounds, round: usize) -> Option<f64> {
    let mut best: Option<f64> = None;
    for name in &check.against {
        let value = *rounds.get(name)?.get(&round)?.get(&check.metric)?;
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
