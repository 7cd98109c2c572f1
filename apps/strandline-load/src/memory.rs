//! Memory of processes and of the kernel.

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{MissedTickBehavior, interval};

/// Interval at which buffers are sampled while an operation runs.
const LOOK: Duration = Duration::from_millis(20);

/// Returns the bytes of a process's private memory (heap, stacks): neither file-backed nor shared.
pub(crate) fn of_process(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    kilobytes(&text, "RssAnon:").with_context(|| format!("no RssAnon in {path}"))
}

/// Returns the bytes of all slab caches of the kernel.
pub(crate) fn slab() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    kilobytes(&text, "Slab:").context("no Slab in /proc/meminfo")
}

/// Bytes of the pages in socket buffers of all network namespaces.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SocketBuffers {
    pub(crate) tcp: u64,
    pub(crate) udp: u64,
}

impl SocketBuffers {
    /// Returns the maximum of both.
    fn most(self, other: Self) -> Self {
        Self { tcp: self.tcp.max(other.tcp), udp: self.udp.max(other.udp) }
    }
}

/// Returns the current socket buffers.
pub(crate) fn socket_buffers() -> SocketBuffers {
    let sockets = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    let bytes = |name| buffer_pages(&sockets, name).unwrap_or(0) * 4096;
    SocketBuffers { tcp: bytes("TCP:"), udp: bytes("UDP:") }
}

/// Returns the result of `work`, and the maximum of the socket buffers sampled meanwhile.
pub(crate) async fn socket_buffers_during<T>(work: impl Future<Output = T>) -> (T, SocketBuffers) {
    most_during(work, socket_buffers).await
}

async fn most_during<T>(
    work: impl Future<Output = T>,
    look: impl Fn() -> SocketBuffers,
) -> (T, SocketBuffers) {
    let mut work = pin!(work);
    let mut most = look();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let done = tokio::select! {
            done = &mut work => Some(done),
            _ = looks.tick() => None,
        };
        most = most.most(look());
        if let Some(done) = done {
            return (done, most);
        }
    }
}

/// A slab cache of the kernel.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SlabCache {
    pub(crate) name: String,
    /// Objects in use; slabs have room for more.
    pub(crate) objects: u64,
    /// Bytes that an object takes in its slab.
    pub(crate) object_bytes: f64,
}

/// Returns the kernel's slab caches.
///
/// # Errors
/// If they may not be read; the error says what to do about it.
pub(crate) fn slab_caches() -> Result<Vec<SlabCache>, String> {
    let path = "/proc/slabinfo";
    let text = fs::read_to_string(path)
        .map_err(|error| format!("reading {path} failed ({error}): it requires root, so use sudo"))?;
    Ok(slab_caches_in(&text))
}

/// Parses a text in the format of slabinfo.
pub(crate) fn slab_caches_in(text: &str) -> Vec<SlabCache> {
    text.lines().filter_map(slab_cache).collect()
}

/// Parses one line of slabinfo: `TCP 105 169 2368 13 8 : tunables ...`, which are the name, objects in use
/// and in total, bytes of an object, objects per slab, and pages per slab.
fn slab_cache(line: &str) -> Option<SlabCache> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let objects = words.next()?.parse().ok()?;
    let in_slab: f64 = words.nth(2)?.parse().ok().filter(|number| *number > 0.0)?;
    let pages: f64 = words.next()?.parse().ok()?;
    Some(SlabCache { name, objects, object_bytes: pages * 4096.0 / in_slab })
}

/// Returns the name under which the kernel keeps the cache of this name, if it has merged it with caches of
/// equal objects.
pub(crate) fn slab_link(name: &str) -> Option<PathBuf> {
    fs::read_link(Path::new("/sys/kernel/slab").join(name)).ok()
}

/// Returns the number after a name, converted from kilobytes to bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Returns the pages in the buffers of a protocol's sockets: `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 3`,
/// `UDP: inuse 4 mem 2`.
fn buffer_pages(text: &str, protocol: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(protocol))?;
    line.split_whitespace().skip_while(|word| *word != "mem").nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests;
