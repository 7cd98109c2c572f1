//! Checks of a configuration, and reloads while the server runs.

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::process::ExitCode;

use serde_json::{Value, json};
use strandline_output::{errln, outln};

/// A flaw of a configuration that parses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flaw {
    /// The key, as `table.key` or `table[0].key`.
    pub key: Cow<'static, str>,
    /// What is wrong, and what is expected.
    pub message: String,
    /// True if `--check` reports an error. A running server continues without the feature.
    pub is_error: bool,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)
    }
}

/// Prints the results of `--check`, and returns its exit code.
#[must_use]
pub fn report(flaws: &[Flaw]) -> ExitCode {
    for flaw in flaws {
        errln!("{}: {flaw}", if flaw.is_error { "error" } else { "warning" });
    }
    if flaws.iter().any(|flaw| flaw.is_error) {
        return ExitCode::FAILURE;
    }
    outln!("The configuration is valid.");
    ExitCode::SUCCESS
}

/// The result of a reload.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reload {
    /// Tables that have changed, and files that were read again.
    pub changed: Vec<String>,
    /// Changes that need a restart.
    pub kept: Vec<String>,
}

/// The number of reloads, and the last error.
#[derive(Debug, Default)]
pub struct Reloads(RefCell<(u64, Option<String>)>);

impl Reloads {
    /// Records a reload.
    pub fn note<E: fmt::Display>(&self, result: &Result<Reload, E>) {
        let mut done = self.0.borrow_mut();
        done.0 += 1;
        done.1 = result.as_ref().err().map(ToString::to_string);
    }

    /// The count and the last error, for the server's status.
    #[must_use]
    pub fn status(&self) -> Value {
        let (count, error) = &*self.0.borrow();
        json!({"count": count, "last_error": error})
    }
}

/// The parsed file of the current configuration.
#[derive(Debug)]
pub struct Document {
    counts: RefCell<toml::Table>,
    /// Tables, and keys as `table.key`, that only a restart changes.
    kept: &'static [&'static str],
    /// Keys of files that each reload reads again, with the text that reports it.
    files: &'static [(&'static str, &'static str)],
}

impl Document {
    /// Creates the document at the start of the server. Only a restart changes the tables and keys in `kept`.
    /// `files` are the keys of files that each reload reads again, with the text that reports it.
    #[must_use]
    pub fn new(
        document: toml::Table,
        kept: &'static [&'static str],
        files: &'static [(&'static str, &'static str)],
    ) -> Self {
        Self { counts: RefCell::new(document), kept, files }
    }

    /// The differences of a new document.
    #[must_use]
    pub fn differences(&self, new: &toml::Table) -> Reload {
        let old = &*self.counts.borrow();
        let kept = self.kept.iter().filter(|path| at(old, path) != at(new, path));
        let kept = kept.map(|path| format!("{path}: needs a new start")).collect();
        let counting = self.counting(old, new.clone());
        let keys = old.keys().chain(counting.keys().filter(|key| !old.contains_key(*key)));
        let changed = keys.filter(|key| old.get(*key) != counting.get(*key)).cloned();
        let read = self.files.iter().filter(|(path, _)| at(new, path).is_some());
        Reload { changed: changed.chain(read.map(|(_, text)| (*text).to_owned())).collect(), kept }
    }

    /// Returns true if a new document has the same value at a path such as `table` or `table.key`.
    #[must_use]
    pub fn is_same(&self, new: &toml::Table, path: &str) -> bool {
        at(&self.counts.borrow(), path) == at(new, path)
    }

    /// Replaces the document, except for what only a restart changes.
    pub fn replace(&self, new: toml::Table) {
        let counting = self.counting(&self.counts.borrow(), new);
        self.counts.replace(counting);
    }

    /// The new document, with the old values of keys that only a restart changes.
    fn counting(&self, old: &toml::Table, new: toml::Table) -> toml::Table {
        let mut counting = new;
        for path in self.kept {
            put(&mut counting, path, at(old, path).cloned());
        }
        counting
    }
}

/// The value at `table` or `table.key`.
fn at<'a>(document: &'a toml::Table, path: &str) -> Option<&'a toml::Value> {
    match path.split_once('.') {
        None => document.get(path),
        Some((table, key)) => document.get(table)?.as_table()?.get(key),
    }
}

fn put(document: &mut toml::Table, path: &str, value: Option<toml::Value>) {
    let (table, key) = match path.split_once('.') {
        None => (Some(&mut *document), path),
        Some((table, key)) => (document.get_mut(table).and_then(toml::Value::as_table_mut), key),
    };
    let Some(table) = table else { return };
    match value {
        Some(value) => {
            table.insert(key.to_owned(), value);
        }
        None => {
            table.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
