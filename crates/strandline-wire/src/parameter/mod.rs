//! Parameters (RFC 9260 sections 3.2.1 and 3.3.2 to 3.3.5, and extensions): a file for each type, with its diagram.

mod cookie_preservative;
mod ecn_capable;
mod heartbeat_info;
mod host_name;
mod ipv4_address;
mod ipv6_address;
pub mod kind;
mod pad;
mod raw;
mod state_cookie;
mod supported_address_types;
mod unrecognised_parameter;
mod zero_checksum_acceptable;

pub use raw::{ParameterIter, Parameters, RawParameter};
pub use supported_address_types::SupportedAddressTypes;
pub use zero_checksum_acceptable::EDMID_SCTP_OVER_DTLS;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::encode::{EncodeTlv, put};
use crate::error::ParameterError;

/// A parameter of a known type with its content, or one of an unknown type.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Parameter<'a> {
    /// What a HEARTBEAT carries.
    HeartbeatInfo(&'a [u8]),
    /// An IPv4 address of the sender.
    Ipv4Address(Ipv4Addr),
    /// An IPv6 address of the sender.
    Ipv6Address(Ipv6Addr),
    /// The cookie of an INIT ACK.
    StateCookie(&'a [u8]),
    /// A whole parameter that the sender of an INIT ACK didn't know: type, length and value.
    UnrecognisedParameter(&'a [u8]),
    /// Asks for a cookie that lives longer.
    CookiePreservative {
        /// How much longer, in milliseconds.
        increment_ms: u32,
    },
    /// Deprecated: the receiver aborts.
    HostName(&'a [u8]),
    /// Which types of addresses the sender can use.
    SupportedAddressTypes(SupportedAddressTypes<'a>),
    /// The sender understands ECNE and CWR.
    EcnCapable,
    /// The sender takes packets with checksum zero.
    ZeroChecksumAcceptable {
        /// How it detects errors instead: an Error Detection Method Identifier, assigned or not.
        edmid: u32,
    },
    /// Makes an INIT larger.
    Pad {
        /// Bytes of padding data: four less than the parameter takes, if a multiple of four.
        padding_len: usize,
    },
    /// A type that this crate doesn't know; [`RawParameter::unrecognised_action`] says what it asks for.
    Unknown(RawParameter<'a>),
}

impl<'a> RawParameter<'a> {
    /// The parameter's content.
    ///
    /// # Errors
    /// If the value doesn't have the size that the type prescribes.
    pub fn parse(&self) -> Result<Parameter<'a>, ParameterError> {
        Ok(match self.kind {
            kind::HEARTBEAT_INFO => Parameter::HeartbeatInfo(heartbeat_info::parse(self)),
            kind::IPV4_ADDRESS => Parameter::Ipv4Address(ipv4_address::parse(self)?),
            kind::IPV6_ADDRESS => Parameter::Ipv6Address(ipv6_address::parse(self)?),
            kind::STATE_COOKIE => Parameter::StateCookie(state_cookie::parse(self)),
            kind::UNRECOGNISED_PARAMETER => {
                Parameter::UnrecognisedParameter(unrecognised_parameter::parse(self))
            }
            kind::COOKIE_PRESERVATIVE => {
                Parameter::CookiePreservative { increment_ms: cookie_preservative::parse(self)? }
            }
            kind::HOST_NAME => Parameter::HostName(host_name::parse(self)),
            kind::SUPPORTED_ADDRESS_TYPES => {
                Parameter::SupportedAddressTypes(SupportedAddressTypes::parse(self)?)
            }
            kind::ECN_CAPABLE => {
                ecn_capable::parse(self)?;
                Parameter::EcnCapable
            }
            kind::ZERO_CHECKSUM_ACCEPTABLE => {
                Parameter::ZeroChecksumAcceptable { edmid: zero_checksum_acceptable::parse(self)? }
            }
            kind::PAD => Parameter::Pad { padding_len: pad::parse(self) },
            _ => Parameter::Unknown(*self),
        })
    }
}

impl From<IpAddr> for Parameter<'_> {
    /// The address parameter of an address.
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::Ipv4Address(address),
            IpAddr::V6(address) => Self::Ipv6Address(address),
        }
    }
}

impl EncodeTlv for Parameter<'_> {
    fn kind(&self) -> u16 {
        match self {
            Self::HeartbeatInfo(_) => kind::HEARTBEAT_INFO,
            Self::Ipv4Address(_) => kind::IPV4_ADDRESS,
            Self::Ipv6Address(_) => kind::IPV6_ADDRESS,
            Self::StateCookie(_) => kind::STATE_COOKIE,
            Self::UnrecognisedParameter(_) => kind::UNRECOGNISED_PARAMETER,
            Self::CookiePreservative { .. } => kind::COOKIE_PRESERVATIVE,
            Self::HostName(_) => kind::HOST_NAME,
            Self::SupportedAddressTypes(_) => kind::SUPPORTED_ADDRESS_TYPES,
            Self::EcnCapable => kind::ECN_CAPABLE,
            Self::ZeroChecksumAcceptable { .. } => kind::ZERO_CHECKSUM_ACCEPTABLE,
            Self::Pad { .. } => kind::PAD,
            Self::Unknown(raw) => raw.kind,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognisedParameter(bytes)
            | Self::HostName(bytes) => bytes.len(),
            Self::Ipv4Address(_) | Self::CookiePreservative { .. } | Self::ZeroChecksumAcceptable { .. } => 4,
            Self::Ipv6Address(_) => 16,
            Self::SupportedAddressTypes(types) => types.as_bytes().len(),
            Self::EcnCapable => 0,
            Self::Pad { padding_len } => *padding_len,
            Self::Unknown(raw) => raw.value.len(),
        }
    }

    fn encode_value(&self, out: &mut [u8]) {
        match self {
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognisedParameter(bytes)
            | Self::HostName(bytes) => put(out, bytes),
            Self::Ipv4Address(address) => put(out, &address.octets()),
            Self::Ipv6Address(address) => put(out, &address.octets()),
            Self::CookiePreservative { increment_ms } => put(out, &increment_ms.to_be_bytes()),
            Self::SupportedAddressTypes(types) => put(out, types.as_bytes()),
            Self::EcnCapable => {}
            Self::ZeroChecksumAcceptable { edmid } => put(out, &edmid.to_be_bytes()),
            Self::Pad { .. } => out.fill(0),
            Self::Unknown(raw) => put(out, raw.value),
        }
    }
}

#[cfg(test)]
mod tests;
