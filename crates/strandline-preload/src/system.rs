//! System calls. Those that programs can see go to the next library in order, as a program's own calls would;
//! the others go straight to the kernel, so that they are no points of cancellation and nobody else's
//! replacement of them is called.

use std::ffi::CStr;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_int, c_long, c_void, sockaddr, sockaddr_in, sockaddr_in6, sockaddr_storage, socklen_t};

type Connect = unsafe extern "C-unwind" fn(c_int, *const sockaddr, socklen_t) -> c_int;
type Getpeername = unsafe extern "C-unwind" fn(c_int, *mut sockaddr, *mut socklen_t) -> c_int;
type Getsockopt = unsafe extern "C-unwind" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;

unsafe extern "C-unwind" {
    /// send(2), by which a thread may be cancelled.
    #[link_name = "send"]
    fn send_cancellable(fd: c_int, data: *const c_void, len: usize, flags: c_int) -> isize;
}

/// A function of the next library in order.
struct Next {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

static CONNECT: Next = Next::new(c"connect");
static GETPEERNAME: Next = Next::new(c"getpeername");
static GETSOCKOPT: Next = Next::new(c"getsockopt");

impl Next {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Returns the function's address; null if there is none.
    fn function(&self) -> *mut c_void {
        let found = self.found.load(Ordering::Relaxed);
        if !found.is_null() {
            return found;
        }
        // SAFETY: the name ends with a zero.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// Writes a line to standard error.
pub(crate) fn complain(line: &[u8]) {
    // What can't be written is lost.
    // SAFETY: the line is as long as that.
    let _ = unsafe { libc::syscall(libc::SYS_write, libc::STDERR_FILENO, line.as_ptr(), line.len()) };
}

/// Finds the functions of the next library while the program has one thread and no signal handler.
pub(crate) fn prepare() {
    for next in [&CONNECT, &GETPEERNAME, &GETSOCKOPT] {
        next.function();
    }
}

/// connect(2).
///
/// # Safety
/// As of connect(2).
pub(crate) unsafe fn real_connect(fd: c_int, address: *const sockaddr, len: socklen_t) -> c_int {
    let next = CONNECT.function();
    if next.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { libc::syscall(libc::SYS_connect, fd, address, len) } as c_int;
    }
    // SAFETY: the C library's function of this name has this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Connect>(next) };
    // SAFETY: the caller's promise.
    unsafe { next(fd, address, len) }
}

/// getpeername(2).
///
/// # Safety
/// As of getpeername(2).
pub(crate) unsafe fn real_getpeername(fd: c_int, address: *mut sockaddr, len: *mut socklen_t) -> c_int {
    let next = GETPEERNAME.function();
    if next.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { libc::syscall(libc::SYS_getpeername, fd, address, len) } as c_int;
    }
    // SAFETY: the C library's function of this name has this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Getpeername>(next) };
    // SAFETY: the caller's promise.
    unsafe { next(fd, address, len) }
}

/// getsockopt(2).
///
/// # Safety
/// As of getsockopt(2).
pub(crate) unsafe fn real_getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    let next = GETSOCKOPT.function();
    if next.is_null() {
        // SAFETY: the caller's promise.
        return unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, value, len) } as c_int;
    }
    // SAFETY: the C library's function of this name has this type.
    let next = unsafe { std::mem::transmute::<*mut c_void, Getsockopt>(next) };
    // SAFETY: the caller's promise.
    unsafe { next(fd, level, name, value, len) }
}

pub(crate) fn errno() -> c_int {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() }
}

pub(crate) fn set_errno(error: c_int) {
    // SAFETY: the thread's own variable.
    unsafe { *libc::__errno_location() = error }
}

/// Returns the result of a system call, or errno.
pub(crate) fn checked(result: c_long) -> Result<usize, c_int> {
    usize::try_from(result).map_err(|_| errno())
}

/// An address as the kernel takes it.
pub(crate) struct Raw {
    storage: sockaddr_storage,
    pub(crate) len: socklen_t,
}

