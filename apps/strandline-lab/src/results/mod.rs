//! What was measured: a line of JSON for each run, in RESULTS/PAPER/NAME.jsonl, never rewritten.

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

/// The longest file of results.
const BYTES_MAX: u64 = 1 << 30;

/// Where and with what it was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The processor's name.
    pub processor: String,
    /// How many of them programs may use.
    pub cores: usize,
    /// Memory of the machine.
    pub memory_bytes: u64,
    /// The kernel.
    pub kernel: String,
    /// Version of this program.
    pub version: String,
    /// The commit that it was built from; empty if that is not known.
    #[serde(default)]
    pub commit: String,
    /// The first digits of the SHA-256 of its file: equal for what was measured with the same program. Empty in results
    /// of versions that did not note it.
    #[serde(default)]
    pub build: String,
}

/// A point of a run: most have one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The sweep's value, as text.
    pub value: Option<String>,
    /// What was measured, by measure.
    pub measured: BTreeMap<String, f64>,
}

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The run's key; see [`crate::plan::Run`].
    pub key: String,
    /// Name of the series.
    pub series: String,
    /// The sweep's value, as text.
    pub value: Option<String>,
    /// From 1.
    pub repetition: u32,
    /// Of everything random.
    pub seed: u64,
    /// Which set it was measured for.
    pub mode: Mode,
    /// Whether it counts.
    pub valid: bool,
    /// Why not.
    pub invalid_because: Vec<String>,
    /// What was measured. Empty if a program failed.
    pub points: Vec<Point>,
    /// When it began, in seconds since 1970.
    pub began: u64,
    /// How long it took.
    pub took_seconds: f64,
    /// What was between the two sides.
    pub network: NetworkPlan,
    /// The command on the left.
    pub client: String,
    /// The command on the right.
    pub server: Option<String>,
    /// Hash of the plan's file at that time.
    pub plan: String,
    /// Where it was measured.
    pub machine: Machine,
    /// What the client printed, without intervals.
    pub client_report: Value,
    /// What the server printed, without intervals.
    pub server_report: Option<Value>,
    /// What the emulator reported.
    pub netem_report: Option<Value>,
}

/// All that was measured for a plan so far.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    records: Vec<Record>,
    /// Lines that can't be read, such as the last one of a process that was killed.
    unreadable: usize,
}

impl Results {
    /// Those of a plan, below a folder.
    ///
    /// # Errors
    /// The file is there and can't be read.
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

    /// In the order in which they were measured.
    #[must_use]
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Lines of the file that make no sense.
    #[must_use]
    pub fn unreadable(&self) -> usize {
        self.unreadable
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The file, to add to.
    fn open(&self) -> Result<File> {
        let told = || format!("writing {}", self.path.display());
        if let Some(folder) = self.path.parent() {
            fs::create_dir_all(folder).with_context(told)?;
        }
        File::options().create(true).append(true).open(&self.path).with_context(told)
    }

    /// Tries whether there can be more of them, before anything is measured.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn check(&self) -> Result<()> {
        self.open().map(drop)
    }

    /// Whether a run with this key was done, and counts; if a build is given, whether that was with this one.
    #[must_use]
    pub fn has(&self, key: &str, build: Option<&str>) -> bool {
        let counts =
            |record: &&Record| record.valid && build.is_none_or(|build| record.machine.build == build);
        self.standing(key).iter().any(counts)
    }

    /// Of the tries of a run those that still say something: of the build that tried it last, the newest that counts, and
    /// those that don't count since the one that counted before it. What an earlier build measured is replaced even if all
    /// that came after it is not valid: it tells nothing of the later one.
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

    /// Adds one, in memory and at the end of the file.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn add(&mut self, record: Record) -> Result<()> {
        let told = || format!("writing {}", self.path.display());
        let mut line = serde_json::to_string(&record)?;
        line.push('\n');
        let mut file = self.open()?;
        if !ends_with_line(&self.path).with_context(told)? {
            // A process was killed while it wrote: what it left is a line of its own.
            line.insert(0, '\n');
        }
        // In one go: either all of it is there, or a piece that can't be read and is not counted.
        file.write_all(line.as_bytes()).with_context(told)?;
        self.records.push(record);
        Ok(())
    }
}

/// Whether a file is empty or ends with the end of a line.
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
    /// This one, and this program, which was built from a commit.
    ///
    /// # Errors
    /// The program's own file can't be read.
    pub fn this(commit: &str) -> Result<Self> {
        let build =
            build().context("reading this program's own file, to tell results of different builds apart")?;
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

    /// Version, commit and build, for people.
    #[must_use]
    pub fn program(&self) -> String {
        let Self { version, commit, build, .. } = self;
        let commit = if commit.is_empty() { String::new() } else { format!(", commit {commit}") };
        let build = if build.is_empty() { String::new() } else { format!(", build {build}") };
        format!("strandline {version}{commit}{build}")
    }
}

/// Which program this is: the first digits of its file's hash.
fn build() -> std::io::Result<String> {
    let mut hash = Sha256::new();
    // The file that runs, even if another one has its name by now.
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

/// A field of one of the kernel's tables with colons.
fn field(file: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn memory_bytes() -> Option<u64> {
    let kib: u64 = field("/proc/meminfo", "MemTotal")?.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024)
}
