//! Plans: experiments as data, experiments/PAPER/NAME.toml. docs/lab.md explains every key.

mod check;
pub mod expression;
mod files;
mod points;
pub mod template;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::network::{NetworkChange, NetworkPlan};

pub use files::{Found, Paper, find, hash, load, paper};
pub use points::{Mode, Run, first_digits};

/// An experiment: one figure or table of a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Plan {
    /// The folder that it is in.
    #[serde(skip)]
    pub paper: String,
    /// The file's name without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// As the paper calls it: `Figure 5`.
    pub figure: String,
    /// What is compared, in a few words.
    pub title: String,
    /// Where in the paper.
    pub source: String,
    /// What the paper shows there.
    pub shows: String,
    /// What differs from the paper here, and why.
    pub differs: String,
    /// What has to be built before it can be run: until then it is only listed.
    pub waits_for: Option<String>,
    /// What is between the two sides.
    pub network: NetworkPlan,
    /// How long and how often.
    pub runs: Runs,
    /// What is different with `--short`.
    #[serde(default)]
    pub short: Short,
    /// What changes from point to point.
    pub sweep: Option<Sweep>,
    /// What is measured.
    #[serde(rename = "measure")]
    pub measures: Vec<Measure>,
    /// What is compared; they take turns in this order.
    pub series: Vec<Series>,
    /// How it is drawn.
    #[serde(rename = "draw")]
    pub drawing: Drawing,
    /// What the paper measured.
    #[serde(default)]
    pub published: Vec<Published>,
    /// What counts as showing the same.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// How long and how often.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Runs {
    /// `{seconds}` of the commands.
    pub seconds: f64,
    /// How often each point is measured.
    pub repetitions: u32,
    /// Seconds that a run takes, about: for the time that is left. `seconds` and one more if not given.
    pub takes: Option<f64>,
    /// Seconds after which a run is given up: `takes` and 60 if not given.
    pub timeout: Option<f64>,
    /// Share of operations that may fail, as far as a program tells (`failed` and `completed`); more, and a run doesn't
    /// count.
    #[serde(default)]
    pub failed_max: f64,
    /// Share of the asked-for rate that an open loop has to reach (`rate_asked` and `rate_reached`).
    #[serde(default = "rate_min")]
    pub rate_min: f64,
    /// `{seed}` of the first repetition; each further one has the next.
    #[serde(default = "one")]
    pub seed: u64,
}

fn rate_min() -> f64 {
    0.95
}

fn one() -> u64 {
    1
}

/// What is different with `--short`; otherwise as in the whole set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Short {
    /// See [`Runs::seconds`].
    pub seconds: Option<f64>,
    /// See [`Runs::repetitions`].
    pub repetitions: Option<u32>,
    /// See [`Runs::takes`].
    pub takes: Option<f64>,
    /// Those of the sweep's values that are measured.
    pub values: Option<Vec<Value>>,
    /// Those of the series that are measured.
    pub series: Option<Vec<String>>,
    /// Left out of the short set altogether.
    #[serde(default)]
    pub skip: bool,
}

/// A variable's value: a number or text.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// A whole number.
    Integer(i64),
    /// A number.
    Number(f64),
    /// Text.
    Text(String),
}

impl core::fmt::Display for Value {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Integer(number) => write!(f, "{number}"),
            Self::Number(number) => write!(f, "{number}"),
            Self::Text(text) => f.write_str(text),
        }
    }
}

impl Value {
    /// As a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// What changes from point to point.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sweep {
    /// The name of the variable, or of what the axis shows.
    pub variable: String,
    /// Its values: a run for each.
    #[serde(default)]
    pub values: Vec<Value>,
    /// Instead of values: where in the client's JSON the array stands that has a point in each element.
    pub each: Option<String>,
    /// With `each`: the value of a point, from its element.
    pub value: Option<String>,
    /// Where on the axis the values are, if not where they say.
    pub x: Option<Vec<f64>>,
    /// What is written instead of the values.
    pub labels: Option<Vec<String>>,
    /// What the axis shows.
    pub label: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// How the axis runs.
    #[serde(default)]
    pub scale: Scale,
}

/// How an axis runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// By powers of ten.
    Log,
}

/// Whether much of a measure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// It is.
    More,
    /// Little is.
    Less,
}