impl Raw {
    /// Returns an address for sockets of IPv6, or of IPv4.
    pub(crate) fn of(address: SocketAddr, is_ipv6: bool) -> Self {
        // SAFETY: all zeros are a value of it.
        let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
        let len = match (address.ip(), is_ipv6) {
            (IpAddr::V4(ip), false) => {
                let place = ptr::from_mut(&mut storage).cast::<sockaddr_in>();
                // SAFETY: the storage is large enough for every kind of address, and aligned.
                let v4 = unsafe { &mut *place };
                v4.sin_family = libc::AF_INET as _;
                v4.sin_port = address.port().to_be();
                v4.sin_addr.s_addr = u32::from_ne_bytes(ip.octets());
                size_of::<sockaddr_in>()
            }
            (ip, _) => {
                let ip: Ipv6Addr = match ip {
                    IpAddr::V4(ip) => ip.to_ipv6_mapped(),
                    IpAddr::V6(ip) => ip,
                };
                let place = ptr::from_mut(&mut storage).cast::<sockaddr_in6>();
                // SAFETY: the storage is large enough for every kind of address, and aligned.
                let v6 = unsafe { &mut *place };
                v6.sin6_family = libc::AF_INET6 as _;
                v6.sin6_port = address.port().to_be();
                v6.sin6_addr.s6_addr = ip.octets();
                size_of::<sockaddr_in6>()
            }
        };
        Self { storage, len: len as socklen_t }
    }

    /// Returns the address that dissolves an association (connect(2)).
    pub(crate) fn unspecified() -> Self {
        // SAFETY: all zeros are a value of it, and AF_UNSPEC is zero.
        let storage = unsafe { std::mem::zeroed() };
        Self { storage, len: size_of::<sockaddr>() as socklen_t }
    }

    pub(crate) fn as_ptr(&self) -> *const sockaddr {
        ptr::from_ref(&self.storage).cast()
    }
}

/// Copies a value from the program's memory; `None` if the pointer is wrong, which a system call would report
/// as EFAULT.
///
/// # Safety
/// Every pattern of bytes is a value of `T`. `len` is at most its size.
unsafe fn copy_from_program<T>(address: *const c_void, len: usize) -> Option<T> {
    // SAFETY: the caller's promise.
    let mut value: T = unsafe { std::mem::zeroed() };
    let place = ptr::from_mut(&mut value).cast::<c_void>();
    let (to, from) = (
        libc::iovec { iov_base: place, iov_len: len },
        libc::iovec { iov_base: address.cast_mut(), iov_len: len },
    );
    // SAFETY: no memory is involved.
    let own = unsafe { libc::syscall(libc::SYS_getpid) };
    // As wide as the kernel reads them: of a shorter one, the upper half of an argument was undefined.
    let (one, flags): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: the kernel writes within the value, and checks the other address.
    let result = unsafe {
        libc::syscall(libc::SYS_process_vm_readv, own, &raw const to, one, &raw const from, one, flags)
    };
    match checked(result) {
        Ok(copied) => (copied == len).then_some(value),
        Err(libc::EFAULT) => None,
        Err(_) if address.is_null() => None,
        // A sandbox may refuse the call.
        Err(_) => {
            // SAFETY: the program has promised that many bytes.
            unsafe { ptr::copy_nonoverlapping(address.cast::<u8>(), place.cast::<u8>(), len) };
            Some(value)
        }
    }
}

/// Returns the family of an address of the program; `None` if there is none.
pub(crate) fn family_of(address: *const sockaddr, len: socklen_t) -> Option<libc::sa_family_t> {
    let size = size_of::<libc::sa_family_t>();
    // SAFETY: it is a number.
    (len as usize >= size).then(|| unsafe { copy_from_program(address.cast(), size) }).flatten()
}

