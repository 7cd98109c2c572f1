//! `recvmmsg` with the segment sizes that the kernel reports (UDP GRO), and a socket's drop counter.
#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, RawFd};
use std::ptr;

use nix::libc;
use nix::sys::socket::{SockaddrLike, SockaddrStorage};

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
}

/// Buffer for one control message with an `int`, aligned as a `cmsghdr` must be.
#[repr(C)]
union Control {
    header: libc::cmsghdr,
    bytes: [u8; 32],
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
    // SAFETY: the name has as many bytes as the header says, or none.
    let name = unsafe { SockaddrStorage::from_raw(message.msg_name.cast(), Some(message.msg_namelen)) };
    let mut segment = len;
    // SAFETY: the control messages are whole, as the kernel writes them, and an `int` follows the header of this one.
    unsafe {
        let control = libc::CMSG_FIRSTHDR(message);
        if !control.is_null()
            && ((*control).cmsg_level, (*control).cmsg_type) == (libc::SOL_UDP, libc::UDP_GRO)
        {
            let size = libc::CMSG_DATA(control).cast::<libc::c_int>().read_unaligned();
            segment = usize::try_from(size).unwrap_or(len);
        }
    }
    Arrival { peer: name.as_ref().and_then(address), len, segment: segment.max(1) }
}

fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    if let Some(v4) = storage.as_sockaddr_in() {
        return Some(SocketAddr::V4((*v4).into()));
    }
    storage.as_sockaddr_in6().map(|v6| SocketAddr::V6((*v6).into()))
}
