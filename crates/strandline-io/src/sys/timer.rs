//! Timers as file descriptors (`timerfd_create(2)`).
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::time::Duration;

/// Creates a timer of the monotonic clock, not set. Reading it doesn't block.
pub(crate) fn create() -> io::Result<OwnedFd> {
    // SAFETY: the call takes only numbers.
    let fd = unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_NONBLOCK | libc::TFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new, and nothing else owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Makes the timer expire once after the given time. A time of zero would disarm it.
pub(crate) fn set(timer: BorrowedFd<'_>, after: Duration) -> io::Result<()> {
    let never = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let it_value = libc::timespec {
        tv_sec: libc::time_t::try_from(after.as_secs()).unwrap_or(libc::time_t::MAX),
        // The value is below 1,000,000,000 and fits every type.
        tv_nsec: after.subsec_nanos() as libc::c_long,
    };
    let setting = libc::itimerspec { it_interval: never, it_value };
    // SAFETY: the descriptor is open while it is borrowed, and the setting lives until the call returns; the
    // previous setting isn't requested.
    match unsafe { libc::timerfd_settime(timer.as_raw_fd(), 0, &raw const setting, ptr::null_mut()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
