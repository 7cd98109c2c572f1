//! `strandline http proxy forward`: for curl, wget and browsers, to origin servers over SCTP or TCP.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::http::request::Parts;
use hyper::http::uri::{Authority, PathAndQuery, Scheme};
use hyper::{Method, Uri};
use strandline::Stack;
use strandline_output::errln;
use tokio::net::TcpStream;

use super::allowed::{self, Pattern};
use super::args::UpstreamArgs;
use super::dial::{self, ProxyClient, Way};
use super::failure::Failure;
use super::headers::is_about_server;
use super::origins::{Key, Origins, OverSctp};
use super::relay::{Decision, Proxy, Route, Routes};
use crate::causes::causes;
use crate::client::outgoing_stack;
use crate::encryption::SctpEncryption;
use crate::front::alt_svc;
use crate::front::log::Sender;
use crate::front::{Addresses, ConnectionArgs, Front, SctpAddresses, Shards};
use crate::happy_eyeballs::{self, ATTEMPT_DELAY, SCTP_WAIT};
use crate::host::is_authority;
use crate::usage::Usage;

/// Default port of HTTP.
const PORT: u16 = 80;

/// `strandline http proxy forward`: without options it listens on TCP 127.0.0.1:3128.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "\
Examples:
  strandline http proxy forward &
  http_proxy=http://127.0.0.1:3128 curl http://www.example.com/
                                   over SCTP if the server speaks it, otherwise over TCP
  https_proxy=http://127.0.0.1:3128 curl https://www.example.com/
                                   through a tunnel over TCP
  strandline http proxy forward --listen 127.0.0.1:3129 --sctp 3128
                                   a remote proxy on SCTP port 3128 (for others than this machine:
                                   --encapsulation ADDRESS:9899)
  strandline http proxy forward --via http+sctp://proxy.example.com:3128
                                   everything, tunnels too, as streams of one association to it
Who may use the proxy, headers and limits: docs/http.md")]
pub struct ForwardArgs {
    /// Listen on TCP at this address and port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:3128", value_parser = strandline::socket_address)]
    listen: SocketAddr,
    /// Listen on this SCTP port as well (0: any)
    #[arg(long, value_name = "PORT")]
    sctp: Option<u16>,
    /// Carry SCTP in UDP at this address and port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9899", value_parser = strandline::socket_address, requires = "sctp")]
    encapsulation: SocketAddr,
    /// Send everything to this proxy: http+sctp://HOST:PORT or http://HOST:PORT
    #[arg(long, value_name = "URL")]
    via: Option<Uri>,
    /// Let CONNECT reach these targets, besides ports 443 and 80: PORT, HOST:PORT or *.DOMAIN:PORT. PORT may be *
    #[arg(long, value_name = "PATTERN")]
    allow: Vec<Pattern>,
    /// UDP port of servers on SCTP that announce none, and of the proxy of --via
    #[arg(long, value_name = "PORT", default_value_t = 9899)]
    encapsulation_port: u16,
    /// Encryption of SCTP from clients
    #[command(flatten)]
    encryption: SctpEncryption,
    #[command(flatten)]
    upstream: UpstreamArgs,
    #[command(flatten)]
    pub(super) connections: ConnectionArgs,
}

/// The ways of a forward proxy.
pub(super) struct Forward {
    allowed: Vec<Pattern>,
    /// The proxy that gets everything.
    via: Option<Via>,
    /// The stack of associations with the other proxy, if it is on SCTP.
    via_stack: Option<Stack>,
    tcp: ProxyClient,
    /// Time to connect a tunnel.
    connect_timeout: Duration,
    origins: Arc<Origins>,
}

/// Another proxy.
struct Via {
    client: ProxyClient,
    /// For requests about whole servers.
    about_servers: ProxyClient,
    transport: &'static str,
}

impl Via {
    fn new(way: Way, timeouts: dial::Timeouts) -> Self {
        Self {
            transport: way.name(),
            about_servers: dial::client_for_bare_targets(way.clone(), timeouts),
            client: dial::client(way, timeouts),
        }
    }
}

