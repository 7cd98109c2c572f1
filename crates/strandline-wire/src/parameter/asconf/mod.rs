//! Parameters of ASCONF and ASCONF-ACK chunks (RFC 5061 section 4.2): one file for each, with its diagram.
//! [`Parameter`] leaves them unknown, because INIT and INIT ACK need none of them.

mod add_ip;
mod delete_ip;
mod error_indication;
mod set_primary;
mod success_indication;

use core::net::IpAddr;

use super::raw::{Parameters, RawParameter};
use super::{Parameter, ipv4_address, ipv6_address};
use crate::consts::TLV_HEADER_LEN;
use crate::encode::{EncodeTlv, put};
use crate::error::ParameterError;

/// Parameter types of ASCONF and ASCONF-ACK chunks (RFC 5061 section 4.2, tables 3 and 4).
pub mod kind {
    pub use super::add_ip::KIND as ADD_IP;
    pub use super::delete_ip::KIND as DELETE_IP;
    pub use super::error_indication::KIND as ERROR_INDICATION;
    pub use super::set_primary::KIND as SET_PRIMARY;
    pub use super::success_indication::KIND as SUCCESS_INDICATION;
}

/// A parameter of an ASCONF or ASCONF-ACK chunk. Each has a correlation ID, by which a response names its request.
#[derive(Debug, Copy, Clone, PartialEq, Eq)]
pub enum AsconfParameter<'a> {
    /// Asks to add an address. The unspecified address stands for the source of the packet.
    AddIp {
        /// Correlation ID.
        id: u32,
        /// The address.
        address: IpAddr,
    },
    /// Asks to remove an address. The unspecified address stands for all except the source of the packet.
    DeleteIp {
        /// Correlation ID.
        id: u32,
        /// The address.
        address: IpAddr,
    },
    /// Asks to send to an address. The unspecified address stands for the source of the packet.
    SetPrimary {
        /// Correlation ID.
        id: u32,
        /// The address.
        address: IpAddr,
    },
    /// A request was refused.
    Error {
        /// Correlation ID of the request.
        id: u32,
        /// Why, as [`Causes`](crate::Causes) reads it.
        causes: &'a [u8],
    },
    /// A request was performed.
    Success {
        /// Correlation ID of the request.
        id: u32,
    },
}

impl<'a> RawParameter<'a> {
    /// Parses the content of a parameter of an ASCONF or ASCONF-ACK chunk. Returns `None` for any other type.
    ///
    /// # Errors
    /// If the length of the value isn't one that the type prescribes, or if a request doesn't hold exactly one address.
    pub fn parse_asconf(&self) -> Option<Result<AsconfParameter<'a>, ParameterError>> {
        Some(match self.kind {
            kind::ADD_IP => self.parse_request().map(|(id, address)| AsconfParameter::AddIp { id, address }),
            kind::DELETE_IP => {
                self.parse_request().map(|(id, address)| AsconfParameter::DeleteIp { id, address })
            }
            kind::SET_PRIMARY => {
                self.parse_request().map(|(id, address)| AsconfParameter::SetPrimary { id, address })
            }
            kind::ERROR_INDICATION => {
                error_indication::parse(self).map(|(id, causes)| AsconfParameter::Error { id, causes })
            }
            kind::SUCCESS_INDICATION => {
                success_indication::parse(self).map(|id| AsconfParameter::Success { id })
            }
            _ => return None,
        })
    }

    /// Returns the correlation ID of a request, and its address.
    fn parse_request(&self) -> Result<(u32, IpAddr), ParameterError> {
        let (id, rest) = self.at_least::<4>()?;
        let mut inner = Parameters::new(rest).iter();
        let address = match inner.next() {
            Some(Ok(raw)) => raw.parse_address()?,
            Some(Err(error)) => return Err(ParameterError::Framing { kind: self.kind, error }),
            None => {
                let found = self.value.len();
                return Err(ParameterError::TooShort { kind: self.kind, minimum: 4 + TLV_HEADER_LEN, found });
            }
        };
        match inner.next() {
            Some(_) => Err(ParameterError::MoreThanOneAddress { kind: self.kind }),
            None => Ok((u32::from_be_bytes(*id), address)),
        }
    }

    /// Returns the address of an IPv4 Address or IPv6 Address parameter.
    ///
    /// # Errors
    /// If it is another parameter, or its length is wrong.
    pub fn parse_address(&self) -> Result<IpAddr, ParameterError> {
        match self.kind {
            super::kind::IPV4_ADDRESS => ipv4_address::parse(self).map(IpAddr::V4),
            super::kind::IPV6_ADDRESS => ipv6_address::parse(self).map(IpAddr::V6),
            kind => Err(ParameterError::NotAnAddress { kind }),
        }
    }
}

impl AsconfParameter<'_> {
    /// Returns the correlation ID.
    #[must_use]
    pub const fn id(&self) -> u32 {
        match self {
            Self::AddIp { id, .. }
            | Self::DeleteIp { id, .. }
            | Self::SetPrimary { id, .. }
            | Self::Error { id, .. }
            | Self::Success { id } => *id,
        }
    }
}

impl EncodeTlv for AsconfParameter<'_> {
    fn kind(&self) -> u16 {
        match self {
            Self::AddIp { .. } => kind::ADD_IP,
            Self::DeleteIp { .. } => kind::DELETE_IP,
            Self::SetPrimary { .. } => kind::SET_PRIMARY,
            Self::Error { .. } => kind::ERROR_INDICATION,
            Self::Success { .. } => kind::SUCCESS_INDICATION,
        }
    }

    fn value_len(&self) -> usize {
        4 + match self {
            Self::AddIp { address, .. }
            | Self::DeleteIp { address, .. }
            | Self::SetPrimary { address, .. } => TLV_HEADER_LEN + Parameter::from(*address).value_len(),
            Self::Error { causes, .. } => causes.len(),
            Self::Success { .. } => 0,
        }
    }

    fn encode_value(&self, out: &mut [u8]) {
        let Some((id, rest)) = out.split_first_chunk_mut::<4>() else { return };
        *id = self.id().to_be_bytes();
        match self {
            Self::AddIp { address, .. }
            | Self::DeleteIp { address, .. }
            | Self::SetPrimary { address, .. } => {
                let _ = crate::tlv::TlvWriter::new(rest).push(&Parameter::from(*address));
            }
            Self::Error { causes, .. } => put(rest, causes),
            Self::Success { .. } => {}
        }
    }
}

#[cfg(test)]
mod tests;
