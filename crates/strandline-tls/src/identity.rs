//! The domains that a certificate proves (RFC 5922 section 7.1), and its validity.

use core::net::IpAddr;
use core::time::Duration;

use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use webpki::{EndEntityCert, KeyUsage};

/// Returns the domains that a certificate proves: those of its SIP URIs without a user, or its DNS names if
/// it has none. Returns an empty list if the certificate can't be parsed. Names are returned as they stand in
/// the certificate.
#[must_use]
pub fn domains(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok(certificate) = EndEntityCert::try_from(certificate) else { return Vec::new() };
    let of_uris: Vec<String> =
        certificate.valid_uri_names().filter_map(domain_of).map(str::to_owned).collect();
    if of_uris.is_empty() { certificate.valid_dns_names().map(str::to_owned).collect() } else { of_uris }
}

/// Returns the host of a SIP URI without a user; a URI with a user would identify a person. Port and
/// parameters are ignored.
fn domain_of(uri: &str) -> Option<&str> {
    let (scheme, rest) = uri.split_once(':')?;
    if !scheme.eq_ignore_ascii_case("sip") || rest.contains(['@', '/', '[']) {
        return None;
    }
    rest.split([':', ';', '?']).next().filter(|host| !host.is_empty())
}

/// Returns whether the proved domain is the wanted one. Wildcards prove nothing (RFC 5922 section 7.2).
#[must_use]
pub fn is_domain(proved: &str, wanted: &str) -> bool {
    let bare = |name: &'_ str| name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
    !proved.contains('*') && bare(proved) == bare(wanted)
}

/// Returns whether a certificate is issued for `address`.
#[must_use]
pub fn proves_address(certificate: &CertificateDer<'_>, address: IpAddr) -> bool {
    let name = ServerName::IpAddress(address.into());
    EndEntityCert::try_from(certificate).is_ok_and(|one| one.verify_is_valid_for_subject_name(&name).is_ok())
}

/// Returns the start and the end of a certificate's validity, in seconds since 1970; `None` if it can't be
/// parsed.
#[must_use]
pub fn validity(certificate: &CertificateDer<'_>) -> Option<(u64, u64)> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    // The validity is checked before anything else. A check at a time outside it reports the limits.
    let at = |secs| {
        let time = UnixTime::since_unix_epoch(Duration::from_secs(secs));
        certificate.verify_for_usage(&[], &[], &[], time, KeyUsage::server_auth(), None, None).err()
    };
    match (at(0)?, at(u64::MAX)?) {
        (webpki::Error::CertNotValidYet { not_before, .. }, webpki::Error::CertExpired { not_after, .. }) => {
            Some((not_before.as_secs(), not_after.as_secs()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests;
