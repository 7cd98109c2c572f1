//! What processes and the kernel hold.

use std::fs;
use std::pin::pin;
use std::time::Duration;

use anyhow::{Context, Result};
use tokio::time::{MissedTickBehavior, interval};

/// How often buffers are looked at while something is done.
const LOOK: Duration = Duration::from_millis(20);

/// Bytes of a process's own memory (heap, stacks): what is neither a file's nor shared.
pub(crate) fn of_process(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
    kilobytes(&text, "RssAnon:").with_context(|| format!("no RssAnon in {path}"))
}

/// Bytes of the kernel's slab caches, where sockets are, and of pages in socket buffers.
pub(crate) fn of_kernel() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("reading /proc/meminfo")?;
    let slab = kilobytes(&text, "Slab:").context("no Slab in /proc/meminfo")?;
    Ok(slab + socket_buffers())
}

/// Bytes of the pages in TCP's socket buffers, those of all network namespaces.
pub(crate) fn socket_buffers() -> u64 {
    let sockets = fs::read_to_string("/proc/net/sockstat").unwrap_or_default();
    buffer_pages(&sockets) * 4096
}

/// What a work gives, and the most that TCP's socket buffers had meanwhile, as far as looks at them tell.
pub(crate) async fn socket_buffers_during<T>(work: impl Future<Output = T>) -> (T, u64) {
    most_during(work, socket_buffers).await
}

async fn most_during<T>(work: impl Future<Output = T>, look: impl Fn() -> u64) -> (T, u64) {
    let mut work = pin!(work);
    let mut most = look();
    let mut looks = interval(LOOK);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let done = tokio::select! {
            done = &mut work => Some(done),
            _ = looks.tick() => None,
        };
        most = most.max(look());
        if let Some(done) = done {
            return (done, most);
        }
    }
}

/// Slab caches by name, in bytes.
pub(crate) type SlabCaches = Vec<(String, u64)>;

/// The kernel's slab caches.
///
/// # Errors
/// They may not be read, with what to do about it.
pub(crate) fn slab_caches() -> Result<SlabCaches, String> {
    let path = "/proc/slabinfo";
    let text = fs::read_to_string(path)
        .map_err(|error| format!("{path} can't be read ({error}): only root may, so run it with sudo"))?;
    Ok(text.lines().skip(2).filter_map(slab_cache).collect())
}

/// One line of slabinfo: the name, and what its slabs take.
fn slab_cache(line: &str) -> Option<(String, u64)> {
    let mut words = line.split_whitespace();
    let name = words.next()?.to_owned();
    let pages_each: u64 = words.nth(4)?.parse().ok()?;
    let slabs: u64 = words.skip_while(|word| *word != "slabdata").nth(2)?.parse().ok()?;
    Some((name, slabs * pages_each * 4096))
}

/// The number behind a name, in bytes.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Pages in the buffers of TCP and UDP: `TCP: inuse 5 orphan 0 tw 0 alloc 7 mem 3`, `UDP: inuse 4 mem 2`.
fn buffer_pages(text: &str) -> u64 {
    let lines = text.lines().filter(|line| line.starts_with("TCP:") || line.starts_with("UDP:"));
    let pages = lines.filter_map(|line| {
        let mut words = line.split_whitespace().skip_while(|word| *word != "mem");
        words.nth(1)?.parse::<u64>().ok()
    });
    pages.sum()
}

#[cfg(test)]
mod tests;
