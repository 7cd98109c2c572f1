//! The way of a request through a proxy, and of its response back.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::{Body, Incoming};
use hyper::header::{
    ALLOW, AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST, HeaderMap, HeaderName, HeaderValue,
    SERVER, TRANSFER_ENCODING,
};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Method, Request, Response, StatusCode, Uri, Version};
use hyper_util::client::legacy::connect::capture_connection;
use strandline::Stack;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::Instant;

use super::body::{Home, Progress, RequestBody, ResponseBody};
use super::dial::ProxyClient;
use super::early_answer::BecomesTunnel;
use super::failure::Failure;
use super::headers::{self, Hop};
use super::tunnel::{Side, Tunnel, Tunnels};
use crate::front::log::{AccessLog, Line, LoggedBody, Sender};
use crate::front::{Handler, log_refused};
use crate::happy_eyeballs::connected;
use crate::interim::Interim;
use crate::stall::Broken;

const PROXY_STATUS: HeaderName = HeaderName::from_static("proxy-status");
/// Methods of which a repetition changes nothing (RFC 9110 section 9.2.2).
const IDEMPOTENT: [Method; 6] =
    [Method::GET, Method::HEAD, Method::OPTIONS, Method::TRACE, Method::PUT, Method::DELETE];
/// Attempts to send a request.
const ATTEMPTS: u32 = 3;

/// What reverse and forward proxies have in common.
#[derive(Debug)]
pub(super) struct Settings {
    /// The name in Via.
    pub(super) name: String,
    pub(super) log: Option<Arc<AccessLog>>,
    /// Requests and tunnels at the same time.
    pub(super) requests_max: u32,
    /// Time without progress after which a request fails.
    pub(super) response_timeout: Duration,
    pub(super) tunnel_timeout: Duration,
}

/// Where a request goes.
#[derive(Clone)]
pub(super) struct Route {
    pub(super) client: ProxyClient,
    /// The transport, for the access log.
    pub(super) transport: &'static str,
    pub(super) uri: Uri,
    /// The value of Host.
    pub(super) host: HeaderValue,
}

/// What becomes of a request.
#[allow(clippy::large_enum_variant, reason = "one lives for the time of a decision")]
pub(super) enum Decision {
    /// It is sent to a server or another proxy.
    Send(Route),
    /// The proxy itself makes the tunnel of a CONNECT.
    Connect(TcpStream),
}

/// What distinguishes reverse and forward proxies.
pub(super) trait Routes: Send + Sync + 'static {
    /// Decides where a request goes.
    fn decide(&self, head: &Parts) -> impl Future<Output = Result<Decision, Failure>> + Send;

    /// Returns another route for a request that failed on the way. `is_unsent` says that no connection was made.
    fn another(
        &self,
        head: &Parts,
        failed: &Route,
        is_unsent: bool,
    ) -> impl Future<Output = Option<Route>> + Send;

    /// Waits until there is a better route for a request that has no connection yet. If there is none, this
    /// never returns.
    fn better(&self, head: &Parts, route: &Route) -> impl Future<Output = ()> + Send;

    /// Returns whether a request about a whole server, which names no path of it, is about this one.
    fn is_own(&self, uri: &Uri) -> bool;

    /// Adds headers of the client to a request.
    fn prepare(&self, headers: &mut HeaderMap, sender: Sender, host: Option<&str>);

    /// Looks at a response before the client gets it.
    fn finish(&self, route: &Route, headers: &mut HeaderMap, sender: Sender);

    /// Returns the stacks of associations with servers.
    fn stacks(&self) -> Vec<Stack>;

    /// Returns the target for the access log, if it isn't the path.
    fn target(&self, uri: &Uri) -> Option<String>;
}

/// A proxy as what answers requests.
pub(super) struct Proxy<R> {
    pub(super) routes: R,
    settings: Settings,
    requests: Arc<Semaphore>,
    tunnels: Tunnels,
    errors: Errors,
}

/// Errors of upstream servers, of which one a second is logged.
#[derive(Debug, Default)]
struct Errors(Mutex<(Option<Instant>, u64)>);

impl Errors {
    /// Returns the number of errors that were not logged before this one, if this is to be logged.
    fn on_error(&self) -> Option<u64> {
        let mut errors = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        #[allow(clippy::disallowed_methods, reason = "a limit of log lines")]
        let now = Instant::now();
        if errors.0.is_some_and(|logged| now.duration_since(logged) < Duration::from_secs(1)) {
            errors.1 += 1;
            return None;
        }
        errors.0 = Some(now);
        Some(std::mem::take(&mut errors.1))
    }
}

