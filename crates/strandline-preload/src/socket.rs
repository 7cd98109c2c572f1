//! A program's socket: what is known of it without a table.

use std::net::SocketAddr;

use libc::c_int;

use crate::request::{PADDING, REQUEST};
use crate::system::{self, address_of, option, set_option};

/// Offsets of tcpi_bytes_acked and tcpi_notsent_bytes in struct tcp_info (linux/tcp.h).
const BYTES_ACKED: usize = 120;
const NOTSENT_BYTES: usize = 144;
/// tcpi_state of a closed socket.
const CLOSED: u8 = 7;

/// A descriptor of the program.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Socket(pub(crate) c_int);

/// How far the connection of a marked socket is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The gateway has not read the padding.
    Pending,
    /// It has.
    Connected,
    /// There is no connection, or no more.
    Closed,
}

impl Socket {
    /// Returns whether it is a TCP socket; for IPv6 if `of_ipv6`.
    pub(crate) fn is_tcp(self, of_ipv6: bool) -> bool {
        self.number(libc::SOL_SOCKET, libc::SO_PROTOCOL) == Some(libc::IPPROTO_TCP)
            && self.number(libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
            && self.is_ipv6() == of_ipv6
    }

    pub(crate) fn is_ipv6(self) -> bool {
        self.number(libc::SOL_SOCKET, libc::SO_DOMAIN) == Some(libc::AF_INET6)
    }

    pub(crate) fn is_nonblocking(self) -> bool {
        system::flags(self.0) & libc::O_NONBLOCK != 0
    }

    /// Returns whether it is bound to an interface.
    pub(crate) fn has_interface(self) -> bool {
        let mut name = [0_u8; libc::IFNAMSIZ];
        option(self.0, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &mut name).is_ok_and(|len| len > 1)
    }

    /// Returns the value of an option that is a number.
    pub(crate) fn number(self, level: c_int, name: c_int) -> Option<c_int> {
        let mut value: c_int = 0;
        option(self.0, level, name, &mut value).ok().map(|_| value)
    }

    pub(crate) fn set_number(self, level: c_int, name: c_int, value: c_int) -> Result<(), c_int> {
        set_option(self.0, level, name, &value)
    }

    /// Returns a number that no other socket has, for as long as this one exists, in all processes.
    pub(crate) fn cookie(self) -> Option<u64> {
        let mut cookie = 0_u64;
        option(self.0, libc::SOL_SOCKET, libc::SO_COOKIE, &mut cookie).ok().map(|_| cookie)
    }

    pub(crate) fn peer(self) -> Option<SocketAddr> {
        address_of(libc::SYS_getpeername, self.0)
    }

    pub(crate) fn local(self) -> Option<SocketAddr> {
        address_of(libc::SYS_getsockname, self.0)
    }

    /// Returns how far the connection is: the gateway's window takes less than the padding until it reads that.
    pub(crate) fn phase(self) -> Phase {
        let mut info = [0_u8; 256];
        let Ok(len) = option(self.0, libc::IPPROTO_TCP, libc::TCP_INFO, &mut info) else {
            return Phase::Closed;
        };
        if info.first() == Some(&CLOSED) {
            return Phase::Closed;
        }
        let at = |offset: usize| info.get(offset..len);
        let acked = at(BYTES_ACKED)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        let unsent = at(NOTSENT_BYTES)
            .and_then(|bytes| bytes.first_chunk())
            .map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        if unsent > 0 && acked < (REQUEST + PADDING) as u64 { Phase::Pending } else { Phase::Connected }
    }

    /// Marks the socket, and keeps it from being writable while bytes are unsent: TCP_NOTSENT_LOWAT becomes a
    /// number that says what the program had set, as a power of two.
    pub(crate) fn mark(self) -> Result<(), c_int> {
        let value = match self.lowat() {
            None => return Err(libc::ENOPROTOOPT),
            Some(marked) if is_mark(marked) => marked,
            Some(0) => MARK_FIRST,
            Some(set) => MARK_FIRST + 1 + set.checked_next_power_of_two().map_or(32, u32::trailing_zeros),
        };
        self.set_lowat(value)
    }

    pub(crate) fn is_marked(self) -> bool {
        self.lowat().is_some_and(is_mark)
    }

    /// Removes the mark, and gives TCP_NOTSENT_LOWAT the value that it had.
    pub(crate) fn unmark(self) {
        let value = match self.lowat().filter(|value| is_mark(*value)) {
            None => return,
            Some(MARK_FIRST) => 0,
            Some(mark) => 1_u32.checked_shl(mark - MARK_FIRST - 1).unwrap_or(u32::MAX),
        };
        // It can't fail where it was set before.
        let _ = self.set_lowat(value);
    }

    fn lowat(self) -> Option<u32> {
        self.number(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT).map(c_int::cast_unsigned)
    }

    fn set_lowat(self, value: u32) -> Result<(), c_int> {
        self.set_number(libc::IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, value.cast_signed())
    }
}

/// The lowest mark. One unsent byte makes a socket unwritable with TCP_NOTSENT_LOWAT 2, and 18 of them with
/// the highest mark.
const MARK_FIRST: u32 = 2;
const MARK_LAST: u32 = MARK_FIRST + 1 + 32;

fn is_mark(value: u32) -> bool {
    (MARK_FIRST..=MARK_LAST).contains(&value)
}
