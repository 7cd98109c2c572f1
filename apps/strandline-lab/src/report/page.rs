//! The report as one HTML file that loads nothing else.

use std::fmt::Write;

use super::claims::{self, Verdict};
use super::{Drawn, Section, beside, tables};
use crate::figure::{escape, paint, show};
use crate::plan::Mode;
use crate::results::Machine;

const STYLE: &str = include_str!("style.css");

/// Returns the page. `made` is the date of the report.
#[must_use]
pub(super) fn page(sections: &[Section<'_>], made: &str) -> String {
    let [light, dark] = paint::variables();
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <title>Strandline: experiments of papers, run again</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <style>\n:root{{{light}}}\n@media (prefers-color-scheme:dark){{:root{{{dark}}}}}\n{STYLE}</style>\n</head>\n<body>\n"
    );
    html += &head(sections, made);
    html += "<main>\n";
    let mut paper = "";
    for section in sections {
        if section.plan.paper != paper {
            paper = &section.plan.paper;
            html += &paper_head(section);
        }
        html += &section_text(section);
    }
    html += "</main>\n<footer>Made by <code>strandline lab report</code>. Medians, with bars from the least to the most. \
             Where they overlap, a difference may be chance. \
             What doesn't count is drawn as a cross and is in no median.</footer>\n</body>\n</html>\n";
    html
}

