//! Checks that tests named in the documents exist.

use std::collections::BTreeSet;

use crate::tree::{Tree, Violation};

/// The documents that name tests.
const DOCUMENTS: [&str; 2] = ["docs/conformance.md", "docs/other-stacks-bugs.md"];

/// Minimum number of underscores that make a word in a document a test name.
const UNDERSCORES: usize = 3;

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree.files.iter().filter(|(name, _)| name.ends_with(".rs"));
    let functions: BTreeSet<&str> = sources.flat_map(|(_, content)| functions(content)).collect();
    let mut found = Vec::new();
    for (name, content) in DOCUMENTS.iter().filter_map(|name| Some((*name, tree.files.get(*name)?))) {
        for (number, line) in (1..).zip(content.lines()) {
            for word in words(line).filter(|word| !functions.contains(word)) {
                let message = format!("there is no test `{word}`: name one that exists");
                found.push(Violation::new(name, number, message));
            }
        }
    }
    found
}

fn functions(content: &str) -> impl Iterator<Item = &str> {
    content
        .split("fn ")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

/// Returns the words in backticks that look like test names.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let quoted = line.split('`').skip(1).step_by(2);
    quoted.filter(|word| {
        word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            && word.bytes().filter(|byte| *byte == b'_').count() >= UNDERSCORES
    })
}
