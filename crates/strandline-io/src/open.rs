//! Errors in opening a carrier.

use std::io;
use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

/// The reason why a carrier could not be opened. The messages say what to do about it.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// Raw sockets need CAP_NET_RAW.
    #[error(
        "raw IP sockets require CAP_NET_RAW: run as root, give the program the capability \
         (setcap cap_net_raw+ep BINARY), or use UDP encapsulation, which needs no privilege"
    )]
    Privilege,
    /// The kernel has its own SCTP, which answers packets of associations that it doesn't know with ABORT.
    #[error(
        "the kernel's own SCTP is active ({evidence}) and would abort associations that are not its own: unload it \
         (modprobe -r sctp), use UDP encapsulation, or allow it explicitly where a firewall keeps the kernel's \
         packets from leaving"
    )]
    KernelSctp {
        /// The evidence by which it was detected.
        evidence: &'static str,
    },
    /// Another socket is bound to the address.
    #[error("{address} is in use by another socket: choose another port, or stop the program that uses it")]
    AddressInUse {
        /// The requested address.
        address: SocketAddr,
    },
    /// The address isn't one of this host's.
    #[error("{address} is not an address of this host")]
    AddressNotAvailable {
        /// The requested address.
        address: IpAddr,
    },
    /// A link-local IPv6 address without its zone: it could be on any link.
    #[error(
        "{address} is a link-local address, which each link may have: add the interface, as in {address}%eth0"
    )]
    NoZone {
        /// The address that was asked for.
        address: IpAddr,
    },
    /// IPv6 is switched off.
    #[error("IPv6 is disabled on this host ({evidence}): bind to an IPv4 address, or enable IPv6")]
    Ipv6Disabled {
        /// The evidence by which it was detected.
        evidence: &'static str,
    },
    /// Ports below `net.ipv4.ip_unprivileged_port_start` (1024) need CAP_NET_BIND_SERVICE.
    #[error("binding to {address} requires privilege: choose a port of 1024 or more, or run as root")]
    PrivilegedPort {
        /// The requested address.
        address: SocketAddr,
    },
    /// Any other error.
    #[error("{action}: {cause}")]
    Io {
        /// The action that failed.
        action: &'static str,
        /// The system's error. Not also the error's source: printing the chain of sources would repeat it.
        cause: io::Error,
    },
}

impl OpenError {
    /// Converts an error of the `socket` call.
    pub(crate) fn of_socket(cause: io::Error, raw: bool) -> Self {
        match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) if raw => Self::Privilege,
            Some(libc::EAFNOSUPPORT) => Self::Ipv6Disabled { evidence: "the kernel has no IPv6" },
            _ => Self::Io { action: "creating a socket", cause },
        }
    }

    /// Converts an error of the `bind` call.
    pub(crate) fn of_bind(cause: io::Error, address: SocketAddr) -> Self {
        match cause.raw_os_error() {
            Some(libc::EADDRINUSE) => Self::AddressInUse { address },
            Some(libc::EINVAL) if lacks_zone(address) => Self::NoZone { address: address.ip() },
            Some(libc::EADDRNOTAVAIL) if address.is_ipv6() && ipv6_is_disabled() => {
                Self::Ipv6Disabled { evidence: "net.ipv6.conf.all.disable_ipv6 is 1" }
            }
            Some(libc::EADDRNOTAVAIL) => Self::AddressNotAvailable { address: address.ip() },
            Some(libc::EACCES) if address.port() != 0 => Self::PrivilegedPort { address },
            _ => Self::Io { action: "binding a socket", cause },
        }
    }

    /// Converts an error of the calls that open packet sockets.
    pub(crate) fn of_packet_socket(cause: io::Error) -> Self {
        match cause.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => Self::Privilege,
            _ => Self::Io { action: "creating a packet socket", cause },
        }
    }

    pub(crate) fn of_option(cause: io::Error) -> Self {
        Self::Io { action: "setting up a socket", cause }
    }
}

fn lacks_zone(address: SocketAddr) -> bool {
    matches!(address, SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0)
}

fn ipv6_is_disabled() -> bool {
    std::fs::read_to_string("/proc/sys/net/ipv6/conf/all/disable_ipv6").is_ok_and(|text| text.trim() == "1")
}

#[cfg(test)]
mod tests;
