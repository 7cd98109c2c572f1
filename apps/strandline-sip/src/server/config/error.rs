//! Errors of a configuration.

use std::fmt::Display;
use std::ops::RangeInclusive;

pub use strandline_ops::ConfigError;
pub(super) use strandline_ops::ConfigErrors;

/// The error for an invalid value.
pub(super) fn wrong(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
    ConfigError::value(key, message)
}

/// Returns a value that must be in a range. If it isn't, that is noted, and the default returned, as for a key that
/// isn't there.
pub(super) fn in_range<T: PartialOrd + Display + Copy>(
    key: &str,
    value: Option<T>,
    default: T,
    range: RangeInclusive<T>,
    errors: &mut ConfigErrors,
) -> T {
    match value {
        Some(value) if !range.contains(&value) => {
            let message = format!("{value} is not between {} and {}", range.start(), range.end());
            errors.add(wrong(key, message));
            default
        }
        given => given.unwrap_or(default),
    }
}
