//! Merges the pages of several processes.

use std::fmt::Write as _;

/// Merges pages: each family once, with the samples of all pages that have it. Each sample gets the label
/// `label` with the name of its page.
#[must_use]
pub fn merge(label: &str, pages: &[(String, &str)]) -> String {
    let mut page = String::with_capacity(pages.iter().map(|(_, text)| text.len()).sum::<usize>() + 2048);
    for family in families(pages) {
        let of = |text| family_of(text, family);
        if let Some((head, _)) = pages.iter().find_map(|(_, text)| of(text)) {
            for line in head {
                // Writing to a string does not fail.
                let _ = writeln!(page, "{line}");
            }
        }
        for (name, text) in pages {
            for sample in of(text).map(|(_, samples)| samples).unwrap_or_default() {
                let _ = writeln!(page, "{}", labelled(sample, label, name));
            }
        }
    }
    page
}

/// The names of all metric families, in the order of their first occurrence.
fn families<'a>(pages: &[(String, &'a str)]) -> Vec<&'a str> {
    let mut names = Vec::new();
    let found = pages.iter().flat_map(|(_, text)| text.lines());
    for name in found.filter_map(|line| line.strip_prefix("# HELP ")?.split(' ').next()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The header lines of a family, and its samples.
fn family_of<'a>(text: &'a str, name: &str) -> Option<(Vec<&'a str>, Vec<&'a str>)> {
    let begins =
        |line: &&str| line.strip_prefix("# HELP ").and_then(|rest| rest.split(' ').next()) == Some(name);
    let mut lines = text.lines().skip_while(|line| !begins(line)).peekable();
    let head: Vec<&str> =
        [lines.next()?].into_iter().chain(lines.next_if(|line| line.starts_with("# TYPE"))).collect();
    Some((head, lines.take_while(|line| !line.starts_with('#')).collect()))
}

/// A sample with an additional label.
fn labelled(sample: &str, label: &str, page: &str) -> String {
    let (name, value) = sample.rsplit_once(' ').unwrap_or((sample, ""));
    match name.strip_suffix('}') {
        Some(rest) => format!("{rest},{label}=\"{page}\"}} {value}"),
        None => format!("{name}{{{label}=\"{page}\"}} {value}"),
    }
}
