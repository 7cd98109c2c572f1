//! `recvmmsg` with the segment sizes that the kernel reports (UDP GRO), `sendmmsg` with those that it is to
//! cut (UDP GSO), socket options, and a socket's drop counter.
#![allow(unsafe_code)]

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;
use std::time::Duration;

use crate::BATCH;

/// A received datagram, or a coalesced batch of them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival {
    /// The sender.
    pub(crate) peer: Option<SocketAddr>,
    /// Number of bytes in the buffer.
    pub(crate) len: usize,
    /// Length of each datagram in the batch; the last may be shorter.
    pub(crate) segment: usize,
    /// When the kernel received it, since 1970-01-01, if the socket is set up for that.
    pub(crate) at: Option<Duration>,
}

/// A datagram to send, or several of one length with the same destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Departure<'a> {
    /// The destination; `None` if the socket is connected.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) pieces: &'a [IoSlice<'a>],
    /// Length of the datagrams that the kernel cuts the bytes into; `None` for a single datagram.
    pub(crate) segment: Option<u16>,
}

/// Buffer for a control message with an `int` and one with a time, aligned as a `cmsghdr` must be.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; 64],
}

/// The memory that a message header points to.
struct Slot {
    name: libc::sockaddr_storage,
    control: Control,
    vector: libc::iovec,
}

