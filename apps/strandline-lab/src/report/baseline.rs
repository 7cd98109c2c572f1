//! Tables of series as multiples of the baseline.

use std::fmt::Write;

use super::Section;
use super::chart::position;
use crate::figure::{escape, show};
use crate::plan::{Better, Measure, Series};

/// Returns a table for each drawn measure: the medians divided by those of the baseline at the same value.
/// Values worse than the baseline are marked.
pub(super) fn tables(section: &Section<'_>) -> String {
    let plan = section.plan;
    let Some(baseline) = plan.drawing.baseline.as_deref().and_then(|name| plan.series(name)) else {
        return String::new();
    };
    plan.drawn().map(|measure| table(section, baseline, measure)).collect()
}

fn table(section: &Section<'_>, baseline: &Series, measure: &Measure) -> String {
    let (plan, evaluation) = (section.plan, &section.evaluation);
    let values: Vec<Option<&str>> = match evaluation.series.get(&baseline.name) {
        Some(points) => points.iter().map(|point| point.value.as_deref()).collect(),
        None => return String::new(),
    };
    let (mut rows, mut worse, mut all) = (String::new(), 0, 0);
    for series in plan.series.iter().filter(|series| series.name != baseline.name) {
        let mut cells = String::new();
        for value in &values {
            let median = |name: &str| evaluation.summary(name, *value, &measure.name).map(|it| it.median);
            let ratio = median(&series.name).zip(median(&baseline.name)).filter(|(_, base)| *base > 0.0);
            let Some(ratio) = ratio.map(|(own, base)| own / base) else {
                cells += "<td class=\"number\">-</td>";
                continue;
            };
            let bad = is_worse(measure.better, ratio, plan.drawing.same);
            (worse, all) = (worse + usize::from(bad), all + 1);
            let (class, word) = if bad { (" worse", " (worse)") } else { ("", "") };
            // Writing to a string doesn't fail.
            let _ = write!(cells, "<td class=\"number{class}\">{} x{word}</td>", show(ratio));
        }
        if cells.contains(" x") {
            let _ = writeln!(rows, "<tr><td>{}</td>{cells}</tr>", escape(&series.title));
        }
    }
    if rows.is_empty() {
        return String::new();
    }
    let mut head = "<th></th>".to_owned();
    for (place, value) in values.iter().enumerate() {
        let _ = write!(head, "<th class=\"number\">{}</th>", escape(&heading(section, *value, place)));
    }
    let (label, base) = (escape(&measure.label), escape(&baseline.title));
    let count = match measure.better {
        Some(_) if plan.drawing.same == 0.0 => format!(", worse in {worse} of {all} cells"),
        Some(_) => {
            let percent = show(plan.drawing.same * 100.0);
            format!(", worse by more than {percent} % in {worse} of {all} cells")
        }
        None => String::new(),
    };
    format!(
        "<div class=\"scroll beside\"><table>\n<caption>{label}, as a multiple of {base}{count}</caption>\n\
         <tr>{head}</tr>\n{rows}</table></div>\n"
    )
}

/// Returns whether a ratio to the baseline is worse than 1 by more than the tolerance.
fn is_worse(better: Option<Better>, ratio: f64, same: f64) -> bool {
    match better {
        Some(Better::More) => ratio < 1.0 - same,
        Some(Better::Less) => ratio > 1.0 + same,
        None => false,
    }
}

/// Formats a value of the sweep with its unit.
fn heading(section: &Section<'_>, value: Option<&str>, place: usize) -> String {
    let plan = section.plan;
    let (_, at) = position(plan, value, place);
    let unit = plan.sweep.as_ref().map(|sweep| sweep.unit.as_str()).unwrap_or_default();
    if unit.is_empty() || at.is_empty() || at.ends_with(unit) { at } else { format!("{at} {unit}") }
}
