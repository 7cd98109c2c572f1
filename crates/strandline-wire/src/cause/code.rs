//! Cause codes (RFC 9260 section 3.3.10, table 11).

pub use super::cookie_while_shutting_down::CODE as COOKIE_WHILE_SHUTTING_DOWN;
pub use super::delete_last_address::CODE as DELETE_LAST_ADDRESS;
pub use super::delete_source_address::CODE as DELETE_SOURCE_ADDRESS;
pub use super::illegal_asconf_ack::CODE as ILLEGAL_ASCONF_ACK;
pub use super::invalid_mandatory_parameter::CODE as INVALID_MANDATORY_PARAMETER;
pub use super::invalid_stream::CODE as INVALID_STREAM;
pub use super::missing_parameters::CODE as MISSING_PARAMETERS;
pub use super::no_authorization::CODE as NO_AUTHORIZATION;
pub use super::no_user_data::CODE as NO_USER_DATA;
pub use super::out_of_resource::CODE as OUT_OF_RESOURCE;
pub use super::protocol_violation::CODE as PROTOCOL_VIOLATION;
pub use super::resource_shortage::CODE as RESOURCE_SHORTAGE;
pub use super::restart_with_new_addresses::CODE as RESTART_WITH_NEW_ADDRESSES;
pub use super::restart_with_new_encapsulation_port::CODE as RESTART_WITH_NEW_ENCAPSULATION_PORT;
pub use super::stale_cookie::CODE as STALE_COOKIE;
pub use super::unrecognised_chunk::CODE as UNRECOGNISED_CHUNK;
pub use super::unrecognised_parameters::CODE as UNRECOGNISED_PARAMETERS;
pub use super::unresolvable_address::CODE as UNRESOLVABLE_ADDRESS;
pub use super::unsupported_hmac::CODE as UNSUPPORTED_HMAC;
pub use super::user_initiated_abort::CODE as USER_INITIATED_ABORT;

/// Returns the RFC's name of a cause code, or `None` if this crate doesn't know the code.
#[must_use]
pub const fn name(code: u16) -> Option<&'static str> {
    Some(match code {
        INVALID_STREAM => "Invalid Stream Identifier",
        MISSING_PARAMETERS => "Missing Mandatory Parameter",
        STALE_COOKIE => "Stale Cookie",
        OUT_OF_RESOURCE => "Out of Resource",
        UNRESOLVABLE_ADDRESS => "Unresolvable Address",
        UNRECOGNISED_CHUNK => "Unrecognized Chunk Type",
        INVALID_MANDATORY_PARAMETER => "Invalid Mandatory Parameter",
        UNRECOGNISED_PARAMETERS => "Unrecognized Parameters",
        NO_USER_DATA => "No User Data",
        COOKIE_WHILE_SHUTTING_DOWN => "Cookie Received While Shutting Down",
        RESTART_WITH_NEW_ADDRESSES => "Restart of an Association with New Addresses",
        USER_INITIATED_ABORT => "User-Initiated Abort",
        PROTOCOL_VIOLATION => "Protocol Violation",
        RESTART_WITH_NEW_ENCAPSULATION_PORT => "Restart of an Association with New Encapsulation Port",
        DELETE_LAST_ADDRESS => "Request to Delete Last Remaining IP Address",
        RESOURCE_SHORTAGE => "Operation Refused Due to Resource Shortage",
        DELETE_SOURCE_ADDRESS => "Request to Delete Source IP Address",
        NO_AUTHORIZATION => "Request Refused - No Authorization",
        ILLEGAL_ASCONF_ACK => "Association Aborted Due to Illegal ASCONF-ACK",
        UNSUPPORTED_HMAC => "Unsupported HMAC Identifier",
        _ => return None,
    })
}
