//! The token of requests that change a gateway.

use std::fmt;
use std::path::Path;

use strandline_ops::http::Request;
use strandline_ops::{ConfigError, Files};

/// Shortest token, in characters, so that it can't be guessed.
const TOKEN_MIN: usize = 16;

/// A secret that requests present.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct AdminToken(String);

impl fmt::Debug for AdminToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AdminToken")
    }
}

impl AdminToken {
    /// Reads it from its file.
    ///
    /// # Errors
    /// If that can't be read, or is not one word that is long enough.
    pub(crate) fn read(path: &Path) -> Result<Self, ConfigError> {
        let token = Files::of_disk().text(path)?.trim().to_owned();
        if token.len() < TOKEN_MIN || token.contains(|char: char| !char.is_ascii_graphic()) {
            let message =
                format!("{} must contain one word of at least {TOKEN_MIN} ASCII characters", path.display());
            return Err(ConfigError::value("admin_token", message));
        }
        Ok(Self(token))
    }

    pub(crate) fn is_shown(&self, request: &Request) -> bool {
        request.shows(&self.0)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}
