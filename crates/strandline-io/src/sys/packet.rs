//! Sends IP packets by a packet socket, to a link-layer address.
#![allow(unsafe_code)]
// The lengths in a msghdr have other types on other C libraries.
#![allow(clippy::unnecessary_cast)]

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::message::SEND_MAX;

/// Length of an IPv4 header without options.
pub(crate) const HEADER_BYTES: usize = 20;

/// Opens a packet socket for IP packets, with link-layer headers made by the kernel. It receives nothing
/// until it is bound.
pub(crate) fn socket() -> io::Result<OwnedFd> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::PACKET, SocketType::DGRAM, flags, None)?)
}

/// Returns an address of `AF_PACKET` for IPv4: an interface and the link-layer address of a neighbour.
pub(crate) fn link_address(interface: u32, station: [u8; 6]) -> libc::sockaddr_ll {
    // SAFETY: a plain C struct, for which all zeros is the empty value.
    let mut address: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_IP as u16).to_be();
    address.sll_ifindex = interface.cast_signed();
    address.sll_halen = station.len() as u8;
    for (to, from) in address.sll_addr.iter_mut().zip(station) {
        *to = from;
    }
    address
}

/// Sends the packets (at most [`SEND_MAX`] of them) in order, each after its header, and returns how many the
/// kernel accepted: at least one, unless there were none.
pub(crate) fn send<'a>(
    fd: BorrowedFd<'_>,
    to: &libc::sockaddr_ll,
    packets: impl Iterator<Item = ([u8; HEADER_BYTES], &'a [u8])>,
) -> io::Result<usize> {
    let mut slots = [const { MaybeUninit::<([u8; HEADER_BYTES], [libc::iovec; 2])>::uninit() }; SEND_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; SEND_MAX];
    let mut count: u32 = 0;
    for (((bytes, payload), slot), header) in packets.zip(&mut slots).zip(&mut headers) {
        let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let (bytes, vectors) = slot.write((bytes, [none; 2]));
        *vectors = [
            libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: HEADER_BYTES },
            libc::iovec { iov_base: payload.as_ptr().cast_mut().cast(), iov_len: payload.len() },
        ];
        // SAFETY: a plain C struct, for which all zeros is the empty value.
        let mut msg_hdr: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        msg_hdr.msg_name = std::ptr::from_ref(to).cast_mut().cast();
        msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
        msg_hdr.msg_iov = vectors.as_mut_ptr();
        msg_hdr.msg_iovlen = 2;
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    if count == 0 {
        return Ok(0);
    }
    // SAFETY: the first `count` headers were written above. Their pointers describe the address, and each
    // slot's vectors, which describe its header and the packet's bytes; all of them live until the end of
    // this function, and the kernel writes only `msg_len`.
    let sent = unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr().cast(), count, 0) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}
