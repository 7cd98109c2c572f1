//! Parsing and writing SIP messages (RFC 3261): zero-copy, lazy, and without allocation for each message.
//!
//! | step | input and result | API |
//! |---|---|---|
//! | cut | splits a stream into messages and keep-alives | [`StreamFramer`] |
//! | sort | classifies a message by its first line | [`StartLine::parse`] |
//! | index | finds all header lines in one pass, parses the topmost Via, takes the body | [`Message::parse`]
//! |
//! | check | validates the mandatory headers | [`Message::essentials`] |
//! | query | parses one header on access | [`Message::contacts`], [`Message::routes`], ... |
//! | edit | changes a message as a proxy does, and copies the rest | [`Edits`] |
//! | respond | builds a response from a request | [`Reply`] |
//! | build | writes a new message | [`MessageWriter`] |
//!
//! Texts are bytes: SIP is UTF-8, but a peer may send anything, and most of it only passes through. An
//! [`Error`] reports what is wrong, where, and the status code of the response. [`Rejected::answerable`] and
//! [`Message::is_answerable`] report whether a response can be sent at all.
//!
//! Parsing time is linear in the length of the message, and memory is bounded by [`Limits`].

mod accessors;
mod as_sent;
#[cfg(feature = "server")]
mod base64url;
mod class;
mod cursor;
mod datagram;
mod error;
mod essentials;
#[cfg(feature = "server")]
mod glance;
mod header;
mod index;
mod limits;
mod message;
mod method;
mod multipart;
mod name;
mod peek;
mod scan;
mod start_line;
mod status;
mod stream;
mod stun;
mod top_via;
mod transport;
mod unfold;
mod uri;
mod write;

pub use accessors::Contacts;
#[cfg(feature = "server")]
pub(crate) use base64url::{base64url, base64url_decode};
pub use datagram::Datagram;
pub use error::{Error, ErrorKind};
pub use essentials::Essentials;
pub(crate) use header::address::Q_MAX;
pub use header::address::{Address, Route};
pub use header::auth::{Auth, AuthInfo, AuthParams, Digest};
pub use header::cseq::{CSeq, RAck};
pub use header::date::Date;
pub use header::event::{Event, Replaces, RetryAfter, Seconds, Warning};
pub use header::media::{Choice, MediaType};
pub(crate) use header::params::without_empty_param;
pub use header::params::{ParamValue, Params, unquote};
pub use header::token::{CallId, Number, ResourcePriority, Token};
pub use header::values::{Element, Values};
pub use header::via::{MAGIC_COOKIE, Via};
pub use index::Index;
pub use limits::Limits;
pub use message::{Header, Message, Rejected};
pub use method::Method;
pub use multipart::{Multipart, Part};
pub use name::HeaderName;
pub use peek::{header_lines, method_and_rest};
pub use start_line::{RequestLine, StartLine, StatusLine};
pub use status::StatusCode;
pub use stream::{Cut, Side, StreamFramer};
pub use stun::binding_answer;
pub use transport::Transport;
pub use unfold::unfold;
pub use uri::escape::unescape;
pub use uri::host::Host;
pub use uri::params::{UriHeaders, UriParams};
pub use uri::sip::SipUri;
pub(crate) use uri::sip::{SIP_PORT, SIPS_PORT};
pub use uri::tel::TelUri;
pub use uri::{OtherUri, Uri};
pub use write::WriteError;
pub use write::build::MessageWriter;
pub use write::edit::Edits;
pub use write::respond::Reply;
pub(crate) use write::source::via_param_places;
pub use write::via::NewVia;
pub(crate) use write::via::{decimal, write_address};
