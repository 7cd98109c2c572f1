//! The addresses of the network interfaces.
#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::ptr;

use super::address::Name;

/// An address of an interface that is up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InterfaceAddress {
    pub(crate) address: IpAddr,
    pub(crate) interface: String,
    /// Index of the interface; 0 if it is gone meanwhile.
    pub(crate) index: u32,
}

pub(crate) fn addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut list: *mut libc::ifaddrs = ptr::null_mut();
    // SAFETY: on success `list` is set to a list that is ours until it is freed below; it is not used otherwise.
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
    // SAFETY: the list comes from getifaddrs, is freed once, and nothing of it is kept.
    unsafe { libc::freeifaddrs(list) };
    Ok(found)
}
