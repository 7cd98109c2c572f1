//! Requests to change the addresses of an association (RFC 5061), and what becomes of them.

use core::net::IpAddr;

/// Maximum number of requests of an association that wait to be sent or answered.
pub const REQUESTS_MAX: usize = 16;

/// A request to the peer about one of this side's addresses.
///
/// The unspecified address stands for the source of the packet as the peer sees it. Behind a NAT, whose
/// public address is not known, `Add`, `Delete` and `SetPrimary` of it in one go move the association to
/// wherever the packet comes from. An attacker on the path can change that address (RFC 5061 section 6).
/// Local addresses of the association do not change by such a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AddressRequest {
    /// Adds a local address: the peer sends to it once it has answered a HEARTBEAT. Packets come from it once the peer
    /// has accepted it.
    Add(IpAddr),
    /// Deletes a local address. No packet comes from it any more. Packets to it are accepted until the peer has deleted
    /// it. The unspecified address stands for all except the source of the packet.
    Delete(IpAddr),
    /// Asks the peer to send to this local address as long as it works.
    SetPrimary(IpAddr),
}

impl AddressRequest {
    /// Returns the address.
    #[must_use]
    pub const fn address(self) -> IpAddr {
        match self {
            Self::Add(address) | Self::Delete(address) | Self::SetPrimary(address) => address,
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum AddressOutcome {
    /// The peer performed it.
    Performed,
    /// The peer refused it, or an earlier one in the same ASCONF chunk.
    Refused {
        /// The cause code (RFC 5061 section 4.3, RFC 9260 section 3.3.10).
        code: u16,
    },
    /// The peer does not know such requests. No more are accepted.
    NotSupported,
    /// The association ended or restarted before the peer answered.
    Failed,
}
