//! HTTP/1.1 over the streams of SCTP associations (draft-natarajan-http-over-sctp-02), for hyper.
//!
//! Each bidirectional stream of an association carries an HTTP/1.1 connection. The client picks the stream,
//! and the response returns on it. Requests on different streams don't wait for each other, neither in the
//! network nor at a slow reader. hyper speaks HTTP; this crate maps its connections to streams:
//!
//! - [`HttpAssociation`] opens and accepts connections on the streams of one association. An [`HttpStream`] is
//!   one such connection: [`AsyncRead`](tokio::io::AsyncRead) and [`AsyncWrite`](tokio::io::AsyncWrite).
//! - [`serve`] answers the requests of all peers of a listener with a service of hyper or tower.
//! - [`Connector`] makes hyper-util's client send its requests over SCTP.
//!
//! ```
//! use bytes::Bytes;
//! use http_body_util::{BodyExt, Full};
//! use hyper::{Request, Response};
//! use hyper::body::Incoming;
//! use hyper::service::service_fn;
//! use hyper_util::client::legacy::Client;
//! use hyper_util::rt::TokioExecutor;
//! use strandline::memory::Network;
//! use strandline::{Listener, Stack};
//! use strandline_http::{Connector, ServeOptions, serve};
//!
//! async fn hello(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
//!     Ok(Response::new(Full::from(format!("this is {}", request.uri().path()))))
//! }
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
//! let network = Network::new(); // instead: Stack::builder().udp("0.0.0.0:9899".parse()?)?
//! let here = Stack::builder().memory(&network, ["10.0.0.1".parse()?])?;
//! let there = Stack::builder().memory(&network, ["10.0.0.2".parse()?])?;
//!
//! let listener = Listener::bind(&there, 80)?;
//! tokio::spawn(serve(listener, service_fn(hello), ServeOptions::default(), std::future::pending()));
//!
//! let client: Client<_, Full<Bytes>> = Client::builder(TokioExecutor::new()).build(Connector::new(here));
//! let (one, two) = tokio::try_join!(
//!     client.get("http+sctp://10.0.0.2/one".parse()?),
//!     client.get("http+sctp://10.0.0.2/two".parse()?), // on another stream of the same association
//! )?;
//! assert_eq!(one.into_body().collect().await?.to_bytes(), "this is /one");
//! assert_eq!(two.into_body().collect().await?.to_bytes(), "this is /two");
//! # Ok(()) }
//! ```
//!
//! # The end of a connection
//!
//! HTTP/1.1 marks the end of each request and response. The end of a connection, its failure, and how much a
//! reader takes ahead are said by control messages of 16 bytes on the same stream. docs/http.md specifies
//! them. Peers without them are recognised by the payload protocol identifiers of their messages:
//!
//! | event | peer with control messages | other peer |
//! |---|---|---|
//! | a connection is closed | END; the stream is free for the next connection once both sides have sent END or RESET | the stream isn't used again |
//! | a connection fails | RESET: the peer reads an error, and the stream is used again | the stream falls silent, and the association ends by ABORT, never by SHUTDOWN |
//! | the association ends before END | an error | a SHUTDOWN ends the connection, any other end is an error |
//! | a reader is slow | its peer stops sending on the stream after a window ([`Settings::stream_window`]) | messages wait up to [`Settings::buffer_max`]; then the association's window closes |
//!
//! A connection that failed never looks like one that was closed.
//!
//! # Memory
//!
//! An association holds at most [`Settings::buffer_max`] bytes that its readers haven't read, beside the
//! receive buffer of the association; all associations of a server together hold at most what their
//! [`Budget`] says. Readers that stall don't delay other streams: windows of streams begin small, and grow only
//! within half of `buffer_max`. If that isn't enough, [`Settings::stall_timeout`] ends the stream whose data has
//! waited longest.
#![forbid(unsafe_code)]

mod causes;
mod client;
pub mod command;
mod control;
mod encryption;
mod exchange;
pub mod file_server;
mod files;
mod framing;
mod front;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
pub mod get;
mod graceful;
mod guard;
mod happy_eyeballs;
mod host;
mod interim;
pub mod load;
pub mod proxy;
mod server;
mod stall;
mod streams;
mod urls;
mod usage;

pub use client::{Connecting, Connector};
pub use server::{ServeOptions, StreamInfo, serve};
pub use streams::{Budget, ConnectionError, HttpAssociation, HttpStream, Settings};
