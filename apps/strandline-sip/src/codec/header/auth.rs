//! Authorization, Proxy-Authorization, WWW-Authenticate, Proxy-Authenticate, Authentication-Info (RFC 3261
//! sections 20.7, 20.27, 20.28 and 20.44; RFC 7616, RFC 8760).
//!
//! A comma in these headers separates parameters, never values: each header line is one value (RFC 3261
//! section 7.3.1).

use crate::codec::class;
use crate::codec::cursor::{Cursor, Result};
use crate::codec::error::ErrorKind;

use super::params::ParamValue;
use super::values::{Element, sealed};

/// A challenge or credentials: `scheme name=value, name=value`
#[derive(Debug, Clone, Copy)]
pub struct Auth<'a> {
    /// The scheme, such as `Digest`. Unknown schemes are parsed as well (RFC 4475 section 3.3.7).
    pub scheme: &'a [u8],
    /// The parameters.
    pub params: AuthParams<'a>,
}

/// The parameters of a challenge or of credentials, separated by commas.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthParams<'a> {
    raw: &'a [u8],
}

impl<'a> AuthParams<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let start = cursor.at();
        loop {
            take_param(cursor)?;
            let end = *cursor;
            cursor.skip_space();
            if !cursor.eat(b',') {
                return Ok(Self { raw: end.since(start) });
            }
            cursor.skip_space();
        }
    }

    /// Iterates over names and values in order.
    pub fn iter(&self) -> impl Iterator<Item = (&'a [u8], ParamValue<'a>)> + use<'a> {
        let mut cursor = Cursor::new(self.raw, 0);
        core::iter::from_fn(move || {
            let param = take_param(&mut cursor).ok();
            cursor.skip_space();
            cursor.eat(b',');
            cursor.skip_space();
            param
        })
    }

    /// The parameter with this name, in any case.
    #[must_use]
    pub fn get(&self, name: &[u8]) -> Option<ParamValue<'a>> {
        self.iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The value of a parameter, without quotes and with its escapes.
    #[must_use]
    pub fn value(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.get(name).map(|value| value.as_bytes())
    }
}

/// Takes `name = value`. A quoted value may be empty.
fn take_param<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a [u8], ParamValue<'a>)> {
    let name = cursor.some(class::TOKEN, ErrorKind::Parameter)?;
    cursor.skip_space();
    if !cursor.eat(b'=') {
        return Err(cursor.error(ErrorKind::Parameter));
    }
    cursor.skip_space();
    ParamValue::take(cursor).map(|value| (name, value))
}

impl<'a> Auth<'a> {
    /// The parameters, if the scheme is Digest.
    ///
    /// ```
    /// use strandline_sip::codec::{Auth, Element};
    ///
    /// let value = br#"Digest username="alice", realm="a.example", nonce="84a4", uri="sip:a.example",
    ///     response="7587245234b3434cc3412213e5f113a5", algorithm=SHA-256, qop=auth, nc=00000001, cnonce="0a""#;
    /// let digest = Auth::parse(value)?.digest().ok_or("another scheme")?;
    /// assert_eq!(digest.username, Some(&b"alice"[..]));
    /// assert_eq!(digest.nonce_count()?, Some(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn digest(&self) -> Option<Digest<'a>> {
        if !self.scheme.eq_ignore_ascii_case(b"Digest") {
            return None;
        }
        let mut digest = Digest::default();
        for (name, value) in self.params.iter() {
            digest.set(name, value.as_bytes());
        }
        Some(digest)
    }
}

impl sealed::Sealed for Auth<'_> {}

impl<'a> Element<'a> for Auth<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        let scheme = cursor.token()?;
        if !cursor.skip_space() {
            return Err(cursor.error(ErrorKind::Parameter));
        }
        Ok(Self { scheme, params: AuthParams::take(cursor)? })
    }
}

/// Authentication-Info: parameters without a scheme.
#[derive(Debug, Clone, Copy)]
pub struct AuthInfo<'a>(pub AuthParams<'a>);

impl sealed::Sealed for AuthInfo<'_> {}

impl<'a> Element<'a> for AuthInfo<'a> {
    fn take(cursor: &mut Cursor<'a>) -> Result<Self> {
        AuthParams::take(cursor).map(Self)
    }
}

/// The parameters of Digest, in a challenge or in credentials, without quotes and with their escapes. If a
/// parameter is repeated, the first one counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Digest<'a> {
    /// `username`
    pub username: Option<&'a [u8]>,
    /// `realm`
    pub realm: Option<&'a [u8]>,
    /// `nonce`
    pub nonce: Option<&'a [u8]>,
    /// `uri`
    pub uri: Option<&'a [u8]>,
    /// `response`, in hexadecimal.
    pub response: Option<&'a [u8]>,
    /// `algorithm`; MD5 if it is missing.
    pub algorithm: Option<&'a [u8]>,
    /// `cnonce`
    pub cnonce: Option<&'a [u8]>,
    /// `opaque`
    pub opaque: Option<&'a [u8]>,
    /// `qop`: a single value in credentials, a list in a challenge.
    pub qop: Option<&'a [u8]>,
    /// `nc`: see [`nonce_count`](Self::nonce_count).
    pub nc: Option<&'a [u8]>,
    /// `stale`
    pub stale: Option<&'a [u8]>,
    /// `domain`
    pub domain: Option<&'a [u8]>,
    /// `userhash` (RFC 7616 section 3.4.4)
    pub userhash: Option<&'a [u8]>,
}

impl<'a> Digest<'a> {
    fn set(&mut self, name: &'a [u8], value: &'a [u8]) {
        let fields: [(&[u8], &mut Option<&'a [u8]>); 13] = [
            (b"username", &mut self.username),
            (b"realm", &mut self.realm),
            (b"nonce", &mut self.nonce),
            (b"uri", &mut self.uri),
            (b"response", &mut self.response),
            (b"algorithm", &mut self.algorithm),
            (b"cnonce", &mut self.cnonce),
            (b"opaque", &mut self.opaque),
            (b"qop", &mut self.qop),
            (b"nc", &mut self.nc),
            (b"stale", &mut self.stale),
            (b"domain", &mut self.domain),
            (b"userhash", &mut self.userhash),
        ];
        if let Some((_, field)) = fields.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
            field.get_or_insert(value);
        }
    }

    /// `nc` as a number. It has eight hexadecimal digits.
    ///
    /// # Errors
    /// Returns an error if it is present but malformed.
    pub fn nonce_count(&self) -> Result<Option<u32>> {
        let Some(text) = self.nc else { return Ok(None) };
        let error = Cursor::new(text, 0).error(ErrorKind::Number);
        if text.len() != 8 || !class::all(text, class::HEX) {
            return Err(error);
        }
        let text = core::str::from_utf8(text).map_err(|_| error)?;
        u32::from_str_radix(text, 16).map(Some).map_err(|_| error)
    }
}
