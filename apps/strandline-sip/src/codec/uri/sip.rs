//! SIP and SIPS URIs (RFC 3261 section 19.1).

use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::{Error, ErrorKind};

use super::host::Host;
use super::params::{UriHeaders, UriParams};

/// Default port of SIP (RFC 3261 section 19.1.2).
pub(crate) const SIP_PORT: u16 = 5060;
/// Default port of SIP over TLS (RFC 3261 section 19.1.2).
pub(crate) const SIPS_PORT: u16 = 5061;

/// `sip:user:password@host:port;parameters?headers`
///
/// The parts are views of the text, with their escapes.
#[derive(Debug, Clone, Copy)]
pub struct SipUri<'a> {
    /// True for `sips:`, false for `sip:`.
    pub secure: bool,
    /// The user, which may be a telephone number and may contain `;` (RFC 4475 section 3.1.1.9).
    pub user: Option<&'a [u8]>,
    /// The password, if the user is followed by a colon.
    pub password: Option<&'a [u8]>,
    /// The host.
    pub host: Host<'a>,
    /// The port, if present.
    pub port: Option<u16>,
    /// The parameters.
    pub params: UriParams<'a>,
    /// The headers.
    pub headers: UriHeaders<'a>,
}

impl<'a> SipUri<'a> {
    /// Parses the text after `sip:` or `sips:`, up to the end.
    pub(crate) fn take(mut cursor: Cursor<'a>, secure: bool) -> Result<Self> {
        let (user, password) = user_info(&mut cursor)?;
        let host = Host::take(&mut cursor)?;
        let port = port(&mut cursor)?;
        let params = UriParams::take(&mut cursor)?;
        let headers = UriHeaders::take(&mut cursor)?;
        if cursor.peek().is_some() {
            return Err(cursor.error(ErrorKind::Uri));
        }
        Ok(Self { secure, user, password, host, port, params, headers })
    }

    /// The port, or the default: 5061 for `sips:`, 5060 otherwise.
    #[must_use]
    pub fn port_or_default(&self) -> u16 {
        self.port.unwrap_or(if self.secure { SIPS_PORT } else { SIP_PORT })
    }

    /// `transport`, such as `tcp`; case-insensitive.
    #[must_use]
    pub fn transport(&self) -> Option<&'a [u8]> {
        self.params.value(b"transport")
    }

    /// `lr`: the host is a loose router (section 19.1.1). `lr=on` counts too.
    #[must_use]
    pub fn is_loose_router(&self) -> bool {
        self.params.has(b"lr")
    }

    /// `maddr`: the address to send to instead of the host.
    #[must_use]
    pub fn maddr(&self) -> Option<&'a [u8]> {
        self.params.value(b"maddr")
    }

    /// `user=phone`: the user is a telephone number.
    #[must_use]
    pub fn is_phone(&self) -> bool {
        self.params.value(b"user").is_some_and(|value| value.eq_ignore_ascii_case(b"phone"))
    }

    /// `ob`: requests to this URI should use the flow of the registration (RFC 5626 section 5.4).
    #[must_use]
    pub fn is_outbound(&self) -> bool {
        self.params.has(b"ob")
    }

    /// `gr`: this is a GRUU (RFC 5627), public if the parameter has a value, temporary otherwise.
    #[must_use]
    pub fn gruu(&self) -> Option<Option<&'a [u8]>> {
        self.params.get(b"gr")
    }
}

/// If a SIP or SIPS URI starts at `at`, returns a cursor after the scheme's colon, and true for `sips:`.
#[inline(always)]
pub(crate) fn scheme(bytes: &[u8], at: usize) -> Option<(Cursor<'_>, bool)> {
    match bytes.get(at..) {
        Some([b's' | b'S', b'i' | b'I', b'p' | b'P', b':', ..]) => Some((Cursor::new(bytes, at + 4), false)),
        Some([b's' | b'S', b'i' | b'I', b'p' | b'P', b's' | b'S', b':', ..]) => {
            Some((Cursor::new(bytes, at + 5), true))
        }
        _ => None,
    }
}

/// Takes `user[:password]@`, if the URI contains an `@`, which can't occur elsewhere in a SIP URI.
#[inline(always)]
fn user_info<'a>(cursor: &mut Cursor<'a>) -> Result<(Option<&'a [u8]>, Option<&'a [u8]>)> {
    // Most URIs have a user directly followed by `@`. Only otherwise is the rest searched for it.
    let start = *cursor;
    let user = cursor.escaped(class::USER);
    if cursor.peek() != Some(b'@') && !cursor.rest().contains(&b'@') {
        *cursor = start;
        return Ok((None, None));
    }
    let user = user?;
    let password = if cursor.eat(b':') { Some(cursor.escaped(class::PASSWORD)?) } else { None };
    if user.is_empty() || !cursor.eat(b'@') {
        return Err(cursor.error(ErrorKind::Uri));
    }
    Ok((Some(user), password))
}

/// Takes `:port`, if present.
#[inline(always)]
pub(crate) fn port(cursor: &mut Cursor<'_>) -> Result<Option<u16>> {
    if !cursor.eat(b':') {
        return Ok(None);
    }
    let error = |error: Error| Error { kind: ErrorKind::Port, ..error };
    cursor.number(u32::from(u16::MAX)).map(|port| Some(port as u16)).map_err(error)
}