fn head(sections: &[Section<'_>], made: &str) -> String {
    let count = |own: bool| claims::count(sections.iter().flat_map(|section| section.verdicts(own)));
    let ([judged, held, better], own) = (count(false), count(true));
    let own = match own {
        [0, ..] => String::new(),
        [all, held, better] => {
            format!(
                " Of <strong>{all}</strong> statements of our own <strong>{}</strong> hold.",
                held + better
            )
        }
    };
    let runs: usize = sections.iter().map(|section| section.evaluation.records.len()).sum();
    let invalid = sections.iter().flat_map(|section| &section.evaluation.records);
    let invalid = invalid.filter(|record| !record.valid).count();
    let mut html = format!(
        "<header>\n<h1>Experiments of papers, run again</h1>\n<p>SCTP in user space beside the kernel's TCP, on networks \
         and with loads as the papers had them. Of <strong>{judged}</strong> statements of the papers that were checked, <strong>{held}</strong> \
         show the same here, in <strong>{better}</strong> it is better here than there.{own} {runs} runs, {invalid} of them not valid. Made on {}.</p>\n{}</header>\n<nav aria-label=\"Figures\">\n<ul>\n",
        escape(made),
        machines(sections)
    );
    for section in sections {
        // Writing to a string doesn't fail.
        let _ = writeln!(
            html,
            "<li><a href=\"#{}\">{}: {}</a> {}</li>",
            section.anchor(),
            escape(&section.plan.figure),
            escape(&section.plan.title),
            score(section)
        );
    }
    html + "</ul>\n</nav>\n"
}

fn score(section: &Section<'_>) -> String {
    if section.plan.claims.is_empty() {
        return String::new();
    }
    let [judged, held, better] = claims::count(&section.verdicts);
    let text = super::score(section);
    let class = match () {
        () if judged == 0 => "open",
        () if held + better == judged => "holds",
        () => "fails",
    };
    format!("<span class=\"badge {class}\">{text}</span>")
}

fn machines(sections: &[Section<'_>]) -> String {
    let mut seen: Vec<&Machine> = Vec::new();
    for record in sections.iter().flat_map(|section| &section.evaluation.records) {
        if !seen.contains(&&record.machine) {
            seen.push(&record.machine);
        }
    }
    let mut html = String::new();
    for machine in seen {
        let gib = machine.memory_bytes as f64 / (1_u64 << 30) as f64;
        let _ = writeln!(
            html,
            "<p class=\"faint\">{}, {} cores, {} GiB, Linux {}, {}</p>",
            escape(&machine.processor),
            machine.cores,
            show(gib),
            escape(&machine.kernel),
            escape(&machine.program())
        );
    }
    html
}

fn paper_head(section: &Section<'_>) -> String {
    let paper = &section.paper;
    format!(
        "<h2 id=\"{}\">{}</h2>\n<p>{}, {} ({})</p>\n<p class=\"faint\">Measured there on: {}</p>\n",
        escape(&section.plan.paper),
        escape(&paper.title),
        escape(&paper.authors),
        escape(&paper.venue),
        paper.year,
        escape(&paper.setup)
    )
}

fn section_text(section: &Section<'_>) -> String {
    let plan = section.plan;
    let evaluation = &section.evaluation;
    let numbers = |text: &str| escape(&claims::with_numbers(text, plan, evaluation));
    let mut html = format!(
        "<section id=\"{}\">\n<h3>{}: {}</h3>\n<p class=\"faint\">{}. {}</p>\n<p>{}</p>\n",
        section.anchor(),
        escape(&plan.figure),
        escape(&plan.title),
        escape(&plan.source),
        how_much(section),
        numbers(&plan.shows)
    );
    html += &mixed_builds(section);
    for drawn in &section.drawn {
        html += &figure(drawn);
    }
    html += &beside::tables(section);
    html += &claim_list(section);
    let _ =
        writeln!(html, "<p class=\"differs\"><strong>What differs.</strong> {}</p>", numbers(&plan.differs));
    html += &tables::medians(section);
    html += &tables::runs(section);
    html + "</section>\n"
}

/// Returns a warning if compared results were measured with different builds.
fn mixed_builds(section: &Section<'_>) -> String {
    let mut builds: Vec<String> = Vec::new();
    // A build whose runs are all invalid counts as well: the results beside its crosses are another build's.
    for record in &section.evaluation.records {
        let program = record.machine.program();
        if !builds.contains(&program) {
            builds.push(program);
        }
    }
    match builds.as_slice() {
        [] | [_] => String::new(),
        several => format!(
            "<p class=\"differs\"><strong>Measured with {} different programs:</strong> {}. What differs between the \
             figures may come from them; <code>strandline lab run</code> measures all with one.</p>\n",
            several.len(),
            escape(&several.join("; "))
        ),
    }
}

/// Describes which set was measured, and how much of it.
fn how_much(section: &Section<'_>) -> String {
    let evaluation = &section.evaluation;
    let set = if evaluation.mode == Mode::Short { "the short set" } else { "the whole set" };
    if let Some(what) = &section.plan.waits_for {
        return format!("Waits for: {}", escape(what));
    }
    match (evaluation.done, evaluation.planned) {
        (0, _) => "Nothing was measured yet".to_owned(),
        (done, planned) if done == planned => format!("All {planned} runs of {set}"),
        (done, planned) => format!("{done} of {planned} runs of {set}"),
    }
}

fn figure(drawn: &Drawn) -> String {
    format!(
        "<figure>\n<div class=\"wide\">{}</div>\n<div class=\"narrow\">{}</div>\n<figcaption>{} \
         <a href=\"{}\">PNG</a></figcaption>\n</figure>\n",
        drawn.wide,
        drawn.narrow,
        escape(&drawn.caption),
        escape(&drawn.png_name)
    )
}

fn claim_list(section: &Section<'_>) -> String {
    if section.plan.claims.is_empty() {
        return String::new();
    }
    let mut html = "<ul class=\"claims\">\n".to_owned();
    for (claim, verdict) in section.plan.claims.iter().zip(&section.verdicts) {
        let own = claim.own || section.paper.own;
        let (class, word, value) = match verdict {
            Verdict::Holds(value) | Verdict::Better(value) if own => ("holds", "holds", show(*value)),
            Verdict::Fails(value) if own => ("fails", "does not hold", show(*value)),
            Verdict::Holds(value) => ("holds", "shows the same", show(*value)),
            Verdict::Better(value) => ("holds", "better here", show(*value)),
            Verdict::Fails(value) => ("fails", "not the same", show(*value)),
            Verdict::Open(missing) => ("open", "not judged", missing.clone()),
        };
        let _ = writeln!(
            html,
            "<li><div><span class=\"badge {class}\">{word}</span></div><div>{}{} <span class=\"faint\">Here {}{}; expected {}: \
             <code>{}</code></span></div></li>",
            escape(&claim.says),
            if own && !section.paper.own { " (Not in the paper.)" } else { "" },
            escape(&value),
            if claim.unit.is_empty() || matches!(verdict, Verdict::Open(_)) {
                String::new()
            } else {
                format!(" {}", escape(&claim.unit))
            },
            escape(&claims::bounds(claim)),
            escape(&claim.value)
        );
    }
    html + "</ul>\n"
}
