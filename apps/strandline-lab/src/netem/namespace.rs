//! The two network namespaces: creates, enters and removes them, and cleans up those left behind by killed
//! processes.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::command::run;
use super::topology::Side;

/// The folder of running networks: a folder for each, with a file that its owner holds locked.
const STATE: &str = "/run/strandline/netem";

/// The two namespaces of one emulated network. They are removed when this value is dropped.
#[derive(Debug)]
pub struct Namespaces {
    name: String,
    folder: PathBuf,
    /// Locked for the lifetime of this process, however it ends.
    _lock: File,
}

/// Returns a namespace's name, as `ip netns` shows it.
#[must_use]
pub fn namespace_name(network: &str, side: Side) -> String {
    format!("strandline-{network}-{}", side.name())
}

/// Returns the path of the control socket of a network's owner.
#[must_use]
pub fn control_socket(network: &str) -> PathBuf {
    Path::new(STATE).join(network).join("control")
}

/// Fails, with advice, unless this process may create namespaces.
///
/// # Errors
/// If the user is not root.
pub fn require_root() -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        bail!(
            "network namespaces and TUN devices require root: use sudo, or in a container with \
             --cap-add NET_ADMIN --cap-add SYS_ADMIN --device /dev/net/tun"
        );
    }
    Ok(())
}

impl Namespaces {
    /// Creates the namespaces, after removing those left behind by earlier processes.
    ///
    /// # Errors
    /// If the user is not root, the name is in use or invalid, or `ip` failed.
    pub fn create(name: &str) -> Result<Self> {
        require_root()?;
        let good = name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
        if name.is_empty() || name.len() > 32 || !good {
            bail!("--name '{name}': use 1 to 32 characters of a-z, 0-9 and -");
        }
        fs::create_dir_all(STATE).with_context(|| format!("creating {STATE}"))?;
        // One process at a time, so that none removes as stale what another is just creating.
        let all = File::create(Path::new(STATE).with_extension("lock"))?;
        all.lock()?;
        remove_stale()?;
        let folder = Path::new(STATE).join(name);
        if folder.exists() {
            bail!(
                "a network '{name}' exists already: see 'strandline netem status', or choose another --name"
            );
        }
        fs::create_dir(&folder)?;
        let lock = File::create(folder.join("lock"))?;
        lock.lock()?;
        let namespaces = Self { name: name.to_owned(), folder, _lock: lock };
        for side in Side::BOTH {
            let namespace = namespaces.namespace(side);
            run("ip", &["netns", "add", &namespace], "").with_context(|| {
                format!(
                    "creating a network namespace (if '{namespace}' exists already: ip netns del {namespace})"
                )
            })?;
        }
        Ok(namespaces)
    }

    /// Returns the network's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the name of a side's namespace.
    #[must_use]
    pub fn namespace(&self, side: Side) -> String {
        namespace_name(&self.name, side)
    }

    /// Runs a closure on a thread that has entered a side's namespace. Sockets that it opens stay in that
    /// namespace.
    ///
    /// # Errors
    /// If the namespace can't be entered, or the closure failed.
    pub fn enter<T: Send>(&self, side: Side, inside: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        let path = Path::new("/run/netns").join(self.namespace(side));
        let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .context("entering the network namespace")?;
                inside()
            });
            thread.join().map_err(|_| anyhow!("the thread in the network namespace panicked"))?
        })
    }

    /// Ends the processes in the namespaces and removes them.
    pub fn remove(&self) {
        remove(&self.name, &self.folder);
    }
}

impl Drop for Namespaces {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Returns the recorded networks, and whether the owner of each is alive.
///
/// # Errors
/// If the records can't be read.
pub fn networks() -> io::Result<Vec<(String, bool)>> {
    let entries = match fs::read_dir(STATE) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        let lives = match File::open(entry.path().join("lock")) {
            Ok(lock) => matches!(lock.try_lock(), Err(TryLockError::WouldBlock)),
            Err(_) => false,
        };
        found.push((entry.file_name().to_string_lossy().into_owned(), lives));
    }
    found.sort();
    Ok(found)
}

/// Waits until a network is gone.
#[derive(Debug)]
pub struct WaitForEnd {
    /// The owner holds it locked until everything is removed. `None` if there is no such network.
    lock: Option<File>,
}

impl WaitForEnd {
    /// Must be created before the network is asked to end.
    #[must_use]
    pub fn of(name: &str) -> Self {
        Self { lock: File::open(Path::new(STATE).join(name).join("lock")).ok() }
    }

    /// Waits until the network is gone.
    ///
    /// # Errors
    /// If the file can't be locked.
    pub fn wait(self) -> io::Result<()> {
        self.lock.map_or(Ok(()), |lock| lock.lock())
    }
}

/// Removes the networks of processes that were killed.
fn remove_stale() -> Result<()> {
    for (name, lives) in networks()? {
        if !lives {
            remove(&name, &Path::new(STATE).join(&name));
        }
    }
    Ok(())
}

/// Best effort: what can't be removed is found again next time.
fn remove(name: &str, folder: &Path) {
    for side in Side::BOTH {
        let namespace = namespace_name(name, side);
        if !Path::new("/run/netns").join(&namespace).exists() {
            continue;
        }
        for pid in processes(&namespace) {
            let _ = kill_process(pid, Signal::KILL);
        }
        if run("ip", &["netns", "del", &namespace], "").is_err() {
            return;
        }
    }
    let _ = fs::remove_dir_all(folder);
}

/// Returns the processes in a namespace.
#[must_use]
pub fn processes(namespace: &str) -> Vec<Pid> {
    let Ok(output) = run("ip", &["netns", "pids", namespace], "") else { return Vec::new() };
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| Pid::from_raw(line.trim().parse().ok()?)).collect()
}
