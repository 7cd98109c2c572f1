//! `strandline http proxy`: reverse and forward proxies between SCTP streams and TCP.
//!
//! Modules from the bottom: `failure`, `headers` and `allowed` decide without I/O; `body`, `dial`, `tunnel` and
//! `origins` move bytes; `relay` is the way of a request, and `reverse` and `forward` say where it leads.

mod allowed;
mod args;
mod body;
mod dial;
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
use crate::front::{ConnectionArgs, Front, Handler, raise_open_files};

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
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match proxy {
            Proxy::Reverse(args) => {
                serve(reverse::bind(args).await?, "Passing requests on", &args.connections).await
            }
            Proxy::Forward(args) => {
                let bound = forward::bind(args).await?;
                forward::warn(&bound.0);
                serve(bound, "Fetching for clients", &args.connections).await
            }
        }
    })
}

async fn serve<H: Handler>(
    (front, handler): (Front, Arc<H>),
    heading: &str,
    connections: &ConnectionArgs,
) -> Result<()> {
    front.run_until_signals(handler, heading, connections.json).await
}

#[cfg(test)]
mod tests;
