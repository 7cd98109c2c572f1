//! Cause codes (RFC 9260 section 3.3.10, table 11).

pub use super::cookie_while_shutting_down::CODE as COOKIE_WHILE_SHUTTING_DOWN;
pub use super::invalid_mandatory_parameter::CODE as INVALID_MANDATORY_PARAMETER;
pub use super::invalid_stream::CODE as INVALID_STREAM;
pub use super::missing_parameters::CODE as MISSING_PARAMETERS;
pub use super::no_user_data::CODE as NO_USER_DATA;
pub use super::out_of_resource::CODE as OUT_OF_RESOURCE;
pub use super::protocol_violation::CODE as PROTOCOL_VIOLATION;
pub use super::restart_with_new_addresses::CODE as RESTART_WITH_NEW_ADDRESSES;
pub use super::stale_cookie::CODE as STALE_COOKIE;
pub use super::unrecognised_chunk::CODE as UNRECOGNISED_CHUNK;
pub use super::unrecognised_parameters::CODE as UNRECOGNISED_PARAMETERS;
pub use super::unresolvable_address::CODE as UNRESOLVABLE_ADDRESS;
pub use super::user_initiated_abort::CODE as USER_INITIATED_ABORT;
