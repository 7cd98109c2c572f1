//! What can be wrong with a configuration.

use std::path::PathBuf;

/// What is wrong with a configuration, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{path}: {cause}")]
    Unreadable {
        /// Which.
        path: PathBuf,
        /// Why.
        cause: std::io::Error,
    },
    /// It is no TOML, or has a key or value that it must not have.
    #[error("{path}:\n{cause}")]
    Malformed {
        /// Which.
        path: PathBuf,
        /// What and where.
        cause: Box<toml::de::Error>,
    },
    /// It is to be read again, and there is no file.
    #[error("there is no file to read again: the server was started without --config")]
    NoFile,
    /// The system gives no random numbers.
    #[error("{0}")]
    Random(String),
    /// A value that makes no sense.
    #[error("{key}: {message}")]
    Value {
        /// The key, as `table.key`.
        key: String,
        /// What is wrong, and what would be right.
        message: String,
    },
}

/// A value that makes no sense.
pub(super) fn wrong(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
    ConfigError::Value { key: key.into(), message: message.into() }
}