/// Returns the room that a program has for an address; `None` if the pointer is wrong.
pub(crate) fn room_at(len: *const socklen_t) -> Option<socklen_t> {
    // SAFETY: it is a number.
    unsafe { copy_from_program(len.cast(), size_of::<socklen_t>()) }
}

/// Reads an address of IPv4 or IPv6 of the program; `None` for another one, for IPv6 with a zone, and if the
/// pointer is wrong.
pub(crate) fn read_address(address: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    let len = (len as usize).min(size_of::<sockaddr_storage>());
    if len < size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: it is made of numbers.
    let storage: sockaddr_storage = unsafe { copy_from_program(address.cast(), len)? };
    parse_address(&storage, len)
}

/// Returns the address of IPv4 or IPv6 in the first bytes; `None` for another one, and for IPv6 with a zone.
fn parse_address(storage: &sockaddr_storage, len: usize) -> Option<SocketAddr> {
    let address = ptr::from_ref(storage);
    if len < size_of::<sockaddr_in>() {
        return None;
    }
    // SAFETY: the storage is large enough for every kind of address, and aligned.
    let v4 = unsafe { address.cast::<sockaddr_in>().read() };
    match c_int::from(v4.sin_family) {
        libc::AF_INET => {
            let ip = v4.sin_addr.s_addr.to_ne_bytes();
            Some(SocketAddr::new(ip.into(), u16::from_be(v4.sin_port)))
        }
        libc::AF_INET6 if len >= size_of::<sockaddr_in6>() => {
            // SAFETY: as above.
            let v6 = unsafe { address.cast::<sockaddr_in6>().read() };
            let ip = Ipv6Addr::from(v6.sin6_addr.s6_addr);
            (v6.sin6_scope_id == 0).then(|| SocketAddr::new(ip.into(), u16::from_be(v6.sin6_port)))
        }
        _ => None,
    }
}

/// Writes an address as getpeername(2) does.
///
/// # Safety
/// There is so much room at `address`, and `len` points to a number: getpeername(2) has written to both.
pub(crate) unsafe fn write_address(
    found: SocketAddr,
    is_ipv6: bool,
    (address, room): (*mut sockaddr, socklen_t),
    len: *mut socklen_t,
) {
    let raw = Raw::of(found, is_ipv6);
    let room = room.min(raw.len) as usize;
    // SAFETY: the caller's promise.
    unsafe {
        ptr::copy_nonoverlapping(raw.as_ptr().cast::<u8>(), address.cast::<u8>(), room);
        len.write_unaligned(raw.len);
    }
}

/// Reads the address of one end of a socket: SYS_getsockname or SYS_getpeername.
pub(crate) fn address_of(call: c_long, fd: c_int) -> Option<SocketAddr> {
    // SAFETY: all zeros are a value of it.
    let mut storage: sockaddr_storage = unsafe { std::mem::zeroed() };
    let mut len = size_of::<sockaddr_storage>() as socklen_t;
    // SAFETY: the kernel writes within the storage.
    let result = unsafe { libc::syscall(call, fd, &raw mut storage, &raw mut len) };
    checked(result).ok()?;
    parse_address(&storage, len as usize)
}

/// Reads an option into a value. Returns the length that the kernel has written.
pub(crate) fn option<T: Copy>(fd: c_int, level: c_int, name: c_int, value: &mut T) -> Result<usize, c_int> {
    let mut len = size_of::<T>() as socklen_t;
    let place = ptr::from_mut(value);
    // SAFETY: the kernel writes at most this many bytes, and every value of them is one of the types here,
    // which are numbers and arrays of them.
    let result =
        unsafe { libc::syscall(libc::SYS_getsockopt, fd, level, name, place.cast::<c_void>(), &raw mut len) };
    checked(result).map(|_| len as usize)
}

/// Sets an option.
pub(crate) fn set_option<T: Copy>(fd: c_int, level: c_int, name: c_int, value: &T) -> Result<(), c_int> {
    let len = size_of::<T>() as socklen_t;
    let place = ptr::from_ref(value).cast::<c_void>();
    // SAFETY: the kernel reads this many bytes.
    let result = unsafe { libc::syscall(libc::SYS_setsockopt, fd, level, name, place, len) };
    checked(result).map(|_| ())
}

