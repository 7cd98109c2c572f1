//! Checks that links of the documents lead to existing files, and their anchors to headings.

use std::collections::BTreeMap;

use crate::tree::{Tree, Violation};

pub(super) fn check(tree: &Tree, name: &str, content: &str) -> Vec<Violation> {
    let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in (1..).zip(content.lines()) {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for target in targets(line) {
            if let Some(message) = fault(tree, name, folder, target) {
                found.push(Violation::new(name, number, message));
            }
        }
    }
    found
}

/// What is wrong with a link to `target` in the file `name`, which is in `folder`.
fn fault(tree: &Tree, name: &str, folder: &str, target: &str) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() { name.to_owned() } else { normalise(folder, path) };
    if !exists(tree, &file) {
        return Some(format!("the link to `{target}` leads nowhere: name a file of the repository"));
    }
    let anchor = anchor.filter(|_| file.ends_with(".md"))?;
    let content = tree.files.get(&file)?;
    let found = anchors(content).iter().any(|one| one == anchor);
    (!found).then(|| format!("the link to `{target}` names no heading of {file}: name one that exists"))
}

/// Returns the anchors of a document's headings, as GitHub makes them: lower case, a hyphen for each space,
/// no punctuation, and a number after a heading that occurs again.
fn anchors(content: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut in_code = false;
    for line in content.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        let heading = line.trim_start_matches('#');
        let level = line.len() - heading.len();
        if in_code || !(1..=6).contains(&level) || !heading.starts_with(' ') {
            continue;
        }
        let anchor: String = shown_text(heading.trim())
            .to_lowercase()
            .chars()
            .filter(|character| character.is_alphanumeric() || "-_ ".contains(*character))
            .map(|character| if character == ' ' { '-' } else { character })
            .collect();
        let count = counts.entry(anchor.clone()).or_default();
        found.push(if *count == 0 { anchor } else { format!("{anchor}-{count}") });
        *count += 1;
    }
    found
}

/// Returns a heading without the targets of its links.
fn shown_text(heading: &str) -> String {
    let mut parts = heading.split("](");
    let mut shown = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        shown.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    shown
}

/// Returns the targets of `[text](target)` links.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
}

fn normalise(folder: &str, path: &str) -> String {
    let mut parts: Vec<&str> = if path.starts_with('/') { Vec::new() } else { folder.split('/').collect() };
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            name => parts.push(name),
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join("/")
}

fn exists(tree: &Tree, path: &str) -> bool {
    let folder = format!("{path}/");
    path.is_empty()
        || tree.files.contains_key(path)
        || tree.files.keys().any(|name| name.starts_with(&folder))
}
