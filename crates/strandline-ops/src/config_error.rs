//! Errors of a configuration, with the line of the file that they are about.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::Unreadable;

/// An error of a configuration, and where it is.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file can't be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A file is not TOML, or contains an unknown key or a value of a wrong type.
    #[error("{path}:\n{cause}")]
    Malformed {
        /// The path of the file.
        path: PathBuf,
        /// What is wrong, and where.
        cause: Box<toml::de::Error>,
    },
    /// A reload was requested without a configuration file.
    #[error("nothing to reload: the server was started without --config")]
    NoFile,
    /// The system provides no random numbers.
    #[error("{0}")]
    Random(String),
    /// A value is invalid.
    #[error("{}{key}: {message}", Before(place))]
    Value {
        /// The file and the line, from 1; `None` if it is not known, or the value is not from a file.
        place: Option<(PathBuf, usize)>,
        /// The key, as `table.key` or `table[0].key`.
        key: String,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// Several errors, in the order in which they are reported, each on lines of its own.
    #[error("{}", Lines(.0))]
    Several(Vec<ConfigError>),
}

/// Errors, each on lines of its own.
struct Lines<'a>(&'a [ConfigError]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, error) in self.0.iter().enumerate() {
            let end = if at > 0 { "\n" } else { "" };
            write!(f, "{end}{}", error.to_string().trim_end())?;
        }
        Ok(())
    }
}

/// The place in front of a message.
struct Before<'a>(&'a Option<(PathBuf, usize)>);

impl fmt::Display for Before<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some((path, line)) => write!(f, "{}:{line}: ", path.display()),
            None => Ok(()),
        }
    }
}

impl ConfigError {
    /// Returns the error for an invalid value.
    #[must_use]
    pub fn value(key: impl Into<String>, message: impl Into<String>) -> Self {
        Self::Value { place: None, key: key.into(), message: message.into() }
    }

    /// Changes it, or each of several.
    #[must_use]
    pub fn map(self, mut change: impl FnMut(Self) -> Self) -> Self {
        match self {
            Self::Several(all) => Self::Several(all.into_iter().map(change).collect()),
            one => change(one),
        }
    }

    /// Orders several by their lines; those without one come last.
    #[must_use]
    pub fn in_order(mut self) -> Self {
        if let Self::Several(all) = &mut self {
            all.sort_by_key(|error| match error {
                Self::Value { place: Some((_, line)), .. } => *line,
                _ => usize::MAX,
            });
        }
        self
    }

    /// Adds the line of the key, or of the table that lacks it, if it is in this file.
    #[must_use]
    pub fn in_file(self, path: &Path, text: &str) -> Self {
        self.map(|error| match error {
            Self::Value { place: None, key, message } => {
                let place = line_of(text, &key).map(|line| (path.to_owned(), line));
                Self::Value { place, key, message }
            }
            other => other,
        })
    }
}

/// Splits a key at its dots, except those within quotes: `users."a@example.com"` has two parts.
fn parts(key: &str) -> impl Iterator<Item = &str> {
    let mut is_quoted = false;
    let parts = key.split(move |char| {
        is_quoted ^= char == '"';
        char == '.' && !is_quoted
    });
    parts.map(|part| part.strip_prefix('"').and_then(|part| part.strip_suffix('"')).unwrap_or(part))
}

/// Returns the line, from 1, of a key such as `limits.connections_max`, `peer[1].addresses` or
/// `users."a@example.com"` in a TOML document, or of the innermost table on the way to it. `None` if not even its
/// first part is there.
#[must_use]
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    let (document, _) = DeTable::parse_recoverable(text);
    let mut table = document.get_ref();
    let mut at = None;
    for part in parts(key) {
        let (name, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((name, index)) => (name, index.parse::<usize>().ok()),
            None => (part, None),
        };
        let Some((found, value)) = table.get_key_value(name) else { break };
        let (span, value) = match (index, value.get_ref()) {
            (Some(index), DeValue::Array(items)) => {
                // Of a list beyond the file: it is from elsewhere.
                let item = items.get(index)?;
                (item.span(), item.get_ref())
            }
            (_, value) => (found.span(), value),
        };
        at = Some(span.start);
        match value {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    let before = text.get(..at?)?;
    Some(before.matches('\n').count() + 1)
}

#[cfg(test)]
mod tests;
