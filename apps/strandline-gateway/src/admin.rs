//! Status and metrics over HTTP.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Result;
use serde_json::{Value, json};
use strandline::{Association, Reachability};
use strandline_ops::http::{Answer, Handler, Reply, Request, exposure, serve_at};
use strandline_ops::metrics::{CONTENT_TYPE, Page};
use tokio::task::spawn_blocking;

use crate::clock::unix_time;
use crate::config::Fallback;
use crate::gateway::Gateway;
use crate::link::Link;
use crate::mapping::{Direct, Inputs, State, decide};
use crate::reverse_states::ReverseState;
use crate::running::Running;

/// Connections that a status lists.
const LISTED_MAX: usize = 10_000;

/// What status and metrics are made of.
struct Admin {
    gateway: Arc<Gateway>,
    running: Rc<Running>,
}

/// Serves on a task of the current [`LocalSet`](tokio::task::LocalSet). Returns the address.
///
/// # Errors
/// If it can't listen.
pub(crate) async fn listen(address: SocketAddr, running: Rc<Running>) -> Result<SocketAddr> {
    if let Some(warning) = exposure(address) {
        tracing::warn!("admin: {warning}");
    }
    let begun = unix_time().as_secs();
    let admin = Admin { gateway: Arc::clone(&running.gateway), running };
    let running = Rc::clone(&admin.running);
    let listener = running.succession.admin_listener(address).await?;
    let (bound, socket) = (listener.local_addr()?, listener.as_fd().try_clone_to_owned()?);
    let handler: Handler = Rc::new(move |request| reply(request, &admin, (bound, begun)));
    let task = serve_at("admin", listener, &[], handler)?;
    running.succession.keep_admin(address, socket, task);
    Ok(bound)
}

/// Returns whether a request may change something: with the token if there is one, and otherwise from this host.
fn may_change(request: &Request, gateway: &Gateway, bound: SocketAddr) -> bool {
    match &gateway.settings().admin_token {
        Some(token) => token.is_shown(request),
        None => bound.ip().to_canonical().is_loopback(),
    }
}

fn reply(request: &Request, admin: &Admin, (bound, begun): (SocketAddr, u64)) -> Reply {
    let parts = request.parts();
    if parts == ["status"] && request.method == "GET" {
        return status(admin);
    }
    if !matches!(parts.as_slice(), ["restart" | "reload"]) {
        return answer(request, admin, begun).into();
    }
    if request.method != "POST" {
        return Answer::not_allowed("POST").into();
    }
    if !may_change(request, &admin.gateway, bound) {
        let hint =
            "present the token of --admin-token (admin_token), which addresses beyond loopback need for this";
        return Answer::error(403, "not allowed without the token", hint).into();
    }
    let (running, gateway) = (Rc::clone(&admin.running), Arc::clone(&admin.gateway));
    if parts == ["reload"] {
        return to_its_end(async move {
            match running.reload().await {
                Ok(done) => Answer::json(200, &json!({"changed": done.changed, "kept": done.kept})),
                Err(error) => Answer::error(422, &error.to_string(), "the configuration is unchanged"),
            }
        });
    }
    let ends_oldest = request.value("end-oldest").is_some();
    to_its_end(async move {
        match running.restart(ends_oldest).await {
            Ok(pid) => Answer::json(200, &json!({"pid": pid, "connections": gateway.registry.open()})),
            Err(error) => Answer::error(422, &format!("{error:#}"), "the old process goes on"),
        }
    })
}

/// Answers later. What is done for the answer is done to its end, also if the client does not wait for it.
fn to_its_end(answering: impl Future<Output = Answer> + 'static) -> Reply {
    let task = tokio::task::spawn_local(answering);
    Reply::Later(Box::pin(async move {
        task.await.unwrap_or_else(|_| Answer::error(500, "it was not done to its end", "the log has more"))
    }))
}

