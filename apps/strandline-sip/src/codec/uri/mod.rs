//! URIs: SIP and SIPS (RFC 3261 section 19.1), tel (RFC 3966), and others, of which only the scheme is
//! parsed.

pub(crate) mod compare;
pub(crate) mod escape;
pub(crate) mod host;
pub(crate) mod params;
pub(crate) mod sip;
pub(crate) mod tel;

use self::sip::SipUri;
use self::tel::TelUri;
use super::class;
use super::cursor::{Cursor, Result};
use super::error::{Error, ErrorKind};

/// A URI as a view of its text.
#[derive(Debug, Clone, Copy)]
pub enum Uri<'a> {
    /// `sip:` and `sips:`
    Sip(SipUri<'a>),
    /// `tel:`
    Tel(TelUri<'a>),
    /// A URI with any other scheme.
    Other(OtherUri<'a>),
}

/// A URI of which only the scheme is parsed.
#[derive(Debug, Clone, Copy)]
pub struct OtherUri<'a> {
    /// The scheme without its colon; case-insensitive.
    pub scheme: &'a [u8],
    /// The text after the colon.
    pub rest: &'a [u8],
}

impl<'a> Uri<'a> {
    /// Parses a single URI.
    ///
    /// # Errors
    /// Returns an error if the scheme is missing, or if a SIP or tel URI is malformed.
    ///
    /// ```
    /// use strandline_sip::codec::{Host, Uri};
    ///
    /// let uri = Uri::parse(b"sips:alice:secret@[2001:db8::1]:5070;transport=tcp;lr?subject=hi")?;
    /// let Uri::Sip(uri) = uri else { return Err("another scheme".into()) };
    /// assert!(uri.secure && uri.is_loose_router());
    /// assert_eq!(uri.user, Some(&b"alice"[..]));
    /// assert_eq!(uri.port, Some(5070));
    /// assert_eq!(uri.headers.iter().next(), Some((&b"subject"[..], &b"hi"[..])));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        Self::parse_at(bytes, 0)
    }

    /// Parses the URI that starts at `at` and extends to the end of `bytes`.
    #[inline]
    pub(crate) fn parse_at(bytes: &'a [u8], at: usize) -> Result<Self> {
        match sip::scheme(bytes, at) {
            Some((cursor, secure)) => SipUri::take(cursor, secure).map(Self::Sip),
            None => Self::other(Cursor::new(bytes, at)),
        }
    }

    fn other(mut cursor: Cursor<'a>) -> Result<Self> {
        let scheme = tel::scheme(&mut cursor)?;
        if scheme.eq_ignore_ascii_case(b"tel") {
            return TelUri::take(&mut cursor).map(Self::Tel);
        }
        let rest = cursor.run(class::URI);
        if rest.is_empty() || !cursor.rest().is_empty() {
            return Err(cursor.error(ErrorKind::Uri));
        }
        Ok(Self::Other(OtherUri { scheme, rest }))
    }

    /// The URI, if it is a SIP or SIPS URI.
    #[must_use]
    pub const fn sip(&self) -> Option<&SipUri<'a>> {
        match self {
            Self::Sip(uri) => Some(uri),
            _ => None,
        }
    }

    /// The scheme: in lowercase if it is known, otherwise as it was sent.
    #[must_use]
    pub const fn scheme(&self) -> &'a [u8] {
        match self {
            Self::Sip(uri) if uri.secure => b"sips",
            Self::Sip(_) => b"sip",
            Self::Tel(_) => b"tel",
            Self::Other(uri) => uri.scheme,
        }
    }

    /// Checks that a request can be sent to this URI, which must not have headers. `at` is the position for
    /// the error.
    #[inline]
    pub(crate) fn check_target(&self, at: usize) -> Result<()> {
        match self {
            Self::Sip(uri) if !uri.headers.is_empty() => Err(Error::new(ErrorKind::UriHeaders, at)),
            _ => Ok(()),
        }
    }
}
