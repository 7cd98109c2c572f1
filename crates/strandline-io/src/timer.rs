//! A timer that an event loop can wait for like a socket.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::sys;

/// A kernel timer: a file descriptor that becomes readable when it expires (`timerfd_create(2)`).
///
/// Event loops round their own timers to milliseconds. On a local network a round trip takes a fifth of a
/// millisecond, and a loss is detected and repaired in less than one.
///
/// ```
/// use std::time::Duration;
///
/// let timer = strandline_io::Timer::new()?;
/// timer.set(Duration::from_micros(300))?;
/// // Now wait until `timer` can be read.
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct Timer(OwnedFd);

impl Timer {
    /// Creates a timer that isn't set.
    ///
    /// # Errors
    ///
    /// If no descriptors are left (`EMFILE`, `ENFILE`).
    pub fn new() -> io::Result<Self> {
        sys::timer::create().map(Self)
    }

    /// Sets the timer, replacing any previous setting. It becomes readable after the given time, at once for
    /// zero, and stays readable until it is set again. It need not be read where readiness is edge-triggered
    /// (`EPOLLET`).
    ///
    /// # Errors
    ///
    /// If the operating system refuses; no such case is known for a timer of this type.
    pub fn set(&self, after: Duration) -> io::Result<()> {
        sys::timer::set(self.0.as_fd(), after.max(Duration::from_nanos(1)))
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
