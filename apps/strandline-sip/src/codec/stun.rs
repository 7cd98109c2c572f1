//! STUN on the SIP port (RFC 8489), as far as phones behind NATs need it to keep their flows open (RFC 5626
//! section 4.4.2): Binding requests, answered with their source address.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |0 0|     STUN Message Type     |         Message Length        |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                         Magic Cookie                          |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! |                     Transaction ID (96 bits)                  |
//! +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
//! ```

use core::net::{IpAddr, SocketAddr};

/// Length of the header, in bytes (RFC 8489 section 5).
const HEADER: usize = 20;
/// The magic cookie (section 5).
const MAGIC: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
// Message types and attributes (section 18).
const BINDING_REQUEST: u16 = 0x0001;
const BINDING_SUCCESS: [u8; 2] = [0x01, 0x01];
const BINDING_ERROR: [u8; 2] = [0x01, 0x11];
const XOR_MAPPED_ADDRESS: [u8; 2] = [0x00, 0x20];
const ERROR_CODE: [u8; 2] = [0x00, 0x09];
const UNKNOWN_ATTRIBUTES: [u8; 2] = [0x00, 0x0a];
/// The first of the comprehension-optional attributes (section 14), which may be ignored.
const OPTIONAL: u16 = 0x8000;
/// Maximum number of attributes reported as unknown, so that a response is not much larger than its request.
const TOLD_MAX: usize = 2;

/// The response to a Binding request from `from`. Returns `None` for any other packet, which gets no
/// response. The response is at most 24 bytes larger than the request, or 12 over IPv4.
#[must_use]
pub fn binding_answer(request: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
    let (header, attributes) = request.split_at_checked(HEADER)?;
    let [kind, kind2, len, len2, ..] = *header else { return None };
    let id = header.get(8..)?;
    if u16::from_be_bytes([kind, kind2]) != BINDING_REQUEST
        || header.get(4..8)? != MAGIC
        || usize::from(u16::from_be_bytes([len, len2])) != attributes.len()
    {
        return None;
    }
    let unknown = unknown(attributes)?;
    let (kind, body) = match unknown.is_empty() {
        true => (BINDING_SUCCESS, mapped(from, id)),
        false => (BINDING_ERROR, refusal(&unknown)),
    };
    let len = u16::try_from(body.len()).ok()?.to_be_bytes();
    Some([&kind[..], &len, &MAGIC, id, &body].concat())
}

/// The comprehension-required attributes that are unknown. Returns `None` if `attributes` is malformed.
fn unknown(mut attributes: &[u8]) -> Option<Vec<u16>> {
    let mut unknown = Vec::new();
    while let [kind, kind2, len, len2, rest @ ..] = attributes {
        let kind = u16::from_be_bytes([*kind, *kind2]);
        // Attributes are padded to a multiple of four bytes.
        let len = usize::from(u16::from_be_bytes([*len, *len2])).next_multiple_of(4);
        attributes = rest.get(len..)?;
        if kind < OPTIONAL && unknown.len() < TOLD_MAX {
            unknown.push(kind);
        }
    }
    attributes.is_empty().then_some(unknown)
}

/// XOR-MAPPED-ADDRESS (section 14.2).
fn mapped(from: SocketAddr, id: &[u8]) -> Vec<u8> {
    let mask: Vec<u8> = MAGIC.iter().chain(id).copied().collect();
    let hide =
        |bytes: &[u8]| -> Vec<u8> { bytes.iter().zip(&mask).map(|(byte, mask)| byte ^ mask).collect() };
    let (family, address) = match from.ip().to_canonical() {
        IpAddr::V4(address) => (1, hide(&address.octets())),
        IpAddr::V6(address) => (2, hide(&address.octets())),
    };
    let len = [0, 4 + address.len() as u8];
    [&XOR_MAPPED_ADDRESS[..], &len, &[0, family], &hide(&from.port().to_be_bytes()), &address].concat()
}

/// An error response with code 420 and the unknown attributes.
fn refusal(unknown: &[u16]) -> Vec<u8> {
    let told: Vec<u8> = unknown.iter().flat_map(|kind| kind.to_be_bytes()).collect();
    let filled = vec![0; told.len().next_multiple_of(4) - told.len()];
    let len = [0, told.len() as u8];
    [&ERROR_CODE[..], &[0, 4, 0, 0, 4, 20], &UNKNOWN_ATTRIBUTES, &len, &told, &filled].concat()
}

#[cfg(test)]
mod tests;
