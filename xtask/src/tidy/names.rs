//! Checks that tests and files named in the documents exist, and that each requirement of docs/conformance.md
//! has a test.

use std::collections::BTreeSet;

use super::prose::{function, is_test_attribute};
use crate::tree::{Tree, Violation};

/// The table of requirements.
const CONFORMANCE: &str = "docs/conformance.md";

/// The table of faults of other stacks.
const FAULTS: &str = "docs/other-stacks-bugs.md";

/// The documents that name tests.
const DOCUMENTS: [&str; 2] = [CONFORMANCE, FAULTS];

/// Minimum number of underscores that make a word outside a column of tests a test name.
const UNDERSCORES: usize = 3;

/// What stands in a row for a test: the harness of all tests, the tests of the row before, or the reason why
/// there is none.
const INSTEAD: [&str; 5] = ["harness", "the same", "as above", "**not done**", "**no test**"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let sources = tree.files.iter().filter(|(name, _)| name.ends_with(".rs"));
    let tests: BTreeSet<&str> = sources.flat_map(|(_, content)| tests(content)).collect();
    let mut found = Vec::new();
    for (name, content) in DOCUMENTS.iter().filter_map(|name| Some((*name, tree.files.get(*name)?))) {
        let mut table = Table::None;
        for (number, line) in (1..).zip(content.lines()) {
            table = table.after(line);
            let row = Row::of(line).filter(|_| name == CONFORMANCE && table != Table::None);
            let named: BTreeSet<&str> = match &row {
                Some(row) => names(line).chain(words(row.test)).collect(),
                None => names(line).collect(),
            };
            for word in named.iter().filter(|word| !tests.contains(*word)) {
                let message = format!("there is no test `{word}`: name one that exists");
                found.push(Violation::new(name, number, message));
            }
            if name == FAULTS && line.starts_with('|') {
                let files = quoted(line).filter(|word| word.ends_with(".rs"));
                found.extend(missing_files(tree, name, number, files));
            }
            let Some(row) = row else { continue };
            if named.is_empty() && !row.has_exception() {
                let message = "this rule has no test: name one, or say **not done** or **no test**, and why";
                found.push(Violation::new(name, number, message));
            }
            if table == Table::Rules {
                found.extend(missing_files(tree, name, number, quoted(row.code)));
            }
        }
    }
    found
}

/// Returns a violation for each of these words that is a path without a file.
fn missing_files<'a>(
    tree: &Tree,
    document: &str,
    number: usize,
    words: impl Iterator<Item = &'a str>,
) -> Vec<Violation> {
    let told = |file: &str| {
        format!("there is no `{file}`: name a file of strandline-proto, `wire/...`, or one of another crate")
    };
    words
        .filter(|word| is_path(word) && !exists(tree, word))
        .map(|file| Violation::new(document, number, told(file)))
        .collect()
}

/// The table that a line belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Table {
    None,
    /// Its second column names files.
    Rules,
    /// Its second column is prose.
    Attacks,
}

impl Table {
    fn after(self, line: &str) -> Self {
        match line {
            "| rule | code | test |" => Self::Rules,
            "| attack | defence | test |" => Self::Attacks,
            line if line.starts_with('|') => self,
            _ => Self::None,
        }
    }
}

/// A row of a table with three columns.
struct Row<'a> {
    line: &'a str,
    code: &'a str,
    test: &'a str,
}

impl<'a> Row<'a> {
    /// Returns the row of a line; `None` for a header.
    fn of(line: &'a str) -> Option<Self> {
        let cells = line.strip_prefix('|')?.strip_suffix('|')?;
        let [_, code, test] = cells.split('|').collect::<Vec<_>>().try_into().ok()?;
        let is_header = test.trim() == "test" || line.starts_with("|--");
        (!is_header).then_some(Self { line, code, test })
    }

    fn has_exception(&self) -> bool {
        INSTEAD.iter().any(|instead| self.line.contains(instead)) || self.line.starts_with("| **Not done**")
    }
}

/// Returns the names of the functions with the attribute of a test.
fn tests(content: &str) -> impl Iterator<Item = &str> {
    let mut is_test = false;
    content.lines().map(str::trim).filter_map(move |line| {
        is_test |= is_test_attribute(line);
        let name = function(line.strip_prefix("pub ").unwrap_or(line))?;
        core::mem::take(&mut is_test).then_some(name)
    })
}

/// Whether a word in the column of the code is a file or a module of one.
fn is_path(word: &str) -> bool {
    let is_path = word.contains('/') || word.ends_with(".rs") || word.starts_with("strandline-");
    is_path && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-/.".contains(&byte))
}

/// Whether a file, a module or a crate of the column of the code exists.
fn exists(tree: &Tree, word: &str) -> bool {
    let path = match word.split_once('/') {
        _ if word.starts_with("strandline-") => format!("crates/{word}"),
        Some(("wire", rest)) => format!("crates/strandline-wire/src/{rest}"),
        _ => format!("crates/strandline-proto/src/{word}"),
    };
    let (module, folder) = (format!("{path}.rs"), format!("{path}/"));
    let is_within = |name: &String| name.starts_with(&folder);
    tree.files.contains_key(&path)
        || tree.files.contains_key(&module)
        || tree.files.range(folder.clone()..).next().is_some_and(|(name, _)| is_within(name))
}

/// Returns what is in backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Returns the words in backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    quoted(text).filter(move |word| word.bytes().all(is_word))
}

/// Returns the words in backticks that look like test names.
fn names(line: &str) -> impl Iterator<Item = &str> {
    words(line).filter(|word| word.bytes().filter(|byte| *byte == b'_').count() >= UNDERSCORES)
}
