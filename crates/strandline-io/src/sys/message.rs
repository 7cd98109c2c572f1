//! `sendmsg`, `sendmmsg` and `recvmmsg`.
#![allow(unsafe_code)]
// The lengths in a msghdr have other types on other C libraries.
#![allow(clippy::unnecessary_cast)]

use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

use super::address::Name;
use super::control::{Ancillary, CONTROL_BYTES, Control};
use crate::batch::RECV_MAX;

/// Maximum number of datagrams (or GSO bursts) that one system call sends.
pub(crate) const SEND_MAX: usize = 64;

/// The unit that one call hands to the kernel: a datagram, or with `segment_size` a burst that is segmented
/// later.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece<'a> {
    pub(crate) destination: SocketAddr,
    pub(crate) source: Option<IpAddr>,
    pub(crate) bytes: &'a [u8],
    pub(crate) segment_size: Option<u16>,
    /// Whether the IP header has ECT(0).
    pub(crate) ecn_capable: bool,
}

impl Piece<'_> {
    /// Returns the number of SCTP packets.
    pub(crate) fn packets(&self) -> u64 {
        self.segment_size.map_or(1, |size| self.bytes.len().div_ceil(usize::from(size).max(1)) as u64)
    }
}

/// The memory that a message header points to.
struct Slot {
    name: Name,
    control: Control<CONTROL_BYTES>,
    vector: libc::iovec,
}

fn empty_header() -> libc::msghdr {
    // SAFETY: msghdr is a plain C struct for which all zeros is the empty value.
    unsafe { MaybeUninit::<libc::msghdr>::zeroed().assume_init() }
}

/// Sends the pieces (at most [`SEND_MAX`] of them) in order, and returns how many the kernel accepted: at
/// least one, unless there were none.
///
/// With `mapped`, IPv4 addresses take the IPv6 form that a dual-stack socket needs.
pub(crate) fn send<'a>(
    fd: BorrowedFd<'_>,
    pieces: impl Iterator<Item = Piece<'a>>,
    mapped: bool,
) -> io::Result<usize> {
    let mut slots = [const { MaybeUninit::<Slot>::uninit() }; SEND_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; SEND_MAX];
    let mut count = 0;
    for ((piece, slot), header) in pieces.zip(&mut slots).zip(&mut headers) {
        let (name, name_len) = Name::of(piece.destination, mapped);
        let vector =
            libc::iovec { iov_base: piece.bytes.as_ptr().cast_mut().cast(), iov_len: piece.bytes.len() };
        let slot = slot.write(Slot { name, control: Control::EMPTY, vector });
        let mut control_len = piece.source.map_or(0, |source| slot.control.put_source(0, source));
        if let Some(segment_size) = piece.segment_size {
            control_len = slot.control.put_segment_size(control_len, segment_size);
        }
        if piece.ecn_capable {
            control_len = slot.control.put_ecn_capable(control_len, piece.destination.ip());
        }
        let mut msg_hdr = empty_header();
        msg_hdr.msg_name = slot.name.as_mut_ptr();
        msg_hdr.msg_namelen = name_len;
        msg_hdr.msg_iov = &raw mut slot.vector;
        msg_hdr.msg_iovlen = 1;
        if control_len > 0 {
            msg_hdr.msg_control = slot.control.as_mut_ptr();
            msg_hdr.msg_controllen = control_len as _;
        }
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    let sent = match count {
        0 => return Ok(0),
        // SAFETY: the first header was written above. Its pointers describe the first slot's name, control messages and
        // vector, and through that the piece's bytes; all of them live until the end of this function, and the kernel
        // only reads them.
        1 => unsafe { libc::sendmsg(fd.as_raw_fd(), headers[0].as_ptr().cast(), 0) }.signum(),
        // SAFETY: as above, for each of the first `count` headers. The kernel writes only their `msg_len`.
        _ => unsafe { libc::sendmmsg(fd.as_raw_fd(), headers.as_mut_ptr().cast(), count as u32, 0) as isize },
    };
    match usize::try_from(sent) {
        // A single empty datagram is sent with result 0.
        Ok(sent) => Ok(sent.max(1)),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// A datagram that `recvmmsg` received.
pub(crate) struct Arrival {
    pub(crate) source: Option<SocketAddr>,
    pub(crate) ancillary: Ancillary,
    pub(crate) len: usize,
    /// Whether the buffer holds the whole datagram; false if the datagram was longer.
    pub(crate) whole: bool,
}

/// Receives a datagram into each of the buffers (at most [`RECV_MAX`] of them) without blocking, and calls
/// `arrived` with the index of the buffer for each one. Returns the number of datagrams.
pub(crate) fn receive<'a>(
    fd: BorrowedFd<'_>,
    buffers: impl Iterator<Item = &'a mut [u8]>,
    mut arrived: impl FnMut(usize, Arrival),
) -> io::Result<usize> {
    let mut slots = [const { MaybeUninit::<Slot>::uninit() }; RECV_MAX];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; RECV_MAX];
    let mut count = 0;
    for ((buffer, slot), header) in buffers.zip(&mut slots).zip(&mut headers) {
        let vector = libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() };
        let slot = slot.write(Slot { name: Name::EMPTY, control: Control::EMPTY, vector });
        let mut msg_hdr = empty_header();
        msg_hdr.msg_name = slot.name.as_mut_ptr();
        msg_hdr.msg_namelen = Name::SIZE as u32;
        msg_hdr.msg_iov = &raw mut slot.vector;
        msg_hdr.msg_iovlen = 1;
        msg_hdr.msg_control = slot.control.as_mut_ptr();
        msg_hdr.msg_controllen = CONTROL_BYTES as _;
        header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        count += 1;
    }
    // SAFETY: the first `count` headers were written above. Their pointers and lengths describe each slot's name,
    // control buffer and vector, and through that a buffer that is borrowed mutably for 'a; all of them live until the
    // end of this function and nothing else touches them.
    let result = unsafe {
        libc::recvmmsg(
            fd.as_raw_fd(),
            headers.as_mut_ptr().cast(),
            count,
            libc::MSG_DONTWAIT,
            ptr::null_mut(),
        )
    };
    let received = usize::try_from(result).map_err(|_| io::Error::last_os_error())?.min(count as usize);
    for (index, (slot, header)) in slots.iter().zip(&headers).take(received).enumerate() {
        // SAFETY: index < received <= count, so both were written above; every bit pattern that the kernel leaves in
        // them is a valid value.
        let (slot, header) = unsafe { (slot.assume_init_ref(), header.assume_init_ref()) };
        let messages = slot.control.messages(header.msg_hdr.msg_controllen as usize);
        let arrival = Arrival {
            source: slot.name.get(),
            ancillary: Ancillary::read(messages),
            len: header.msg_len as usize,
            whole: header.msg_hdr.msg_flags & libc::MSG_TRUNC == 0,
        };
        arrived(index, arrival);
    }
    Ok(received)
}
