//! The choice of local ports.

use std::io;
use std::os::fd::AsRawFd;

use crate::sys::set_option;

/// Makes a bind to port 0 leave the choice of the port to connect (`IP_BIND_ADDRESS_NO_PORT`), for UDP and
/// TCP sockets of both families. The kernel then takes a port that is in use to another destination too;
/// without it, one address has no more connections than there are ports.
///
/// # Errors
/// If the kernel doesn't support the option (before Linux 4.2).
pub fn choose_port_on_connect(socket: &impl AsRawFd) -> io::Result<()> {
    set_option(socket.as_raw_fd(), libc::SOL_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1)
}
