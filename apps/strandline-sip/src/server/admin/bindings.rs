//! Bindings: lists registered users, and removes bindings.

use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use strandline_ops::http::{Answer, Reply, Request};

use crate::bindings::{Binding, FlowUse, write_aor};
use crate::codec::Uri;
use crate::server::hub::Hub;

/// Default and maximum number of users on a page.
const LIMIT: usize = 100;
const LIMIT_MAX: usize = 1000;
/// Maximum number of slots examined for a page, so that other requests aren't delayed.
const LOOKED_AT: u32 = 20_000;

/// A page of users.
pub(super) fn page(hub: &Hub, request: &Request) -> Answer {
    let number = |name: &str, default: usize, max: usize| match request.value(name).map(str::parse::<usize>) {
        None => Ok(default),
        Some(Ok(value)) if value <= max => Ok(value),
        Some(_) => Err(Answer::error(400, &format!("{name} must be a number from 0 to {max}"), "")),
    };
    let from = match number("from", 0, u32::MAX as usize) {
        Ok(from) => from as u32,
        Err(answer) => return answer,
    };
    let limit = match number("limit", LIMIT, LIMIT_MAX) {
        Ok(limit) => limit.max(1),
        Err(answer) => return answer,
    };
    let prefix = request.value("prefix").unwrap_or_default();
    let (service, now) = (hub.service.borrow(), hub.unix_secs());
    let (found, next) = service.registrations().locations().page(from, LOOKED_AT, limit, prefix.as_bytes());
    let users: Vec<Value> = found.iter().map(|(aor, bindings)| user(hub, aor, bindings, now)).collect();
    Answer::json(200, &json!({"users": users, "next": next}))
}

/// A single user.
pub(super) fn show(hub: &Hub, name: &str) -> Answer {
    let (aor, service) = (aor(name), hub.service.borrow());
    let bindings = service.registrations().locations().bindings(&aor);
    if bindings.is_empty() {
        return nobody(name);
    }
    Answer::json(200, &user(hub, &aor, bindings, hub.unix_secs()))
}

/// Removes the bindings of a user, or one of them, and closes the connections over which they were
/// registered. The response waits until the removal is durable.
pub(super) fn kick(hub: &Rc<Hub>, name: &str, contact: Option<&str>, store_timeout: Duration) -> Reply {
    let aor = aor(name);
    let mut removed = Vec::new();
    hub.with(|service, now| removed = service.unbind(now, &aor, contact.map(str::as_bytes)));
    if removed.is_empty() {
        return match contact {
            Some(contact) => Answer::error(404, &format!("{name} has no binding for {contact}"), "").into(),
            None => nobody(name).into(),
        };
    }
    // A connection that a proxy shares among phones stays open, and so do connections of other nodes.
    let is_own =
        |binding: &&Binding| hub.service.borrow().setup().is_here(binding) && binding.path.is_empty();
    let flows = removed.iter().filter(is_own).filter(|binding| binding.flow.connection != 0);
    let closed = flows.filter(|binding| hub.transports.close(&binding.flow)).count();
    let aor = text(&aor);
    tracing::info!(user = aor, removed = removed.len(), closed, "bindings removed by an administrator");
    let done = Answer::json(200, &json!({"user": aor, "removed": removed.len(), "closed": closed}));
    if hub.store.figures().is_none() {
        return done.into();
    }
    let hub = Rc::clone(hub);
    Reply::Later(Box::pin(async move {
        match tokio::time::timeout(store_timeout, hub.store.all_is_durable()).await {
            Ok(()) => done,
            Err(_) => Answer::error(
                503,
                "the bindings are removed, but not yet from the store",
                "the store is updated once it works again; if the server stops before that, the bindings return",
            ),
        }
    }))
}

fn nobody(name: &str) -> Answer {
    Answer::error(
        404,
        &format!("{name} is not registered"),
        "name the user as user@domain, such as alice@example.com",
    )
}

/// The address of record in canonical form. The scheme is optional.
fn aor(name: &str) -> Vec<u8> {
    let bare = name.strip_prefix("sip:").or_else(|| name.strip_prefix("sips:")).unwrap_or(name);
    let uri = format!("sip:{bare}");
    let mut aor = Vec::new();
    match Uri::parse(uri.as_bytes()) {
        Ok(Uri::Sip(uri)) => write_aor(&uri, &mut aor),
        _ => aor.extend_from_slice(bare.as_bytes()),
    }
    aor
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn user(hub: &Hub, aor: &[u8], bindings: &[Binding], now: u64) -> Value {
    let bindings: Vec<Value> = bindings.iter().map(|binding| one(hub, binding, now)).collect();
    json!({"user": text(aor), "bindings": bindings})
}

fn one(hub: &Hub, binding: &Binding, now: u64) -> Value {
    let some = |bytes: &[u8]| if bytes.is_empty() { Value::Null } else { text(bytes).into() };
    let reached = match binding.flow_use {
        _ if !binding.path.is_empty() => "path",
        FlowUse::None => "address",
        FlowUse::First => "flow, or address",
        FlowUse::Last => "address, or flow",
        FlowUse::Only => "flow",
    };
    let (flow, connected) = (&binding.flow, binding.flow.connection != 0);
    json!({
        "contact": text(&binding.contact),
        "expires_in_secs": binding.expires_at.saturating_sub(now),
        "q": f64::from(binding.q) / 1000.0,
        "call_id": text(&binding.call_id),
        "cseq": binding.cseq,
        "instance": some(&binding.instance),
        "reg_id": binding.reg_id,
        "path": some(&binding.path),
        "reached_over": reached,
        "from": {"protocol": flow.protocol.name(), "address": flow.peer.to_string()},
        "connected": connected.then(|| {
            let service = hub.service.borrow();
            service.setup().is_here(binding) && service.is_open(flow.connection)
        }),
    })
}
