//! Stored results: a line of JSON for each run, in RESULTS/PAPER/NAME.jsonl. Lines are only appended.

pub mod statistics;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::network::NetworkPlan;
use crate::plan::{Mode, Plan, first_digits};

/// Longest file of results, bytes.
const BYTES_MAX: u64 = 1 << 30;

/// The machine and the build that a run was measured with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// Number of processors that programs may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: String,
    /// Version of this program.
    pub version: String,
    /// The commit that it was built from; empty if unknown.
    #[serde(default)]
    pub commit: String,
    /// The first digits of the SHA-256 of the program's file, which identify the build. Empty in results of
    /// versions that did not record it.
    #[serde(default)]
    pub build: String,
}

/// A point of a run; most runs have one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The sweep's value, as text.
    pub value: Option<String>,
    /// The measured values, by measure.
    pub measured: BTreeMap<String, f64>,
}

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run's key; see [`crate::plan::Run`].
    pub key: String,
    /// Name of the series.
    pub series: String,
    /// The sweep's value, as text.
    pub value: Option<String>,
    /// Repetition, from 1.
    pub repetition: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// The set that it was measured for.
    pub mode: Mode,
    /// Whether the run is valid.
    pub valid: bool,
    /// The reasons why it is invalid.
    pub invalid_because: Vec<String>,
    /// The measured points. Empty if a program failed.
    pub points: Vec<Point>,
    /// Start time in seconds since 1970.
    pub began: u64,
    /// Duration in seconds.
    pub took_seconds: f64,
    /// The network between the two sides.
    pub network: NetworkPlan,
    /// Command on the left side.
    pub client: String,
    /// Command on the right side.
    pub server: Option<String>,
    /// Hash of the plan's file at the time of the run.
    pub plan: String,
    /// The machine and build.
    pub machine: Machine,
    /// The client's report, without intervals.
    pub client_report: Value,
    /// The server's report, without intervals.
    pub server_report: Option<Value>,
    /// The emulator's report.
    pub netem_report: Option<Value>,
}

/// All results of a plan.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    records: Vec<Record>,
    /// Number of lines that can't be parsed, such as the last line of a killed process.
    unreadable: usize,
}

impl Results {
    /// Loads the results of a plan from a folder.
    ///
    /// # Errors
    /// If the file exists and can't be read.
    pub fn load(folder: &Path, plan: &Plan) -> Result<Self> {
        let path = folder.join(&plan.paper).join(format!("{}.jsonl", plan.name));
        let text = match strandline_output::read_text(&path, BYTES_MAX) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(error).with_context(|| format!("reading {}", path.display())),
        };
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let records: Vec<Record> = lines.iter().filter_map(|line| serde_json::from_str(line).ok()).collect();
        let unreadable = lines.len() - records.len();
        Ok(Self { path, records, unreadable })
    }

    /// Returns the records in the order of measurement.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Returns the number of lines that can't be parsed.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// Returns the path of the file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file for appending.
    fn open(&self) -> Result<File> {
        let told = || format!("writing {}", self.path.display());
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).with_context(told)?;
        }
        File::options().create(true).append(true).open(&self.path).with_context(told)
    }

    /// Checks before any measurement that results can be appended.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn check(&self) -> Result<()> {
        self.open().map(drop)
    }

    /// Returns whether there is a valid run with this key; if a build is given, measured with this build.
    #[must_use]
    pub fn has(&self, key: &str, build: Option<&str>) -> bool {
        let counts =
            |record: &&Record| record.valid && build.is_none_or(|build| record.machine.build == build);
        self.standing(key).iter().any(counts)
    }

    /// Returns the relevant records of a run: of the build that tried it last, the newest valid record, and the
    /// invalid ones since the valid record before it. Results of an earlier build are superseded even if all
    /// later ones are invalid, because they say nothing about the later build.
    #[must_use]
    pub fn standing(&self, key: &str) -> Vec<&Record> {
        let tries: Vec<&Record> = self.records.iter().filter(|record| record.key == key).collect();
        let Some(last) = tries.last() else { return Vec::new() };
        let other = tries.iter().rposition(|record| record.machine.build != last.machine.build);
        let replaced = tries.iter().enumerate().filter(|(_, record)| record.valid).rev().nth(1);
        let after = |place: Option<usize>| place.map_or(0, |place| place + 1);
        let from = after(other).max(after(replaced.map(|(place, _)| place)));
        tries.get(from..).unwrap_or_default().to_vec()
    }

    /// Adds a record, in memory and at the end of the file.
    ///
    /// # Errors
    /// If the file can't be written.
    pub fn add(&mut self, record: Record) -> Result<()> {
        let told = || format!("writing {}", self.path.display());
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        let mut file = self.open()?;
        if !ends_with_line(&self.path).with_context(told)? {
            // A process was killed while writing: its fragment becomes a line of its own.
            line.insert(0, '\n');
        }
        // In one write: either the line is complete, or a fragment remains that can't be parsed and is not
        // counted.
        file.write_all(line.as_bytes()).with_context(told)?;
        self.records.push(record);
        Ok(())
    }
}

/// Returns whether a file is empty or ends with a line break.
fn ends_with_line(path: &Path) -> std::io::Result<bool> {
    use std::io::{Seek, SeekFrom};
    let mut file = File::open(path)?;
    if file.metadata()?.len() == 0 {
        return Ok(true);
    }
    file.seek(SeekFrom::End(-1))?;
    let mut last = [0];
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

impl Machine {
    /// Returns this machine and this program, built from a commit.
    ///
    /// # Errors
    /// If the program's own file can't be read.
    pub fn this(commit: &str) -> Result<Self> {
        let build = build().context("reading this program's executable, whose hash identifies the build")?;
        let uname = rustix::system::uname();
        Ok(Self {
            processor: field("/proc/cpuinfo", "model name").unwrap_or_else(|| "unknown".to_owned()),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_bytes: memory_bytes().unwrap_or_default(),
            kernel: uname.release().to_string_lossy().into_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: commit.to_owned(),
            build,
        })
    }

    /// Formats version, commit and build for people.
    #[must_use]
    pub fn program(&self) -> String {
        let Self { version, commit, build, .. } = self;
        let commit = if commit.is_empty() { String::new() } else { format!(", commit {commit}") };
        let build = if build.is_empty() { String::new() } else { format!(", build {build}") };
        format!("strandline {version}{commit}{build}")
    }
}

/// Returns the build: the first digits of the hash of the program's file.
fn build() -> std::io::Result<String> {
    let mut hash = Sha256::new();
    // The running file, even if its path now names another file.
    let mut file = File::open("/proc/self/exe")?;
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => hash.update(buffer.get(..count).unwrap_or_default()),
        }
    }
    Ok(first_digits(&hash.finalize()))
}

/// Returns a field of a kernel table in the form `name: value`.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let kib: u64 = field("/proc/meminfo", "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
