//! Parameters (RFC 9260 sections 3.2.1 and 3.3.2 to 3.3.5, and extensions): one file for each type, with its
//! diagram.

mod adaptation_layer;
pub mod asconf;
mod chunk_list;
mod cookie_preservative;
mod ecn_capable;
mod forward_tsn_supported;
mod heartbeat_info;
mod hmac_algo;
mod host_name;
mod ipv4_address;
mod ipv6_address;
pub mod kind;
mod pad;
mod random;
mod raw;
pub mod re_config;
mod state_cookie;
mod stream_credit;
mod supported_address_types;
mod supported_extensions;
mod unrecognised_parameter;
mod zero_checksum_acceptable;

pub use chunk_list::TYPES_MAX as CHUNK_TYPES_MAX;
pub use hmac_algo::{HMAC_SHA1, HMAC_SHA256, HmacIdentifiers};
pub use raw::{ParameterIter, Parameters, RawParameter};
pub use supported_address_types::SupportedAddressTypes;
pub use zero_checksum_acceptable::EDMID_SCTP_OVER_DTLS;

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::encode::{EncodeTlv, put};
use crate::error::ParameterError;

/// A parameter: its content if the type is known, otherwise its raw form.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum Parameter<'a> {
    /// Opaque data of a HEARTBEAT.
    HeartbeatInfo(&'a [u8]),
    /// An IPv4 address of the sender.
    Ipv4Address(Ipv4Addr),
    /// An IPv6 address of the sender.
    Ipv6Address(Ipv6Addr),
    /// The State Cookie of an INIT ACK.
    StateCookie(&'a [u8]),
    /// A whole parameter (type, length and value) that the sender of an INIT ACK didn't know.
    UnrecognisedParameter(&'a [u8]),
    /// Asks for a longer cookie lifetime.
    CookiePreservative {
        /// Suggested increment of the cookie's lifetime in milliseconds.
        increment_ms: u32,
    },
    /// Host name of the sender. Deprecated: the receiver aborts the association.
    HostName(&'a [u8]),
    /// Address types that the sender supports.
    SupportedAddressTypes(SupportedAddressTypes<'a>),
    /// The sender supports ECNE and CWR.
    EcnCapable,
    /// The sender supports FORWARD TSN.
    ForwardTsnSupported,
    /// Chunk types of extensions that the sender supports.
    SupportedExtensions(&'a [u8]),
    /// The sender accepts packets with checksum zero.
    ZeroChecksumAcceptable {
        /// Error Detection Method Identifier of the alternative error detection, assigned or not.
        edmid: u32,
    },
    /// The sender grants credit for each stream.
    StreamCredit {
        /// Initial credit of each of the peer's streams, in units of 1,024 bytes.
        initial_kib: u16,
    },
    /// A random number from which keys are derived, of any length.
    Random(&'a [u8]),
    /// Chunk types that the sender accepts only if they are authenticated.
    ChunkList(&'a [u8]),
    /// HMAC algorithms that the sender asks the peer to use.
    HmacAlgo(HmacIdentifiers<'a>),
    /// Which protocol stands between SCTP and the application.
    AdaptationLayer {
        /// The adaptation code point.
        code_point: u32,
    },
    /// Makes an INIT longer.
    Pad {
        /// Length of the padding data in bytes: four less than the parameter's length if that is a multiple
        /// of four.
        padding_len: usize,
    },
    /// A parameter of a type that this crate doesn't know; [`RawParameter::unrecognised_action`] returns what
    /// the type asks of its receiver.
    Unknown(RawParameter<'a>),
}

impl<'a> RawParameter<'a> {
    /// Parses the parameter's content.
    ///
    /// # Errors
    /// If the length of the value isn't the one that the type prescribes.
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
            kind::FORWARD_TSN_SUPPORTED => {
                forward_tsn_supported::parse(self)?;
                Parameter::ForwardTsnSupported
            }
            kind::ZERO_CHECKSUM_ACCEPTABLE => {
                Parameter::ZeroChecksumAcceptable { edmid: zero_checksum_acceptable::parse(self)? }
            }
            kind::SUPPORTED_EXTENSIONS => Parameter::SupportedExtensions(supported_extensions::parse(self)),
            kind::STREAM_CREDIT => Parameter::StreamCredit { initial_kib: stream_credit::parse(self)? },
            kind::RANDOM => Parameter::Random(random::parse(self)),
            kind::CHUNK_LIST => Parameter::ChunkList(chunk_list::parse(self)?),
            kind::HMAC_ALGO => Parameter::HmacAlgo(HmacIdentifiers::parse(self)?),
            kind::ADAPTATION_LAYER => {
                Parameter::AdaptationLayer { code_point: adaptation_layer::parse(self)? }
            }
            kind::PAD => Parameter::Pad { padding_len: pad::parse(self) },
            _ => Parameter::Unknown(*self),
        })
    }
}

impl From<IpAddr> for Parameter<'_> {
    /// Returns the address parameter for `address`.
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
            Self::ForwardTsnSupported => kind::FORWARD_TSN_SUPPORTED,
            Self::SupportedExtensions(_) => kind::SUPPORTED_EXTENSIONS,
            Self::ZeroChecksumAcceptable { .. } => kind::ZERO_CHECKSUM_ACCEPTABLE,
            Self::StreamCredit { .. } => kind::STREAM_CREDIT,
            Self::Random(_) => kind::RANDOM,
            Self::ChunkList(_) => kind::CHUNK_LIST,
            Self::HmacAlgo(_) => kind::HMAC_ALGO,
            Self::AdaptationLayer { .. } => kind::ADAPTATION_LAYER,
            Self::Pad { .. } => kind::PAD,
            Self::Unknown(raw) => raw.kind,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognisedParameter(bytes)
            | Self::SupportedExtensions(bytes)
            | Self::Random(bytes)
            | Self::ChunkList(bytes)
            | Self::HostName(bytes) => bytes.len(),
            Self::Ipv4Address(_)
            | Self::CookiePreservative { .. }
            | Self::ZeroChecksumAcceptable { .. }
            | Self::AdaptationLayer { .. }
            | Self::StreamCredit { .. } => 4,
            Self::Ipv6Address(_) => 16,
            Self::SupportedAddressTypes(types) => types.as_bytes().len(),
            Self::HmacAlgo(list) => list.as_bytes().len(),
            Self::EcnCapable | Self::ForwardTsnSupported => 0,
            Self::Pad { padding_len } => *padding_len,
            Self::Unknown(raw) => raw.value.len(),
        }
    }

    fn encode_value(&self, out: &mut [u8]) {
        match self {
            Self::HeartbeatInfo(bytes)
            | Self::StateCookie(bytes)
            | Self::UnrecognisedParameter(bytes)
            | Self::SupportedExtensions(bytes)
            | Self::Random(bytes)
            | Self::ChunkList(bytes)
            | Self::HostName(bytes) => put(out, bytes),
            Self::Ipv4Address(address) => put(out, &address.octets()),
            Self::Ipv6Address(address) => put(out, &address.octets()),
            Self::CookiePreservative { increment_ms } => put(out, &increment_ms.to_be_bytes()),
            Self::SupportedAddressTypes(types) => put(out, types.as_bytes()),
            Self::HmacAlgo(list) => put(out, list.as_bytes()),
            Self::EcnCapable | Self::ForwardTsnSupported => {}
            Self::ZeroChecksumAcceptable { edmid } => put(out, &edmid.to_be_bytes()),
            Self::AdaptationLayer { code_point } => put(out, &code_point.to_be_bytes()),
            Self::StreamCredit { initial_kib } => {
                let [high, low] = initial_kib.to_be_bytes();
                put(out, &[high, low, 0, 0]);
            }
            Self::Pad { .. } => out.fill(0),
            Self::Unknown(raw) => put(out, raw.value),
        }
    }
}

#[cfg(test)]
mod tests;
