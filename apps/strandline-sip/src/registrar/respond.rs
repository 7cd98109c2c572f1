//! Responses to REGISTER requests (RFC 3261 section 10.3, step 8).

use bytes::BytesMut;

use crate::bindings::Binding;
use crate::codec::{HeaderName, Reply, StatusCode, WriteError, decimal};

use super::contact::is_direct;
use super::{Refusal, Request, supports};

/// The keep-alive interval offered to phones, in seconds (RFC 5626 section 4.4.1).
pub const FLOW_TIMER_SECS: u32 = 120;

/// Returns true if the response includes Flow-Timer: the request has bound a flow that leads directly here.
/// If a proxy is between, the keep-alives concern that proxy (RFC 5626 section 6).
#[must_use]
pub fn has_flow_timer(request: &Request<'_>, bindings: &[Binding]) -> bool {
    is_direct(request) && has_flow(request, bindings)
}

/// Returns true if this request has bound a flow. Other bindings of the user may have flows too.
fn has_flow(request: &Request<'_>, bindings: &[Binding]) -> bool {
    let essentials = request.essentials;
    let is_its_flow = |binding: &Binding| {
        binding.reg_id > 0
            && binding.cseq == essentials.cseq.number
            && *binding.call_id == *essentials.call_id
            && !binding.has_expired(request.unix_secs)
    };
    bindings.iter().any(is_its_flow) && supports(&request.message, b"outbound")
}

/// Writes a 200 response that lists all bindings and their remaining seconds.
///
/// # Errors
/// Returns an error if a text of the request can't be written.
pub fn write_ok(
    request: &Request<'_>,
    bindings: &[Binding],
    to_tag: &[u8],
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    let reply = Reply { to_tag: Some(to_tag), source: Some(request.flow.peer), ..Reply::new(StatusCode::OK) };
    let mut writer = reply.write(&request.message, out);
    // Few phones have instances, and only these get GRUUs.
    let has_instances = bindings.iter().any(|binding| !binding.instance.is_empty());
    let gruus = if has_instances { request.gruus() } else { None };
    for binding in bindings.iter().filter(|binding| !binding.has_expired(request.unix_secs)) {
        let left = binding.expires_at - request.unix_secs;
        let mut digits = [0; 20];
        let left = decimal(left, &mut digits);
        match gruus.filter(|_| !binding.instance.is_empty()) {
            None => writer.header_of(
                HeaderName::Contact,
                &[b"<", &binding.contact, b">", &binding.params, b";expires=", left],
            ),
            Some(gruus) => {
                let gruus = gruus.params(request.to, &binding.instance, binding.gruu);
                writer.header_of(
                    HeaderName::Contact,
                    &[b"<", &binding.contact, b">", &binding.params, &gruus, b";expires=", left],
                )
            }
        };
    }
    if request.message.has(HeaderName::Path) && supports(&request.message, b"path") {
        for line in request.message.lines(HeaderName::Path) {
            writer.copy(&line);
        }
    }
    if !request.service_route.is_empty() {
        writer.header(HeaderName::ServiceRoute, request.service_route);
    }
    if has_flow(request, bindings) {
        writer.header(HeaderName::Require, b"outbound");
        if is_direct(request) {
            writer.number(HeaderName::FlowTimer, FLOW_TIMER_SECS);
        }
    }
    writer.finish(b"")
}

/// Writes the response that rejects a request.
///
/// # Errors
/// Returns an error if a text of the request can't be written.
pub fn write_error(
    request: &Request<'_>,
    refusal: Refusal,
    to_tag: &[u8],
    out: &mut BytesMut,
) -> Result<(), WriteError> {
    let (code, reason) = match refusal {
        Refusal::Status(code, reason) => (code, Some(reason.as_bytes())),
        Refusal::TooBrief(_) => (StatusCode::INTERVAL_TOO_BRIEF, None),
        Refusal::Unsupported(_) => (StatusCode::BAD_EXTENSION, None),
    };
    let reply = Reply { to_tag: Some(to_tag), source: Some(request.flow.peer), reason, ..Reply::new(code) };
    let mut writer = reply.write(&request.message, out);
    match refusal {
        Refusal::TooBrief(secs) => {
            writer.number(HeaderName::MinExpires, secs);
        }
        Refusal::Unsupported(option) => {
            writer.header(HeaderName::Unsupported, option.as_bytes());
        }
        Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, _) => {
            writer.number(HeaderName::RetryAfter, 30);
        }
        Refusal::Status(..) => {}
    }
    writer.finish(b"")
}
