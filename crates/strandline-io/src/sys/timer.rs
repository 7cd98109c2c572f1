//! Timers as file descriptors (`timerfd_create(2)`).

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Creates a timer of the monotonic clock, not set. Reading it doesn't block.
pub(crate) fn create() -> io::Result<OwnedFd> {
    Ok(timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?)
}

/// Makes the timer expire once after the given time. A time of zero would disarm it.
pub(crate) fn set(timer: BorrowedFd<'_>, after: Duration) -> io::Result<()> {
    let it_value = Timespec {
        tv_sec: i64::try_from(after.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: after.subsec_nanos().into(),
    };
    let setting = Itimerspec { it_interval: Timespec::default(), it_value };
    timerfd_settime(timer, TimerfdTimerFlags::empty(), &setting)?;
    Ok(())
}