/// Listens.
pub(super) async fn bind(args: &ForwardArgs, shards: Shards) -> Result<(Front, Arc<Proxy<Forward>>)> {
    let timeouts = args.upstream.timeouts();
    let via = match &args.via {
        Some(uri) => Some(via(args, uri).map_err(|error| Usage::of(&format!("--via {uri}"), &error))?),
        None => None,
    };
    let log = args.connections.log()?;
    let encryption = args.encryption.load()?;
    let sctp = args.sctp.map(|port| SctpAddresses {
        port,
        encapsulation: args.encapsulation,
        raw: None,
        association: args.connections.association(),
        encryption,
    });
    let addresses = Addresses { tcp: args.listen, sctp, tls: None };
    let front = Front::bind(addresses, args.connections.limits(), shards).await?;
    let routes = Forward {
        allowed: args.allow.clone(),
        via_stack: via.as_ref().and_then(Way::stack),
        via: via.map(|way| Via::new(way, timeouts)),
        tcp: dial::client(Way::Tcp, timeouts),
        connect_timeout: timeouts.connect,
        origins: Origins::new(
            outgoing_stack(&args.connections.association(), args.upstream.encryption.load()?.as_ref())?,
            args.encapsulation_port,
            timeouts,
        ),
    };
    Ok((front, Arc::new(Proxy::new(routes, args.upstream.settings(log)))))
}

/// Warns if others than this machine can reach the proxy.
pub(super) fn warn(front: &Front) {
    let open = [Some(front.listening.tcp), front.listening.encapsulation];
    for address in open.into_iter().flatten().filter(|address| !address.ip().to_canonical().is_loopback()) {
        errln!(
            "strandline: warning: every host that reaches {address} can use this proxy: a firewall must restrict it"
        );
    }
}

/// Returns the way to another proxy.
fn via(args: &ForwardArgs, uri: &Uri) -> Result<Way> {
    ensure!(
        matches!(uri.path(), "" | "/") && uri.host().is_some_and(|host| !host.is_empty()),
        "a proxy is named by http+sctp://HOST:PORT or http://HOST:PORT"
    );
    ensure!(uri.authority().is_some_and(is_authority), "a malformed host or port");
    match uri.scheme_str() {
        Some("http+sctp") => {
            let encryption = args.upstream.encryption.load()?;
            let stack = outgoing_stack(&args.connections.association(), encryption.as_ref())?;
            let connector = args.upstream.timeouts().sctp(stack, args.encapsulation_port);
            Ok(Way::ViaSctp(connector, uri.clone()))
        }
        Some("http") => Ok(Way::ViaTcp(uri.clone())),
        other => {
            bail!("unsupported scheme {}: http+sctp and http are supported", other.unwrap_or_default())
        }
    }
}

/// Returns the host and port by which an origin is known.
fn key(uri: &Uri) -> Key {
    (uri.host().unwrap_or_default().to_ascii_lowercase(), uri.port_u16().unwrap_or(PORT))
}

impl Forward {
    /// A proxy to servers on SCTP.
    #[cfg(test)]
    pub(super) fn over(stack: Stack) -> Self {
        let timeouts = dial::Timeouts {
            connect: super::testing::LIMIT / 2,
            write: super::testing::LIMIT,
            silence: super::testing::LIMIT,
        };
        Self {
            allowed: Vec::new(),
            via: None,
            via_stack: None,
            tcp: dial::client(Way::Tcp, timeouts),
            connect_timeout: timeouts.connect,
            origins: Origins::new(stack, 9899, timeouts),
        }
    }

    async fn connect(&self, target: &Authority) -> Result<TcpStream, Failure> {
        let port = target.port_u16().ok_or(Failure::BadRequest("no port in its target"))?;
        let connecting = tokio::time::timeout(self.connect_timeout, happy_eyeballs::tcp(target.host(), port));
        let connected = connecting.await.unwrap_or_else(|late| Err(late.into()));
        connected.map_err(|error| Failure::of_connect(&error, causes(&error)))
    }

    /// Returns the route of a CONNECT.
    async fn tunnel(&self, head: &Parts) -> Result<Decision, Failure> {
        let target = head.uri.authority().ok_or(Failure::BadRequest("no target"))?;
        allowed::check(&self.allowed, target)?;
        let Some(Via { client, transport, .. }) = &self.via else {
            return Ok(Decision::Connect(self.connect(target).await?));
        };
        let malformed = || Failure::BadRequest("a malformed target");
        let uri = Uri::builder().authority(target.clone()).build().map_err(|_| malformed())?;
        let host = HeaderValue::from_str(target.as_str()).map_err(|_| malformed())?;
        Ok(Decision::Send(Route { client: client.clone(), transport, uri, host }))
    }

    fn over_tcp(&self, route: &Route) -> Route {
        Route {
            client: self.tcp.clone(),
            transport: "tcp",
            uri: with_port(&route.host, None, &route.uri),
            host: route.host.clone(),
        }
    }

    fn over_sctp(&self, route: &Route, (client, port): OverSctp) -> Route {
        let uri = with_port(&route.host, Some(port), &route.uri);
        Route { client, transport: "sctp", uri, host: route.host.clone() }
    }
}

