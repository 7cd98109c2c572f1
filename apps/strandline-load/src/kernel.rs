//! The kernel's memory for sockets: their buffers, and the slab caches that belong to sockets. Growth caused
//! by other programs on this machine is reported separately.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::memory::{self, SlabCache, SocketBuffers};

/// The purpose of a part of the memory.
#[derive(Debug, Clone, Copy)]
enum Item {
    Sock,
    File,
    Epoll,
    Buffers,
}

/// Returns the purpose of a cache that only sockets use. All its growth counts.
fn of_sockets(cache: &str) -> Option<Item> {
    match cache {
        // The protocol's record of a socket, of one in set-up, and of one in TIME-WAIT.
        "TCP" | "TCPv6" | "UDP" | "UDPv6" | "RAW" | "RAWv6" => Some(Item::Sock),
        _ if cache.starts_with("request_sock_") || cache.starts_with("tw_sock_") => Some(Item::Sock),
        "sock_inode_cache" => Some(Item::File),
        // Heads of the packets in a socket's buffers.
        _ if cache.starts_with("skbuff_") => Some(Item::Buffers),
        _ => None,
    }
}

/// Caches from which a socket takes one object, and that other users share. Opening or listing files, such as
/// /proc/PID/fd, can create as many dentries as there are sockets. Growth counts up to one object for each
/// socket.
const ONE_EACH: [(&str, Item); 7] = [
    ("dentry", Item::File),
    ("filp", Item::File),
    // Data of a security module for a file and for its inode.
    ("lsm_file_cache", Item::File),
    ("lsm_inode_cache", Item::File),
    // A descriptor in epoll: its list, its entry, and its entry in the socket's wait queue.
    ("ep_head", Item::Epoll),
    ("eventpoll_epi", Item::Epoll),
    ("eventpoll_pwq", Item::Epoll),
];

/// Each socket has one object in this cache, so it counts the new sockets.
const INODES: &str = "sock_inode_cache";

/// The kernel's memory at a moment, of all programs.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// Bytes of all slab caches.
    slab: u64,
    pub(crate) buffers: SocketBuffers,
    /// The slab caches, or the reason why they are unknown.
    caches: Result<Vec<SlabCache>, String>,
}

impl Default for Look {
    fn default() -> Self {
        Self { slab: 0, buffers: SocketBuffers::default(), caches: Ok(Vec::new()) }
    }
}

impl Look {
    pub(crate) fn now() -> Result<Self> {
        let (slab, buffers) = (memory::slab()?, memory::socket_buffers());
        Ok(Self { slab, buffers, caches: memory::slab_caches() })
    }

    /// Returns the bytes of TCP sockets created since `base`.
    pub(crate) fn of_tcp(&self, base: &Self) -> u64 {
        self.growth(base, |buffers| buffers.tcp).share.max(0.0) as u64
    }

    /// Returns the growth since `base`, with the buffer pages of the relevant sockets.
    pub(crate) fn growth(&self, base: &Self, pages: impl Fn(SocketBuffers) -> u64) -> Growth {
        let pages = difference(pages(self.buffers), pages(base.buffers));
        let slab = difference(self.slab, base.slab);
        let (now, base) = match (&self.caches, &base.caches) {
            (Ok(now), Ok(base)) => (now, base),
            // All growth counts then, whoever caused it.
            (Err(why), _) | (_, Err(why)) => {
                return Growth { share: slab + pages, missing: Some(why.clone()), ..Growth::default() };
            }
        };
        let mut items = in_caches(now, base, memory::slab_link);
        let others = slab - items.sum();
        items.buffers += pages;
        let grown = now.iter().map(|cache| (cache.name.clone(), grown(cache, base) * cache.object_bytes));
        let share = items.sum();
        Growth {
            share,
            others: Some(others),
            items: Some(items),
            caches: grown.filter(|(_, bytes)| *bytes > 0.0).collect(),
            missing: None,
        }
    }
}

/// Growth in bytes; negative if there is less now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Growth {
    /// Growth of socket buffers and of the slab caches that belong to sockets; of all slab caches if they
    /// can't be told apart for lack of permission.
    pub(crate) share: f64,
    /// Growth of other slab caches, if known.
    pub(crate) others: Option<f64>,
    /// The share by purpose.
    pub(crate) items: Option<Items>,
    /// Slab caches that grew, whoever used them.
    pub(crate) caches: BTreeMap<String, f64>,
    /// Reason why caches are unknown, and the remedy.
    pub(crate) missing: Option<String>,
}

/// Bytes of sockets by purpose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Items {
    /// The protocol's record.
    pub(crate) sock: f64,
    /// The file structures: dentry, file, inode.
    pub(crate) file: f64,
    /// The epoll structures.
    pub(crate) epoll: f64,
    /// Socket buffers: heads of packets, and pages of their data.
    pub(crate) buffers: f64,
}

impl Items {
    pub(crate) fn sum(&self) -> f64 {
        self.sock + self.file + self.epoll + self.buffers
    }

    /// Returns the bytes of one of `number` sockets.
    pub(crate) fn each(&self, number: f64) -> Self {
        let Self { sock, file, epoll, buffers } = self;
        Self { sock: sock / number, file: file / number, epoll: epoll / number, buffers: buffers / number }
    }

    fn add(&mut self, item: Item, bytes: f64) {
        *match item {
            Item::Sock => &mut self.sock,
            Item::File => &mut self.file,
            Item::Epoll => &mut self.epoll,
            Item::Buffers => &mut self.buffers,
        } += bytes;
    }
}

fn difference(now: u64, base: u64) -> f64 {
    now as f64 - base as f64
}

/// Returns the number of objects by which a cache grew.
fn grown(cache: &SlabCache, base: &[SlabCache]) -> f64 {
    let before = base.iter().find(|before| before.name == cache.name).map_or(0, |before| before.objects);
    difference(cache.objects, before)
}

/// Returns the part of the caches' growth that belongs to sockets. The kernel merges caches of equal objects:
/// `link` returns the cache in which it keeps a name.
fn in_caches(now: &[SlabCache], base: &[SlabCache], link: impl Fn(&str) -> Option<PathBuf>) -> Items {
    let mut items = Items::default();
    for cache in now {
        if let Some(item) = of_sockets(&cache.name) {
            items.add(item, grown(cache, base) * cache.object_bytes);
        }
    }
    let sockets = now.iter().find(|cache| cache.name == INODES).map_or(0.0, |inodes| grown(inodes, base));
    let mut left = BTreeMap::new();
    for (name, item) in ONE_EACH {
        let same = |cache: &&SlabCache| link(name).is_some_and(|place| link(&cache.name) == Some(place));
        let named = now.iter().find(|cache| cache.name == name);
        let Some(cache) = named.or_else(|| now.iter().find(same)) else { continue };
        let left = left.entry(cache.name.as_str()).or_insert_with(|| grown(cache, base));
        let taken = left.min(sockets).max(0.0);
        *left -= taken;
        items.add(item, taken * cache.object_bytes);
    }
    items
}

#[cfg(test)]
mod tests;