/// connect(2) at the kernel.
pub(crate) fn connect_at_kernel(fd: c_int, address: &Raw) -> Result<(), c_int> {
    // SAFETY: the kernel reads this many bytes.
    let result = unsafe { libc::syscall(libc::SYS_connect, fd, address.as_ptr(), address.len) };
    checked(result).map(|_| ())
}

/// Returns the flags of an open file (F_GETFL).
pub(crate) fn flags(fd: c_int) -> c_int {
    // SAFETY: no memory is involved.
    let result = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
    checked(result).map_or(0, |flags| flags as c_int)
}

/// Waits for events of a socket, at most this long. Returns those that have come.
pub(crate) fn wait_for(fd: c_int, events: i16, mut milliseconds: i64) -> i16 {
    let mut poll = libc::pollfd { fd, events, revents: 0 };
    loop {
        let mut time =
            libc::timespec { tv_sec: milliseconds / 1000, tv_nsec: milliseconds % 1000 * 1_000_000 };
        let no_mask = ptr::null::<c_void>();
        let (one, mask_len): (libc::nfds_t, usize) = (1, 8);
        // SAFETY: one entry, and the kernel writes into it and into the time, which is left over.
        let result =
            unsafe { libc::syscall(libc::SYS_ppoll, &raw mut poll, one, &raw mut time, no_mask, mask_len) };
        match checked(result) {
            Ok(0) => return 0,
            Ok(_) => return poll.revents,
            // Interrupted: the time that is left is in it.
            Err(libc::EINTR) => milliseconds = time.tv_sec * 1000 + time.tv_nsec / 1_000_000,
            Err(_) => return 0,
        }
    }
}

/// Sends bytes and more bytes as one, at once or not at all. Returns how many the kernel took.
pub(crate) fn send_at_once(fd: c_int, parts: &[&[u8]; 2], flags: c_int) -> Result<usize, c_int> {
    let part =
        |bytes: &[u8]| libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let mut parts = [part(parts[0]), part(parts[1])];
    // SAFETY: all zeros are a value of it.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = parts.as_mut_ptr();
    message.msg_iovlen = parts.len() as _;
    let flags = flags | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: the kernel reads the parts.
    checked(unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const message, flags) })
}

/// Sends a byte of urgent data, and waits for room. A thread may be cancelled here.
pub(crate) fn send_urgent(fd: c_int) -> Result<(), c_int> {
    let byte = 0_u8;
    // SAFETY: the kernel reads one byte.
    let result =
        unsafe { send_cancellable(fd, ptr::from_ref(&byte).cast(), 1, libc::MSG_OOB | libc::MSG_NOSIGNAL) };
    if result < 0 { Err(errno()) } else { Ok(()) }
}

/// Opens a TCP socket that `exec` closes.
pub(crate) fn open(is_ipv6: bool) -> Result<c_int, c_int> {
    let family = if is_ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is involved.
    let result = unsafe { libc::syscall(libc::SYS_socket, family, kind, libc::IPPROTO_TCP) };
    checked(result).map(|fd| fd as c_int)
}

/// Receives bytes until the room is full. Returns how many came.
pub(crate) fn receive(fd: c_int, room: &mut [u8]) -> Result<usize, c_int> {
    let (place, none) = (room.as_mut_ptr(), ptr::null::<c_void>());
    // SAFETY: the kernel writes within the room.
    let result =
        unsafe { libc::syscall(libc::SYS_recvfrom, fd, place, room.len(), libc::MSG_WAITALL, none, none) };
    checked(result)
}

pub(crate) fn close(fd: c_int) {
    // SAFETY: the descriptor is the caller's own.
    unsafe { libc::syscall(libc::SYS_close, fd) };
}
