//! A timer that an event loop waits for as it waits for sockets.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use crate::sys;

/// A timer of the kernel's, a file descriptor that becomes readable when its time has come (`timerfd_create(2)`).
///
/// Event loops round their own timers to milliseconds. On a local network, where a round trip takes a fifth of one, a
/// loss is found and made good in less than that.
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
    /// A timer that isn't set.
    ///
    /// # Errors
    ///
    /// The operating system's: there are no descriptors left (`EMFILE`, `ENFILE`).
    pub fn new() -> io::Result<Self> {
        sys::timer::create().map(Self)
    }

    /// Sets it, instead of whatever it was set to: it becomes readable once so much time has passed, at once for zero. Until
    /// it is set again, it stays so; it needs no reading where readiness is told by edges (`EPOLLET`).
    ///
    /// # Errors
    ///
    /// The operating system's; none is known for a timer of this type.
    pub fn set(&self, after: Duration) -> io::Result<()> {
        sys::timer::set(self.0.as_fd(), after.max(Duration::from_nanos(1)))
    }
}

impl AsFd for Timer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
