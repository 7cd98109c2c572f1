//! Names, addresses and networks.

use std::net::{IpAddr, SocketAddr};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::error::{ConfigError, ConfigErrors, wrong};

/// Checks a name or an address. Returns it in lowercase.
pub(super) fn check_domain(key: &str, domain: &str) -> Result<String, ConfigError> {
    let lower = domain.to_ascii_lowercase();
    let host = if lower.parse::<IpAddr>().is_ok() {
        Ok(())
    } else {
        crate::codec::Host::parse(lower.as_bytes()).map(|_| ())
    };
    host.map_err(|_| wrong(key, format!("{domain:?} is neither a host name nor an IP address")))?;
    Ok(lower)
}

/// Checks names and addresses. Returns those that are valid, in lowercase.
pub(super) fn check_hosts(key: &str, hosts: &[String], errors: &mut ConfigErrors) -> Vec<String> {
    hosts.iter().filter_map(|host| errors.take(check_domain(key, host))).collect()
}

/// Parses an address and a port. A link-local address needs a zone.
pub(super) fn socket_address<'de, D: Deserializer<'de>>(file: D) -> Result<SocketAddr, D::Error> {
    strandline::socket_address(&String::deserialize(file)?).map_err(D::Error::custom)
}

/// As [`socket_address`], for optional keys.
pub(super) fn socket_address_if_any<'de, D: Deserializer<'de>>(
    file: D,
) -> Result<Option<SocketAddr>, D::Error> {
    socket_address(file).map(Some)
}

/// Parses networks: an address and a prefix length each. Returns those that are valid.
pub(super) fn networks(key: &str, texts: &[String], errors: &mut ConfigErrors) -> Vec<(IpAddr, u8)> {
    let network = |text: &String| {
        let form =
            || wrong(key, format!("expected a network such as 192.0.2.0/24 or 2001:db8::/32, not {text:?}"));
        let (address, prefix) = text.split_once('/').map_or((text.as_str(), None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| form())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.map_or(Ok(most), |prefix| prefix.parse().map_err(|_| form()))?;
        if prefix > most { Err(form()) } else { Ok((address, prefix)) }
    };
    texts.iter().filter_map(|text| errors.take(network(text))).collect()
}