/// A request on its way.
struct Passing {
    head: Parts,
    hop: Hop,
    home: Home,
    has_body: bool,
    expects_continue: bool,
    progress: Arc<Progress>,
    permit: OwnedSemaphorePermit,
    upgrading: OnUpgrade,
    broken: Option<Broken>,
    /// Sends interim responses to the client, if that speaks HTTP/1.1.
    interim: Option<Interim>,
}

impl<R: Routes> Handler for Proxy<R> {
    type Body = LoggedBody<ResponseBody>;

    async fn answer(self: Arc<Self>, request: Request<Incoming>, sender: Sender) -> Response<Self::Body> {
        let mut line = Line::begin(&request, sender, self.settings.log.as_ref());
        if let (Some(line), Some(target)) = (&mut line, self.routes.target(request.uri())) {
            line.set_target(target);
        }
        let method = request.method().clone();
        match self.pass(request, sender, &mut line).await {
            Ok(response) => LoggedBody::respond(response, &method, line),
            Err(failure) => {
                tracing::debug!(%failure, "a request has no response of an upstream server");
                if let Some(cause) = failure.cause()
                    && let Some(unlogged) = self.errors.on_error()
                {
                    tracing::warn!(%failure, cause, unlogged, "an upstream server failed");
                }
                LoggedBody::respond(refuse(&failure, &self.settings.name), &method, line)
            }
        }
    }

    fn refused(&self, status: StatusCode, version: Version, sender: Sender) {
        log_refused(status, version, sender, self.settings.log.as_ref());
    }

    async fn drained(&self) {
        let _ = self.requests.acquire_many(self.settings.requests_max).await;
    }

    async fn cut(&self) {
        self.tunnels.cut().await;
    }

    fn stacks(&self) -> Vec<Stack> {
        self.routes.stacks()
    }

    fn access_log(&self) -> Option<&Arc<AccessLog>> {
        self.settings.log.as_ref()
    }
}

impl<R: Routes> Proxy<R> {
    pub(super) fn new(routes: R, settings: Settings) -> Self {
        let requests = Arc::new(Semaphore::new(settings.requests_max as usize));
        Self { routes, settings, requests, tunnels: Tunnels::default(), errors: Errors::default() }
    }

    async fn pass(
        &self,
        mut request: Request<Incoming>,
        sender: Sender,
        line: &mut Option<Line>,
    ) -> Result<Response<ResponseBody>, Failure> {
        let permit = Arc::clone(&self.requests).try_acquire_owned().map_err(|_| Failure::Busy)?;
        headers::check(&request)?;
        if headers::is_loop(request.headers(), &self.settings.name) {
            return Err(Failure::Loop);
        }
        let expects_continue = headers::expects_continue(request.headers())?;
        let upgrading = hyper::upgrade::on(&mut request);
        let (mut head, body) = request.into_parts();
        if head.method == Method::CONNECT {
            // What follows is the tunnel's (RFC 9110 section 9.3.6): a server that it passes must see it so, too.
            if !body.is_end_stream() {
                return Err(Failure::BadRequest("content, which CONNECT has none of"));
            }
            head.headers.remove(CONTENT_LENGTH);
        }
        let is_own = headers::is_about_server(&head) && self.routes.is_own(&head.uri);
        if headers::count_down(&head.method, &mut head.headers)? || is_own {
            return Ok(final_answer(&head));
        }
        let broken = head.extensions.remove::<Broken>();
        let interim = head.extensions.remove::<Interim>().filter(|_| head.version == Version::HTTP_11);
        let decision = self.routes.decide(&head).await?;
        let mut hop = headers::strip(&mut head.headers);
        hop.upgrade =
            hop.upgrade.filter(|protocol| head.version == Version::HTTP_11 && headers::may_upgrade(protocol));
        let host = host(&head);
        headers::join_cookies(&mut head.headers);
        self.routes.prepare(&mut head.headers, sender, host.as_deref());
        headers::add_via(&mut head.headers, head.version, &self.settings.name);
        let has_body = !body.is_end_stream() && head.method != Method::CONNECT;
        let passing = Passing {
            head,
            hop,
            home: Arc::new(Mutex::new(Some(body).filter(|_| has_body))),
            has_body,
            expects_continue: expects_continue && has_body,
            progress: Arc::default(),
            permit,
            upgrading,
            broken,
            interim,
        };
        match decision {
            Decision::Connect(tcp) => {
                if let Some(line) = line {
                    line.set_upstream("tcp");
                }
                Ok(self.tunnel(passing, Side::Tcp(tcp), StatusCode::OK, line))
            }
            Decision::Send(route) => {
                let (response, route) = self.send(&passing, route).await?;
                if let Some(line) = line {
                    line.set_upstream(route.transport);
                }
                self.respond(passing, response, &route, (sender, line))
            }
        }
    }

