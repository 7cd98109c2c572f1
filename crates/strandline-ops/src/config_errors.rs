//! All errors of a configuration, not only the first: those of the TOML document, and those of its values.

use std::ops::Range;
use std::path::Path;

use serde::de::DeserializeOwned;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::ConfigError;
use crate::malformed::{Lines, Malformed};

/// Maximum number of errors of a document that are reported.
const MALFORMED_MAX: usize = 32;
/// Maximum size of a document all of whose errors of syntax are collected: a file that was never meant to be TOML has
/// one with every few bytes.
const RECOVERED_BYTES_MAX: usize = 1 << 20;

/// The errors of a configuration that is checked to its end.
#[derive(Debug, Default)]
pub struct ConfigErrors(Vec<ConfigError>);

impl ConfigErrors {
    /// Notes an error.
    pub fn add(&mut self, error: ConfigError) {
        match error {
            ConfigError::Several(all) => self.0.extend(all),
            one => self.0.push(one),
        }
    }

    /// Returns the number of errors so far.
    #[must_use]
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Returns the value, or notes the error.
    pub fn take<T>(&mut self, result: Result<T, ConfigError>) -> Option<T> {
        result.map_err(|error| self.add(error)).ok()
    }

    /// Returns the value, or notes the error and returns `instead`.
    pub fn take_or<T>(&mut self, result: Result<T, ConfigError>, instead: T) -> T {
        self.take(result).unwrap_or(instead)
    }

    /// Returns the values of a key that has several, and notes what is wrong with the others.
    pub fn take_all<T>(&mut self, key: &str, results: impl IntoIterator<Item = Result<T, String>>) -> Vec<T> {
        let take = |result: Result<T, String>| {
            result.map_err(|message| self.add(ConfigError::value(key, message))).ok()
        };
        results.into_iter().filter_map(take).collect()
    }

    /// Ends the check.
    ///
    /// # Errors
    /// What was noted, if anything was.
    pub fn finish(mut self) -> Result<(), ConfigError> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(self.0.remove(0)),
            _ => Err(ConfigError::Several(self.0)),
        }
    }
}

/// Parses a TOML document, which is the content of the file at `path`.
///
/// # Errors
/// All that is malformed: if it is no TOML, that; otherwise unknown and missing keys, and values of wrong types. At
/// most 32 errors are reported, and only the first one of a large file that is no TOML.
pub fn parse_document<T: DeserializeOwned>(path: &Path, text: &str) -> Result<T, ConfigError> {
    let mut errors = match parse(text).and_then(deserialize) {
        Ok(parsed) => return Ok(parsed),
        Err(errors) => errors,
    };
    let lines = Lines::of(text);
    // The parser may report an error twice, with two ends.
    let start = |error: &toml::de::Error| error.span().map(|span| lines.within(span.start));
    errors.sort_by(|a, b| start(a).cmp(&start(b)).then_with(|| a.message().cmp(b.message())));
    errors.dedup_by(|b, a| start(a) == start(b) && a.message() == b.message());
    let mut all = ConfigErrors::default();
    for error in errors.iter().take(MALFORMED_MAX) {
        let cause = Box::new(Malformed::new(error, &lines));
        all.add(ConfigError::Malformed { path: path.to_owned(), cause });
    }
    match all.finish() {
        Err(error) => Err(error),
        // There is an error whenever there is no document.
        Ok(()) => Err(ConfigError::value("", "the document can't be read")),
    }
}

/// Parses the syntax.
///
/// # Errors
/// All errors; of a document of more than [`RECOVERED_BYTES_MAX`], the first one.
fn parse(text: &str) -> Result<Spanned<DeTable<'_>>, Vec<toml::de::Error>> {
    if text.len() > RECOVERED_BYTES_MAX {
        return DeTable::parse(text).map_err(|error| vec![error]);
    }
    let (document, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() { Ok(document) } else { Err(errors) }
}

/// Deserializes a document.
///
/// # Errors
/// All keys and values that are wrong, up to a number.
fn deserialize<T: DeserializeOwned>(mut document: Spanned<DeTable<'_>>) -> Result<T, Vec<toml::de::Error>> {
    let (mut errors, mut removed) = (Vec::new(), Removed::default());
    loop {
        let error = match T::deserialize(Deserializer::from(document.clone())) {
            Ok(parsed) if errors.is_empty() => return Ok(parsed),
            Ok(_) => return Err(errors),
            Err(error) => error,
        };
        let place = error.span();
        if !removed.explains(&error) && !errors.contains(&error) {
            errors.push(error);
        }
        // The rest is checked without the key or value that is wrong.
        let all = document.span();
        let is_removed = place.is_some_and(|place| removed.remove(document.get_mut(), all, &place));
        if !is_removed || errors.len() >= MALFORMED_MAX {
            return Err(errors);
        }
    }
}

/// What was wrong, and is left out: keys, each with the place of its table.
#[derive(Debug, Default)]
struct Removed(Vec<(Range<usize>, String)>);

impl Removed {
    /// Returns whether an error says that a key is missing which was left out.
    fn explains(&self, error: &toml::de::Error) -> bool {
        let is_of = |(table, key): &(Range<usize>, String)| {
            error.span().as_ref() == Some(table) && error.message() == format!("missing field `{key}`")
        };
        self.0.iter().any(is_of)
    }

    /// Removes the entry of a table at `at` whose key or value is at a place. Returns whether there was one.
    fn remove(&mut self, table: &mut DeTable<'_>, at: Range<usize>, place: &Range<usize>) -> bool {
        // An array of tables is where its first one is, which is meant then.
        let is_within = table.iter_mut().any(|(_, value)| {
            let at = value.span();
            self.remove_within(value.get_mut(), at, place)
        });
        let found = table.iter().find(|(key, value)| key.span() == *place || value.span() == *place);
        let Some(name) = found.map(|(key, _)| key.get_ref().to_string()).filter(|_| !is_within) else {
            return is_within;
        };
        table.remove(name.as_str());
        self.0.push((at, name));
        true
    }

    fn remove_within(&mut self, value: &mut DeValue<'_>, at: Range<usize>, place: &Range<usize>) -> bool {
        match value {
            DeValue::Table(table) => self.remove(table, at, place),
            DeValue::Array(items) if items.iter().any(|item| item.span() == *place) => {
                *items = items.iter().filter(|item| item.span() != *place).cloned().collect();
                true
            }
            DeValue::Array(items) => items.iter_mut().any(|item| {
                let at = item.span();
                self.remove_within(item.get_mut(), at, place)
            }),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
