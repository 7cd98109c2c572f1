//! Parameter types (RFC 9260 sections 3.3.2 to 3.3.5, and the extensions that this crate knows).

pub use super::cookie_preservative::KIND as COOKIE_PRESERVATIVE;
pub use super::ecn_capable::KIND as ECN_CAPABLE;
pub use super::heartbeat_info::KIND as HEARTBEAT_INFO;
pub use super::host_name::KIND as HOST_NAME;
pub use super::ipv4_address::KIND as IPV4_ADDRESS;
pub use super::ipv6_address::KIND as IPV6_ADDRESS;
pub use super::pad::KIND as PAD;
pub use super::state_cookie::KIND as STATE_COOKIE;
pub use super::supported_address_types::KIND as SUPPORTED_ADDRESS_TYPES;
pub use super::unrecognised_parameter::KIND as UNRECOGNISED_PARAMETER;
