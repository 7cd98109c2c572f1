//! Building blocks of classic BPF programs.

use libc::sock_filter;

/// Return value that accepts the whole packet.
pub(crate) const ACCEPT: u32 = u32::MAX;
pub(crate) const REJECT: u32 = 0;

pub(crate) const fn instruction(code: u32, k: u32, jump_true: u8, jump_false: u8) -> sock_filter {
    sock_filter { code: code as u16, jt: jump_true, jf: jump_false, k }
}

pub(crate) const fn statement(code: u32, k: u32) -> sock_filter {
    instruction(code, k, 0, 0)
}

/// The header at the start of the packet that a raw socket's program sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Start {
    /// The IPv4 header: for raw IPv4 sockets.
    Ipv4Header,
    /// SCTP's common header: for raw IPv6 sockets.
    CommonHeader,
}
