//! The plan of the measurements: bench/rows.toml, parsed and checked.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The content of bench/rows.toml.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Plan {
    #[serde(rename = "subject")]
    pub(crate) subjects: BTreeMap<String, Subject>,
    #[serde(rename = "row")]
    pub(crate) rows: Vec<Row>,
}

/// A program that takes part.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Subject {
    pub(crate) title: String,
    /// Command line of the receiver or server; without one the sender does everything.
    pub(crate) receiver: Option<String>,
    pub(crate) sender: String,
    /// Background load in the sender's namespace for `beside-seconds`; its report has a "rate".
    pub(crate) beside: Option<String>,
    /// Addresses on which the receiver listens when it is ready: "udp:PORT", "tcp:PORT" or "raw", or several
    /// of these.
    pub(crate) ready: Option<String>,
    /// Whether the receiver ends by itself; otherwise it is killed.
    #[serde(default = "yes")]
    pub(crate) ends: bool,
    #[serde(default)]
    pub(crate) report: ReportKind,
    /// Positions of metrics in the sender's JSON: all metrics for reports of the kind "pointers", additional
    /// ones for others.
    #[serde(default)]
    pub(crate) metrics: BTreeMap<Metric, Pointer>,
    pub(crate) link: Option<Link>,
    pub(crate) cores: Option<[String; 2]>,
}

fn yes() -> bool {
    true
}

/// The position of a metric in JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pointer {
    /// JSON pointers (RFC 6901) to numbers whose sum is the metric.
    pub(crate) at: Vec<String>,
    /// JSON pointers to numbers by whose sum the first sum is divided; none if it stands for itself.
    #[serde(default)]
    pub(crate) per: Vec<String>,
    /// Factor that converts the result to the metric's unit.
    #[serde(default = "one")]
    pub(crate) times: f64,
}

fn one() -> f64 {
    1.0
}

/// The format of a subject's JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReportKind {
    /// A line from each side: seconds, bytes, messages, cpu_user_seconds, cpu_system_seconds.
    #[default]
    Plain,
    /// `strandline perf client`: both sides in one report, with iperf3's names.
    Perf,
    /// iperf3 itself.
    Iperf3,
    /// The client's setup_us and transaction_us.
    Transactions,
    /// The subject's `metrics`.
    Pointers,
}

/// The state of the veth pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Link {
    /// The kernel's default: bursts pass whole.
    #[default]
    Default,
    /// TSO, GSO and GRO off. (UDP's GSO stays on: it has a separate switch.)
    OffloadsOff,
    /// TSO, GSO, GRO and the device's segmentation of UDP off: single packets cross the link, whatever the protocol.
    AllOffloadsOff,
    /// The device can't segment UDP, so the kernel does it before the device; GRO is off.
    GsoInSoftware,
    /// Both sides in one namespace, over its loopback interface instead of the veth pair.
    Loopback,
}

/// A comparison of subjects.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) what: String,
    /// Subjects, which take turns in this order.
    pub(crate) subjects: Vec<String>,
    /// Values for the command lines.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) link: Link,
    /// Cores of the sender and the receiver.
    #[serde(default = "apart")]
    pub(crate) cores: [String; 2],
    /// Seconds of each measurement, if they are fixed.
    pub(crate) seconds: Option<f64>,
    /// Seconds that a measurement may take beyond those: connecting, registering, draining queues.
    #[serde(default = "grace")]
    pub(crate) grace: f64,
    /// Share of its core that the receiver may use, 0.1 to 1: for a receiver that must be offered more than
    /// the sender could otherwise send.
    pub(crate) share: Option<f64>,
    /// Maximum number of rounds, where a measurement takes minutes.
    pub(crate) rounds_max: Option<u16>,
    #[serde(default)]
    pub(crate) checks: Vec<Check>,
}

fn grace() -> f64 {
    30.0
}

fn apart() -> [String; 2] {
    ["0".to_owned(), "1".to_owned()]
}

/// A bound on a result.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    pub(crate) of: Option<String>,
    pub(crate) metric: Metric,
    /// References, of which the best counts.
    #[serde(default)]
    pub(crate) against: Vec<String>,
    /// Metric of the references to compare with, if it isn't the same metric; without `against`, metric of
    /// the subject's own run.
    #[serde(default, rename = "against-metric")]
    pub(crate) against_metric: Option<Metric>,
    pub(crate) must: Option<f64>,
    pub(crate) aim: Option<f64>,
    /// Other references that also satisfy `must`, if their bound is met.
    pub(crate) or: Option<Alternative>,
}

/// A bound that takes the place of another one: the limit of a socket, which nothing that uses it can pass.
#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Alternative {
    /// References, of which the best counts.
    pub(crate) against: Vec<String>,
    pub(crate) must: f64,
}

