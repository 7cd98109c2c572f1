//! The headers that a proxy or a transaction needs of every message, checked in one step (RFC 3261 sections
//! 8.2, 16.3 and 17).

use super::cursor::Result;
use super::error::{Error, ErrorKind};
use super::header::address::Address;
use super::header::cseq::CSeq;
use super::header::token::CallId;
use super::header::via::Via;
use super::message::Message;
use super::method::Method;
use super::name::HeaderName;
use super::uri::Uri;

/// The parsed headers that every message must have exactly once, and the request URI.
#[derive(Debug, Clone, Copy)]
pub struct Essentials<'a> {
    /// The request URI; `None` for a response.
    pub uri: Option<Uri<'a>>,
    /// The topmost Via.
    pub via: Via<'a>,
    /// From. The tag may be missing, because RFC 2543 had none (RFC 4475 section 3.4.1).
    pub from: Address<'a>,
    /// To.
    pub to: Address<'a>,
    /// Call-ID.
    pub call_id: &'a [u8],
    /// CSeq.
    pub cseq: CSeq<'a>,
    /// Max-Forwards. A proxy adds it if it is missing.
    pub max_forwards: Option<u8>,
}

impl<'a> Essentials<'a> {
    /// The request URI, if this codec knows its scheme: sip, sips or tel.
    ///
    /// # Errors
    /// Returns [`ErrorKind::Scheme`] for any other scheme, which a proxy answers with 416 (RFC 3261 section
    /// 16.3, step 2), and for a response.
    pub fn routable_uri(&self) -> Result<Uri<'a>> {
        match self.uri {
            Some(uri @ (Uri::Sip(_) | Uri::Tel(_))) => Ok(uri),
            _ => Err(Error::new(ErrorKind::Scheme, 0)),
        }
    }
}

impl<'a> Message<'a> {
    /// Parses and checks the headers that every message must have.
    ///
    /// # Errors
    /// Returns an error if a header is missing, malformed or occurs more than once, if the method in CSeq
    /// differs from the request's, if the branch is empty, or if the request URI is malformed or has headers.
    /// The caller answers a request with the error's status code if it [can be
    /// answered](Self::is_answerable), and drops a response. An unknown scheme of the request URI is no error
    /// here: whether it is one (416) depends on the server's abilities.
    #[inline]
    pub fn essentials(&self) -> Result<Essentials<'a>> {
        let via = self.via()?;
        let from = self.required(HeaderName::From)?;
        let to = self.required(HeaderName::To)?;
        let CallId(call_id) = self.required(HeaderName::CallId)?;
        let cseq: CSeq<'a> = self.required(HeaderName::CSeq)?;
        let max_forwards = self.max_forwards()?;
        let uri = self.request_uri()?;
        if self.method().is_some_and(|method| method != cseq.method) {
            return Err(self.mismatch());
        }
        if via.branch.is_some_and(|branch| branch.eq_ignore_ascii_case(super::header::via::MAGIC_COOKIE)) {
            return Err(Error::new(ErrorKind::Branch, self.first.1).in_header(HeaderName::Via));
        }
        Ok(Essentials { uri, via, from, to, call_id, cseq, max_forwards })
    }

    #[cold]
    fn mismatch(&self) -> Error {
        // 501 for a method that the server doesn't know (RFC 4475 section 3.1.2.18).
        let kind = match self.method() {
            Some(Method::Other(_)) => ErrorKind::UnknownMethodMismatch,
            _ => ErrorKind::MethodMismatch,
        };
        let at = self.lines(HeaderName::CSeq).next().map_or(0, |line| line.offset());
        Error::new(kind, at).in_header(HeaderName::CSeq)
    }
}
