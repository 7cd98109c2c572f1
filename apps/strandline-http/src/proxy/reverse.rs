//! `strandline http proxy reverse`: from SCTP and TCP to a server that knows HTTP/1.1.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use hyper::header::{ALT_SVC, HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Uri};
use strandline::Stack;
use strandline_tls::ClientTls;

use super::args::UpstreamArgs;
use super::dial::{self, ProxyClient, Way};
use super::failure::Failure;
use super::headers::add_forwarded;
use super::relay::{Decision, Proxy, Route, Routes, host};
#[cfg(test)]
use crate::client::Connector;
use crate::client::outgoing_stack;
use crate::front::log::{Sender, Transport};
use crate::front::{ConnectionArgs, Front, ListenArgs, Shards};
use crate::host::is_authority;
use crate::usage::Usage;

/// `strandline http proxy reverse`: without more options it listens on 127.0.0.1, on TCP and SCTP.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline http proxy reverse --to http://127.0.0.1:3000
                                                http://127.0.0.1:8080/ on TCP, SCTP port 8080 in UDP port 9899
  strandline http proxy reverse --to unix:/run/app.sock --access-log -
                                                to a socket of this machine, with a line for each request
  strandline http proxy reverse --to https://app.example.com --rewrite-host
                                                to another host over TLS, by that host's name
Headers, limits and errors: docs/http.md")]
pub struct ReverseArgs {
    /// The server to pass requests to: http://HOST:PORT, https://HOST:PORT, http+sctp://HOST:PORT or unix:PATH
    #[arg(long, value_name = "URL")]
    to: String,
    /// Send the upstream server's host instead of the one that the client named
    #[arg(long)]
    rewrite_host: bool,
    /// Keep the Forwarded and X-Forwarded headers of clients, which are then proxies that can be trusted
    #[arg(long)]
    trust_forwarded: bool,
    /// PEM file with the authorities that https upstream servers are verified by
    #[arg(long, value_name = "FILE", default_value = "/etc/ssl/certs/ca-certificates.crt")]
    ca: PathBuf,
    /// UDP port of an upstream server on SCTP
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    encapsulation_port: u16,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    upstream: UpstreamArgs,
    #[command(flatten)]
    pub(super) connections: ConnectionArgs,
}

/// The upstream server of a reverse proxy.
pub(super) struct Reverse {
    client: ProxyClient,
    transport: &'static str,
    scheme: Scheme,
    authority: Authority,
    rewrites_host: bool,
    trusts_forwarded: bool,
    alt_svc: Option<HeaderValue>,
    /// The stack of associations with the upstream server, if it is on SCTP.
    stack: Option<Stack>,
}

impl Reverse {
    /// A proxy to a server on SCTP.
    #[cfg(test)]
    pub(super) fn over(connector: Connector, authority: &'static str) -> Self {
        let timeouts = dial::Timeouts {
            connect: super::testing::LIMIT / 2,
            write: super::testing::LIMIT,
            silence: super::testing::LIMIT,
        };
        Self {
            client: dial::client(Way::Sctp(connector), timeouts),
            transport: "sctp",
            scheme: Scheme::HTTP,
            authority: Authority::from_static(authority),
            rewrites_host: false,
            trusts_forwarded: false,
            alt_svc: None,
            stack: None,
        }
    }
}

/// Listens.
pub(super) async fn bind(args: &ReverseArgs, shards: Shards) -> Result<(Front, Arc<Proxy<Reverse>>)> {
    let way = way(args).map_err(|error| Usage::of(&format!("--to {}", args.to), &error));
    let (way, scheme, authority) = way?;
    let log = args.connections.log()?;
    let front = Front::bind(
        args.listen.addresses(args.connections.association())?,
        args.connections.limits(),
        shards,
    )
    .await?;
    let routes = Reverse {
        transport: way.name(),
        stack: way.stack(),
        client: dial::client(way, args.upstream.timeouts()),
        scheme,
        authority,
        rewrites_host: args.rewrite_host,
        trusts_forwarded: args.trust_forwarded,
        alt_svc: front.listening.alt_svc(),
    };
    Ok((front, Arc::new(Proxy::new(routes, args.upstream.settings(log)))))
}