/// A measured quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// Mbit/s of user data that the receiver got.
    Goodput,
    /// Messages (or writes' worth of bytes) per second that the receiver got.
    Messages,
    /// Processor seconds for each GB (10^9 bytes), both sides together.
    Cpu,
    /// Processor seconds for each GB of the sender alone.
    SenderCpu,
    /// Processor seconds for each GB of the receiver alone.
    ReceiverCpu,
    /// Microseconds of the set-up alone.
    Setup,
    /// Microseconds of set-up and first echo.
    Transaction,
    /// Microseconds of a set-up while only one association was held, in the same run.
    SetupOfOne,
    /// Microseconds of a transaction on one of the held associations.
    HeldTransaction,
    /// Microseconds of a transaction while one association was held, in the same run.
    HeldTransactionOfOne,
    /// Set-ups per second, many at a time.
    SetupRate,
    /// Bytes of memory of each idle association or connection: the process's and the kernel's share.
    Memory,
    /// The process's share of the memory.
    ProcessMemory,
    /// The kernel's share of the memory.
    KernelMemory,
    /// Packets per second of the background load.
    Beside,
    /// INITs that the server counted meanwhile, answered or not.
    InitsArrived,
    /// Number of waits for a shard's lock that another task held.
    LockWaits,
    /// Packets that arrived at the wrong shard and were handed to another.
    HandedOver,
    /// Successful operations per second.
    Operations,
    /// Microseconds of the server's processor time for each operation.
    ServerCpu,
    /// Cores that the server used.
    Cores,
    /// Successful operations per second under overload, divided by the highest rate of success: the minimum.
    GoodputKept,
    /// Successful operations per second at an offered rate equal to the rate that succeeds in a closed loop.
    OfferedOnce,
    /// [`Self::OfferedOnce`] with twice as many.
    OfferedTwice,
    OfferedFourTimes,
    OfferedTenTimes,
    /// Share of the begun operations that completed: the minimum.
    Completed,
    /// The 99th percentile of the times of served operations in milliseconds: the maximum.
    P99,
    /// Microseconds from a request to its answer.
    Response,
    /// Microseconds from a request to its answer with 1,000 held, in the same run.
    ResponseOfThousand,
    /// Ratio of the time when all reconnect at once to the time when some do at a time.
    Storm,
    /// Share of the data chunks that were sent again.
    Resent,
}

impl Metric {
    pub(crate) const ALL: [Self; 32] = [
        Self::Goodput,
        Self::Messages,
        Self::Cpu,
        Self::SenderCpu,
        Self::ReceiverCpu,
        Self::Setup,
        Self::Transaction,
        Self::SetupOfOne,
        Self::HeldTransaction,
        Self::HeldTransactionOfOne,
        Self::SetupRate,
        Self::Memory,
        Self::ProcessMemory,
        Self::KernelMemory,
        Self::Beside,
        Self::InitsArrived,
        Self::LockWaits,
        Self::HandedOver,
        Self::Operations,
        Self::ServerCpu,
        Self::Cores,
        Self::GoodputKept,
        Self::OfferedOnce,
        Self::OfferedTwice,
        Self::OfferedFourTimes,
        Self::OfferedTenTimes,
        Self::Completed,
        Self::P99,
        Self::Response,
        Self::ResponseOfThousand,
        Self::Storm,
        Self::Resent,
    ];

    /// Returns whether less is better.
    pub(crate) fn less_is_better(self) -> bool {
        !matches!(
            self,
            Self::Goodput
                | Self::Messages
                | Self::SetupRate
                | Self::Beside
                | Self::InitsArrived
                | Self::Operations
                | Self::GoodputKept
                | Self::OfferedOnce
                | Self::OfferedTwice
                | Self::OfferedFourTimes
                | Self::OfferedTenTimes
                | Self::Completed
        )
    }

    /// Returns whether the metric is a count that doesn't vary with the machine's speed.
    pub(crate) fn is_count(self) -> bool {
        matches!(self, Self::InitsArrived | Self::LockWaits | Self::HandedOver)
    }

    /// Returns whether the metric may be zero or negative.
    pub(crate) fn may_be_nothing(self) -> bool {
        matches!(
            self,
            Self::KernelMemory | Self::LockWaits | Self::HandedOver | Self::Resent | Self::GoodputKept
        ) || self.is_offered_rate()
    }

    /// Returns whether this is the number of operations per second that succeed at an offered rate. A server may
    /// serve nothing in time under overload.
    pub(crate) fn is_offered_rate(self) -> bool {
        matches!(
            self,
            Self::OfferedOnce | Self::OfferedTwice | Self::OfferedFourTimes | Self::OfferedTenTimes
        )
    }

