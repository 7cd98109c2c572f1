//! The heap of a program whose global allocator is mimalloc (version 2), with the feature `mimalloc`.
#![allow(unsafe_code)]

use libmimalloc_sys::{mi_option_eager_commit_delay, mi_option_get, mi_option_set, mi_option_t};

/// How long a page is kept after nothing in it is used, in milliseconds. The bindings leave it out; it comes next.
const PURGE_DELAY: mi_option_t = mi_option_eager_commit_delay + 1;

/// Pages in which nothing is used any more go back to the system at once, instead of at the next opportunity after 10 ms.
/// A server that has become idle gives the allocator none: after 30,000 associations were busy, all within a second, half
/// of its memory was pages that nothing was in. An order of the user's (`MIMALLOC_PURGE_DELAY`) stands.
///
/// Call it first in `main`, while there are no other threads.
pub fn give_back_at_once() {
    if std::env::var_os("MIMALLOC_PURGE_DELAY").is_none() {
        // SAFETY: the option exists in this version (the test holds it to its default). Setting it writes one number, which
        // is not synchronised: the caller has no other threads, and with some they would see the old number or the new.
        unsafe { mi_option_set(PURGE_DELAY, 0) };
    }
}

/// The delay that is in force, in milliseconds.
#[must_use]
pub fn purge_delay_ms() -> i64 {
    // SAFETY: reads one number.
    unsafe { mi_option_get(PURGE_DELAY) }
}

#[cfg(test)]
mod tests;
