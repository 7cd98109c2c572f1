//! `strandline http proxy`: reverse and forward proxies between SCTP streams and TCP.
//!
//! Modules from the bottom: `failure`, `headers` and `allowed` decide without I/O; `body`, `early`,
//! `early_answer`, `bare_target`, `dial`, `tunnel` and `origins` move bytes; `relay` is the way of a request,
//! and `reverse` and `forward` say where it leads.

mod allowed;
mod args;
mod bare_target;
mod body;
mod dial;
mod early;
mod early_answer;
mod failure;
mod forward;
mod headers;
mod origins;
mod relay;
mod reverse;
#[cfg(test)]
mod testing;
mod tunnel;

use std::sync::Arc;

use anyhow::Result;

pub use self::forward::ForwardArgs;
pub use self::reverse::ReverseArgs;
#[cfg(any(test, feature = "fuzzing"))]
use crate::front::log::{Sender, Transport};
use crate::front::{ConnectionArgs, Front, Handler, Shards, raise_open_files};

/// Proxies between SCTP streams and TCP.
#[derive(Debug, clap::Subcommand)]
pub enum Proxy {
    /// Pass requests that come over TCP and SCTP to an HTTP server
    Reverse(Box<ReverseArgs>),
    /// Fetch the URLs of curl, wget and browsers over SCTP where servers speak it, otherwise over TCP
    Forward(Box<ForwardArgs>),
}

/// Runs a proxy until it is interrupted.
///
/// # Errors
/// If an argument can't be used or an address can't be listened on.
pub fn run(proxy: &Proxy) -> Result<()> {
    raise_open_files();
    let connections = match proxy {
        Proxy::Reverse(args) => &args.connections,
        Proxy::Forward(args) => &args.connections,
    };
    Shards::run(connections.shards, async |shards| match proxy {
        Proxy::Reverse(args) => {
            serve(reverse::bind(args, shards).await?, "Passing requests on", connections).await
        }
        Proxy::Forward(args) => {
            let bound = forward::bind(args, shards).await?;
            forward::warn(&bound.0);
            serve(bound, "Fetching for clients", connections).await
        }
    })?
}

async fn serve<H: Handler>(
    (front, handler): (Front, Arc<H>),
    heading: &str,
    connections: &ConnectionArgs,
) -> Result<()> {
    front.run_until_signals(handler, heading, connections).await
}

/// Lets headers of any bytes pass: none of the connection's own is left.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn fuzz(bytes: &[u8]) {
    use hyper::Request;
    use hyper::header::{HeaderName, HeaderValue};
    let mut request = Request::new(());
    for line in bytes.split(|byte| *byte == b'\n').take(100) {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let (Some(name), Some(value)) = (parts.next(), parts.next()) else {
            if let Ok(Ok(pattern)) = std::str::from_utf8(line).map(str::parse) {
                let target = hyper::http::uri::Authority::from_static("example.com:22");
                let _ = allowed::check(&[pattern], &target);
            }
            continue;
        };
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            request.headers_mut().append(name, value);
        }
    }
    let _ = headers::check(&request);
    let sender = Sender { address: None, transport: Transport::Sctp, stream: None };
    let map = request.headers_mut();
    let _ = headers::expects_continue(map);
    let _ = headers::count_down(&hyper::Method::TRACE, map);
    let hop = headers::strip(map);
    assert!(!map.contains_key("connection") && !map.contains_key("transfer-encoding"));
    headers::join_cookies(map);
    headers::add_forwarded(map, sender, Some("host"), true);
    headers::add_via(map, hyper::Version::HTTP_11, "fuzzed");
    assert!(headers::is_loop(map, "fuzzed"), "a request that returns is recognised");
    headers::request_hop(map, &hop);
}

#[cfg(test)]
mod tests;
