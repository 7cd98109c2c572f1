//! A share of a core: a control group with a quota of processor time, of version 1 or 2. It is removed with
//! this value, together with the processes in it; that of a killed run is removed by the next run.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::left;

/// Period of the quota in microseconds: a process that has used it up waits for less than this.
const PERIOD_US: f64 = 10_000.0;
/// Minimum quota in microseconds that the kernel accepts.
const QUOTA_US_MIN: f64 = 1_000.0;
/// Prefix of a group's name, followed by the number of the process that created it.
const NAME: &str = "strandline-bench-";
/// Number of attempts to remove a group: a killed process leaves it within a moment.
const LEAVING_TRIES: u32 = 50;
const LEAVING: Duration = Duration::from_millis(20);

/// The location of control groups with a controller for processor time.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Groups {
    One(PathBuf),
    Two(PathBuf),
}

#[derive(Debug)]
pub(crate) struct Share {
    folder: PathBuf,
}

impl Share {
    /// Creates a group with a share of one core, 0.1 to 1.
    pub(crate) fn new(share: f64) -> Result<Self> {
        let groups = find(Path::new("/sys/fs/cgroup"));
        let groups = groups.context("a share of a core needs a control group with the controller cpu")?;
        let (Groups::One(root) | Groups::Two(root)) = &groups;
        remove_left(root, left::is_running);
        let folder = root.join(format!("{NAME}{}", std::process::id()));
        fs::create_dir_all(&folder).with_context(|| format!("a control group {folder:?}: are you root?"))?;
        let this = Self { folder };
        for (file, value) in limits(&groups, share)? {
            let path = this.folder.join(file);
            fs::write(&path, value).with_context(|| format!("{path:?}"))?;
        }
        Ok(this)
    }

    /// Returns the prefix of a command that runs in the group, with the usual scheduling whatever the benchmark itself
    /// has: a kernel with group scheduling of realtime programs lets none enter the group.
    pub(crate) fn prefix(&self) -> [String; 7] {
        let processes = self.folder.join("cgroup.procs").to_string_lossy().into_owned();
        let enter = ["chrt", "-o", "0", "sh", "-c", "echo $$ > \"$0\" && exec \"$@\"", &processes];
        enter.map(str::to_owned)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        remove(&self.folder);
    }
}

/// Kills the processes in a group, and removes it.
fn remove(folder: &Path) {
    for _ in 0..LEAVING_TRIES {
        if fs::remove_dir(folder).is_ok() {
            return;
        }
        left::end(&fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default());
        #[allow(clippy::disallowed_methods, reason = "nobody tells when a control group is empty")]
        std::thread::sleep(LEAVING);
    }
    eprintln!("bench: the control group {folder:?} can't be removed");
}

/// Removes the groups of killed runs.
fn remove_left(root: &Path, is_running: impl Fn(u32) -> bool) {
    let Ok(entries) = fs::read_dir(root) else { return };
    let names: Vec<String> =
        entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    for name in left::left(names.iter().map(String::as_str), NAME, is_running) {
        remove(&root.join(name));
    }
}

fn find(root: &Path) -> Option<Groups> {
    let one = root.join("cpu");
    if one.join("cpu.shares").exists() {
        return Some(Groups::One(one));
    }
    let children = fs::read_to_string(root.join("cgroup.subtree_control")).ok()?;
    children.split_whitespace().any(|name| name == "cpu").then(|| Groups::Two(root.to_owned()))
}

/// Returns the group's files, and the values to write to them.
fn limits(groups: &Groups, share: f64) -> Result<Vec<(&'static str, String)>> {
    let quota = (share * PERIOD_US).round();
    ensure!((QUOTA_US_MIN..=PERIOD_US).contains(&quota), "a share of a core is from 0.1 to 1, not {share}");
    Ok(match groups {
        Groups::One(_) => {
            vec![("cpu.cfs_period_us", PERIOD_US.to_string()), ("cpu.cfs_quota_us", quota.to_string())]
        }
        Groups::Two(_) => vec![("cpu.max", format!("{quota} {PERIOD_US}"))],
    })
}

#[cfg(test)]
mod tests;
