//! Errors of a configuration.

use std::path::PathBuf;

use strandline_ops::Unreadable;

/// An error of a configuration, and where it is.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file can't be read.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// A file is not TOML, or contains an invalid key or value.
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
    #[error("{key}: {message}")]
    Value {
        /// The key, as `table.key`.
        key: String,
        /// What is wrong, and what is expected.
        message: String,
    },
}

/// The error for an invalid value.
pub(super) fn wrong(key: impl Into<String>, message: impl Into<String>) -> ConfigError {
    ConfigError::Value { key: key.into(), message: message.into() }
}
