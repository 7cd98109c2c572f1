//! The files that keys of the configuration name.

use std::path::Path;

use strandline_ops::Files;
use strandline_tls::Pem;

use super::error::{ConfigError, wrong};

/// The text of the file that a key names.
pub(super) fn text_of(files: &mut Files, key: &str, path: &Path) -> Result<String, ConfigError> {
    files.text(path).map_err(|error| wrong(key, error.to_string()))
}

/// The contents of the PEM file that a key names.
pub(super) fn pem_of(files: &mut Files, key: &str, path: &Path) -> Result<Pem, ConfigError> {
    files.pem(path).map_err(|error| wrong(key, error.to_string()))
}
