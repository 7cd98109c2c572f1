//! What the kernel holds for sockets: their buffers, and of its slab caches those that belong to sockets. Whatever else grows
//! there meanwhile, because others work on this machine too, is told apart.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Result;
use serde::Serialize;

use crate::memory::{self, SlabCache, SocketBuffers};

/// What a part of it is for.
#[derive(Debug, Clone, Copy)]
enum Item {
    Sock,
    File,
    Epoll,
    Buffers,
}

/// Caches of which nobody but sockets takes, whoever's they are: all growth counts.
fn of_sockets(cache: &str) -> Option<Item> {
    match cache {
        // The protocol's record of a socket, of one that is being set up, and of one that is in TIME-WAIT.
        "TCP" | "TCPv6" | "UDP" | "UDPv6" | "RAW" | "RAWv6" => Some(Item::Sock),
        _ if cache.starts_with("request_sock_") || cache.starts_with("tw_sock_") => Some(Item::Sock),
        "sock_inode_cache" => Some(Item::File),
        // Heads of the packets in its buffers.
        _ if cache.starts_with("skbuff_") => Some(Item::Buffers),
        _ => None,
    }
}

/// Caches that a socket takes one object of, and that others take from as well: whoever opens or looks at files, such as a
/// program that lists /proc/PID/fd, makes as many dentries as there are sockets. Growth counts up to one object for each
/// socket.
const ONE_EACH: [(&str, Item); 7] = [
    ("dentry", Item::File),
    ("filp", Item::File),
    // What a security module keeps with a file and with its inode.
    ("lsm_file_cache", Item::File),
    ("lsm_inode_cache", Item::File),
    // A descriptor in epoll: its list, its entry, its place in the socket's queue of those who wait.
    ("ep_head", Item::Epoll),
    ("eventpoll_epi", Item::Epoll),
    ("eventpoll_pwq", Item::Epoll),
];

/// Each socket has one object in it, so this tells how many sockets came.
const INODES: &str = "sock_inode_cache";

/// What the kernel holds at a moment, for everybody.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// All slab caches.
    slab: u64,
    pub(crate) buffers: SocketBuffers,
    /// Or why they are not known.
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

    /// Bytes of TCP's sockets that came since `base`.
    pub(crate) fn of_tcp(&self, base: &Self) -> u64 {
        self.growth(base, |buffers| buffers.tcp).share.max(0.0) as u64
    }

    /// What came since `base`; with the pages in buffers of those sockets that matter.
    pub(crate) fn growth(&self, base: &Self, pages: impl Fn(SocketBuffers) -> u64) -> Growth {
        let pages = difference(pages(self.buffers), pages(base.buffers));
        let slab = difference(self.slab, base.slab);
        let (now, base) = match (&self.caches, &base.caches) {
            (Ok(now), Ok(base)) => (now, base),
            // All growth then, whoever's it is.
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

/// Bytes that came, less than 0 if there are fewer now.
#[derive(Debug, Clone, Default)]
pub(crate) struct Growth {
    /// Of socket buffers, and of slab caches as far as they belong to sockets; where nobody may know which caches grew, of
    /// all.
    pub(crate) share: f64,
    /// Of slab caches beyond that, if it is known.
    pub(crate) others: Option<f64>,
    /// The share by what it is for.
    pub(crate) items: Option<Items>,
    /// Slab caches that grew, whoever took from them.
    pub(crate) caches: BTreeMap<String, f64>,
    /// Why caches are not known, and what to do about it.
    pub(crate) missing: Option<String>,
}

/// Bytes of sockets by what they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub(crate) struct Items {
    /// The record of the protocol.
    pub(crate) sock: f64,
    /// What makes it a file: dentry, file, inode.
    pub(crate) file: f64,
    /// What it takes to wait for it.
    pub(crate) epoll: f64,
    /// Socket buffers: heads of packets, and pages of what they hold.
    pub(crate) buffers: f64,
}

impl Items {
    pub(crate) fn sum(&self) -> f64 {
        self.sock + self.file + self.epoll + self.buffers
    }

    /// Of one of so many.
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

/// Objects by which a cache grew.
fn grown(cache: &SlabCache, base: &[SlabCache]) -> f64 {
    let before = base.iter().find(|before| before.name == cache.name).map_or(0, |before| before.objects);
    difference(cache.objects, before)
}

/// What of caches' growth belongs to sockets. The kernel keeps caches of equal objects as one: `link` tells in which it keeps
/// a name.
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