    /// Sends a request, and repeats that another way if nothing was lost.
    async fn send(&self, passing: &Passing, route: Route) -> Result<(Response<Incoming>, Route), Failure> {
        let mut route = route;
        let mut attempt = 1;
        loop {
            let (failure, is_unsent) = match self.attempt(passing, &route).await {
                Ok(response) => return Ok((response, route)),
                Err(failed) => failed,
            };
            let is_idempotent = IDEMPOTENT.contains(&passing.head.method);
            let is_lost = matches!(failure, Failure::Terminated(_) | Failure::Silent(_)) && is_idempotent;
            if attempt >= ATTEMPTS || !passing.is_untouched() || !(is_unsent || is_lost) {
                return Err(failure);
            }
            match self.routes.another(&passing.head, &route, is_unsent).await {
                Some(another) => route = another,
                // An idle connection may have been closed while the request was sent.
                None if !is_unsent && attempt == 1 => {}
                None => return Err(failure),
            }
            attempt += 1;
        }
    }

    /// Sends a request. An error says whether it was certainly not sent.
    async fn attempt(&self, passing: &Passing, route: &Route) -> Result<Response<Incoming>, (Failure, bool)> {
        let mut request = passing.request(route);
        let connection = capture_connection(&mut request);
        let sending = route.client.request(request);
        let better = async {
            tokio::select! {
                biased;
                () = connected(connection) => std::future::pending().await,
                () = self.routes.better(&passing.head, route) => {}
            }
        };
        tokio::pin!(sending, better);
        let mut before = passing.progress.frames();
        loop {
            tokio::select! {
                biased;
                result = &mut sending => {
                    return result.map_err(|error| {
                        let is_clients = passing.progress.has_failed();
                        let malformed = Failure::BadRequest("a body that is malformed or incomplete");
                        if is_clients { (malformed, false) } else { Failure::of(&error) }
                    });
                }
                () = &mut better => {
                    return Err((Failure::ConnectTimeout("another transport was faster".to_owned()), true));
                }
                () = tokio::time::sleep(self.settings.response_timeout) => {}
            }
            let frames = passing.progress.frames();
            if frames == before {
                let is_clients = passing.progress.waits_for_client();
                let failure = if is_clients { Failure::SlowClient } else { Failure::ResponseTimeout };
                return Err((failure, false));
            }
            before = frames;
        }
    }

    /// Turns the response of an upstream server into one for the client.
    fn respond(
        &self,
        passing: Passing,
        mut response: Response<Incoming>,
        route: &Route,
        (sender, line): (Sender, &mut Option<Line>),
    ) -> Result<Response<ResponseBody>, Failure> {
        let status = response.status();
        let is_switch = status == StatusCode::SWITCHING_PROTOCOLS;
        if is_switch && passing.hop.upgrade.is_none() {
            return Err(Failure::Malformed(
                "it switches to a protocol that the client didn't ask for".to_owned(),
            ));
        }
        let mut codings = response.headers().get_all(TRANSFER_ENCODING).iter();
        if codings.any(|coding| !coding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"chunked")) {
            return Err(Failure::Malformed(
                "it has a transfer coding that this proxy didn't ask for".to_owned(),
            ));
        }
        if is_switch || (passing.head.method == Method::CONNECT && status.is_success()) {
            let broken = response.extensions_mut().remove::<Broken>();
            if let Some(tunnel) = response.extensions_mut().remove::<BecomesTunnel>() {
                tunnel.set();
            }
            let upstream = Side::Http(hyper::upgrade::on(&mut response), broken);
            let mut answer = self.tunnel(passing, upstream, status, line);
            if is_switch {
                let hop = headers::strip(response.headers_mut());
                headers::request_hop(response.headers_mut(), &hop);
                *answer.headers_mut() = std::mem::take(response.headers_mut());
                headers::add_via(answer.headers_mut(), response.version(), &self.settings.name);
            }
            return Ok(answer);
        }
        let (mut head, body) = response.into_parts();
        headers::settle_length(&mut head.headers);
        headers::strip(&mut head.headers);
        headers::add_via(&mut head.headers, head.version, &self.settings.name);
        self.routes.finish(route, &mut head.headers, sender);
        let body = ResponseBody::upstream(body, self.settings.response_timeout, passing.permit);
        let mut answer = Response::new(body);
        *answer.status_mut() = head.status;
        *answer.headers_mut() = head.headers;
        Ok(answer)
    }

    /// Begins a tunnel, and returns the response that tells the client so.
    fn tunnel(
        &self,
        passing: Passing,
        upstream: Side,
        status: StatusCode,
        line: &mut Option<Line>,
    ) -> Response<ResponseBody> {
        let mut line = line.take();
        if let Some(line) = &mut line {
            line.set_status(status);
        }
        self.tunnels.begin(Tunnel {
            client: passing.upgrading,
            upstream,
            limit: self.settings.tunnel_timeout,
            broken: passing.broken,
            line,
            permit: passing.permit,
        });
        let mut response = Response::new(ResponseBody::text(""));
        *response.status_mut() = status;
        response
    }
}