/// What is measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Measure {
    /// What series, claims and published numbers call it.
    pub name: String,
    /// What the axis shows.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// An expression over what the programs printed.
    pub value: String,
    /// Which way is good, for the reader.
    pub better: Option<Better>,
    /// How the axis runs.
    #[serde(default)]
    pub scale: Scale,
}

/// What a series is about: gives it its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Ours.
    Sctp,
    /// Somebody else's SCTP.
    OtherSctp,
    /// The kernel's.
    Tcp,
    /// The kernel's.
    Udp,
}

/// One of those that are compared.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// What claims call it.
    pub name: String,
    /// What the legend says.
    pub title: String,
    /// What carries the messages.
    pub transport: Transport,
    /// The command on the right; it is started first. May have variables.
    pub server: Option<String>,
    /// The command on the left, whose end is the run's. May have variables.
    pub client: String,
    /// The server goes on until it gets SIGTERM, and what it prints is not read.
    #[serde(default)]
    pub server_stays: bool,
    /// What it changes of the network.
    #[serde(default)]
    pub network: NetworkChange,
    /// Variables of its own.
    #[serde(default)]
    pub variables: BTreeMap<String, Value>,
    /// Expressions of its own for measures, by name.
    #[serde(default)]
    pub measures: BTreeMap<String, String>,
    /// Measures that it doesn't have.
    #[serde(default)]
    pub without: Vec<String>,
    /// Those of the sweep's values at which it is measured, if not at all.
    pub values: Option<Vec<Value>>,
}

/// How it is drawn.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Drawing {
    /// Lines over the sweep, or bars.
    pub kind: DrawingKind,
    /// A picture for each of these measures; all if empty.
    #[serde(default)]
    pub measures: Vec<String>,
    /// The series that the others are given as multiples of.
    pub baseline: Option<String>,
    /// What is within this share of the baseline counts as good as it.
    #[serde(default = "same")]
    pub same: f64,
}

fn same() -> f64 {
    0.02
}

/// How it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawingKind {
    /// A line for each series over the sweep.
    Lines,
    /// Bars: a group for each value of the sweep, or a bar for each series.
    Bars,
}

/// Numbers that a paper printed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Published {
    /// What claims call it.
    pub name: String,
    /// What the legend says.
    pub title: String,
    /// What carried the messages.
    pub transport: Transport,
    /// Where in the paper, if not where the plan's `source` says.
    pub source: Option<String>,
    /// Measures whose numbers the paper doesn't print: they were computed from what it does, as `source` tells.
    #[serde(default)]
    pub computed: Vec<String>,
    /// For each measure a number, or with a sweep one for each value: `{ "64K" = 72, "128K" = 134 }`.
    pub values: BTreeMap<String, PublishedValue>,
}

/// A number of a paper, or some.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum PublishedValue {
    /// Without a sweep, or the same for all its values.
    One(f64),
    /// By value of the sweep.
    Each(BTreeMap<String, f64>),
}

/// What counts as showing the same.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// What the paper says, in our words.
    pub says: String,
    /// An expression over medians: `{strandline.throughput@10} / {tcp.throughput@10}`.
    pub value: String,
    /// At least this.
    pub min: Option<f64>,
    /// At most this.
    pub max: Option<f64>,
    /// Which way from what is expected is better than what the paper found.
    pub better: Option<Better>,
    /// Unit of the value, for the reader.
    #[serde(default)]
    pub unit: String,
    /// Not the paper's: what we say ourselves of what is measured. It is counted apart.
    #[serde(default)]
    pub own: bool,
}

impl Published {
    /// What it is called beside a measure: whether the paper printed that, or it follows from what the paper did.
    #[must_use]
    pub fn title_for(&self, measure: &Measure) -> String {
        let computed = if self.computed.contains(&measure.name) { ", computed" } else { "" };
        format!("{}{computed}", self.title)
    }
}

impl Plan {
    /// The measure of a name.
    #[must_use]
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.name == name)
    }

    /// The series of a name.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// The expression of a measure for a series, unless the series doesn't have it.
    #[must_use]
    pub fn expression<'a>(&'a self, series: &'a Series, measure: &'a Measure) -> Option<&'a str> {
        let without = series.without.contains(&measure.name);
        (!without).then(|| series.measures.get(&measure.name).unwrap_or(&measure.value).as_str())
    }

    /// The measures that are drawn, in order.
    pub fn drawn(&self) -> impl Iterator<Item = &Measure> {
        let all = &self.drawing.measures;
        self.measures.iter().filter(move |measure| all.is_empty() || all.contains(&measure.name))
    }
}