/// Receives without blocking into as many of the buffers as there are datagrams, at most [`BATCH`]. Reports
/// each arrival in order, and returns how many buffers were filled.
pub(crate) fn receive<'a>(
    socket: RawFd,
    buffers: impl Iterator<Item = &'a mut [u8]>,
    mut arrived: impl FnMut(Arrival),
) -> io::Result<usize> {
    let mut slots = [const { MaybeUninit::<Slot>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    for ((buffer, slot), header) in buffers.zip(&mut slots).zip(&mut headers) {
        let slot = slot.as_mut_ptr();
        // SAFETY: `slot` is valid for writing; no reference to an unwritten part is made. The kernel writes
        // the name and the control message before they are read. A header of zeros is a valid one.
        unsafe {
            (&raw mut (*slot).vector)
                .write(libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() });
            // An unspecified family, in case the kernel writes no name.
            (&raw mut (*slot).name.ss_family).write(libc::AF_UNSPEC as _);
            let mut msg_hdr: libc::msghdr = MaybeUninit::zeroed().assume_init();
            msg_hdr.msg_name = (&raw mut (*slot).name).cast();
            msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
            msg_hdr.msg_iov = &raw mut (*slot).vector;
            msg_hdr.msg_iovlen = 1;
            msg_hdr.msg_control = (&raw mut (*slot).control).cast();
            msg_hdr.msg_controllen = size_of::<Control>() as _;
            header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        }
        count += 1;
    }
    // SAFETY: the first `count` headers were written above. They point to slots, and those to buffers that are borrowed
    // mutably; all of them live until the end of this function, and nothing else touches them.
    let received = unsafe {
        libc::recvmmsg(socket, headers.as_mut_ptr().cast(), count, libc::MSG_DONTWAIT as _, ptr::null_mut())
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for header in headers.iter().take(received.min(count as usize)) {
        // SAFETY: the header is among the first `count`, and the kernel has filled in what its name and its
        // control point to.
        arrived(unsafe { arrival(header.assume_init_ref()) });
    }
    Ok(received)
}

/// Sends without blocking, at most [`BATCH`]. Returns how many were sent; the kernel stops at the first that it
/// refuses, and an error is about the first one.
pub(crate) fn send<'a>(socket: RawFd, departures: impl Iterator<Item = Departure<'a>>) -> io::Result<usize> {
    let mut slots = [const { MaybeUninit::<Slot>::uninit() }; BATCH];
    let mut headers = [const { MaybeUninit::<libc::mmsghdr>::uninit() }; BATCH];
    let mut count = 0;
    for ((departure, slot), header) in departures.zip(&mut slots).zip(&mut headers) {
        let slot = slot.as_mut_ptr();
        // SAFETY: `slot` is valid for writing, and a header of zeros is a valid one. An `IoSlice` has the layout of an
        // iovec. What the header points to lives until the end of this function, and the kernel only reads it.
        unsafe {
            let mut msg_hdr: libc::msghdr = MaybeUninit::zeroed().assume_init();
            if let Some(peer) = departure.peer {
                msg_hdr.msg_namelen = write_address(&raw mut (*slot).name, peer);
                msg_hdr.msg_name = (&raw mut (*slot).name).cast();
            }
            msg_hdr.msg_iov = departure.pieces.as_ptr().cast_mut().cast();
            msg_hdr.msg_iovlen = departure.pieces.len() as _;
            if let Some(segment) = departure.segment {
                (&raw mut (*slot).control).write(Control { bytes: [0; _] });
                msg_hdr.msg_control = (&raw mut (*slot).control).cast();
                msg_hdr.msg_controllen = libc::CMSG_SPACE(size_of::<u16>() as _) as _;
                let control = libc::CMSG_FIRSTHDR(&raw const msg_hdr);
                (*control).cmsg_level = libc::SOL_UDP;
                (*control).cmsg_type = libc::UDP_SEGMENT;
                (*control).cmsg_len = libc::CMSG_LEN(size_of::<u16>() as _) as _;
                libc::CMSG_DATA(control).cast::<u16>().write_unaligned(segment);
            }
            header.write(libc::mmsghdr { msg_hdr, msg_len: 0 });
        }
        count += 1;
    }
    // SAFETY: the first `count` headers were written above, and what they point to is still there.
    let sent = unsafe { libc::sendmmsg(socket, headers.as_mut_ptr().cast(), count, libc::MSG_DONTWAIT as _) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Sets an option whose value is an `int`.
pub(crate) fn set_option(
    socket: RawFd,
    level: libc::c_int,
    name: libc::c_int,
    value: libc::c_int,
) -> io::Result<()> {
    // SAFETY: the pointer and the length describe `value`, which lives during the call; the kernel only reads it.
    let result = unsafe {
        let len = size_of_val(&value) as libc::socklen_t;
        libc::setsockopt(socket, level, name, (&raw const value).cast(), len)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Returns the number of datagrams that the kernel has dropped on a socket, for lack of buffer space or
/// because of a filter. The count wraps at 2^32.
///
/// # Errors
/// If the kernel doesn't report it (before Linux 4.12).
pub fn dropped(socket: &impl AsRawFd) -> io::Result<u32> {
    // `SK_MEMINFO_DROPS` and `SK_MEMINFO_VARS` of linux/sock_diag.h.
    const DROPS: usize = 8;
    const VARS: usize = 9;
    let mut figures = [0_u32; VARS];
    let mut len = size_of_val(&figures) as libc::socklen_t;
    // SAFETY: the kernel writes no more than `len` bytes to `figures`, which any bits are valid for.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            figures.as_mut_ptr().cast(),
            &raw mut len,
        )
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    let told = figures.get(..len as usize / size_of::<u32>()).unwrap_or(&[]);
    told.get(DROPS).copied().ok_or_else(|| io::ErrorKind::Unsupported.into())
}

/// Returns the arrival that a header describes.
///
/// # Safety
/// The kernel must have filled the header in, and the memory that it points to must still be valid.
unsafe fn arrival(header: &libc::mmsghdr) -> Arrival {
    let (message, len) = (&header.msg_hdr, header.msg_len as usize);
    // SAFETY: the name is a whole address of its family, or of no family.
    let peer = unsafe { read_address(message.msg_name.cast()) };
    let (mut segment, mut at) = (len, None);
    // SAFETY: the control messages are whole, as the kernel writes them: an `int` follows the header of one kind, and a
    // time that of the other.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while !control.is_null() {
            match ((*control).cmsg_level, (*control).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) => {
                    let size = libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned();
                    segment = usize::try_from(size).unwrap_or(len);
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let time = libc::CMSG_DATA(control).cast::<libc::timespec>().read_unaligned();
                    let nanos = u32::try_from(time.tv_nsec).unwrap_or_default();
                    at = u64::try_from(time.tv_sec).ok().map(|secs| Duration::new(secs, nanos));
                }
                _ => {}
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
    Arrival { peer, len, segment: segment.max(1), at }
}

/// Returns the address, or `None` if its family is neither IPv4 nor IPv6.
///
/// # Safety
/// The pointer must be valid for reading an address as long as its family requires, and aligned for any.
unsafe fn read_address(name: *const libc::sockaddr_storage) -> Option<SocketAddr> {
    // SAFETY: the caller guarantees it; only the family is read of an address that is neither.
    unsafe {
        match libc::c_int::from((*name).ss_family) {
            libc::AF_INET => {
                let v4 = &*name.cast::<libc::sockaddr_in>();
                let ip = Ipv4Addr::from_bits(u32::from_be(v4.sin_addr.s_addr));
                Some(SocketAddrV4::new(ip, u16::from_be(v4.sin_port)).into())
            }
            libc::AF_INET6 => {
                let v6 = &*name.cast::<libc::sockaddr_in6>();
                let (ip, port) = (Ipv6Addr::from(v6.sin6_addr.s6_addr), u16::from_be(v6.sin6_port));
                Some(SocketAddrV6::new(ip, port, v6.sin6_flowinfo, v6.sin6_scope_id).into())
            }
            _ => None,
        }
    }
}

/// Writes an address and returns its length in bytes.
///
/// # Safety
/// The pointer must be valid for writing.
unsafe fn write_address(name: *mut libc::sockaddr_storage, address: SocketAddr) -> libc::socklen_t {
    match address {
        SocketAddr::V4(v4) => {
            let address = libc::sockaddr_in {
                sin_family: libc::AF_INET as _,
                sin_port: v4.port().to_be(),
                sin_addr: libc::in_addr { s_addr: v4.ip().to_bits().to_be() },
                sin_zero: [0; 8],
            };
            // SAFETY: the caller guarantees it; the storage is at least as long, and aligned for any address.
            unsafe { name.cast::<libc::sockaddr_in>().write(address) };
            size_of::<libc::sockaddr_in>() as _
        }
        SocketAddr::V6(v6) => {
            let address = libc::sockaddr_in6 {
                sin6_family: libc::AF_INET6 as _,
                sin6_port: v6.port().to_be(),
                sin6_flowinfo: v6.flowinfo(),
                sin6_addr: libc::in6_addr { s6_addr: v6.ip().octets() },
                sin6_scope_id: v6.scope_id(),
            };
            // SAFETY: the caller guarantees it; the storage is at least as long, and aligned for any address.
            unsafe { name.cast::<libc::sockaddr_in6>().write(address) };
            size_of::<libc::sockaddr_in6>() as _
        }
    }
}
