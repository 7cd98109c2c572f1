//! Runs a seed, and reports broken rules.

use core::fmt;
use std::any::Any;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};

use strandline_proto::time::Time;

use crate::scenario::Scenario;
use crate::violation::Violation;
use crate::world::{Summary, World};

/// A run that broke a rule.
#[derive(Debug, Clone)]
pub struct Failure {
    /// The run's seed.
    pub seed: u64,
    /// The virtual time.
    pub at: Time,
    /// The broken rule, or the message of a panic.
    pub violation: Violation,
    /// The features of the scenario.
    pub features: Vec<&'static str>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let features = self.features.join(", ");
        writeln!(f, "seed {} failed at {:?}: {}", self.seed, self.at, self.violation)?;
        writeln!(f, "  with: {features}")?;
        write!(f, "  replay: cargo run -p strandline-sim -- --seed {}", self.seed)
    }
}

impl std::error::Error for Failure {}

/// Runs the scenario of a seed to its end.
///
/// # Errors
/// Fails if a rule was broken or something panicked.
pub fn run(seed: u64) -> Result<Summary, Box<Failure>> {
    let mut world = World::new(Scenario::generate(seed), seed, 0);
    drive(&mut world, seed)
}

fn drive(world: &mut World, seed: u64) -> Result<Summary, Box<Failure>> {
    let outcome = catch_unwind(AssertUnwindSafe(|| world.run()));
    let outcome = outcome.unwrap_or_else(|panic| Err(Violation(format!("panic: {}", message_of(&*panic)))));
    let features = Scenario::generate(seed).features;
    outcome.map_err(|violation| Box::new(Failure { seed, at: world.now(), violation, features }))
}

fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// A run with its record.
#[derive(Debug)]
pub struct Replay {
    world: World,
    /// The outcome, equal to that of [`run`].
    pub outcome: Result<Summary, Box<Failure>>,
}

impl Replay {
    /// Runs a seed again and keeps the last `keep` entries of its record.
    #[must_use]
    pub fn new(seed: u64, keep: usize) -> Self {
        let mut world = World::new(Scenario::generate(seed), seed, keep);
        let outcome = drive(&mut world, seed);
        Self { world, outcome }
    }

    /// Returns the record, one line per entry, with packets in the format of `strandline-wire`'s printer.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.world.trace().lines()
    }

    /// Writes the packets among the kept entries as a capture for Wireshark.
    ///
    /// # Errors
    /// Fails if writing to `out` fails.
    pub fn write_pcapng(&self, out: impl Write) -> io::Result<()> {
        self.world.trace().write_pcapng(out)
    }
}

/// True if a seed's scenario has a feature of this name, such as "insider".
#[must_use]
pub fn has_feature(seed: u64, name: &str) -> bool {
    Scenario::generate(seed).features.contains(&name)
}

/// Returns a readable description of a seed's scenario.
#[must_use]
pub fn describe(seed: u64) -> String {
    format!("{:#?}", Scenario::generate(seed))
}