/// Returns the way to the upstream server, and the scheme and authority for its URIs.
fn way(args: &ReverseArgs) -> Result<(Way, Scheme, Authority)> {
    if let Some(path) = args.to.strip_prefix("unix:") {
        ensure!(!path.is_empty(), "unix: needs the path of a socket");
        return Ok((Way::Unix(path.into()), Scheme::HTTP, Authority::from_static("localhost")));
    }
    ensure!(args.to.contains("://"), "the scheme is missing: http://{} for a server over TCP", args.to);
    let uri: Uri = args.to.parse()?;
    ensure!(
        matches!(uri.path(), "" | "/") && uri.query().is_none(),
        "a server has no path here: paths of requests are passed on unchanged"
    );
    let authority = uri.authority().filter(|authority| !authority.host().is_empty());
    let authority = authority.context("a server is named by http://HOST:PORT or unix:PATH")?.clone();
    ensure!(!authority.as_str().contains('@'), "a server has no user name here");
    ensure!(is_authority(&authority), "a malformed host or port");
    match uri.scheme_str() {
        Some("http") => Ok((Way::Tcp, Scheme::HTTP, authority)),
        Some("https") => Ok((Way::Tls(ClientTls::web(&args.ca)?), Scheme::HTTPS, authority)),
        Some("http+sctp") => {
            let encryption = args.upstream.encryption.load()?;
            let stack = outgoing_stack(&args.connections.association(), encryption.as_ref())?;
            let connector = args.upstream.timeouts().sctp(stack, args.encapsulation_port);
            Ok((Way::Sctp(connector), Scheme::HTTP, authority))
        }
        other => bail!(
            "unsupported scheme {}: http, https, http+sctp and unix are supported",
            other.unwrap_or_default()
        ),
    }
}

impl Routes for Reverse {
    async fn decide(&self, head: &Parts) -> Result<Decision, Failure> {
        if head.method == Method::CONNECT {
            return Err(Failure::NoTunnels);
        }
        let path = match head.uri.path_and_query() {
            Some(path) if path.as_str() != "*" => path.clone(),
            Some(_) => return Err(Failure::NotForThisProxy("only paths are passed on, no *")),
            None => PathAndQuery::from_static("/"),
        };
        let uri = Uri::builder().scheme(self.scheme.clone()).authority(self.authority.clone());
        let uri = uri.path_and_query(path).build().map_err(|_| Failure::BadRequest("a malformed target"))?;
        let host = host(head).filter(|_| !self.rewrites_host);
        let host = host.unwrap_or_else(|| self.authority.to_string());
        let host = HeaderValue::from_str(&host).map_err(|_| Failure::BadRequest("a malformed Host"))?;
        let (client, transport) = (self.client.clone(), self.transport);
        Ok(Decision::Send(Route { client, transport, uri, host }))
    }

    async fn another(&self, _head: &Parts, _failed: &Route, _is_unsent: bool) -> Option<Route> {
        None
    }

    async fn better(&self, _head: &Parts, _route: &Route) {
        std::future::pending().await
    }

    fn is_own(&self, _uri: &Uri) -> bool {
        true
    }

    fn prepare(&self, headers: &mut HeaderMap, sender: Sender, host: Option<&str>) {
        add_forwarded(headers, sender, host, self.trusts_forwarded);
    }

    fn finish(&self, _route: &Route, headers: &mut HeaderMap, sender: Sender) {
        // SCTP has no TLS here, so it is no alternative to https.
        if let Some(alt_svc) = self.alt_svc.as_ref().filter(|_| sender.transport == Transport::Tcp) {
            headers.append(ALT_SVC, alt_svc.clone());
        }
    }

    fn stacks(&self) -> Vec<Stack> {
        self.stack.iter().cloned().collect()
    }

    fn target(&self, _uri: &Uri) -> Option<String> {
        None
    }
}
