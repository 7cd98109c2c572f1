//! The reference figures, and the comparison with them.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Each;

/// Maximum deviation that doesn't count as a change, in percent.
const TOLERANCE_PERCENT: f64 = 2.0;

/// A measured figure.
#[derive(Debug, Clone, Copy)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) each: Each,
}

/// The content of bench/instructions.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Baseline {
    /// Compiler version: compilers generate different code from the same source.
    rustc: String,
    instructions: BTreeMap<String, f64>,
}

impl Baseline {
    pub(super) fn parse(text: &str) -> Result<Self> {
        toml::from_str(text).context("bench/instructions.toml")
    }
}

/// Returns the file's text.
pub(super) fn written(figures: &[Figure], rustc: &str) -> String {
    let mut text = format!(
        "# Instructions of the engine for each of these, without checksum, hashes and the C library, on x86_64. CI fails if\n\
         # one gets more than {TOLERANCE_PERCENT} % dearer. `make bench-instructions-update` writes this file.\n\
         rustc = \"{rustc}\"\n\n[instructions]\n"
    );
    for figure in figures {
        let _ = writeln!(text, "\"{}\" = {:.1}", figure.name, figure.each.engine);
    }
    text
}

/// Returns a table, and whether all figures hold.
pub(super) fn compare(baseline: &Baseline, figures: &[Figure], rustc: &str) -> (String, bool) {
    let mut text = format!(
        "{:<36} {:>9} {:>9} {:>8}   {:>9} {:>8} {:>9}\n",
        "instructions for each", "engine", "to hold", "change", "checksum", "hashing", "C library"
    );
    let (mut dearer, mut cheaper, mut unknown) = (0, 0, 0);
    for figure in figures {
        let Each { engine, checksum, hashing, library } = figure.each;
        let (held, change, verdict) = match baseline.instructions.get(figure.name) {
            Some(held) => {
                let percent = (engine / held - 1.0) * 100.0;
                let verdict = if percent > TOLERANCE_PERCENT {
                    dearer += 1;
                    "  DEARER"
                } else if percent < -TOLERANCE_PERCENT {
                    cheaper += 1;
                    "  cheaper"
                } else {
                    ""
                };
                // Avoids "-0.0 %".
                let change = if percent.abs() < 0.05 { "0 %".to_owned() } else { format!("{percent:+.1} %") };
                (format!("{held:.0}"), change, verdict)
            }
            None => {
                unknown += 1;
                ("-".to_owned(), "-".to_owned(), "  NOT HELD")
            }
        };
        let _ = writeln!(
            text,
            "{:<36} {engine:>9.0} {held:>9} {change:>8}   {checksum:>9.0} {hashing:>8.0} {library:>9.0}{verdict}",
            figure.name
        );
    }
    let names: Vec<&str> = figures.iter().map(|figure| figure.name).collect();
    let gone = baseline.instructions.keys().filter(|name| !names.contains(&name.as_str())).count();
    let holds = dearer == 0 && unknown == 0 && gone == 0;
    let _ = match (holds, cheaper) {
        (false, _) => write!(
            text,
            "{dearer} dearer by more than {TOLERANCE_PERCENT} %, {unknown} without a figure to hold, {gone} figures of \
             nothing: make it cheaper, or say why and write it down with `make bench-instructions-update`"
        ),
        (true, 0) => write!(text, "instructions: all hold"),
        (true, _) => write!(text, "{cheaper} cheaper: write it down with `make bench-instructions-update`"),
    };
    if rustc != baseline.rustc && (!holds || cheaper > 0) {
        let _ = write!(text, "\n(the figures are of {}; this is {rustc})", baseline.rustc);
    }
    (text, holds)
}

#[cfg(test)]
mod tests;
