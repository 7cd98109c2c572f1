//! Errors of a configuration, with the line of the file that they are about.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::Chars;

use toml::de::{DeTable, DeValue};

use crate::Unreadable;
use crate::malformed::{Lines as LineNumbers, Malformed};

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
        cause: Box<Malformed>,
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
        self.in_file_unless(path, text, |_| false)
    }

    /// As [`in_file`](Self::in_file), except for keys whose values are from elsewhere.
    #[must_use]
    pub fn in_file_unless(self, path: &Path, text: &str, is_elsewhere: impl Fn(&str) -> bool) -> Self {
        // Once for all errors.
        let (document, lines) = (DeTable::parse_recoverable(text).0, LineNumbers::of(text));
        self.map(|error| match error {
            Self::Value { place: None, key, message } if !is_elsewhere(&key) => {
                let line = start_of(document.get_ref(), &key).map(|start| lines.number(start));
                Self::Value { place: line.map(|line| (path.to_owned(), line)), key, message }
            }
            other => other,
        })
    }
}

/// A part of a key.
#[derive(Debug, Default, PartialEq, Eq)]
struct Part {
    name: String,
    /// Of an entry of a list: `peer[1]`.
    index: Option<usize>,
}

/// Splits a key at its dots, except those within quotes: `users."a@example.com"` has two parts. Quotes and escapes are
/// those of TOML, and the ones with which Rust prints text.
fn parts(key: &str) -> Vec<Part> {
    let mut parts = vec![String::new()];
    let mut is_bare = vec![true];
    let mut rest = key.chars();
    while let Some(char) = rest.next() {
        let (Some(part), Some(bare)) = (parts.last_mut(), is_bare.last_mut()) else { break };
        match char {
            '.' => {
                parts.push(String::new());
                is_bare.push(true);
            }
            '"' if part.is_empty() => {
                *bare = false;
                while let Some(char) = rest.next().filter(|char| *char != '"') {
                    part.extend(if char == '\\' { escaped(&mut rest) } else { Some(char) });
                }
            }
            '\'' if part.is_empty() => {
                *bare = false;
                part.extend(rest.by_ref().take_while(|char| *char != '\''));
            }
            other => part.push(other),
        }
    }
    let parts = parts.into_iter().zip(is_bare);
    parts.map(|(name, is_bare)| if is_bare { indexed(name) } else { Part { name, index: None } }).collect()
}

/// Splits `peer[1]`.
fn indexed(name: String) -> Part {
    let index = name.strip_suffix(']').and_then(|name| name.split_once('['));
    match index.and_then(|(name, index)| Some((name.to_owned(), index.parse().ok()?))) {
        Some((name, index)) => Part { name, index: Some(index) },
        None => Part { name, index: None },
    }
}

/// Reads what follows a backslash.
fn escaped(rest: &mut Chars<'_>) -> Option<char> {
    let digits: String = match rest.next()? {
        'b' => return Some('\u{8}'),
        'e' => return Some('\u{1b}'),
        'f' => return Some('\u{c}'),
        'n' => return Some('\n'),
        'r' => return Some('\r'),
        't' => return Some('\t'),
        '0' => return Some('\0'),
        'x' => rest.take(2).collect(),
        'U' => rest.take(8).collect(),
        'u' if rest.as_str().starts_with('{') => rest.skip(1).take_while(|char| *char != '}').collect(),
        'u' => rest.take(4).collect(),
        other => return Some(other),
    };
    char::from_u32(u32::from_str_radix(&digits, 16).ok()?)
}

/// Returns the line, from 1, of a key such as `limits.connections_max`, `peer[1].addresses` or
/// `users."a@example.com"` in a TOML document, or of the innermost table on the way to it. `None` if not even its
/// first part is there.
#[must_use]
pub fn line_of(text: &str, key: &str) -> Option<usize> {
    let start = start_of(DeTable::parse_recoverable(text).0.get_ref(), key)?;
    Some(LineNumbers::of(text).number(start))
}

/// Returns the place of a key in a document, as [`line_of`].
fn start_of(document: &DeTable<'_>, key: &str) -> Option<usize> {
    let mut table = document;
    let mut at = None;
    for Part { name, index } in parts(key) {
        let Some((found, value)) = table.get_key_value(name.as_str()) else { break };
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
    at
}

#[cfg(test)]
mod tests;
