//! A network emulator: two network namespaces with TUN devices, and a model of the links between them.
//!
//! Programs in the left namespace reach those in the right one, and vice versa, over one or several paths.
//! Each direction of a path is a [`strandline_netem::Link`].

pub(crate) mod command;
mod control;
pub(crate) mod device;
mod emulator;
pub(crate) mod exec;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod fuzzing;
mod lateness;
pub(crate) mod namespace;
pub(crate) mod network;
pub(crate) mod options;
pub(crate) mod program;
pub(crate) mod report;
mod schedule;
pub(crate) mod settings;
mod standing;
pub(crate) mod topology;
pub(crate) mod units;

use std::process::ExitCode;

use clap::Subcommand;
use strandline_output::errln;

/// Exit code if the network could not be created.
const FAILED: u8 = 125;

/// The subcommands of `strandline netem`.
#[derive(Debug, Subcommand)]
pub enum Netem {
    /// Run two programs with an emulated network between them
    Exec(Box<exec::ExecArgs>),
    /// Create a persistent network
    Up(Box<standing::UpArgs>),
    /// Run a program, or a shell, on a side of a network
    Enter(standing::EnterArgs),
    /// Show the networks that are up, with their counters
    #[command(after_help = "\
Examples:
  strandline netem status                     packets, drops, marks, largest queues, lateness
  strandline netem status --name net --json")]
    Status(standing::NameArgs),
    /// Change links of a running network
    Set(standing::SetArgs),
    /// Cut links, so that no packets pass
    #[command(after_help = "\
Examples:
  strandline netem cut                        all links, both directions
  strandline netem cut path=1 to-right        one direction of one path
  strandline netem cut && sleep 5; strandline netem heal")]
    Cut(standing::CutArgs),
    /// Heal links that were cut
    #[command(after_help = "\
Examples:
  strandline netem heal                       all links that were cut
  strandline netem heal path=1")]
    Heal(standing::CutArgs),
    /// Remove a network
    #[command(after_help = "\
Examples:
  strandline netem down                       the only network that is up
  strandline netem down --name net --json     print its report as JSON")]
    Down(standing::NameArgs),
}

impl Netem {
    /// Runs the subcommand. Failures are printed and return an exit code that programs rarely use themselves.
    ///
    /// # Errors
    /// Never, at present.
    pub fn run(self) -> anyhow::Result<ExitCode> {
        let result = match self {
            Self::Exec(args) => exec::run(&args),
            Self::Up(args) => standing::up(&args),
            Self::Enter(args) => standing::enter(&args),
            Self::Status(args) => standing::status(&args),
            Self::Set(args) => standing::set(&args),
            Self::Cut(args) => standing::cut_or_heal(&args, "cut"),
            Self::Heal(args) => standing::cut_or_heal(&args, "heal"),
            Self::Down(args) => standing::down(&args),
        };
        Ok(result.unwrap_or_else(|error| {
            errln!("strandline netem: {error:#}");
            ExitCode::from(FAILED)
        }))
    }
}
