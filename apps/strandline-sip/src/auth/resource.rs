//! Compares the resource of a digest with the request URI (RFC 7616 section 3.4.6).

use crate::codec::{SipUri, Uri, unescape};

/// Returns true if both URIs designate the same resource. Only user, host and port are compared, because
/// phones omit the port or parameters of the request URI from the digest, and proxies change them.
pub(super) fn is_same(digest: &[u8], request: &[u8]) -> bool {
    if digest == request {
        return true;
    }
    match (Uri::parse(digest), Uri::parse(request)) {
        (Ok(Uri::Sip(digest)), Ok(Uri::Sip(request))) => is_same_sip(&digest, &request),
        (Ok(digest), Ok(request)) => digest.matches(&request),
        _ => false,
    }
}

fn is_same_sip(one: &SipUri<'_>, other: &SipUri<'_>) -> bool {
    let is_same_user = match (one.user, other.user) {
        (Some(one), Some(other)) => unescape(one).eq(unescape(other)),
        (None, None) => true,
        _ => false,
    };
    is_same_user
        && one.secure == other.secure
        && one.host == other.host
        && one.port_or_default() == other.port_or_default()
        && one.maddr() == other.maddr()
}

#[cfg(test)]
mod tests;