/// Answers with the status. Thousands of connections become text beside this thread, which moves data, too.
fn status(admin: &Admin) -> Reply {
    let (mut status, registry) = (admin.status(), Arc::clone(&admin.gateway.registry));
    let listing = spawn_blocking(move || {
        status["connections"] = registry.connections(LISTED_MAX).into();
        Answer::json(200, &status)
    });
    Reply::Later(Box::pin(async move {
        listing.await.unwrap_or_else(|_| Answer::error(500, "no status", "the log has more"))
    }))
}

fn answer(request: &Request, admin: &Admin, begun: u64) -> Answer {
    let parts = request.parts();
    if !matches!(parts.as_slice(), ["metrics" | "status"]) {
        return Answer::error(404, "not found", "the paths are /metrics, /status, /reload and /restart");
    }
    if request.method != "GET" {
        return Answer::not_allowed("GET, HEAD");
    }
    Answer::text(200, CONTENT_TYPE, admin.metrics(begun))
}

impl Admin {
    fn metrics(&self, begun: u64) -> String {
        let mut page = Page::new("strandline_gateway");
        page.process(env!("CARGO_PKG_VERSION"), begun);
        let sums = self.gateway.registry.sums();
        let sorted = |counts: &std::collections::HashMap<&'static str, u64>| {
            let mut counts: Vec<(&str, u64)> = counts.iter().map(|(name, count)| (*name, *count)).collect();
            counts.sort_unstable();
            counts
        };
        let help = "TCP connections, by their listener.";
        page.counters("connections_total", help, "listener", sorted(&sums.by_listener));
        let help = "TCP connections that ended, by how.";
        page.counters("connection_ends_total", help, "end", sorted(&sums.by_end));
        let mut decided: Vec<_> = sums.by_mapping.iter().map(|(labels, count)| (*labels, *count)).collect();
        decided.sort_unstable();
        let help = "TCP connections that were mapped to streams or not, by the decision and its reason.";
        page.counters_of_two("mapping_total", help, ["decision", "reason"], decided);
        page.gauge("connections", "Open TCP connections.", self.gateway.registry.open() as f64);
        let help = "Bytes of TCP connections, up from clients and down to them.";
        page.counters("bytes_total", help, "direction", [("up", sums.bytes_up), ("down", sums.bytes_down)]);
        page.gauge("associations", "Established associations.", self.gateway.associations().len() as f64);
        let help =
            "Paths of associations that do not answer: other paths carry their data, if there are any.";
        page.gauge("paths_failed", help, self.paths_failed() as f64);
        let help = "Associations that were established.";
        page.counter("associations_total", help, self.gateway.associations_total());
        let help = "Associations that were refused: their peers had as many as they may.";
        page.counter("associations_refused_total", help, self.gateway.limits.refused());
        let help = "Bytes received from peers that readers have not taken, of all associations.";
        page.gauge("unread_bytes", help, self.gateway.memory.received() as f64);
        let help = "Limit of unread_bytes: buffer_total_mib.";
        let limits = self.gateway.settings().limits;
        page.gauge("unread_bytes_max", help, limits.buffer_total_bytes() as f64);
        let lost = self.gateway.udp_lost.load(Ordering::Relaxed);
        page.counter("udp_lost_total", "Datagrams of new UDP clients that were lost at a limit.", lost);
        let links = self.running.links();
        let up = links.iter().map(|link| (&*link.name, f64::from(u8::from(link.is_up()))));
        page.gauges("peer_up", "1 if there is an association with the peer.", "peer", up);
        let failed = self.running.announced().iter().filter(|listener| listener.failed).count()
            + self.gateway.peer_listeners.failed();
        let help = "Listeners that accept nothing, because their sockets have failed.";
        page.gauge("listeners_failed", help, failed as f64);
        let down = links.iter().filter_map(|link| Some((&*link.name, reverses_down(link)? as f64)));
        page.gauges("reverses_down", "Listeners of --reverse that the peer does not have.", "peer", down);
        if let Some(are_set) = self.running.captures.are_set() {
            let help = "1 while the rules of captured connections are set.";
            page.gauge("capture_up", help, f64::from(u8::from(are_set)));
        }
        if let Some(lost) = self.gateway.registry.lost_lines() {
            page.counter("access_log_lost_lines_total", "Lines of the access log that were lost.", lost);
        }
        page.into_text()
    }

    fn paths_failed(&self) -> usize {
        let associations = self.gateway.associations();
        let paths = associations.iter().flat_map(Association::paths);
        paths
            .filter(|path| matches!(path.state, Reachability::PotentiallyFailed | Reachability::Inactive))
            .count()
    }

    /// Returns the status without the connections.
    fn status(&self) -> Value {
        let sums = self.gateway.registry.sums();
        let links = self.running.links();
        let peers = links.iter().map(|link| peer(link));
        let associations = self.gateway.associations();
        let mut listeners: Vec<Value> = self.running.announced().iter().map(|own| json!(own)).collect();
        listeners.extend(self.gateway.peer_listeners.status());
        json!({
            "peers": peers.collect::<Vec<_>>(),
            "listeners": listeners,
            "reverses": links.iter().flat_map(|link| reverses(link)).collect::<Vec<_>>(),
            "reloads": self.running.reloads(),
            "former_processes": self.running.succession.status(),
            "associations": associations.iter().filter_map(association).collect::<Vec<_>>(),
            "open": self.gateway.registry.open(),
            "unread_bytes": self.gateway.memory.received(),
            "bytes_up": sums.bytes_up,
            "bytes_down": sums.bytes_down,
        })
    }
}

