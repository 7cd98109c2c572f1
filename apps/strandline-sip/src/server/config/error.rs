//! Errors of a configuration.

pub use strandline_ops::ConfigError;

/// The error for an invalid value.
pub(super) fn wrong(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
    ConfigError::value(key, message)
}
