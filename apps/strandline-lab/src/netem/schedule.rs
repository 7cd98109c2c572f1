//! Scheduled changes of links: `5s path=2 to-right loss=10%; 8s heal`.

use core::time::Duration;
use std::str::FromStr;

use super::settings::Settings;
use super::units;

/// One direction of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// From the left network to the right one.
    ToRight,
    /// From the right network to the left one.
    ToLeft,
}

impl Direction {
    /// Both directions, in display order.
    pub const BOTH: [Self; 2] = [Self::ToRight, Self::ToLeft];

    /// Returns the name used in the text form.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ToRight => "to-right",
            Self::ToLeft => "to-left",
        }
    }
}

/// The links that a change applies to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Target {
    /// The path, from 1; `None` for every path.
    pub path: Option<usize>,
    /// The direction; `None` for both.
    pub direction: Option<Direction>,
}

impl Target {
    /// Returns whether the target includes this link; `path` counts from 1.
    #[must_use]
    pub fn includes(&self, path: usize, direction: Direction) -> bool {
        self.path.is_none_or(|only| only == path) && self.direction.is_none_or(|only| only == direction)
    }

    /// Parses a word such as `path=2` or `to-right`; returns false for any other word.
    fn read(&mut self, word: &str) -> Result<bool, String> {
        match word.split_once('=') {
            Some(("path", number)) => match number.parse() {
                Ok(number) if number > 0 => self.path = Some(number),
                _ => return Err(format!("'{word}': paths are counted from 1")),
            },
            None if word == "to-right" => self.direction = Some(Direction::ToRight),
            None if word == "to-left" => self.direction = Some(Direction::ToLeft),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A change and the links that it applies to.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TargetedChange {
    /// The links.
    pub target: Target,
    /// The new settings.
    pub settings: Settings,
}

impl FromStr for TargetedChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut target = Target::default();
        let mut settings = Settings::default();
        let mut given = false;
        for word in text.split_whitespace() {
            if !target.read(word)? {
                settings = settings.with(&word.parse()?);
                given = true;
            }
        }
        if !given {
            // Parsing empty settings returns the error that lists the valid ones.
            settings = "".parse()?;
        }
        Ok(Self { target, settings })
    }
}

/// A change at a time since the start.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Time since the start.
    pub at: Duration,
    /// The change.
    pub change: TargetedChange,
    /// The text that it was parsed from.
    pub text: String,
}

/// Parses entries separated by semicolons or line ends; # begins a comment.
///
/// # Errors
/// If an entry is invalid; the error names it and says what is expected.
pub fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default());
    let entries = lines.flat_map(|line| line.split(';')).map(str::trim).filter(|entry| !entry.is_empty());
    let mut parsed: Vec<Entry> = entries
        .map(|entry| parse_entry(entry).map_err(|error| format!("in '{entry}': {error}")))
        .collect::<Result<_, _>>()?;
    parsed.sort_by_key(|entry| entry.at);
    Ok(parsed)
}

fn parse_entry(entry: &str) -> Result<Entry, String> {
    let (at, change) = entry.split_once(char::is_whitespace).ok_or_else(|| {
        "expected a time and a change, such as '5s cut' or '8s path=2 to-right loss=1%'".to_owned()
    })?;
    Ok(Entry { at: units::time(at)?, change: change.parse()?, text: entry.to_owned() })
}

#[cfg(test)]
mod tests;
