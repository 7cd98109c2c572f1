//! Equivalence of URIs (RFC 3261 section 19.1.4, RFC 3966 section 4).

use super::escape::{same, same_any_case};
use super::params::{UriHeaders, UriParams};
use super::sip::SipUri;
use super::tel::TelUri;
use super::{OtherUri, Uri};

/// Parameters that must be in both URIs or in neither. Other parameters count only if both URIs have them.
const TELLING: [&[u8]; 5] = [b"user", b"ttl", b"method", b"maddr", b"transport"];

/// URIs with more parameters or headers than this are equal only if their texts are, because the comparison
/// takes time proportional to the product of their numbers.
const PARTS_MAX: usize = 32;

impl Uri<'_> {
    /// Returns true if both URIs are equivalent. URIs that are not may still lead to the same user, which
    /// only a location service can tell.
    ///
    /// ```
    /// use strandline_sip::codec::Uri;
    ///
    /// let same = |a: &str, b: &str| Ok(Uri::parse(a.as_bytes())?.matches(&Uri::parse(b.as_bytes())?));
    /// assert!(same("sip:%61lice@atlanta.com;transport=TCP", "sip:alice@AtLanTa.CoM;Transport=tcp")?);
    /// assert!(!same("SIP:ALICE@AtLanTa.CoM", "sip:alice@AtLanTa.CoM")?);
    /// assert!(!same("sip:bob@biloxi.com", "sip:bob@biloxi.com:5060")?);
    /// # Ok::<(), strandline_sip::codec::Error>(())
    /// ```
    #[must_use]
    pub fn matches(&self, other: &Uri<'_>) -> bool {
        match (self, other) {
            (Self::Sip(a), Uri::Sip(b)) => a.matches(b),
            (Self::Tel(a), Uri::Tel(b)) => a.matches(b),
            (Self::Other(a), Uri::Other(b)) => a.matches(b),
            _ => false,
        }
    }
}

impl SipUri<'_> {
    /// Returns true if both URIs are equivalent (section 19.1.4).
    #[must_use]
    pub fn matches(&self, other: &SipUri<'_>) -> bool {
        self.secure == other.secure
            && same_option(self.user, other.user)
            && same_option(self.password, other.password)
            && self.host == other.host
            && self.port == other.port
            && same_params(&self.params, &other.params, &TELLING)
            && same_headers(&self.headers, &other.headers)
    }
}

impl TelUri<'_> {
    /// Returns true if both URIs are equivalent. Visual separators don't count, and every parameter must be
    /// in both.
    #[must_use]
    pub fn matches(&self, other: &TelUri<'_>) -> bool {
        let lower = |byte: u8| byte.to_ascii_lowercase();
        let in_both = |a: &UriParams<'_>, b: &UriParams<'_>| a.iter().all(|(name, _)| b.has(name));
        self.digits().map(lower).eq(other.digits().map(lower))
            && same_params(&self.params, &other.params, &[])
            && (self.params == other.params
                || in_both(&self.params, &other.params) && in_both(&other.params, &self.params))
    }
}

impl OtherUri<'_> {
    /// Returns true if both have the same scheme, in any case, and byte for byte the same text after it.
    #[must_use]
    pub fn matches(&self, other: &OtherUri<'_>) -> bool {
        self.scheme.eq_ignore_ascii_case(other.scheme) && self.rest == other.rest
    }
}

fn same_option(a: Option<&[u8]>, b: Option<&[u8]>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => same(a, b),
        (None, None) => true,
        _ => false,
    }
}

fn same_params(a: &UriParams<'_>, b: &UriParams<'_>, telling: &[&[u8]]) -> bool {
    if a == b {
        return true;
    }
    if a.iter().count().max(b.iter().count()) > PARTS_MAX {
        return false;
    }
    // Compares in both directions, so that the result doesn't depend on the order if one URI repeats a
    // parameter.
    let same_values = |a: &UriParams<'_>, b: &UriParams<'_>| {
        a.iter().all(|(name, value)| match (value, b.get(name)) {
            (_, None) => true,
            (Some(a), Some(Some(b))) => same_any_case(a, b),
            (None, Some(None)) => true,
            _ => false,
        })
    };
    same_values(a, b) && same_values(b, a) && telling.iter().all(|name| a.has(name) == b.has(name))
}

/// Returns true if every header of each URI is in the other. Names are compared without regard to case,
/// values as text.
fn same_headers(a: &UriHeaders<'_>, b: &UriHeaders<'_>) -> bool {
    if a == b {
        return true;
    }
    if a.iter().count().max(b.iter().count()) > PARTS_MAX {
        return false;
    }
    let is_subset = |a: &UriHeaders<'_>, b: &UriHeaders<'_>| {
        a.iter().all(|(name, value)| {
            b.iter().any(|(other, found)| same_any_case(name, other) && same(value, found))
        })
    };
    is_subset(a, b) && is_subset(b, a)
}
