//! Tables of the numbers behind the figures.

use std::fmt::Write;

use super::Section;
use super::chart::position;
use super::claims::number;
use crate::figure::{escape, show};
use crate::plan::Measure;

/// Returns the medians with their ranges, followed by the published numbers.
pub(super) fn medians(section: &Section<'_>) -> String {
    let (plan, evaluation) = (section.plan, &section.evaluation);
    let mut html =
        "<details>\n<summary>Numbers</summary>\n<div class=\"scroll\"><table>\n<tr><th></th>".to_owned();
    if let Some(sweep) = &plan.sweep {
        html += &format!("<th>{}</th>", escape(&sweep.label));
    }
    for measure in &plan.measures {
        html += &format!("<th class=\"number\">{}, {}</th>", escape(&measure.label), escape(&measure.unit));
    }
    html += "<th class=\"number\">Runs</th></tr>\n";
    for series in &plan.series {
        for (place, point) in evaluation.series.get(&series.name).into_iter().flatten().enumerate() {
            let cells = plan.measures.iter().map(|measure| match point.summaries.get(&measure.name) {
                Some(summary) if summary.count > 1 && summary.max > summary.min => format!(
                    "{} <span class=\"faint\">({} to {})</span>",
                    show(summary.median),
                    show(summary.min),
                    show(summary.max)
                ),
                Some(summary) => show(summary.median),
                None => "-".to_owned(),
            });
            let count = point.summaries.values().map(|summary| summary.count).max().unwrap_or(0);
            let runs = match (count, point.invalid_runs) {
                (0, invalid) => format!("no valid run ({invalid} invalid)"),
                (_, 0) => count.to_string(),
                (_, invalid) => format!("{count} and {invalid} invalid"),
            };
            let at = position(plan, point.value.as_deref(), place).1;
            row(&mut html, section, &series.title, &at, cells, &runs);
        }
    }
    for published in &plan.published {
        let title = format!("{}, published", published.title);
        for value in values(section, published) {
            let of = |measure: &Measure| number(published.values.get(&measure.name)?, value.as_deref());
            let cells = plan.measures.iter().map(|measure| match of(measure) {
                Some(number) if published.computed.contains(&measure.name) => {
                    format!("{} <span class=\"faint\">(computed)</span>", show(number))
                }
                Some(number) => show(number),
                None => "-".to_owned(),
            });
            let at = position(plan, value.as_deref(), 0).1;
            row(&mut html, section, &title, &at, cells, published.source.as_deref().unwrap_or(&plan.source));
        }
    }
    html + "</table></div>\n</details>\n"
}

/// Returns the values of the sweep for which a paper has numbers.
fn values(section: &Section<'_>, published: &crate::plan::Published) -> Vec<Option<String>> {
    if section.plan.sweep.is_none() {
        return vec![None];
    }
    let has = |at: &String| published.values.values().any(|value| number(value, Some(at)).is_some());
    let all = super::chart::values(section.plan, &section.evaluation);
    all.into_iter().filter(|at| has(at)).map(Some).collect()
}

fn row(
    html: &mut String,
    section: &Section<'_>,
    title: &str,
    at: &str,
    cells: impl Iterator<Item = String>,
    count: &str,
) {
    let _ = write!(html, "<tr><td>{}</td>", escape(title));
    if section.plan.sweep.is_some() {
        let _ = write!(html, "<td>{}</td>", escape(at));
    }
    for cell in cells {
        let _ = write!(html, "<td class=\"number\">{cell}</td>");
    }
    let _ = writeln!(html, "<td class=\"number\">{}</td></tr>", escape(count));
}

/// Returns all runs, with their seeds and commands.
pub(super) fn runs(section: &Section<'_>) -> String {
    let (plan, records) = (section.plan, &section.evaluation.records);
    if records.is_empty() {
        return String::new();
    }
    let mut html = format!(
        "<details>\n<summary>All {} runs, with seeds and commands</summary>\n<div class=\"scroll\">",
        records.len()
    );
    if let Some(file) = &section.data_name {
        html += &format!(
            "<p class=\"faint\">All output of the programs and the emulator: <a href=\"{0}\">{0}</a></p>",
            escape(file)
        );
    }
    html += "<table>\n<tr><th>Series</th><th>At</th><th class=\"number\">Seed</th>";
    for measure in &plan.measures {
        html += &format!("<th class=\"number\">{}, {}</th>", escape(&measure.label), escape(&measure.unit));
    }
    html += "<th>Valid</th><th>Network</th><th>Client and server</th></tr>\n";
    for record in records {
        let class = if record.valid { "" } else { " class=\"invalid\"" };
        let _ = write!(
            html,
            "<tr{class}><td>{}</td><td>{}</td><td class=\"number\">{}</td>",
            escape(&record.series),
            escape(record.value.as_deref().unwrap_or("-")),
            record.seed
        );
        for measure in &plan.measures {
            let numbers = record.points.iter().filter_map(|point| point.measured.get(&measure.name));
            let numbers: Vec<String> = numbers.map(|number| show(*number)).collect();
            let text = if numbers.is_empty() { "-".to_owned() } else { numbers.join("; ") };
            let _ = write!(html, "<td class=\"number\">{text}</td>");
        }
        let valid = if record.valid { "yes".to_owned() } else { escape(&record.invalid_because.join("; ")) };
        let _ = writeln!(
            html,
            "<td>{valid}</td><td><code>{}</code></td><td><code>{}</code><br><code>{}</code></td></tr>",
            escape(&record.network.to_string()),
            escape(&record.client),
            escape(record.server.as_deref().unwrap_or("-"))
        );
    }
    html + "</table></div>\n</details>\n"
}