/// The state of a peer, and what becomes of a connection to a destination of which nothing is known.
fn peer(link: &Link) -> Value {
    let association = link.state();
    let has_fallback = link.peer.fallback == Fallback::Tcp;
    let question = Inputs {
        map: link.peer.map,
        has_fallback,
        is_direct: true,
        is_special: false,
        association,
        direct: Direct::default(),
    };
    let decision = decide(&question);
    let State::Up(health) = association else {
        return json!({"name": &*link.name, "up": false, "decision": decision.route.name(), "reason": decision.reason});
    };
    json!({
        "name": &*link.name,
        "up": true,
        "decision": decision.route.name(),
        "reason": decision.reason,
        "rtt_ms": health.rtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
        "loss_up": health.up.loss,
        "loss_down": health.down.and_then(|flow| flow.loss),
        "window_up_bytes": health.up.window,
        "window_down_bytes": health.down.map(|flow| flow.window),
        "queued_up_bytes": health.up.queued,
        "queued_down_bytes": health.down.map(|flow| flow.queued),
        "contexts": health.contexts,
        "contexts_max": health.contexts_max,
    })
}

/// What a peer is asked to listen at, and what has become of that.
fn reverses(link: &Link) -> impl Iterator<Item = Value> {
    link.reverses().map(|(reverse, state)| {
        let (state, reason) = state.name();
        json!({
            "listener": if reverse.udp.is_some() { "reverse_udp" } else { "reverse" },
            "listen": reverse.listen,
            "peer": &*link.name,
            "to": reverse.to.to_string(),
            "state": state,
            "reason": reason,
        })
    })
}

/// Returns how many listeners a peer does not have, of those that it is asked for; `None` if it is asked for none.
fn reverses_down(link: &Link) -> Option<usize> {
    let states: Vec<ReverseState> = link.reverses().map(|(_, state)| state).collect();
    let down = states.iter().filter(|state| **state != ReverseState::Listening).count();
    (!states.is_empty()).then_some(down)
}

fn association(association: &Association) -> Option<Value> {
    let status = association.status()?;
    let paths = association.paths();
    let path = |path: &strandline::PathStatus| {
        json!({
            "address": path.address,
            "state": format!("{:?}", path.state),
            "rtt_ms": path.srtt.map(|rtt| rtt.as_secs_f64() * 1000.0),
            "cwnd_bytes": path.cwnd,
        })
    };
    Some(json!({
        "state": format!("{:?}", status.state),
        "key": association.peer_identity().map(|identity| identity.fingerprint.to_string()),
        "unacknowledged_messages": status.unacknowledged_messages,
        "paths": paths.iter().map(path).collect::<Vec<_>>(),
        "memory_bytes": association.control().memory().map(|memory| memory.total()),
    }))
}
