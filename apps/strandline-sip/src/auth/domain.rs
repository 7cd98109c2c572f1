//! The names of users' domains.

use crate::codec::Host;

/// The name of a domain in the form used for subscribers, in lowercase.
pub(super) fn domain_name(domain: &Host<'_>) -> Vec<u8> {
    let mut name = match domain {
        Host::Name(name) => name.to_vec(),
        address => address.to_string().into_bytes(),
    };
    name.make_ascii_lowercase();
    name
}
