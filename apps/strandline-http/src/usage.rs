//! Wrong use of a program.

use std::process::ExitCode;

use anyhow::Result;
use strandline_output::errln;

/// Exit code for wrong options, which is that of the parser of the command line, too.
const WRONG_OPTIONS: u8 = 2;

/// Says what is wrong with the options.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

impl Usage {
    /// Makes one of an error, with what it is about.
    pub(crate) fn of(about: &str, error: &anyhow::Error) -> Self {
        Self(format!("{about}: {error:#}"))
    }
}

/// Turns wrong options into a message and their exit code.
pub(crate) fn report(result: Result<ExitCode>) -> Result<ExitCode> {
    match result {
        Err(error) if error.is::<Usage>() => {
            errln!("strandline: {error:#}");
            Ok(ExitCode::from(WRONG_OPTIONS))
        }
        other => other,
    }
}
