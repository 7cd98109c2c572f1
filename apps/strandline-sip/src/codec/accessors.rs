//! One accessor method for each header that RFC 3261 and its extensions define.

use super::cursor::Result;
use super::error::{Error, ErrorKind};
use super::header::address::{Address, Route};
use super::header::auth::{Auth, AuthInfo};
use super::header::cseq::{CSeq, RAck};
use super::header::date::Date;
use super::header::event::{Event, Replaces, RetryAfter, Seconds, Warning};
use super::header::media::{Choice, MediaType};
use super::header::token::{CallId, Number, ResourcePriority, Token};
use super::header::values::{Element, Values};
use super::header::via::Via;
use super::message::Message;
use super::name::HeaderName;

/// The values of Contact.
#[derive(Debug, Clone)]
pub enum Contacts<'a> {
    /// `*`: every binding, in a REGISTER request that removes them all (RFC 3261 section 10.2.2).
    All,
    /// Zero or more addresses.
    Some(Values<'a, Address<'a>>),
}

impl<'a> Iterator for Contacts<'a> {
    type Item = Result<Address<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::All => None,
            Self::Some(values) => values.next(),
        }
    }
}

macro_rules! single {
    ($($(#[$doc:meta])* $method:ident: $type:ty = $name:ident;)*) => {
        impl<'a> Message<'a> {
            $(
                $(#[$doc])*
                ///
                /// # Errors
                /// Returns an error if the header is malformed or occurs more than once.
                pub fn $method(&self) -> Result<Option<$type>> {
                    self.one(HeaderName::$name)
                }
            )*
        }
    };
}

macro_rules! lists {
    ($($(#[$doc:meta])* $method:ident: $type:ty = $name:ident;)*) => {
        impl<'a> Message<'a> {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $method(&self) -> Values<'a, $type> {
                    self.values(HeaderName::$name)
                }
            )*
        }
    };
}

single! {
    /// From (RFC 3261 section 20.20).
    from: Address<'a> = From;
    /// To (section 20.39).
    to: Address<'a> = To;
    /// Call-ID (section 20.8).
    call_id: CallId<'a> = CallId;
    /// CSeq (section 20.16).
    cseq: CSeq<'a> = CSeq;
    /// Max-Breadth (RFC 5393 section 5.3.3).
    max_breadth: Number = MaxBreadth;
    /// Expires (section 20.19), in seconds. A registrar may treat a malformed value as 3600.
    expires: Number = Expires;
    /// Min-Expires (section 20.23), in seconds.
    min_expires: Number = MinExpires;
    /// Content-Type (section 20.15).
    content_type: MediaType<'a> = ContentType;
    /// Content-Disposition (section 20.11).
    content_disposition: Choice<'a> = ContentDisposition;
    /// Date (section 20.17).
    date: Date = Date;
    /// Event (RFC 6665 section 8.2.1).
    event: Event<'a> = Event;
    /// Subscription-State (RFC 6665 section 8.2.3).
    subscription_state: Choice<'a> = SubscriptionState;
    /// Session-Expires (RFC 4028 section 4).
    session_expires: Seconds<'a> = SessionExpires;
    /// Min-SE (RFC 4028 section 5).
    min_se: Seconds<'a> = MinSe;
    /// Retry-After (section 20.33).
    retry_after: RetryAfter<'a> = RetryAfter;
    /// Priority (section 20.26).
    priority: Token<'a> = Priority;
    /// Flow-Timer (RFC 5626 section 4.4.1), in seconds.
    flow_timer: Number = FlowTimer;
    /// RAck (RFC 3262 section 7.2).
    rack: RAck<'a> = RAck;
    /// RSeq (RFC 3262 section 7.1).
    rseq: Number = RSeq;
    /// Reply-To (section 20.31).
    reply_to: Address<'a> = ReplyTo;
    /// Refer-To (RFC 3515 section 2.1).
    refer_to: Address<'a> = ReferTo;
    /// Referred-By (RFC 3892 section 3).
    referred_by: Address<'a> = ReferredBy;
    /// Replaces (RFC 3891 section 6.1).
    replaces: Replaces<'a> = Replaces;
    /// Authentication-Info (section 20.6).
    authentication_info: AuthInfo<'a> = AuthenticationInfo;
    /// SIP-ETag (RFC 3903 section 11.3.1).
    sip_etag: Token<'a> = SipEtag;
    /// SIP-If-Match (RFC 3903 section 11.3.2).
    sip_if_match: Token<'a> = SipIfMatch;
}

lists! {
    /// Via (RFC 3261 section 20.42), topmost first.
    vias: Via<'a> = Via;
    /// Route (section 20.34).
    routes: Route<'a> = Route;
    /// Record-Route (section 20.30).
    record_routes: Route<'a> = RecordRoute;
    /// Path (RFC 3327).
    paths: Route<'a> = Path;
    /// Service-Route (RFC 3608).
    service_routes: Route<'a> = ServiceRoute;
    /// P-Asserted-Identity (RFC 3325).
    asserted_identities: Address<'a> = PAssertedIdentity;
    /// P-Associated-URI (RFC 7315).
    associated_uris: Address<'a> = PAssociatedUri;
    /// Require (section 20.32).
    require: Token<'a> = Require;
    /// Proxy-Require (section 20.29).
    proxy_require: Token<'a> = ProxyRequire;
    /// Supported (section 20.37).
    supported: Token<'a> = Supported;
    /// Unsupported (section 20.40).
    unsupported: Token<'a> = Unsupported;
    /// Allow (section 20.5).
    allow: Token<'a> = Allow;
    /// Allow-Events (RFC 6665 section 8.2.2).
    allow_events: Token<'a> = AllowEvents;
    /// Accept (section 20.1).
    accept: MediaType<'a> = Accept;
    /// Accept-Encoding (section 20.2).
    accept_encoding: Choice<'a> = AcceptEncoding;
    /// Accept-Language (section 20.3).
    accept_language: Choice<'a> = AcceptLanguage;
    /// Content-Encoding (section 20.12).
    content_encoding: Token<'a> = ContentEncoding;
    /// Resource-Priority (RFC 4412 section 3.1).
    resource_priority: ResourcePriority<'a> = ResourcePriority;
    /// Reason (RFC 3326).
    reasons: Choice<'a> = Reason;
    /// Privacy (RFC 3323 section 4.2): values separated by commas. Each value may in turn be a list separated
    /// by semicolons.
    privacy: Choice<'a> = Privacy;
    /// Warning (section 20.43).
    warnings: Warning<'a> = Warning;
    /// In-Reply-To (section 20.21).
    in_reply_to: CallId<'a> = InReplyTo;
    /// History-Info (RFC 7044).
    history_info: Address<'a> = HistoryInfo;
    /// Call-Info (section 20.9).
    call_info: Address<'a> = CallInfo;
    /// Alert-Info (section 20.4).
    alert_info: Address<'a> = AlertInfo;
}

impl<'a> Message<'a> {
    /// The topmost Via.
    ///
    /// # Errors
    /// Returns an error if it is missing or malformed.
    #[inline]
    pub fn via(&self) -> Result<Via<'a>> {
        match self.index.top_via() {
            Some(top) => Ok(Via::of_top(top, self.bytes)),
            None => self.top(HeaderName::Via),
        }
    }

    /// Max-Forwards (RFC 3261 section 20.22).
    ///
    /// # Errors
    /// Returns an error if the header is malformed, occurs more than once, or exceeds 255.
    #[inline]
    pub fn max_forwards(&self) -> Result<Option<u8>> {
        let hops: Option<Number> = self.one(HeaderName::MaxForwards)?;
        let error = Error::new(ErrorKind::TooLarge, self.headers_end).in_header(HeaderName::MaxForwards);
        hops.map(|Number(hops)| u8::try_from(hops).map_err(|_| error)).transpose()
    }

    /// Contact (section 20.10): the addresses of all its lines, or a single `*`.
    ///
    /// # Errors
    /// Returns an error if `*` is not the only value. Other malformed values are reported by the iterator.
    pub fn contacts(&self) -> Result<Contacts<'a>> {
        let mut lines = self.lines(HeaderName::Contact);
        let star = lines.any(|line| line.value() == b"*");
        if !star {
            return Ok(Contacts::Some(self.values(HeaderName::Contact)));
        }
        match self.one::<Star>(HeaderName::Contact)? {
            Some(Star) => Ok(Contacts::All),
            None => Ok(Contacts::Some(self.values(HeaderName::Contact))),
        }
    }

    /// The credentials of Authorization (section 20.7), one set per header line, because commas separate the
    /// parameters.
    pub fn authorizations(&self) -> impl Iterator<Item = Result<Auth<'a>>> + use<'a> {
        self.lines(HeaderName::Authorization).map(|line| line.parse())
    }

    /// The credentials of Proxy-Authorization (section 20.28).
    pub fn proxy_authorizations(&self) -> impl Iterator<Item = Result<Auth<'a>>> + use<'a> {
        self.lines(HeaderName::ProxyAuthorization).map(|line| line.parse())
    }

    /// The challenges of WWW-Authenticate (section 20.44).
    pub fn challenges(&self) -> impl Iterator<Item = Result<Auth<'a>>> + use<'a> {
        self.lines(HeaderName::WwwAuthenticate).map(|line| line.parse())
    }

    /// The challenges of Proxy-Authenticate (section 20.27).
    pub fn proxy_challenges(&self) -> impl Iterator<Item = Result<Auth<'a>>> + use<'a> {
        self.lines(HeaderName::ProxyAuthenticate).map(|line| line.parse())
    }

    /// The extensions that `name` (Require or Proxy-Require) lists and `supported` lacks. They go into the
    /// Unsupported header of a 420 response.
    ///
    /// ```
    /// use strandline_sip::codec::{HeaderName, Index, Message, Token};
    ///
    /// let bytes = b"BYE sip:a.example SIP/2.0\r\nProxy-Require: path, foo\r\nProxy-Require: bar\r\n\r\n";
    /// let mut index = Index::new();
    /// let message = Message::parse(bytes, &mut index).map_err(|rejected| rejected.error)?;
    /// let missing: Result<Vec<_>, _> = message.unsupported_of(HeaderName::ProxyRequire, &["path"]).collect();
    /// assert_eq!(missing?, [Token(b"foo"), Token(b"bar")]);
    /// # Ok::<(), strandline_sip::codec::Error>(())
    /// ```
    pub fn unsupported_of<'s>(
        &self,
        name: HeaderName,
        supported: &'s [&'s str],
    ) -> impl Iterator<Item = Result<Token<'a>>> + use<'a, 's> {
        self.values(name).filter(move |token: &Result<Token<'a>>| match token {
            Ok(token) => !supported.iter().any(|known| token.is(known.as_bytes())),
            Err(_) => true,
        })
    }
}

/// A lone `*`.
#[derive(Debug, Clone, Copy)]
struct Star;

impl super::header::values::sealed::Sealed for Star {}

impl<'a> Element<'a> for Star {
    fn take(cursor: &mut super::cursor::Cursor<'a>) -> Result<Self> {
        if cursor.eat(b'*') { Ok(Self) } else { Err(cursor.error(ErrorKind::Token)) }
    }
}