    pub(crate) fn unit(self) -> &'static str {
        match self {
            Self::Goodput => "Mbit/s",
            Self::Messages => "messages/s",
            Self::Cpu => "CPU-s/GB",
            Self::SenderCpu => "sender CPU-s/GB",
            Self::ReceiverCpu => "receiver CPU-s/GB",
            Self::Setup => "us set-up",
            Self::Transaction => "us set-up + echo",
            Self::SetupOfOne => "us set-up, 1 held",
            Self::HeldTransaction => "us transaction",
            Self::HeldTransactionOfOne => "us transaction, 1 held",
            Self::SetupRate => "set-ups/s",
            Self::Memory => "bytes",
            Self::ProcessMemory => "bytes in the process",
            Self::KernelMemory => "bytes in the kernel",
            Self::Beside => "packets/s beside",
            Self::InitsArrived => "INITs arrived",
            Self::LockWaits => "lock waits",
            Self::HandedOver => "packets handed over",
            Self::Operations => "operations/s",
            Self::ServerCpu => "us of the server each",
            Self::Cores => "cores of the server",
            Self::GoodputKept => "of the best",
            Self::OfferedOnce => "operations/s of as many",
            Self::OfferedTwice => "of twice as many",
            Self::OfferedFourTimes => "of 4 times as many",
            Self::OfferedTenTimes => "of 10 times as many",
            Self::Completed => "of those begun",
            Self::P99 => "ms p99",
            Self::Response => "us response",
            Self::ResponseOfThousand => "us response, 1,000 held",
            Self::Storm => "times as long",
            Self::Resent => "of the chunks sent again",
        }
    }
}

impl Plan {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut plan: Self = toml::from_str(text).context("bench/rows.toml")?;
        for row in &mut plan.rows {
            // Done before subjects are left out, or a different first one would be judged in its place.
            for check in row.checks.iter_mut().filter(|check| check.of.is_none()) {
                check.of = row.subjects.first().cloned();
            }
        }
        plan.check().context("bench/rows.toml")?;
        Ok(plan)
    }

    pub(crate) fn subject(&self, name: &str) -> Result<&Subject> {
        self.subjects.get(name).with_context(|| format!("there is no subject {name:?}"))
    }

    /// Checks rules that serde can't express.
    fn check(&self) -> Result<()> {
        for row in &self.rows {
            let same = self.rows.iter().filter(|other| other.name == row.name).count();
            ensure!(same == 1, "{} rows are called {:?}", same, row.name);
            for name in &row.subjects {
                let subject = self.subject(name)?;
                for command in [Some(&subject.sender), subject.receiver.as_ref(), subject.beside.as_ref()] {
                    let command = command.map(String::as_str).unwrap_or_default();
                    self::fill(command, &row.values, &FILLED.map(|name| (name, "")))
                        .with_context(|| format!("row {:?}, subject {name:?}", row.name))?;
                }
                ensure!(
                    subject.report != ReportKind::Pointers || !subject.metrics.is_empty(),
                    "subject {name:?}: \"pointers\" need metrics"
                );
            }
            for check in &row.checks {
                let or = check.or.iter().flat_map(|or| &or.against);
                for name in check.of.iter().chain(&check.against).chain(or) {
                    ensure!(
                        row.subjects.contains(name),
                        "row {:?} checks {name:?}, which isn't in it",
                        row.name
                    );
                }
                check.make_sense().with_context(|| format!("row {:?}", row.name))?;
            }
            ensure!(!row.subjects.is_empty(), "row {:?} is empty", row.name);
        }
        Ok(())
    }
}

impl Check {
    fn make_sense(&self) -> Result<()> {
        ensure!(self.must.is_some() || self.aim.is_some(), "a check without bound");
        if let Some(or) = &self.or {
            ensure!(
                self.must.is_some() && !self.against.is_empty(),
                "an alternative to nothing that must hold"
            );
            ensure!(!or.against.is_empty(), "an alternative without references");
        }
        if let Some(theirs) = self.against_metric {
            ensure!(theirs != self.metric, "the same metric is what is compared anyway");
            let alike = theirs.less_is_better() == self.metric.less_is_better();
            ensure!(alike, "of {:?} and {theirs:?} not the same is better: more, or less", self.metric);
        }
        Ok(())
    }
}

/// Values that a measurement fills in: `to` is the receiver's address, `server` its process, `root` the
/// repository, `scratch` a folder that is empty at first, `tls` one with certificates, and `site` one for web
/// servers.
pub(crate) const FILLED: [&str; 9] =
    ["to", "seconds", "whole-seconds", "beside-seconds", "server", "root", "scratch", "tls", "site"];

/// Replaces `{name}` by the row's value of that name, or by one of `more`.
pub(crate) fn fill(
    command: &str,
    values: &BTreeMap<String, Value>,
    more: &[(&str, &str)],
) -> Result<Vec<String>> {
    command.split_whitespace().map(|word| fill_word(word, values, more)).collect()
}

fn fill_word(word: &str, values: &BTreeMap<String, Value>, more: &[(&str, &str)]) -> Result<String> {
    let Some((before, rest)) = word.split_once('{') else { return Ok(word.to_owned()) };
    let (name, after) = rest.split_once('}').with_context(|| format!("{word:?} has no end"))?;
    let known = more.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    let own =
        || values.get(name).map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    let value = known.or_else(own).with_context(|| format!("{{{name}}} has no value"))?;
    Ok(format!("{before}{value}{}", fill_word(after, values, more)?))
}

#[cfg(test)]
mod tests;
