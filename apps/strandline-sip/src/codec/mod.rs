//! SIP messages between bytes and types (RFC 3261): zero-copy, lazy, without allocation for each message.
//!
//! | step | what it does | by |
//! |---|---|---|
//! | cut | a stream into messages and keep-alives | [`StreamFramer`] |
//! | sort | by the first line alone | [`StartLine::parse`] |
//! | index | finds all header lines in one pass, parses the topmost Via, takes the body | [`Message::parse`] |
//! | check | what every message must have | [`Message::essentials`] |
//! | ask | one header, parsed then | [`Message::contacts`], [`Message::routes`], ... |
//! | edit | as a proxy does, untouched bytes copied | [`Edits`] |
//! | answer | from the request | [`Reply`] |
//! | build | anew | [`MessageWriter`] |
//!
//! Texts are bytes: SIP is UTF-8, but a peer may send anything, and most of it only passes through. What is wrong is told
//! by an [`Error`] with its place and the status code to answer with; [`Rejected::answerable`] and
//! [`Message::is_answerable`] tell whether an answer can be sent at all.
//!
//! Time is linear in the length of the message, and memory is bounded by [`Limits`].

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
pub use header::address::{Address, Route};
pub use header::auth::{Auth, AuthInfo, AuthParams, Digest};
pub use header::cseq::{CSeq, RAck};
pub use header::date::Date;
pub use header::event::{Event, Replaces, RetryAfter, Seconds, Warning};
pub use header::media::{Choice, MediaType};
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
pub use uri::escape::{Unescaped, unescape};
pub use uri::host::Host;
pub use uri::params::{UriHeaders, UriParams};
pub use uri::sip::SipUri;
pub use uri::tel::TelUri;
pub use uri::{OtherUri, Uri};
pub use write::WriteError;
pub use write::build::MessageWriter;
pub use write::edit::Edits;
pub use write::respond::Reply;
pub(crate) use write::source::via_param_places;
pub use write::via::NewVia;
pub(crate) use write::via::{decimal, write_address};
