//! Addresses of record in canonical form (RFC 3261 section 10.3, step 5).

use crate::codec::{SipUri, unescape};

/// Appends `user@domain` to `out`: the user without escapes, the domain in lowercase, no parameters, and the
/// port unless it is the default one.
pub fn write_aor(uri: &SipUri<'_>, out: &mut Vec<u8>) {
    if let Some(user) = uri.user {
        if user.contains(&b'%') {
            out.extend(unescape(user));
        } else {
            out.extend_from_slice(user);
        }
        out.push(b'@');
    }
    match &uri.host {
        crate::codec::Host::Name(name) => {
            let name = name.strip_suffix(b".").unwrap_or(name);
            let at = out.len();
            out.extend_from_slice(name);
            if let Some(written) = out.get_mut(at..) {
                written.make_ascii_lowercase();
            }
        }
        address => out.extend_from_slice(address.to_string().as_bytes()),
    }
    if let Some(port) = uri.port.filter(|port| *port != 5060 && *port != 5061) {
        out.push(b':');
        out.extend_from_slice(port.to_string().as_bytes());
    }
}
