//! The heap of a program whose global allocator is mimalloc (version 2), with the feature `mimalloc`.
#![allow(unsafe_code)]

use libmimalloc_sys::{mi_option_eager_commit_delay, mi_option_get, mi_option_set, mi_option_t};

/// How long a page is kept after nothing in it is used, in milliseconds. The bindings leave it out; it comes next.
const PURGE_DELAY: mi_option_t = mi_option_eager_commit_delay + 1;

/// The user's orders about it.
const ORDERS: [&str; 2] = ["MIMALLOC_PURGE_DELAY", "MIMALLOC_RESET_DELAY"];

/// Pages in which nothing is used any more go back to the system at once, instead of at the next opportunity after 10 ms.
/// A server that has become idle gives the allocator none: after 30,000 associations were busy, all within a second, half
/// of its memory was pages that nothing was in. An order of the user's (`MIMALLOC_PURGE_DELAY`) stands.
///
/// To be called first in `main`: where other threads run already it does nothing. Tells whether it did.
pub fn give_back_at_once() -> bool {
    let ordered = ORDERS.iter().any(|name| std::env::var_os(name).is_some());
    let alone = std::fs::read_dir("/proc/self/task").is_ok_and(|threads| threads.count() == 1);
    if ordered || !alone {
        return false;
    }
    // SAFETY: the option exists in this version (the test holds it to its default). Setting it writes a number that is not
    // synchronised: there is no other thread to read it, and this one starts none meanwhile.
    unsafe { mi_option_set(PURGE_DELAY, 0) };
    true
}

/// The delay that is in force, in milliseconds.
#[must_use]
pub fn purge_delay_ms() -> i64 {
    // SAFETY: reads a number that is written only by the function above, while there is one thread.
    unsafe { mi_option_get(PURGE_DELAY) }
}
