//! The results as text tables.

use std::cmp::Ordering;

use crate::judge::{Rounds, Verdict, summary};
use crate::plan::{Metric, Plan, Row};
use crate::statistics::Summary;

/// Formats numbers of very different size, each with about three significant digits.
fn shown(value: f64) -> String {
    let text = match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => return format!("{value:.2}"),
    };
    let (whole, rest) = text.split_once('.').map_or((text.as_str(), ""), |(whole, rest)| (whole, rest));
    let mut grouped = String::new();
    for (i, digit) in whole.chars().enumerate() {
        let left = whole.len() - i;
        if i > 0 && left % 3 == 0 && !grouped.ends_with('-') {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if rest.is_empty() { grouped } else { format!("{grouped}.{rest}") }
}

fn with_range(summary: Summary) -> String {
    format!("{} ({} - {})", shown(summary.median), shown(summary.least), shown(summary.most))
}

/// Prints the medians of all subjects of a row.
pub(crate) fn print_row(plan: &Plan, row: &Row, rounds: &Rounds) {
    println!("\n## {}: {}\n", row.name, row.what);
    let metrics: Vec<Metric> = Metric::ALL
        .into_iter()
        .filter(|metric| row.subjects.iter().any(|name| summary(rounds, name, *metric).is_some()))
        .collect();
    let mut lines = vec![vec!["subject".to_owned()]];
    lines[0].extend(metrics.iter().map(|metric| metric.unit().to_owned()));
    for name in &row.subjects {
        let title = plan.subjects.get(name).map_or(name.as_str(), |subject| subject.title.as_str());
        let mut line = vec![title.to_owned()];
        line.extend(metrics.iter().map(|metric| match summary(rounds, name, *metric) {
            Some(value) if matches!(metric, Metric::SenderCpu | Metric::ReceiverCpu) => shown(value.median),
            Some(value) => with_range(value),
            None => "-".to_owned(),
        }));
        lines.push(line);
    }
    print_table(&lines);
}

/// Prints the bounds and the results.
pub(crate) fn print_verdicts(plan: &Plan, verdicts: &[(String, Vec<Verdict>)]) {
    println!("\n## What must hold\n");
    let head = ["row", "metric", "of", "ours", "against", "theirs", "ratio (range)", "must", "aim", "met"];
    let mut lines = vec![head.map(str::to_owned).to_vec()];
    let named = |(row, verdicts): &'_ (String, Vec<Verdict>)| -> Vec<(String, Verdict)> {
        verdicts.iter().map(|verdict| (row.clone(), verdict.clone())).collect()
    };
    let mut all: Vec<(String, Verdict)> = verdicts.iter().flat_map(named).collect();
    all.sort_by(|(_, a), (_, b)| standing(a).partial_cmp(&standing(b)).unwrap_or(Ordering::Equal));
    lines.extend(all.iter().map(|(row, verdict)| verdict_line(plan, row, verdict)));
    print_table(&lines);
}

/// Returns a key that orders verdicts from the worst to the best: missed bounds first, those that must hold before the
/// aims, and among each kind by the share of the bound that was reached.
fn standing(verdict: &Verdict) -> (u8, f64) {
    let (kind, bound) = match verdict {
        Verdict { must: Some(must), must_is_met: Some(false), .. } => (0, *must),
        Verdict { must: Some(must), must_is_met: None, .. } => (1, *must),
        Verdict { aim: Some(aim), aim_is_met: Some(false), .. } => (2, *aim),
        Verdict { must, aim, .. } => (3, must.or(*aim).unwrap_or(1.0)),
    };
    let Some(reached) = verdict.ratio.map(|ratio| ratio.median) else { return (kind, 0.0) };
    (kind, if verdict.less_is_better { bound / reached } else { reached / bound })
}

fn verdict_line(plan: &Plan, row: &str, verdict: &Verdict) -> Vec<String> {
    let title = |name: &String| plan.subjects.get(name).map_or(name.clone(), |subject| subject.title.clone());
    let median = |summary: Option<Summary>| summary.map_or("-".to_owned(), |summary| shown(summary.median));
    let sign = if verdict.less_is_better { "<=" } else { ">=" };
    let bound = |bound: Option<f64>| bound.map_or(String::new(), |bound| format!("{sign} {}", shown(bound)));
    let met = |is_met: Option<bool>, bound: Option<f64>, name: &str| match (bound, is_met) {
        (None, _) => None,
        (_, Some(true)) => Some(format!("{name} met")),
        (_, Some(false)) => Some(format!("{name} MISSED")),
        (_, None) => Some("not measured".to_owned()),
    };
    // A round that lost its reference, or whose loads differed, isn't part of the median.
    let fewer = (verdict.rounds < verdict.rounds_wanted)
        .then(|| format!("{} of {} rounds", verdict.rounds, verdict.rounds_wanted));
    let outcomes =
        [met(verdict.must_is_met, verdict.must, "must"), met(verdict.aim_is_met, verdict.aim, "aim"), fewer];
    let mut against = verdict.against.iter().map(title).collect::<Vec<_>>().join(" | ");
    if let Some(theirs) = verdict.against_metric {
        against = if against.is_empty() { "the same run".to_owned() } else { against };
        against = format!("{against}: {}", theirs.unit());
    }
    let mut must = bound(verdict.must);
    if let Some((or, ratio)) = &verdict.or {
        let limits = or.against.iter().map(title).collect::<Vec<_>>().join(" | ");
        let reached = ratio.map_or("-".to_owned(), with_range);
        must = format!("{must}, or {sign} {} of {limits}: {reached}", shown(or.must));
    }
    vec![
        row.to_owned(),
        verdict.metric.unit().to_owned(),
        title(&verdict.of),
        median(verdict.ours),
        against,
        median(verdict.reference),
        match (verdict.ratio, verdict.reference) {
            (Some(ratio), Some(_)) => with_range(ratio),
            _ => "-".to_owned(),
        },
        must,
        bound(verdict.aim),
        outcomes.into_iter().flatten().collect::<Vec<_>>().join(", "),
    ]
}

/// Prints a Markdown table with columns as wide as necessary.
fn print_table(lines: &[Vec<String>]) {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |column: usize| {
        let cells = lines.iter().filter_map(|line| line.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    for (number, line) in lines.iter().enumerate() {
        let cells = line.iter().zip(&widths).map(|(cell, &width)| format!("{cell:<width$}"));
        println!("| {} |", cells.collect::<Vec<_>>().join(" | "));
        if number == 0 {
            let rules = widths.iter().map(|width| "-".repeat(*width));
            println!("|-{}-|", rules.collect::<Vec<_>>().join("-|-"));
        }
    }
}

#[cfg(test)]
mod tests;
