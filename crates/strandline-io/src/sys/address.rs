//! Socket addresses in the kernel's representation.
#![allow(unsafe_code)]

use std::mem::{align_of, size_of};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

/// An IPv4 or IPv6 socket address, large enough for either. All bytes of it are always initialised.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Name {
    bytes: [u64; size_of::<libc::sockaddr_in6>().div_ceil(8)],
}

const _: () = assert!(size_of::<Name>() >= size_of::<libc::sockaddr_in6>());
const _: () = assert!(align_of::<Name>() >= align_of::<libc::sockaddr_in6>());

impl Name {
    pub(crate) const EMPTY: Self = Self { bytes: [0; _] };
    pub(crate) const SIZE: usize = size_of::<Self>();

    /// Returns the address as a socket of the given family takes it, and its length in bytes. With `mapped`,
    /// an IPv4 address takes the IPv6 form that dual-stack sockets need.
    pub(crate) fn of(address: SocketAddr, mapped: bool) -> (Self, u32) {
        let mut name = Self::EMPTY;
        let len = match address {
            SocketAddr::V4(v4) if mapped => {
                name.put_v6(&SocketAddrV6::new(v4.ip().to_ipv6_mapped(), v4.port(), 0, 0));
                size_of::<libc::sockaddr_in6>()
            }
            SocketAddr::V4(v4) => {
                name.put(0, (libc::AF_INET as libc::sa_family_t).to_ne_bytes());
                name.put(2, v4.port().to_be_bytes());
                name.put(4, v4.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                name.put_v6(&v6);
                size_of::<libc::sockaddr_in6>()
            }
        };
        (name, len as u32)
    }

    /// Copies an address. Returns an empty one if the pointer is null or the family is another one.
    ///
    /// # Safety
    ///
    /// The pointer is null, or points to a socket address that is as long as its family requires.
    pub(crate) unsafe fn from_ptr(address: *const libc::sockaddr) -> Self {
        let mut name = Self::EMPTY;
        // SAFETY: the caller guarantees it.
        let Some(family) = (unsafe { address.as_ref() }).map(|address| i32::from(address.sa_family)) else {
            return name;
        };
        let len = match family {
            libc::AF_INET => size_of::<libc::sockaddr_in>(),
            libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
            _ => return name,
        };
        // SAFETY: the caller guarantees that `len` bytes can be read, and `name` is at least that long
        // (asserted above).
        unsafe { std::ptr::copy_nonoverlapping(address.cast::<u8>(), (&raw mut name).cast::<u8>(), len) };
        name
    }

    fn put_v6(&mut self, v6: &SocketAddrV6) {
        self.put(0, (libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
        self.put(2, v6.port().to_be_bytes());
        self.put(4, v6.flowinfo().to_be_bytes());
        self.put(8, v6.ip().octets());
        self.put(24, v6.scope_id().to_ne_bytes());
    }

    /// Writes bytes at `at`. The fields' offsets are the same on every architecture (asserted below).
    fn put<const N: usize>(&mut self, at: usize, value: [u8; N]) {
        for (place, byte) in value.into_iter().enumerate().map(|(index, byte)| (at + index, byte)) {
            if let Some(word) = self.bytes.get_mut(place / 8) {
                let mut octets = word.to_ne_bytes();
                octets[place % 8] = byte;
                *word = u64::from_ne_bytes(octets);
            }
        }
    }

    fn octets<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|index| {
            let place = at + index;
            self.bytes.get(place / 8).map_or(0, |word| word.to_ne_bytes()[place % 8])
        })
    }

    /// Returns the address that the kernel wrote, with IPv4-mapped IPv6 as IPv4; `None` for other families.
    pub(crate) fn get(&self) -> Option<SocketAddr> {
        let port = u16::from_be_bytes(self.octets(2));
        match i32::from(libc::sa_family_t::from_ne_bytes(self.octets(0))) {
            libc::AF_INET => Some(SocketAddrV4::new(Ipv4Addr::from(self.octets::<4>(4)), port).into()),
            libc::AF_INET6 => {
                let ip = Ipv6Addr::from(self.octets::<16>(8));
                if let Some(v4) = ip.to_ipv4_mapped() {
                    return Some(SocketAddrV4::new(v4, port).into());
                }
                let flow = u32::from_be_bytes(self.octets(4));
                Some(SocketAddrV6::new(ip, port, flow, u32::from_ne_bytes(self.octets(24))).into())
            }
            _ => None,
        }
    }

    pub(crate) fn as_mut_ptr(&mut self) -> *mut libc::c_void {
        (&raw mut self.bytes).cast()
    }
}

const _: () = {
    use std::mem::offset_of;
    assert!(offset_of!(libc::sockaddr_in, sin_family) == 0);
    assert!(offset_of!(libc::sockaddr_in, sin_port) == 2);
    assert!(offset_of!(libc::sockaddr_in, sin_addr) == 4);
    assert!(offset_of!(libc::sockaddr_in6, sin6_family) == 0);
    assert!(offset_of!(libc::sockaddr_in6, sin6_port) == 2);
    assert!(offset_of!(libc::sockaddr_in6, sin6_flowinfo) == 4);
    assert!(offset_of!(libc::sockaddr_in6, sin6_addr) == 8);
    assert!(offset_of!(libc::sockaddr_in6, sin6_scope_id) == 24);
};

#[cfg(test)]
mod tests;
