//! What is measured: bench/rows.toml, read and checked.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// All of bench/rows.toml.
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
    /// The receiver's or server's command line; without one the sender does everything.
    pub(crate) receiver: Option<String>,
    pub(crate) sender: String,
    /// Something that runs in the sender's namespace meanwhile, for `beside-seconds`; its report has a "rate".
    pub(crate) beside: Option<String>,
    /// What the receiver listens on: "udp:PORT", "tcp:PORT" or "raw", or several of these.
    pub(crate) ready: Option<String>,
    /// False: the receiver goes on for ever and is ended.
    #[serde(default = "yes")]
    pub(crate) ends: bool,
    #[serde(default)]
    pub(crate) report: ReportKind,
    /// Where in the sender's JSON a metric stands: all of them for reports of the kind "pointers", more than the usual
    /// ones for others.
    #[serde(default)]
    pub(crate) metrics: BTreeMap<Metric, Pointer>,
    pub(crate) link: Option<Link>,
    pub(crate) cores: Option<[String; 2]>,
}

fn yes() -> bool {
    true
}

/// Where a metric stands in JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Pointer {
    /// JSON pointers (RFC 6901) to numbers that add up to it.
    pub(crate) at: Vec<String>,
    /// What makes the metric's unit of theirs.
    #[serde(default = "one")]
    pub(crate) times: f64,
}

fn one() -> f64 {
    1.0
}

/// How the JSON of a subject is read.
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
    /// As the subject's `metrics` say.
    Pointers,
}

/// The state of the veth pair.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Link {
    /// As the kernel makes it: bursts pass whole.
    #[default]
    Default,
    /// TSO, GSO and GRO off. (UDP's GSO stays on: it has a switch of its own.)
    OffloadsOff,
    /// The device can't segment UDP: the kernel does it before the device; GRO is off.
    GsoInSoftware,
    /// Not the veth pair: both sides are in one namespace, over its loopback.
    Loopback,
}

/// What is compared.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) what: String,
    /// They take turns in this order.
    pub(crate) subjects: Vec<String>,
    /// For the command lines.
    #[serde(default)]
    pub(crate) values: BTreeMap<String, Value>,
    #[serde(default)]
    pub(crate) link: Link,
    /// Where the sender and the receiver run.
    #[serde(default = "apart")]
    pub(crate) cores: [String; 2],
    /// Seconds of each measurement, if they are not free to choose.
    pub(crate) seconds: Option<f64>,
    /// Seconds that a measurement may take beyond those: connecting, registering, draining queues.
    #[serde(default = "grace")]
    pub(crate) grace: f64,
    /// The receiver may use so much of its core, 0.1 to 1: for what has to get more than the sender could send otherwise.
    pub(crate) share: Option<f64>,
    /// No more rounds than this, where a measurement takes minutes.
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

/// A bound on what comes out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Check {
    pub(crate) of: Option<String>,
    pub(crate) metric: Metric,
    /// The best of these is what counts.
    #[serde(default)]
    pub(crate) against: Vec<String>,
    /// What of theirs it is compared with, if not the same metric; without `against`, what of the subject's own run.
    #[serde(default, rename = "against-metric")]
    pub(crate) against_metric: Option<Metric>,
    pub(crate) must: Option<f64>,
    pub(crate) aim: Option<f64>,
}

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Metric {
    /// Mbit/s of user data that the receiver got.
    Goodput,
    /// Messages (or writes' worth of bytes) that the receiver got in a second.
    Messages,
    /// Processor seconds for each GB (10^9 bytes), both sides together.
    Cpu,
    /// Of the sender alone.
    SenderCpu,
    /// Of the receiver alone.
    ReceiverCpu,
    /// Microseconds of the set-up alone.
    Setup,
    /// Microseconds of set-up and first echo.
    Transaction,
    /// Microseconds of the set-up of one more while one alone was held, in the same run.
    SetupOfOne,
    /// Microseconds of a transaction on one of those held.
    HeldTransaction,
    /// Microseconds of a transaction while one association was held, in the same run.
    HeldTransactionOfOne,
    /// Set-ups a second, many at a time.
    SetupRate,
    /// Bytes of memory of each idle association or connection: the process's and the kernel's share.
    Memory,
    /// The process's share of it.
    ProcessMemory,
    /// The kernel's share of it.
    KernelMemory,
    /// Packets a second of what ran beside.
    Beside,
    /// INITs that the server counted meanwhile, answered or not.
    InitsArrived,
    /// How often somebody waited for a shard's lock that another used.
    LockWaits,
    /// Packets that came to the wrong shard and were handed to another.
    HandedOver,
    /// Operations a second that succeeded.
    Operations,
    /// Microseconds of processor time that the server took for each operation.
    ServerCpu,
    /// Cores that the server used.
    Cores,
    /// Operations a second with too many offered, divided by the most that ever succeeded: where that is least.
    GoodputKept,
    /// Operations a second that came to a good end while as many were offered as succeed with some under way at a time.
    OfferedOnce,
    /// [`Self::OfferedOnce`] with twice as many.
    OfferedTwice,
    OfferedFourTimes,
    OfferedTenTimes,
    /// The share of those that were begun which came to their end: where that is least.
    Completed,
    /// Milliseconds that 99 of 100 of those took at most which were served: where that is most.
    P99,
    /// Microseconds from a request to its answer.
    Response,
    /// Microseconds from a request to its answer with 1,000 held, in the same run.
    ResponseOfThousand,
    /// How many times as long it takes when all come at once.
    Storm,
}

impl Metric {
    pub(crate) const ALL: [Self; 31] = [
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
    ];

    /// True if less is better.
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

    /// True if it is counted, and doesn't vary with how fast the machine is.
    pub(crate) fn is_count(self) -> bool {
        matches!(self, Self::InitsArrived | Self::LockWaits | Self::HandedOver)
    }

    /// True if there may be nothing of it, or less than there was before.
    pub(crate) fn may_be_nothing(self) -> bool {
        matches!(self, Self::KernelMemory | Self::LockWaits | Self::HandedOver)
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
        }
    }
}

impl Plan {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut plan: Self = toml::from_str(text).context("bench/rows.toml")?;
        for row in &mut plan.rows {
            // Now, before subjects are left out: another first one would be judged in its place.
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

    /// What serde can't see.
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
                for name in check.of.iter().chain(&check.against) {
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
        if let Some(theirs) = self.against_metric {
            ensure!(theirs != self.metric, "the same metric is what is compared anyway");
            let alike = theirs.less_is_better() == self.metric.less_is_better();
            ensure!(alike, "of {:?} and {theirs:?} not the same is better: more, or less", self.metric);
        }
        Ok(())
    }
}

/// What a measurement fills in: `to` is the receiver's address, `server` its process, `root` the repository, `scratch` a folder
/// that is empty at first, and `tls` one with certificates.
pub(crate) const FILLED: [&str; 8] =
    ["to", "seconds", "whole-seconds", "beside-seconds", "server", "root", "scratch", "tls"];

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