/// Returns a URI at the host that Host names, with another port if one is given.
fn with_port(host: &HeaderValue, port: Option<u16>, uri: &Uri) -> Uri {
    let named = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let Some(named) = named else { return uri.clone() };
    let authority = match port {
        Some(port) => format!("{}:{port}", named.host()).parse().unwrap_or(named),
        None => named,
    };
    let path = uri.path_and_query().cloned().unwrap_or_else(|| PathAndQuery::from_static("/"));
    let built = Uri::builder().scheme(Scheme::HTTP).authority(authority).path_and_query(path).build();
    built.unwrap_or_else(|_| uri.clone())
}

/// Returns a URI with another path.
fn with_path(uri: Uri, path: &'static str) -> Uri {
    let mut parts = uri.clone().into_parts();
    parts.path_and_query = Some(PathAndQuery::from_static(path));
    Uri::from_parts(parts).unwrap_or(uri)
}

impl Routes for Forward {
    async fn decide(&self, head: &Parts) -> Result<Decision, Failure> {
        if head.method == Method::CONNECT {
            return self.tunnel(head).await;
        }
        let scheme = head.uri.scheme_str();
        let authority = head.uri.authority().filter(|authority| !authority.host().is_empty());
        let (Some(scheme), Some(authority)) = (scheme, authority) else {
            return Err(Failure::NotForThisProxy(
                "this is a forward proxy: it is named by http_proxy, and requests have whole URLs",
            ));
        };
        let bare = authority.as_str().rsplit('@').next().unwrap_or_default();
        let host = HeaderValue::from_str(bare).map_err(|_| Failure::BadRequest("a malformed host"))?;
        if scheme == "https" {
            return Err(Failure::NotImplemented("https needs a tunnel: CONNECT"));
        }
        let mut uri = with_port(&host, None, &head.uri);
        let is_about_server = is_about_server(head);
        if is_about_server {
            uri = with_path(uri, if self.via.is_some() { "/" } else { "*" });
        }
        let route = Route { client: self.tcp.clone(), transport: "tcp", uri, host };
        if let Some(Via { client, about_servers, transport }) = &self.via {
            let client = if is_about_server { about_servers } else { client };
            return Ok(Decision::Send(Route { client: client.clone(), transport, ..route }));
        }
        let key = key(&head.uri);
        match scheme {
            "http" => Ok(Decision::Send(match self.origins.established(&key) {
                Some(sctp) => self.over_sctp(&route, sctp),
                None => route,
            })),
            "http+sctp" => match self.origins.begun(&key) {
                Some(sctp) => Ok(Decision::Send(self.over_sctp(&route, sctp))),
                None => Err(Failure::Unreachable("the server does not speak SCTP".to_owned())),
            },
            _ => Err(Failure::NotImplemented("the schemes of this proxy are http and http+sctp")),
        }
    }

    async fn another(&self, head: &Parts, failed: &Route, is_unsent: bool) -> Option<Route> {
        if self.via.is_some() || head.method == Method::CONNECT {
            return None;
        }
        let key = key(&head.uri);
        if failed.transport == "sctp" {
            self.origins.fail(&key);
            return (head.uri.scheme_str() == Some("http")).then(|| self.over_tcp(failed));
        }
        if !is_unsent {
            return None;
        }
        let sctp = self.origins.wait(&key, SCTP_WAIT).await?;
        Some(self.over_sctp(failed, sctp))
    }

    async fn better(&self, head: &Parts, route: &Route) {
        if self.via.is_some() || head.method == Method::CONNECT || route.transport == "sctp" {
            return std::future::pending().await;
        }
        // TCP goes first, and is silent so far.
        tokio::time::sleep(ATTEMPT_DELAY).await;
        self.origins.until_established(&key(&head.uri)).await;
    }

    fn is_own(&self, uri: &Uri) -> bool {
        uri.authority().is_none()
    }

    fn prepare(&self, _headers: &mut HeaderMap, _sender: Sender, _host: Option<&str>) {
        // Origin servers don't learn who uses the proxy.
    }

    fn finish(&self, route: &Route, headers: &mut HeaderMap, _sender: Sender) {
        if self.via.is_some() || route.transport != "tcp" {
            return;
        }
        if let Some(announced) = alt_svc::of(headers) {
            self.origins.learn(&key(&route.uri), announced);
        }
    }

    fn stacks(&self) -> Vec<Stack> {
        self.via_stack.iter().cloned().chain([self.origins.stack()]).collect()
    }

    fn target(&self, uri: &Uri) -> Option<String> {
        let is_of_server = uri.path() == "*" && uri.authority().is_some();
        Some(if is_of_server { with_path(uri.clone(), "/").to_string() } else { uri.to_string() })
    }
}
