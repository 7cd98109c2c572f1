//! The subcommands of `strandline http`.

use std::process::ExitCode;

use anyhow::Result;

/// HTTP over TCP and over SCTP streams.
#[derive(Debug, clap::Subcommand)]
pub enum Http {
    /// Serve the files of a directory over TCP and SCTP
    Serve(crate::file_server::Args),
    /// Fetch URLs in parallel over SCTP streams or TCP
    Get(crate::get::Args),
    /// Pass requests from SCTP to HTTP servers, and from programs without SCTP to servers with it
    #[command(
        subcommand,
        after_help = "\
Examples:
  strandline http proxy reverse --to http://127.0.0.1:8000     # an HTTP server, over SCTP as well
  strandline http proxy forward                                # SCTP for curl and browsers"
    )]
    Proxy(crate::proxy::Proxy),
}

impl Http {
    /// Runs the subcommand.
    ///
    /// # Errors
    /// If it fails.
    pub fn run(&self) -> Result<ExitCode> {
        crate::usage::report(match self {
            Self::Serve(args) => crate::file_server::run(args).map(|()| ExitCode::SUCCESS),
            Self::Get(args) => crate::get::run(args),
            Self::Proxy(proxy) => crate::proxy::run(proxy).map(|()| ExitCode::SUCCESS),
        })
    }
}
