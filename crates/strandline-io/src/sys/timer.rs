//! Timers that are file descriptors (`timerfd_create(2)`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

/// A timer of the monotonic clock that isn't set; reading it doesn't block.
pub(crate) fn create() -> io::Result<OwnedFd> {
    // SAFETY: the call takes numbers alone.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just made, and nobody else has it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Lets it expire once, so long from now; a time of zero would disarm it.
pub(crate) fn set(timer: BorrowedFd<'_>, after: Duration) -> io::Result<()> {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let it_value = libc::timespec {
        tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
        // Below 1,000,000,000: fits whatever the type.
        tv_nsec: after.subsec_nanos() as libc::c_long,
    };
    let setting = libc::itimerspec { it_interval: never, it_value };
    // SAFETY: the descriptor is open while it is borrowed, and the setting lives until the call returns; the former
    // setting isn't asked for.
    match unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const setting, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
