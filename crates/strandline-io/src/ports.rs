//! Which process of the host has which SCTP port, for raw IP, where the kernel doesn't know.

use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use thiserror::Error;

/// Ports for associations that don't ask for one (RFC 6335 section 6).
pub const EPHEMERAL_PORTS: RangeInclusive<u16> = 49_152..=65_535;

const PREFIX: &str = "strandline-sctp/";
/// Of the thread's own network namespace, which need not be the process's.
const UNIX_SOCKETS: &str = "/proc/thread-self/net/unix";

/// Why ports could not be locked.
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
        /// The ports that were asked for.
        ports: RangeInclusive<u16>,
    },
    /// Every port of the range is in use.
    #[error("no {count} SCTP ports in a row are free within {}", Ports(.within))]
    Exhausted {
        /// The range that was searched.
        within: RangeInclusive<u16>,
        /// Number of ports that were wanted.
        count: u16,
    },
    /// Anything else.
    #[error("locking SCTP ports: {0}")]
    Io(#[from] io::Error),
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
/// The kernel knows the ports of TCP and UDP, but not those of SCTP on raw sockets: two processes could use the same
/// one, and each would abort the other's associations. A lock is a Unix socket with a name in the abstract namespace
/// that says which ports it is for. Such names belong to the network namespace, as ports do, and end with the process,
/// however it ends. Any local user could make a socket of such a name, and so keep a port from being used, but no more
/// than that.
///
/// Locks with an address and locks for all addresses (`None`) exclude each other where their ports overlap; locks of
/// different addresses don't.
#[derive(Debug)]
pub struct PortLock {
    claim: Claim,
    // Holds the name.
    _socket: UnixDatagram,
}

impl PortLock {
    /// Locks one port, for all local addresses or one of them.
    ///
    /// # Errors
    ///
    /// [`LockError::InUse`] if another lock, of this process or another, has it.
    pub fn port(port: u16, address: Option<IpAddr>) -> Result<Self, LockError> {
        Self::range(port..=port, address)
    }

    /// Locks a range of ports.
    ///
    /// # Errors
    ///
    /// [`LockError::InUse`] if another lock overlaps. Two that are taken at the same moment never both succeed; if they
    /// overlap without being the same, it can be that neither does.
    pub fn range(ports: RangeInclusive<u16>, address: Option<IpAddr>) -> Result<Self, LockError> {
        let claim = Claim { first: *ports.start(), last: *ports.end(), address };
        let in_use = || LockError::InUse { ports: ports.clone() };
        let name = SocketAddr::from_abstract_name(claim.name())?;
        // The name keeps out whoever wants exactly the same. Others, whose claims only overlap, are looked for when our
        // own can be seen: whoever comes second sees the first.
        let socket = UnixDatagram::bind_addr(&name).map_err(|error| {
            if error.kind() == io::ErrorKind::AddrInUse { in_use() } else { error.into() }
        })?;
        match std::fs::read_to_string(UNIX_SOCKETS) {
            Ok(text) if claims(&text).any(|other| other != claim && other.overlaps(&claim)) => Err(in_use()),
            Ok(_) => Ok(Self { claim, _socket: socket }),
            // Without /proc, only claims of the same name are kept out.
            Err(error) => {
                tracing::debug!(%error, "{UNIX_SOCKETS} can't be read");
                Ok(Self { claim, _socket: socket })
            }
        }
    }

    /// Locks `count` ports in a row that are free, somewhere within a range such as [`EPHEMERAL_PORTS`]. Where it looks
    /// first differs from process to process.
    ///
    /// # Errors
    ///
    /// [`LockError::Exhausted`] if there is no such row at a multiple of `count`.
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

    /// The ports that are locked.
    #[must_use]
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.claim.first..=self.claim.last
    }
}

/// What a lock's name says.
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

/// The claims among the lines of `/proc/net/unix`, whose last word is the name, `@` for the abstract namespace.
fn claims(text: &str) -> impl Iterator<Item = Claim> {
    text.lines().filter_map(|line| Claim::parse(line.rsplit_once(" @")?.1))
}

#[cfg(test)]
mod tests;
