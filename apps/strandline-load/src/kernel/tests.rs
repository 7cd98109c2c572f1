#![allow(clippy::unwrap_used)]

use super::*;

/// A kernel of 6.18: slabinfo up to its second colon, and Slab of meminfo in KiB.
const BASE: (&str, u64) = (
    "\
TCP                   79    143   2368   13    8
UDP                   96    144   1344   12    4
tw_sock_TCP          112    176    256   16    1
request_sock_TCP      60    120    320   12    1
sock_inode_cache     243    323    832   19    4
skbuff_head_cache    426    528    256   16    1
filp                 882    882    192   21    1
dentry            485310 485919    192   21    1
lsm_file_cache      1147   1870     24  170    1
lsm_inode_cache   263470 337280     32  128    1
ep_head             1042   2304     16  256    1
eventpoll_epi        381    576    128   32    1
anon_vma_chain       891   1088     64   64    1
proc_inode_cache   13807  15272    696   23    4",
    645_920,
);

/// With 4,000 TCP connections, both ends of which are on this host and in epoll.
const HELD: (&str, u64) = (
    "\
TCP                 8060   8060   2368   13    8
UDP                   96    144   1344   12    4
tw_sock_TCP          112    176    256   16    1
request_sock_TCP      60    120    320   12    1
sock_inode_cache    8113   8113    832   19    4
skbuff_head_cache    426    528    256   16    1
filp                8820   8820    192   21    1
dentry            493227 493227    192   21    1
lsm_file_cache      9180   9180     24  170    1
lsm_inode_cache   271442 337280     32  128    1
ep_head             8704   8704     16  256    1
eventpoll_epi      16224  16224    128   32    1
anon_vma_chain      8768   8768     64   64    1
proc_inode_cache   13807  15272    696   23    4",
    677_680,
);

/// The caches after a program has looked at each of /proc/PID/fd.
const LISTED: (&str, u64) = (
    "\
TCP                 8060   8060   2368   13    8
UDP                   96    144   1344   12    4
tw_sock_TCP          112    176    256   16    1
request_sock_TCP      60    120    320   12    1
sock_inode_cache    8113   8113    832   19    4
skbuff_head_cache    426    528    256   16    1
filp                8820   8820    192   21    1
dentry            501228 501228    192   21    1
lsm_file_cache      9180   9180     24  170    1
lsm_inode_cache   279629 337280     32  128    1
ep_head             8704   8704     16  256    1
eventpoll_epi      16224  16224    128   32    1
anon_vma_chain      8768   8768     64   64    1
proc_inode_cache   21804  21804    696   23    4",
    683_976,
);

const ENDS: f64 = 8000.0;

fn look((slabs, slab_kb): (&str, u64), tcp: u64, udp: u64) -> Look {
    let caches = Ok(memory::slab_caches_in(slabs));
    Look { slab: slab_kb * 1024, buffers: SocketBuffers { tcp, udp }, caches }
}

/// A kernel that keeps epoll's smallest records with others of 64 bytes.
fn link(name: &str) -> Option<PathBuf> {
    match name {
        "eventpoll_pwq" | "anon_vma_chain" | "fs_cache" => Some(":A-0000064".into()),
        "eventpoll_epi" | "tcp_bind2_bucket" => Some(":A-0000128".into()),
        _ => None,
    }
}

fn items(now: (&str, u64)) -> Items {
    in_caches(&memory::slab_caches_in(now.0), &memory::slab_caches_in(BASE.0), link)
}

fn near(value: f64, expected: f64) {
    assert!((value / expected - 1.0).abs() < 0.02, "{value} is not {expected}");
}

#[test]
fn socket_memory_is_recognised_by_its_cache() {
    let each = items(HELD).each(ENDS);
    near(each.sock, 8.0 * 4096.0 / 13.0);
    // Inode and dentry, file, and a security module's data for file and inode.
    near(each.file, 4.0 * 4096.0 / 19.0 + 2.0 * 4096.0 / 21.0 + 4096.0 / 170.0 + 32.0);
    // One entry and one place in a wait queue, although the records of ports are in the same cache as
    // entries.
    near(each.epoll, 16.0 + 128.0 + 64.0);
    assert_eq!(each.buffers, 0.0);
}

#[test]
fn descriptor_listings_do_not_count_as_sockets() {
    let dentries = |text: (&str, u64)| {
        memory::slab_caches_in(text.0).iter().find(|cache| cache.name == "dentry").unwrap().objects
    };
    assert!(dentries(LISTED) > dentries(HELD) + 8000);
    assert_eq!(items(LISTED), items(HELD));
    let base = look(BASE, 0, 0);
    let growth = |now| look(now, 0, 0).growth(&base, |buffers| buffers.tcp);
    let (held, listed) = (growth(HELD), growth(LISTED));
    assert_eq!(held.share, listed.share);
    // It is reported separately, and nothing is lost: 6,296 KiB.
    assert_eq!(listed.others.unwrap() - held.others.unwrap(), 6296.0 * 1024.0);
    near(held.share + held.others.unwrap(), 31_760.0 * 1024.0);
    assert!(listed.caches["proc_inode_cache"] > 5.0e6 && !held.caches.contains_key("proc_inode_cache"));
}

#[test]
fn buffer_pages_are_those_of_relevant_sockets() {
    let (base, now) = (look(BASE, 40_960, 8192), look(HELD, 81_920, 4096));
    let (tcp, udp) = (now.growth(&base, |buffers| buffers.tcp), now.growth(&base, |buffers| buffers.udp));
    assert_eq!((tcp.items.unwrap().buffers, udp.items.unwrap().buffers), (40_960.0, -4096.0));
    assert_eq!(tcp.share - udp.share, 45_056.0);
    assert_eq!(tcp.share, tcp.items.unwrap().sum());
    // Pages are in no slab cache.
    assert_eq!(tcp.others, udp.others);
}

#[test]
fn closed_foreign_sockets_do_not_go_negative() {
    let (base, now) = (look(HELD, 0, 0), look(BASE, 0, 0));
    let growth = now.growth(&base, |buffers| buffers.udp);
    let items = growth.items.unwrap();
    assert!(growth.share < 0.0 && items.sock < 0.0, "{growth:?}");
    // Fewer sockets than before have no share in caches that others use as well.
    assert_eq!(items.epoll, 0.0);
    assert_eq!(now.of_tcp(&base), 0);
}

#[test]
fn without_privilege_all_growth_counts() {
    let (base, mut now) = (look(BASE, 0, 0), look(HELD, 4096, 0));
    now.caches = Err("it requires root".to_owned());
    let growth = now.growth(&base, |buffers| buffers.tcp);
    assert_eq!(growth.share, 31_760.0 * 1024.0 + 4096.0);
    assert_eq!(growth.missing.as_deref(), Some("it requires root"));
    assert!(growth.items.is_none() && growth.others.is_none() && growth.caches.is_empty());
}
