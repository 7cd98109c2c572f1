//! URLs of users.

use url::{ParseError, Url};

/// Parses a URL. An error says why.
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    Url::parse(text).map_err(|error| match error {
        ParseError::InvalidIpv6Address if has_zone(text) => {
            "URLs have no zones of IPv6 addresses (RFC 9844), so link-local ones can't be reached by their \
             address: use an address without a zone, or a name"
                .to_owned()
        }
        error => error.to_string(),
    })
}

/// Returns whether an IPv6 address in a URL names an interface, as RFC 6874 wrote it or with a bare percent sign.
fn has_zone(text: &str) -> bool {
    let literal = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    literal.is_some_and(|(literal, _)| {
        let (address, _) = literal.split_once('%').unwrap_or_default();
        address.parse::<std::net::Ipv6Addr>().is_ok()
    })
}

#[cfg(test)]
mod tests;
