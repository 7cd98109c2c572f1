//! The error queue of a socket (`IP_RECVERR`, `IPV6_RECVERR`).
#![allow(unsafe_code)]
// The lengths in a msghdr have other types on other C libraries.
#![allow(clippy::unnecessary_cast)]

use std::io;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

use super::address::Name;
use super::control::{Control, Messages};

/// An entry of the queue. The quoted packet is in the caller's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct QueuedError {
    /// Destination of the packet.
    pub(crate) destination: Option<SocketAddr>,
    pub(crate) origin: u8,
    /// ICMP type and code.
    pub(crate) kind: u8,
    pub(crate) code: u8,
    pub(crate) errno: u32,
    /// The MTU, for errors about length.
    pub(crate) info: u32,
    /// Length of the quoted packet in bytes, without the IP and UDP headers.
    pub(crate) len: usize,
}

/// Takes an entry off the queue; `None` if it is empty.
pub(crate) fn receive(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> io::Result<Option<QueuedError>> {
    let mut name = Name::EMPTY;
    // The buffer holds a sock_extended_err with the address of the reporting node, and a destination address
    // where that is enabled.
    let mut control = Control::<256>::EMPTY;
    let mut vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
    // SAFETY: msghdr is a plain C struct for which all zeros is the empty value.
    let mut header = unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() };
    header.msg_name = name.as_mut_ptr();
    header.msg_namelen = Name::SIZE as u32;
    header.msg_iov = &raw mut vector;
    header.msg_iovlen = 1;
    header.msg_control = control.as_mut_ptr();
    header.msg_controllen = size_of::<Control<256>>() as _;
    // SAFETY: the header's pointers and lengths describe `name`, `control`, and through `vector` the buffer, all of
    // which live during the call and are not touched otherwise.
    let result =
        unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT) };
    let Ok(len) = usize::try_from(result) else {
        let error = io::Error::last_os_error();
        return if error.kind() == io::ErrorKind::WouldBlock { Ok(None) } else { Err(error) };
    };
    let messages = control.messages(header.msg_controllen as usize);
    Ok(Some(QueuedError { destination: name.get(), len: len.min(buffer.len()), ..in_messages(messages) }))
}

/// Returns the error that the control messages of an entry describe, without destination and quoted packet. All is 0
/// if none does.
pub(crate) fn in_messages(mut messages: Messages<'_>) -> QueuedError {
    let entry = messages.find_map(|(level, kind, payload)| {
        let is_error = (level, kind) == (libc::IPPROTO_IP, libc::IP_RECVERR)
            || (level, kind) == (libc::IPPROTO_IPV6, libc::IPV6_RECVERR);
        if is_error { decode(payload) } else { None }
    });
    let unknown = QueuedError { destination: None, origin: 0, kind: 0, code: 0, errno: 0, info: 0, len: 0 };
    entry.unwrap_or(unknown)
}

fn decode(payload: &[u8]) -> Option<QueuedError> {
    let byte = |at: usize| payload.get(at).copied();
    let word = |at: usize| payload.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    Some(QueuedError {
        destination: None,
        errno: word(offset_of!(libc::sock_extended_err, ee_errno))?,
        origin: byte(offset_of!(libc::sock_extended_err, ee_origin))?,
        kind: byte(offset_of!(libc::sock_extended_err, ee_type))?,
        code: byte(offset_of!(libc::sock_extended_err, ee_code))?,
        info: word(offset_of!(libc::sock_extended_err, ee_info))?,
        len: 0,
    })
}
