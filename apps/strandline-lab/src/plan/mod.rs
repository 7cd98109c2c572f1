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
    /// Name of the plan's folder.
    #[serde(skip)]
    pub paper: String,
    /// Name of the plan's file without `.toml`.
    #[serde(skip)]
    pub name: String,
    /// The paper's name of it: `Figure 5`.
    pub figure: String,
    /// What is compared, briefly.
    pub title: String,
    /// Location in the paper.
    pub source: String,
    /// What the paper shows.
    pub shows: String,
    /// Differences from the paper's experiment, and their reasons.
    pub differs: String,
    /// What has to be built before the plan can run; until then it is only listed.
    pub waits_for: Option<String>,
    /// The network between the two sides.
    pub network: NetworkPlan,
    /// Duration and number of runs.
    pub runs: Runs,
    /// Differences with `--short`.
    #[serde(default)]
    pub short: Short,
    /// The variable that changes from point to point.
    pub sweep: Option<Sweep>,
    /// The measures.
    #[serde(rename = "measure")]
    pub measures: Vec<Measure>,
    /// The compared series; their runs alternate in this order.
    pub series: Vec<Series>,
    /// The drawing.
    #[serde(rename = "draw")]
    pub drawing: Drawing,
    /// Results published in the paper.
    #[serde(default)]
    pub published: Vec<Published>,
    /// The claims that are checked.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// Duration and number of runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Runs {
    /// The value of `{seconds}` in commands.
    pub seconds: f64,
    /// Number of runs of each point.
    pub repetitions: u32,
    /// Approximate duration of a run in seconds, for estimates of the remaining time. Default: `seconds` plus
    /// one.
    pub takes: Option<f64>,
    /// Seconds after which a run is aborted. Default: `takes` plus 60.
    pub timeout: Option<f64>,
    /// Largest share of failed operations of a valid run, if a program reports them (`failed` and `completed`).
    #[serde(default)]
    pub failed_max: f64,
    /// Smallest share of the requested rate that a valid open-loop run reaches (`rate_asked` and
    /// `rate_reached`).
    #[serde(default = "rate_min")]
    pub rate_min: f64,
    /// The value of `{seed}` in the first repetition; it increases by one with each repetition.
    #[serde(default = "one")]
    pub seed: u64,
}

fn rate_min() -> f64 {
    0.95
}

fn one() -> u64 {
    1
}

/// Overrides for `--short`; everything else is as in the whole set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Short {
    /// See [`Runs::seconds`].
    pub seconds: Option<f64>,
    /// See [`Runs::repetitions`].
    pub repetitions: Option<u32>,
    /// See [`Runs::takes`].
    pub takes: Option<f64>,
    /// The values of the sweep that are measured.
    pub values: Option<Vec<Value>>,
    /// The series that are measured.
    pub series: Option<Vec<String>>,
    /// Whether the plan is omitted from the short set.
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
    /// Returns the value as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Integer(number) => Some(*number as f64),
            Self::Number(number) => Some(*number),
            Self::Text(text) => text.parse().ok(),
        }
    }
}

/// The variable that changes from point to point.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Sweep {
    /// Name of the variable, or of the quantity on the axis.
    pub variable: String,
    /// The values, each of which is a run.
    #[serde(default)]
    pub values: Vec<Value>,
    /// Alternative to values: the path in the client's JSON of an array with a point in each element.
    pub each: Option<String>,
    /// With `each`: the expression for the value of a point, over its element.
    pub value: Option<String>,
    /// Positions of the values on the axis, if they differ from the values.
    pub x: Option<Vec<f64>>,
    /// Texts shown instead of the values.
    pub labels: Option<Vec<String>>,
    /// Label of the axis.
    pub label: String,
    /// Its unit.
    #[serde(default)]
    pub unit: String,
    /// Scale of the axis.
    #[serde(default)]
    pub scale: Scale,
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Linear.
    #[default]
    Linear,
    /// Logarithmic.
    Log,
}

/// Whether larger or smaller values of a measure are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// Larger is better.
    More,
    /// Smaller is better.
    Less,
}

/// A measured quantity.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Measure {
    /// Name in series, claims and published numbers.
    pub name: String,
    /// Label of the axis.
    pub label: String,
    /// Its unit.
    pub unit: String,
    /// Expression over the programs' output.
    pub value: String,
    /// Which direction is better, for the reader.
    pub better: Option<Better>,
    /// Scale of the axis.
    #[serde(default)]
    pub scale: Scale,
}

