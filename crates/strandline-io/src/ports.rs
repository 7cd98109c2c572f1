//! Reservation of SCTP ports among the processes of a host, for raw IP, where the kernel doesn't manage them.

use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use thiserror::Error;

/// Ports for associations that don't request a port (RFC 6335 section 6).
pub const EPHEMERAL_PORTS: RangeInclusive<u16> = 49_152..=65_535;

const PREFIX: &str = "strandline-sctp/";
/// List of Unix sockets in the network namespace of the thread, which may differ from the process's.
const UNIX_SOCKETS: &str = "/proc/thread-self/net/unix";

/// The reason why ports could not be locked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LockError {
    /// Another endpoint has one of the ports.
    #[error(
        "SCTP port {} is in use by another process of this host that sends raw IP ({})",
        Ports(.ports),
        "`ss -xap | grep strandline-sctp` names it"
    )]
    InUse {
        /// The requested ports.
        ports: RangeInclusive<u16>,
    },
    /// Every port of the range is in use.
    #[error("no {count} SCTP ports in a row are free within {}", Ports(.within))]
    Exhausted {
        /// The range that was searched.
        within: RangeInclusive<u16>,
        /// Number of ports that were requested.
        count: u16,
    },
    /// Any other error.
    #[error("locking SCTP ports: {0}")]
    Io(io::Error),
}

impl From<io::Error> for LockError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

struct Ports<'a>(&'a RangeInclusive<u16>);

impl std::fmt::Display for Ports<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.start() == self.0.end() {
            return write!(formatter, "{}", self.0.start());
        }
        write!(formatter, "{}-{}", self.0.start(), self.0.end())
    }
}

/// Reserves SCTP ports among the processes of a host that use raw IP, as long as this value exists.
///
/// The kernel manages the ports of TCP and UDP, but not those of SCTP on raw sockets. Two processes could use
/// the same port, and each would abort the other's associations. A lock is a Unix socket whose name in the
/// abstract namespace encodes the ports. Such names belong to the network namespace, as ports do, and end
/// with the process, however it ends. Any local user could create a socket of such a name and so keep a port
/// from being used, but no more than that.
///
/// Locks with an address and locks for all addresses (`None`) exclude each other where their ports overlap.
/// Locks of different addresses don't.
#[derive(Debug)]
pub struct PortLock {
    claim: Claim,
    // Keeps the name bound.
    _socket: UnixDatagram,
}

impl PortLock {
    /// Locks one port, for all local addresses or one of them.
    ///
    /// # Errors
    ///
    /// [`LockError::InUse`] if another lock, of this process or another, has the port.
    pub fn port(port: u16, address: Option<IpAddr>) -> Result<Self, LockError> {
        Self::range(port..=port, address)
    }

    /// Locks a range of ports.
    ///
    /// # Errors
    ///
    /// [`LockError::InUse`] if another lock overlaps. Two overlapping locks taken at the same moment never
    /// both succeed; if they overlap without being equal, both may fail.
    pub fn range(ports: RangeInclusive<u16>, address: Option<IpAddr>) -> Result<Self, LockError> {
        let claim = Claim { first: *ports.start(), last: *ports.end(), address };
        let in_use = || LockError::InUse { ports: ports.clone() };
        let name = SocketAddr::from_abstract_name(claim.name())?;
        // Binding the name excludes equal claims. Claims that only overlap are looked for once this one is
        // visible, so that the later of two processes sees the earlier one's claim.
        let socket = UnixDatagram::bind_addr(&name).map_err(|error| {
            if error.kind() == io::ErrorKind::AddrInUse { in_use() } else { error.into() }
        })?;
        match std::fs::read_to_string(UNIX_SOCKETS) {
            Ok(text) if claims(&text).any(|other| other != claim && other.overlaps(&claim)) => Err(in_use()),
            Ok(_) => Ok(Self { claim, _socket: socket }),
            // Without /proc, only equal claims are excluded.
            Err(error) => {
                tracing::debug!(%error, "reading {UNIX_SOCKETS} failed");
                Ok(Self { claim, _socket: socket })
            }
        }
    }

    /// Locks `count` consecutive free ports within a range such as [`EPHEMERAL_PORTS`]. The search starts at
    /// a position that differs from process to process.
    ///
    /// # Errors
    ///
    /// [`LockError::Exhausted`] if no block of `count` ports that starts at a multiple of `count` is free.
    pub fn any(within: RangeInclusive<u16>, count: u16, address: Option<IpAddr>) -> Result<Self, LockError> {
        let count = count.max(1);
        let start = u32::from(*within.start()).next_multiple_of(u32::from(count));
        let end = u32::from(*within.end()) + 1;
        let blocks = end.saturating_sub(start) / u32::from(count);
        let offset = std::process::id().wrapping_mul(0x9e37_79b1) >> 8;
        for block in 0..blocks {
            let first = start + (block + offset % blocks) % blocks * u32::from(count);
            let (Ok(first), Ok(last)) = (u16::try_from(first), u16::try_from(first + u32::from(count) - 1))
            else {
                continue;
            };
            match Self::range(first..=last, address) {
                Err(LockError::InUse { .. }) => {}
                result => return result,
            }
        }
        Err(LockError::Exhausted { within, count })
    }

    /// Returns the locked ports.
    #[must_use]
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.claim.first..=self.claim.last
    }
}

/// The content of a lock's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Claim {
    first: u16,
    last: u16,
    address: Option<IpAddr>,
}

impl Claim {
    fn name(&self) -> String {
        let address = self.address.map_or_else(|| "*".to_owned(), |address| address.to_string());
        format!("{PREFIX}{}-{}/{address}", self.first, self.last)
    }

    fn parse(name: &str) -> Option<Self> {
        let (ports, address) = name.strip_prefix(PREFIX)?.split_once('/')?;
        let (first, last) = ports.split_once('-')?;
        let address = if address == "*" { None } else { Some(address.parse().ok()?) };
        Some(Self { first: first.parse().ok()?, last: last.parse().ok()?, address })
    }

    fn overlaps(&self, other: &Self) -> bool {
        let addresses = self.address.is_none() || other.address.is_none() || self.address == other.address;
        addresses && self.first <= other.last && other.first <= self.last
    }
}

/// Returns the claims among the lines of `/proc/net/unix`. The name is the last word, with `@` for the
/// abstract namespace.
fn claims(text: &str) -> impl Iterator<Item = Claim> {
    text.lines().filter_map(|line| Claim::parse(line.rsplit_once(" @")?.1))
}

#[cfg(test)]
mod tests;
