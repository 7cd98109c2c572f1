//! The network interfaces and their addresses.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::AsRawFd;
use std::ptr;

use super::address::Name;

/// An address of an interface that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    pub(crate) address: IpAddr,
    pub(crate) interface: String,
    /// Index of the interface; 0 if it has disappeared meanwhile.
    pub(crate) index: u32,
}

pub(crate) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: on success `list` is set to a list that this function owns until it is freed below; otherwise
    // it is not used.
    if unsafe { libc::getifaddrs(&raw mut list) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: `next` is null or an entry of the list, which has not been freed yet; so are its name and address, and
    // the address is as long as its family says.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        if entry.ifa_flags & libc::IFF_UP as u32 == 0 {
            continue;
        }
        // SAFETY: as above; the name ends with a zero byte.
        let (address, name) = unsafe { (Name::from_ptr(entry.ifa_addr), CStr::from_ptr(entry.ifa_name)) };
        if let Some(address) = address.get() {
            // SAFETY: the name ends with a zero byte.
            let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
            let interface = name.to_string_lossy().into_owned();
            found.push(InterfaceAddress { address: address.ip(), interface, index });
        }
    }
    // SAFETY: the list comes from getifaddrs, is freed once, and no part of it is kept.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}

/// The MTU of an interface that is up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InterfaceMtu {
    /// Largest IP packet in bytes.
    pub mtu: u32,
    /// True for the loopback interface.
    pub is_loopback: bool,
}

/// Returns the MTUs of this host's network interfaces that are up.
///
/// # Errors
/// If the system doesn't list them.
pub fn mtus() -> io::Result<Vec<InterfaceMtu>> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
    let mut found = Vec::new();
    for (name, _) in interfaces()? {
        // An interface that has disappeared meanwhile is left out.
        let Ok(flags) = request(&socket, &name, libc::SIOCGIFFLAGS) else { continue };
        let Ok(mtu) = request(&socket, &name, libc::SIOCGIFMTU) else { continue };
        // SAFETY: SIOCGIFFLAGS has filled in the flags, and SIOCGIFMTU the MTU.
        let (flags, mtu) = unsafe { (i32::from(flags.ifr_ifru.ifru_flags), mtu.ifr_ifru.ifru_mtu) };
        if flags & libc::IFF_UP != 0 {
            let mtu = u32::try_from(mtu).unwrap_or_default();
            found.push(InterfaceMtu { mtu, is_loopback: flags & libc::IFF_LOOPBACK != 0 });
        }
    }
    Ok(found)
}

/// Asks for one property of an interface.
fn request(socket: &UdpSocket, name: &str, which: libc::Ioctl) -> io::Result<libc::ifreq> {
    // SAFETY: all-zero bytes are a valid request, with an empty name.
    let mut request: libc::ifreq = unsafe { core::mem::zeroed() };
    // The last byte stays 0. Names have at most 15 bytes.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name.iter_mut().zip(name.bytes().take(room)) {
        *to = from as libc::c_char;
    }
    // SAFETY: the descriptor is open, and the request is of the type that these ioctls read and write.
    let done = unsafe { libc::ioctl(socket.as_raw_fd(), which, &raw mut request) };
    if done == 0 { Ok(request) } else { Err(io::Error::last_os_error()) }
}

/// Returns the names and indexes of this host's network interfaces, including those that are down.
///
/// # Errors
/// If the system doesn't list them.
pub fn interfaces() -> io::Result<Vec<(String, u32)>> {
    // SAFETY: the call has no arguments; the list that it returns is freed below.
    let list = unsafe { libc::if_nameindex() };
    if list.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list ends with an entry whose index is 0 and whose name is null; `next` does not go beyond
    // it.
    while let Some(entry) = unsafe { next.as_ref() }.filter(|entry| !entry.if_name.is_null()) {
        // SAFETY: the name of an entry ends with a zero byte.
        let name = unsafe { CStr::from_ptr(entry.if_name) };
        found.push((name.to_string_lossy().into_owned(), entry.if_index));
        // SAFETY: an entry that is not the last is followed by another one.
        next = unsafe { next.add(1) };
    }
    // SAFETY: the list comes from if_nameindex, is freed once, and no part of it is kept.
    unsafe { libc::if_freenameindex(list) };
    Ok(found)
}
