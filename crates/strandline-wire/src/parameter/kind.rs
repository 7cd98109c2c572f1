//! Parameter types (RFC 9260 sections 3.3.2 to 3.3.5, and the extensions that this crate knows).

pub use super::adaptation_layer::KIND as ADAPTATION_LAYER;
pub use super::asconf::kind::*;
pub use super::chunk_list::KIND as CHUNK_LIST;
pub use super::cookie_preservative::KIND as COOKIE_PRESERVATIVE;
pub use super::ecn_capable::KIND as ECN_CAPABLE;
pub use super::forward_tsn_supported::KIND as FORWARD_TSN_SUPPORTED;
pub use super::heartbeat_info::KIND as HEARTBEAT_INFO;
pub use super::hmac_algo::KIND as HMAC_ALGO;
pub use super::host_name::KIND as HOST_NAME;
pub use super::ipv4_address::KIND as IPV4_ADDRESS;
pub use super::ipv6_address::KIND as IPV6_ADDRESS;
pub use super::pad::KIND as PAD;
pub use super::random::KIND as RANDOM;
pub use super::re_config::kind::*;
pub use super::state_cookie::KIND as STATE_COOKIE;
pub use super::stream_credit::KIND as STREAM_CREDIT;
pub use super::supported_address_types::KIND as SUPPORTED_ADDRESS_TYPES;
pub use super::supported_extensions::KIND as SUPPORTED_EXTENSIONS;
pub use super::unrecognised_parameter::KIND as UNRECOGNISED_PARAMETER;
pub use super::zero_checksum_acceptable::KIND as ZERO_CHECKSUM_ACCEPTABLE;

/// Returns the name of a parameter type, or `None` if this crate doesn't know the type.
#[must_use]
pub const fn name(kind: u16) -> Option<&'static str> {
    Some(match kind {
        HEARTBEAT_INFO => "Heartbeat Info",
        IPV4_ADDRESS => "IPv4 Address",
        IPV6_ADDRESS => "IPv6 Address",
        STATE_COOKIE => "State Cookie",
        UNRECOGNISED_PARAMETER => "Unrecognized Parameter",
        COOKIE_PRESERVATIVE => "Cookie Preservative",
        HOST_NAME => "Host Name Address",
        SUPPORTED_ADDRESS_TYPES => "Supported Address Types",
        OUTGOING_SSN_RESET => "Outgoing SSN Reset Request",
        INCOMING_SSN_RESET => "Incoming SSN Reset Request",
        SSN_TSN_RESET => "SSN/TSN Reset Request",
        RESPONSE => "Re-configuration Response",
        ADD_OUTGOING_STREAMS => "Add Outgoing Streams Request",
        ADD_INCOMING_STREAMS => "Add Incoming Streams Request",
        ECN_CAPABLE => "ECN Capable",
        RANDOM => "Random",
        CHUNK_LIST => "Chunk List",
        HMAC_ALGO => "Requested HMAC Algorithm",
        SUPPORTED_EXTENSIONS => "Supported Extensions",
        ZERO_CHECKSUM_ACCEPTABLE => "Zero Checksum Acceptable",
        PAD => "Padding",
        ADD_IP => "Add IP Address",
        DELETE_IP => "Delete IP Address",
        ERROR_INDICATION => "Error Cause Indication",
        SET_PRIMARY => "Set Primary IP Address",
        SUCCESS_INDICATION => "Success Indication",
        ADAPTATION_LAYER => "Adaptation Layer Indication",
        STREAM_CREDIT => "Stream Credit",
        FORWARD_TSN_SUPPORTED => "Forward-TSN-Supported",
        _ => return None,
    })
}
