//! Purge settings of the heap, for a program whose global allocator is mimalloc (version 2); feature
//! `mimalloc`.
#![allow(unsafe_code)]

use libmimalloc_sys::{mi_option_eager_commit_delay, mi_option_get, mi_option_set, mi_option_t};

/// Option for the time in milliseconds that an unused page is kept. The bindings leave it out; it is the next
/// one.
const PURGE_DELAY: mi_option_t = mi_option_eager_commit_delay + 1;

/// Environment variables by which the user sets the delay.
const ORDERS: [&str; 2] = ["MIMALLOC_PURGE_DELAY", "MIMALLOC_RESET_DELAY"];

/// Makes mimalloc return unused pages to the system immediately, instead of at the next opportunity after 10
/// ms. An idle server gives the allocator no opportunity: after 30,000 associations had been busy, all within
/// a second, half of its memory was unused pages. A value set by the user (`MIMALLOC_PURGE_DELAY`) is kept.
///
/// Call it first in `main`: it does nothing if other threads are running already. Returns whether it changed
/// the setting.
pub fn give_back_at_once() -> bool {
    let ordered = ORDERS.iter().any(|name| std::env::var_os(name).is_some());
    let alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if ordered || !alone {
        return false;
    }
    // SAFETY: the option exists in this version (the test compares its default). Setting it writes a number
    // without synchronisation: no other thread exists to read it, and this one starts none meanwhile.
    unsafe { mi_option_set(PURGE_DELAY, 0) };
    true
}

/// Returns the current purge delay in milliseconds.
#[must_use]
pub fn purge_delay_ms() -> i64 {
    // SAFETY: reads a number that is written only by the function above, while there is one thread.
    unsafe { mi_option_get(PURGE_DELAY) }
}