impl Passing {
    /// Returns whether nothing of the body was sent.
    fn is_untouched(&self) -> bool {
        !self.has_body || self.home.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Builds the request for a route.
    fn request(&self, route: &Route) -> Request<RequestBody> {
        let (open, opened) = oneshot::channel();
        let gate = self.expects_continue.then_some(opened);
        let mut request = Request::new(RequestBody::new(&self.home, &self.progress, gate));
        *request.method_mut() = self.head.method.clone();
        *request.uri_mut() = route.uri.clone();
        *request.headers_mut() = self.head.headers.clone();
        let headers = request.headers_mut();
        headers.insert(HOST, route.host.clone());
        headers::request_hop(headers, &self.hop);
        if self.has_body && !headers.contains_key(CONTENT_LENGTH) {
            // Without it hyper sends no body with methods that rarely have one, such as GET.
            headers.insert(TRANSFER_ENCODING, HeaderValue::from_static("chunked"));
        }
        let (open, interim) = (Mutex::new(Some(open)), self.interim.clone());
        hyper::ext::on_informational(&mut request, move |response| match (response.status(), &interim) {
            (StatusCode::CONTINUE, _) => {
                if let Some(open) = open.lock().unwrap_or_else(PoisonError::into_inner).take() {
                    // Without an expectation nothing waits for it.
                    let _ = open.send(());
                }
            }
            (status, Some(interim)) => {
                let mut headers = response.headers().clone();
                headers::strip(&mut headers);
                interim.push(status, &headers);
            }
            // hyper's server sends none over HTTP/2, and HTTP/1.0 knows none.
            (_, None) => {}
        });
        request
    }
}

/// Returns the host that a request names: the target's if it has one (RFC 9112 section 3.2.2).
pub(super) fn host(head: &Parts) -> Option<String> {
    match head.uri.authority() {
        Some(authority) => Some(authority.as_str().rsplit('@').next().unwrap_or_default().to_owned()),
        None => head.headers.get(HOST).and_then(|host| host.to_str().ok()).map(str::to_owned),
    }
}

/// Answers a request without an upstream server.
fn refuse(failure: &Failure, name: &str) -> Response<ResponseBody> {
    let status = failure.status();
    let mut response = Response::new(ResponseBody::text(format!("{status}: {failure}\n")));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    headers.insert(SERVER, HeaderValue::from_static("strandline"));
    if let Ok(value) = HeaderValue::from_str(&format!("{name}; error={}", failure.kind())) {
        headers.insert(PROXY_STATUS, value);
    }
    if *failure == Failure::NoTunnels {
        headers.insert(ALLOW, allowed());
    }
    response
}

fn allowed() -> HeaderValue {
    HeaderValue::from_static("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, TRACE")
}

/// Answers OPTIONS and TRACE that aren't to be passed on: TRACE with the request's head (RFC 9110 section 9.3.8),
/// without what may be secret.
fn final_answer(head: &Parts) -> Response<ResponseBody> {
    if head.method == Method::OPTIONS {
        let mut response = Response::new(ResponseBody::text(""));
        response.headers_mut().insert(ALLOW, allowed());
        return response;
    }
    let mut text = format!("TRACE {} {:?}\r\n", head.uri, head.version).into_bytes();
    for (name, value) in &head.headers {
        if name != AUTHORIZATION && name != COOKIE && name != "proxy-authorization" {
            for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                text.extend_from_slice(part);
            }
        }
    }
    text.extend_from_slice(b"\r\n");
    let mut response = Response::new(ResponseBody::text(text));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("message/http"));
    response
}