/// The protocol that a series measures; determines its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// This project's SCTP.
    Sctp,
    /// Another implementation of SCTP.
    OtherSctp,
    /// The kernel's TCP.
    Tcp,
    /// The kernel's UDP.
    Udp,
}

/// A compared series.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Series {
    /// Name in claims.
    pub name: String,
    /// Text in the legend.
    pub title: String,
    /// The transport of its messages.
    pub transport: Transport,
    /// Command on the right side, started first. May contain variables.
    pub server: Option<String>,
    /// Command on the left side; the run ends with it. May contain variables.
    pub client: String,
    /// The server runs until it receives SIGTERM, and its output is not read.
    #[serde(default)]
    pub server_stays: bool,
    /// Overrides of the network.
    #[serde(default)]
    pub network: NetworkChange,
    /// Variables of the series.
    #[serde(default)]
    pub variables: BTreeMap<String, Value>,
    /// Expressions that replace those of measures, by name.
    #[serde(default)]
    pub measures: BTreeMap<String, String>,
    /// Measures that the series doesn't have.
    #[serde(default)]
    pub without: Vec<String>,
    /// The values of the sweep at which the series is measured, if not all.
    pub values: Option<Vec<Value>>,
}

/// The drawing of a plan.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Drawing {
    /// Lines over the sweep, or bars.
    pub kind: DrawingKind,
    /// The measures that get a picture each; all if empty.
    #[serde(default)]
    pub measures: Vec<String>,
    /// The baseline: the series that others are compared with as multiples.
    pub baseline: Option<String>,
    /// Relative difference from the baseline that still counts as equal.
    #[serde(default = "same")]
    pub same: f64,
}

fn same() -> f64 {
    0.02
}

/// The kind of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DrawingKind {
    /// A line for each series over the sweep.
    Lines,
    /// Bars: a group for each value of the sweep, or a bar for each series.
    Bars,
}

/// Numbers published in a paper.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Published {
    /// Name in claims.
    pub name: String,
    /// Text in the legend.
    pub title: String,
    /// The transport of the messages.
    pub transport: Transport,
    /// Location in the paper, if it differs from the plan's `source`.
    pub source: Option<String>,
    /// Measures that the paper doesn't print: computed from its numbers as described in `source`.
    #[serde(default)]
    pub computed: Vec<String>,
    /// For each measure a number, or with a sweep a number for each value: `{ "64K" = 72, "128K" = 134 }`.
    pub values: BTreeMap<String, PublishedValue>,
}

/// One or several published numbers.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
pub enum PublishedValue {
    /// A number without a sweep, or for all its values.
    One(f64),
    /// Numbers by value of the sweep.
    Each(BTreeMap<String, f64>),
}

/// A claim that is checked against the measurements.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Claim {
    /// The statement of the paper, paraphrased.
    pub says: String,
    /// An expression over medians: `{strandline.throughput@10} / {tcp.throughput@10}`.
    pub value: String,
    /// Smallest value for which the claim holds.
    pub min: Option<f64>,
    /// Largest value for which the claim holds.
    pub max: Option<f64>,
    /// The direction in which a value outside the limits is better than the paper's.
    pub better: Option<Better>,
    /// Unit of the value, for the reader.
    #[serde(default)]
    pub unit: String,
    /// Whether this is a claim of this project rather than of the paper. Such claims are counted separately.
    #[serde(default)]
    pub own: bool,
}

impl Published {
    /// Returns the note beside a measure: whether the paper printed the number, or it was computed from printed
    /// ones.
    #[must_use]
    pub fn title_for(&self, measure: &Measure) -> String {
        let computed = if self.computed.contains(&measure.name) { ", computed" } else { "" };
        format!("{}{computed}", self.title)
    }
}

impl Plan {
    /// Returns the measure with a name.
    #[must_use]
    pub fn measure(&self, name: &str) -> Option<&Measure> {
        self.measures.iter().find(|measure| measure.name == name)
    }

    /// Returns the series with a name.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }

    /// Returns the expression of a measure for a series; `None` if the series doesn't have it.
    #[must_use]
    pub fn expression<'a>(&'a self, series: &'a Series, measure: &'a Measure) -> Option<&'a str> {
        let without = series.without.contains(&measure.name);
        (!without).then(|| series.measures.get(&measure.name).unwrap_or(&measure.value).as_str())
    }

    /// Returns the drawn measures in order.
    pub fn drawn(&self) -> impl Iterator<Item = &Measure> {
        let all = &self.drawing.measures;
        self.measures.iter().filter(move |measure| all.is_empty() || all.contains(&measure.name))
    }
}
