//! What domains of users are called.

use crate::codec::Host;

/// A domain as it stands among subscribers: in small letters.
pub(super) fn domain_name(domain: &Host<'_>) -> Vec<u8> {
    let mut name = match domain {
        Host::Name(name) => name.to_vec(),
        address => address.to_string().into_bytes(),
    };
    name.make_ascii_lowercase();
    name
}
