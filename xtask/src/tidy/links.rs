//! Checks that links of the documents to files lead to existing files.

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
            let path = target.split('#').next().unwrap_or_default();
            let elsewhere = target.contains("://") || target.starts_with("mailto:") || path.is_empty();
            if !elsewhere && !exists(tree, &normalise(folder, path)) {
                let message = format!("the link to `{target}` leads nowhere: name a file of the repository");
                found.push(Violation::new(name, number, message));
            }
        }
    }
    found
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
