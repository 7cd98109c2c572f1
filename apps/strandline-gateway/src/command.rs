//! The command `strandline gateway`.

use std::process::ExitCode;

use anyhow::Result;

pub use crate::config::Args;
use crate::status::{ReloadArgs, RestartArgs, StatusArgs};

pub use crate::program::{EXAMPLES as RUN_EXAMPLES, Run};

/// Examples for the help of the command.
pub const EXAMPLES: &str = "\
Examples:
  strandline gateway --listen 127.0.0.1:9899 --allow 127.0.0.1:8000
                                               the far side: peers may reach a web server on this host
  strandline gateway --peer far=127.0.0.1:9899 --socks 1080 --forward 8001=127.0.0.1:8000
                                               the near side: then curl http://127.0.0.1:8001/
  strandline gateway --config gateway.toml     all of it in a file
  strandline gateway status                    its connections, if it was started with --admin 127.0.0.1:9898
  strandline gateway reload                    reads the file again; connections stay
  strandline gateway restart                   starts a new version; connections stay
  strandline gateway --peer b=10.2.0.1:9899 --capture 10.2.0.0/16
                                               all connections of this host to a network
More: docs/gateway.md";

/// TCP connections on the streams of one association, between two gateways.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Gateway {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    args: Args,
}

/// What a gateway can be asked.
#[derive(Debug, clap::Subcommand)]
pub enum Command {
    /// Show the connections of a gateway that runs, and their rates
    #[command(after_help = "\
Examples:
  strandline gateway status                            a live table, of the gateway with --admin 127.0.0.1:9898
  strandline gateway status --admin 127.0.0.1:9000 --json
                                                       once, for programs")]
    Status(StatusArgs),
    /// Let a gateway that runs read its configuration file again, without dropping connections
    #[command(after_help = "\
Examples:
  strandline gateway reload                            the gateway with --admin 127.0.0.1:9898; SIGHUP does the same")]
    Reload(ReloadArgs),
    /// Start the program of a gateway that runs again, as it is installed now, without dropping connections
    #[command(after_help = "\
Examples:
  strandline gateway restart                           the gateway with --admin 127.0.0.1:9898; SIGUSR2 does the same")]
    Restart(RestartArgs),
    /// Print the rules that capture connections, for the options of a gateway
    #[command(after_help = "\
Examples:
  strandline gateway rules --peer b=10.2.0.1:9899 --redirect 12345 --capture 10.2.0.0/16")]
    Rules(Box<Args>),
}

impl Gateway {
    /// Returns the command with these parts, which the parser has read.
    #[must_use]
    pub fn new(command: Option<Command>, args: Args) -> Self {
        Self { command, args }
    }

    /// Runs the gateway, or the subcommand.
    ///
    /// # Errors
    /// If it fails.
    pub fn run(&self) -> Result<ExitCode> {
        match &self.command {
            Some(Command::Status(args)) => crate::status::run(args),
            Some(Command::Reload(args)) => crate::status::reload(args),
            Some(Command::Restart(args)) => crate::status::restart(args),
            Some(Command::Rules(args)) => crate::running::print_rules(args),
            None => crate::run::run(&self.args),
        }
    }
}
