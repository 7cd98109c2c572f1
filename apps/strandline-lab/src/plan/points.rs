//! The runs of a plan, in their order.

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use super::template::{Variables, fill};
use super::{Measure, Plan, Series, Value};
use crate::netem::topology::Side;
use crate::network::NetworkPlan;

/// Addresses of the left and of the right side in every kind of network.
pub const ADDRESSES: [&str; 2] = ["10.0.1.1", "10.0.1.2"];

/// Seconds that a run takes in addition to the measurement.
const OVERHEAD: f64 = 0.6;

/// Which set of runs is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// All runs.
    Whole,
    /// A reduced set that takes minutes.
    Short,
}

/// A run of one series at one value of the sweep.
#[derive(Debug, Clone)]
pub struct Run {
    /// Index of the series in the plan.
    pub series: usize,
    /// Index of the sweep's value, if there is a sweep.
    pub value: Option<usize>,
    /// Repetition, from 1.
    pub repetition: u32,
    /// The value of `{seed}`.
    pub seed: u64,
    /// The network, with its variables filled in.
    pub network: NetworkPlan,
    /// Command on the right side.
    pub server: Option<String>,
    /// Command on the left side.
    pub client: String,
    /// The variables of the commands, also used in the measures' expressions.
    pub variables: Variables,
    /// Approximate duration in seconds.
    pub takes: f64,
    /// Seconds after which the run is aborted.
    pub timeout: f64,
    /// Equal for runs that measure the same thing in the same way: a hash of all relevant fields above and of
    /// the measures.
    pub key: String,
}

impl Plan {
    /// Returns the runs of a mode: all series in turn for each value of the sweep, and all of this for each
    /// repetition. Empty if the plan waits for something.
    ///
    /// # Errors
    /// If a variable has no value.
    pub fn runs(&self, mode: Mode) -> Result<Vec<Run>, String> {
        let short = mode == Mode::Short;
        if self.waits_for.is_some() || (short && self.short.skip) {
            return Ok(Vec::new());
        }
        let repetitions = self.short.repetitions.filter(|_| short).unwrap_or(self.runs.repetitions);
        let mut runs = Vec::new();
        for repetition in 1..=repetitions {
            for value in self.values(mode) {
                for (place, series) in self.series.iter().enumerate() {
                    let left_out =
                        self.short.series.as_ref().is_some_and(|some| !some.contains(&series.name));
                    let here = series.values.as_ref().zip(self.value(value));
                    let elsewhere = here.is_some_and(|(values, value)| !values.contains(value));
                    if !(elsewhere || short && left_out) {
                        runs.push(self.run(mode, place, series, value, repetition)?);
                    }
                }
            }
        }
        Ok(runs)
    }

    /// Returns the indexes of the sweep's values in a mode; one `None` without values.
    fn values(&self, mode: Mode) -> Vec<Option<usize>> {
        let all = self.sweep.as_ref().map(|sweep| sweep.values.as_slice()).unwrap_or_default();
        let chosen = self.short.values.as_ref().filter(|_| mode == Mode::Short);
        let places = all.iter().enumerate();
        let places = places.filter(|(_, value)| chosen.is_none_or(|chosen| chosen.contains(value)));
        if all.is_empty() { vec![None] } else { places.map(|(place, _)| Some(place)).collect() }
    }

    /// Returns the sweep's value at an index.
    #[must_use]
    pub fn value(&self, place: Option<usize>) -> Option<&Value> {
        self.sweep.as_ref()?.values.get(place?)
    }

    fn run(
        &self,
        mode: Mode,
        place: usize,
        series: &Series,
        value: Option<usize>,
        repetition: u32,
    ) -> Result<Run, String> {
        let short = mode == Mode::Short;
        let seconds = self.short.seconds.filter(|_| short).unwrap_or(self.runs.seconds);
        let seed = self.runs.seed + u64::from(repetition) - 1;
        let mut variables = self.variables(seconds, seed, value);
        for (name, own) in &series.variables {
            variables.insert(name.clone(), own.to_string());
        }
        let mut network = self.network.with(&series.network);
        for settings in
            [&mut network.link, &mut network.to_right, &mut network.to_left, &mut network.schedule]
        {
            *settings = fill(settings, &variables)?;
        }
        if let Some(every) = &mut network.loss_every {
            *every = fill(every, &variables)?;
        }
        variables.insert("link".to_owned(), network.link.clone());
        let server = series.server.as_ref().map(|server| fill(server, &variables)).transpose()?;
        let client = fill(&series.client, &variables)?;
        let takes = self.short.takes.filter(|_| short).or(self.runs.takes).unwrap_or(seconds + OVERHEAD);
        let timeout = self.runs.timeout.unwrap_or(takes + 60.0);
        let mut run = Run {
            series: place,
            value,
            repetition,
            seed,
            network,
            server,
            client,
            variables,
            takes,
            timeout,
            key: String::new(),
        };
        run.key = self.key(series, &run);
        Ok(run)
    }

    fn variables(&self, seconds: f64, seed: u64, value: Option<usize>) -> Variables {
        let mut variables = Variables::new();
        let mut set = |name: &str, value: String| variables.insert(name.to_owned(), value);
        set("from", ADDRESSES[0].to_owned());
        set("to", ADDRESSES[1].to_owned());
        for path in 2..=usize::from(self.network.paths) {
            set(&format!("from.{path}"), Side::Left.ipv4(path).to_string());
            set(&format!("to.{path}"), Side::Right.ipv4(path).to_string());
        }
        set("seconds", format!("{seconds}"));
        set("whole-seconds", format!("{:.0}", seconds.ceil().max(1.0)));
        set("seed", seed.to_string());
        if let (Some(sweep), Some(value)) = (&self.sweep, self.value(value)) {
            set(&sweep.variable, value.to_string());
        }
        variables
    }

    fn key(&self, series: &Series, run: &Run) -> String {
        let named = |measure: &Measure| self.expression(series, measure).map(|it| json!([measure.name, it]));
        let measures: Vec<_> = self.measures.iter().filter_map(named).collect();
        let sweep = self.sweep.as_ref().map(|sweep| (&sweep.variable, &sweep.each, &sweep.value));
        let Run { network, server, client, variables, repetition, seed, .. } = run;
        let programs = json!([server, series.server_stays, client]);
        let place = json!([series.name, sweep, self.value(run.value)]);
        // The limits that decide about validity are part of the key, because stored runs are not judged again.
        let limits = json!([self.runs.failed_max, self.runs.rate_min]);
        short_hash(
            &json!([network, programs, place, measures, variables, repetition, seed, limits]).to_string(),
        )
    }
}

/// Returns the first 16 digits of a text's SHA-256.
#[must_use]
pub fn short_hash(text: &str) -> String {
    first_digits(&Sha256::digest(text.as_bytes()))
}

/// Returns the first 16 digits of a hash.
#[must_use]
pub fn first_digits(digest: &[u8]) -> String {
    digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}
