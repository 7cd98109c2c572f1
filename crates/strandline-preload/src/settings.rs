//! What `strandline run` says to the library, in one variable of the environment, which `exec` passes on.

use std::net::{IpAddr, SocketAddr};
use std::sync::OnceLock;

use crate::socket::Socket;
use crate::system;

/// The variable: the gateway's address, then words, all separated by commas: `loopback`, `fallback=none`,
/// `direct=NETWORK`, `secret=NUMBER`.
const VARIABLE: &std::ffi::CStr = c"STRANDLINE_GATEWAY";
const LOOPBACK: &str = "loopback";
/// Networks to which connections are direct.
const NETWORKS_MAX: usize = 64;

/// Where connections go.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings {
    pub(crate) gateway: SocketAddr,
    /// Connections are direct while the gateway does not listen.
    pub(crate) has_fallback: bool,
    takes_loopback: bool,
    /// What other users of the host don't know: with it, cookies of sockets can't be guessed.
    secret: u64,
    direct: [Option<(IpAddr, u8)>; NETWORKS_MAX],
}

/// What the variable says.
#[allow(clippy::large_enum_variant, reason = "there is one value, which is not allocated")]
enum Found {
    Nothing,
    Settings(Settings),
    /// Something that this library does not understand: `strandline run` is of another version. What should go
    /// through the gateway must not go directly, so nothing is connected.
    Unknown {
        takes_loopback: bool,
    },
}

static FOUND: OnceLock<Found> = OnceLock::new();

/// Reads the settings while the program has one thread.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOADING: extern "C" fn() = at_loading;

extern "C" fn at_loading() {
    system::prepare();
    if unknown().is_some() {
        // At loading, standard error is still the one that the user sees.
        system::complain(UNKNOWN);
    }
}

const UNKNOWN: &[u8] =
    b"strandline: libstrandline_preload.so does not understand the settings of `strandline run`, \
    which is of another version: TCP connections are refused\n";

/// Returns the settings; `None` if there are none that are understood.
pub(crate) fn settings() -> Option<&'static Settings> {
    match found() {
        Found::Settings(settings) => Some(settings),
        Found::Nothing | Found::Unknown { .. } => None,
    }
}

/// Returns whether connections to loopback addresses go through the gateway, by settings that are not understood;
/// `None` if there are none.
pub(crate) fn unknown() -> Option<bool> {
    match *found() {
        Found::Unknown { takes_loopback } => Some(takes_loopback),
        Found::Nothing | Found::Settings(_) => None,
    }
}

fn found() -> &'static Found {
    FOUND.get_or_init(read)
}

fn read() -> Found {
    // SAFETY: the name ends with a zero.
    let value = unsafe { libc::getenv(VARIABLE.as_ptr()) };
    if value.is_null() {
        return Found::Nothing;
    }
    // SAFETY: it ends with a zero, and lasts for this call.
    let value = unsafe { std::ffi::CStr::from_ptr(value) };
    if value.is_empty() {
        return Found::Nothing;
    }
    // Bytes that are not UTF-8 count as unknown settings.
    let text = value.to_str().unwrap_or_default();
    let takes_loopback = text.split(',').any(|word| word == LOOPBACK);
    parse(text).map_or(Found::Unknown { takes_loopback }, Found::Settings)
}

fn parse(text: &str) -> Option<Settings> {
    let mut words = text.split(',');
    let gateway = words.next()?.parse().ok()?;
    let mut settings = Settings {
        gateway,
        has_fallback: true,
        takes_loopback: false,
        secret: 0,
        direct: [None; NETWORKS_MAX],
    };
    let mut networks = settings.direct.iter_mut();
    for word in words {
        match word.split_once('=') {
            None if word == LOOPBACK => settings.takes_loopback = true,
            Some(("fallback", "none")) => settings.has_fallback = false,
            Some(("secret", number)) => settings.secret = u64::from_str_radix(number, 16).ok()?,
            Some(("direct", network)) => {
                let (ip, len) = network.split_once('/')?;
                *networks.next()? = Some((ip.parse().ok()?, len.parse().ok()?));
            }
            _ => return None,
        }
    }
    Some(settings)
}

impl Settings {
    /// Returns the number by which the gateway knows a socket.
    pub(crate) fn key_of(&self, socket: Socket) -> Option<u64> {
        socket.cookie().map(|cookie| cookie ^ self.secret)
    }

    /// Returns whether connections to an address don't go through the gateway.
    pub(crate) fn is_direct(&self, address: SocketAddr) -> bool {
        let ip = address.ip().to_canonical();
        let is_gateway = SocketAddr::new(ip, address.port()) == self.gateway;
        is_always_direct(address, self.takes_loopback)
            || is_gateway
            || self.direct.iter().flatten().any(|(network, len)| contains(*network, *len, ip))
    }
}

/// Returns whether connections to an address are direct by any settings that take loopback addresses or don't.
pub(crate) fn is_always_direct(address: SocketAddr, takes_loopback: bool) -> bool {
    let ip = address.ip().to_canonical();
    let is_link_local = match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.is_unicast_link_local(),
    };
    let is_local = ip.is_loopback() || ip.is_unspecified();
    (is_local && !takes_loopback) || is_link_local || ip.is_multicast() || address.port() == 0
}

fn contains(network: IpAddr, len: u8, ip: IpAddr) -> bool {
    let differs = |bits: u32, difference: u128| {
        len != 0 && u32::from(len) <= bits && difference >> (bits - u32::from(len)) != 0
    };
    match (network, ip) {
        (IpAddr::V4(network), IpAddr::V4(ip)) => !differs(32, u128::from(network.to_bits() ^ ip.to_bits())),
        (IpAddr::V6(network), IpAddr::V6(ip)) => !differs(128, network.to_bits() ^ ip.to_bits()),
        _ => false,
    }
}
