//! Socket options.
#![allow(unsafe_code)]

use std::io;
use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::c_int;

/// Sets an option whose value is an `int`.
pub(crate) fn set_int(fd: BorrowedFd<'_>, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives during the call; the kernel only reads it.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<c_int>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Reads an option whose value is an `int`.
pub(crate) fn int(fd: BorrowedFd<'_>, level: c_int, name: c_int) -> io::Result<c_int> {
    let mut value: c_int = 0;
    let mut len = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: the pointers describe `value` and `len`, which live during the call; the kernel writes at most `len`.
    let result =
        unsafe { libc::getsockopt(fd.as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut len) };
    if result == 0 { Ok(value) } else { Err(io::Error::last_os_error()) }
}

/// Number of values that `SO_MEMINFO` reports, and place of the number of drops among them (`SK_MEMINFO_DROPS`).
const MEMINFO_VALUES: usize = 9;
const MEMINFO_DROPS: usize = 8;

/// Returns the number of packets that found the receive buffer full (Linux 4.12).
pub(crate) fn drops(fd: BorrowedFd<'_>) -> io::Result<u32> {
    let mut values = [0_u32; MEMINFO_VALUES];
    let mut len = size_of_val(&values) as libc::socklen_t;
    // SAFETY: the pointers describe `values` and `len`, which live during the call; the kernel writes at most `len`.
    let result = unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            values.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    match values.get(MEMINFO_DROPS) {
        Some(drops) if result == 0 && len as usize == size_of_val(&values) => Ok(*drops),
        _ if result == 0 => Err(io::ErrorKind::Unsupported.into()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Attaches a classic BPF program, by `SO_ATTACH_FILTER` or `SO_ATTACH_REUSEPORT_CBPF`.
pub(crate) fn attach(fd: BorrowedFd<'_>, name: c_int, program: &[libc::sock_filter]) -> io::Result<()> {
    let len = u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the option's value is a sock_fprog whose pointer and length describe `program`; the kernel copies the
    // instructions during the call and does not write to them.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_SOCKET,
            name,
            (&raw const program).cast(),
            size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Enlarges the socket's buffers: beyond the system's limit if the process is privileged, otherwise up to it.
/// Buffers that are already larger stay as they are.
pub(crate) fn enlarge_buffers(fd: BorrowedFd<'_>, receive_bytes: usize, send_bytes: usize) {
    enlarge(fd, receive_bytes, libc::SO_RCVBUF, libc::SO_RCVBUFFORCE);
    enlarge(fd, send_bytes, libc::SO_SNDBUF, libc::SO_SNDBUFFORCE);
}

fn enlarge(fd: BorrowedFd<'_>, bytes: usize, name: c_int, force: c_int) {
    let wanted = c_int::try_from(bytes).unwrap_or(c_int::MAX);
    // The kernel stores and returns twice the value that was set.
    let has_enough = |fd| int(fd, libc::SOL_SOCKET, name).is_ok_and(|now| now / 2 >= wanted);
    if has_enough(fd) || set_int(fd, libc::SOL_SOCKET, force, wanted).is_ok() {
        return;
    }
    let result = set_int(fd, libc::SOL_SOCKET, name, wanted);
    if result.is_err() || !has_enough(fd) {
        tracing::debug!(
            wanted,
            "the socket buffer is smaller than requested (see net.core.rmem_max and net.core.wmem_max)"
        );
    }
}

/// Undoes `connect`: removes the peer, and the local address that the routing table chose.
pub(crate) fn disconnect(fd: BorrowedFd<'_>) -> io::Result<()> {
    Ok(rustix::net::connect_unspec(fd)?)
}

/// Sets whether IP may fragment packets that the socket sends. If not, packets up to the interface's MTU are
/// sent with the don't-fragment bit, whatever path MTU the kernel has cached (the engine does its own path
/// MTU discovery).
pub(crate) fn set_fragmentation(fd: BorrowedFd<'_>, is_v6: bool, allow: bool) -> io::Result<()> {
    // Set on IPv6 sockets too, since they may carry IPv4. It fails there only where it isn't needed.
    let v4 = if allow { libc::IP_PMTUDISC_DONT } else { libc::IP_PMTUDISC_PROBE };
    let result = set_int(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, v4);
    if !is_v6 {
        return result;
    }
    let v6 = if allow { libc::IPV6_PMTUDISC_DONT } else { libc::IPV6_PMTUDISC_PROBE };
    set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, v6)?;
    set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_DONTFRAG, c_int::from(!allow))
}

/// Makes the socket queue ICMP errors together with the packets that they quote.
pub(crate) fn enable_error_queue(fd: BorrowedFd<'_>, is_v6: bool) -> io::Result<()> {
    let v4 = set_int(fd, libc::IPPROTO_IP, libc::IP_RECVERR, 1);
    if is_v6 { set_int(fd, libc::IPPROTO_IPV6, libc::IPV6_RECVERR, 1) } else { v4 }
}
